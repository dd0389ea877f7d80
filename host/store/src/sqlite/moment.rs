//! A moment of the store: all reads in it see the same state. It ends even if a reader is interrupted just then.

use std::ops::Deref;

use rusqlite::Connection;

/// How often to try to end it. Each interrupt fails one try.
const TRIES_MAX: u32 = 1_000;

/// A transaction that only reads, until it is dropped.
pub(super) struct Moment<'a>(&'a Connection);

impl<'a> Moment<'a> {
    pub(super) fn begin(connection: &'a Connection) -> rusqlite::Result<Self> {
        connection.execute_batch("BEGIN DEFERRED")?;
        Ok(Self(connection))
    }
}

impl Deref for Moment<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.0
    }
}

impl Drop for Moment<'_> {
    fn drop(&mut self) {
        for _ in 0..TRIES_MAX {
            if self.0.is_autocommit() || self.0.execute_batch("ROLLBACK").is_ok() {
                return;
            }
        }
    }
}
