//! A file that an earlier version of the host wrote: leases did not name their node then.

use std::path::Path;

use host_core::command::Command;
use host_core::id::NodeId;
use host_core::job::State;
use host_core::lease::Fence;
use host_store::check;
use host_store::sqlite::SqliteStore;
use host_store::store::Store;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::jobs::{NODE, NOW, ask, claim, claimed, complete, id, lease, read, returned};

/// The dump of a file that a host of that version wrote.
const DUMP: &str = include_str!("golden/version_1.sql");

fn restore(path: &Path) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(DUMP).unwrap();
}

fn version(path: &Path) -> i64 {
    let connection = Connection::open(path).unwrap();
    let version = connection.pragma_query_value(None, "user_version", |row| row.get(0));
    version.unwrap()
}

#[test]
fn a_store_of_version_1_opens_and_recovers() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("host.db");
    restore(&path);
    let mut store = SqliteStore::open(&path).unwrap();
    assert_eq!(version(&path), 4, "hosts of version 1 must refuse it now");
    assert_eq!(store.node(NODE).unwrap(), NODE);
    let states = |store: &SqliteStore| {
        let reader = store.reader().unwrap();
        [1, 2, 3, 4, 5, 6].map(|n| reader.state(id(n)).unwrap().unwrap())
    };
    let before = [
        State::Completed,
        State::Retryable,
        State::Running,
        State::Running,
        State::Running,
        State::Available,
    ];
    assert_eq!(states(&store), before);
    let remote = store.reader().unwrap().remote_leases().unwrap();
    let remote: Vec<_> = remote
        .iter()
        .map(|held| (held.job, held.lease.node))
        .collect();
    assert_eq!(remote, [(id(5), NodeId::NIL)]);
    ask(&mut store, NOW, Command::Recover { node: NODE }).unwrap();
    let after = [
        State::Completed,
        State::Retryable,
        State::Available,
        State::Cancelled,
        State::Running,
        State::Available,
    ];
    assert_eq!(states(&store), after);
    let heartbeat = Command::Heartbeat {
        job: id(5),
        fence: Fence::Lease(lease(5)),
    };
    ask(&mut store, NOW.plus_ms(29_000), heartbeat).unwrap();
    assert_eq!(claimed(&mut store, NOW, claim([6, 7], false)).len(), 2);
    ask(&mut store, NOW, complete(3, 6, returned())).unwrap();
    let everything = read(&*store.reader().unwrap());
    drop(store);
    assert_eq!(check(&path), []);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(read(&*store.reader().unwrap()), everything);
}

#[test]
fn a_store_of_version_1_is_read_and_checked_as_it_is() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("host.db");
    restore(&path);
    assert_eq!(check(&path), []);
    let reader = host_store::sqlite::open_reader(&path).unwrap();
    assert_eq!(read(&*reader).jobs.len(), 6);
    assert_eq!(version(&path), 1, "a reader changes nothing");
}
