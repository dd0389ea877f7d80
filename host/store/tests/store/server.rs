//! A schema of its own for each test, on the server of this test process.

use std::sync::atomic::{AtomicU32, Ordering};

use host_testing::database::{Database, database};
use parking_lot::Mutex;

use crate::proxy::Proxy;

/// How many schemas are made at a time.
const AHEAD: u32 = 100;

/// An empty schema, which no other test uses.
pub(crate) struct Schema {
    name: String,
}

impl Schema {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        static MADE: Mutex<u32> = Mutex::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut made = MADE.lock();
        if number > *made {
            let more: Vec<String> = (*made + 1..=*made + AHEAD)
                .map(|n| format!("CREATE SCHEMA t{n}"))
                .collect();
            assert!(database().execute(&more.join(";")));
            *made += AHEAD;
        }
        Self {
            name: format!("t{number}"),
        }
    }

    /// Returns the address of a database in which the schema is the only one.
    pub(crate) fn url(&self) -> String {
        Database::url(&database().folder, &self.name)
    }

    /// Starts a proxy in front of the server, and returns it with its address.
    pub(crate) fn proxy(&self) -> (Proxy, String) {
        let proxy = Proxy::before(&database().folder);
        let url = Database::url(proxy.folder.path(), &self.name);
        (proxy, url)
    }

    /// Runs statements in the schema.
    pub(crate) fn run(&self, sql: &str) {
        assert!(self.accepts(sql), "{sql}");
    }

    /// Runs statements in the schema. Returns whether all succeeded.
    pub(crate) fn accepts(&self, sql: &str) -> bool {
        database().execute(&format!("SET search_path = {}; {sql}", self.name))
    }
}
