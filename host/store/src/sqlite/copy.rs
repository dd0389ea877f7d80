//! Reads and writes the rows of a store in a file, for a copy to or from a database.

use std::path::{Path, PathBuf};

use host_core::artifact::FOLDER;
use host_core::id::NodeId;
use host_engine::StoreError;
use host_engine::artifact::tables::{ARTIFACT_CONTENTS, ARTIFACTS};
use rusqlite::{Connection, OpenFlags};

use super::logs::LogStore;
use super::parts::{each, insert, reading_of};
use super::{SqliteStore, artifacts, backup, changes, connect, counters, doing};
use crate::parts::{PARTS, Row, See, part_of};

const LOGS_FILE: &str = "logs.db";

/// An empty stand-in for missing logs.
const NO_LOGS: &str = "ATTACH ':memory:' AS logs; \
    CREATE TABLE logs.lines (n, job, attempt, at, level, source, message, fields)";

/// Makes the logs readable with the store, or an empty stand-in for them.
fn attach_logs(connection: &Connection, logs: Option<&Path>) -> Result<(), StoreError> {
    let attached = match logs {
        Some(logs) => connection
            .execute("ATTACH ?1 AS logs", [logs.to_string_lossy()])
            .map(drop),
        None => connection.execute_batch(NO_LOGS),
    };
    attached.map_err(doing("open the logs"))
}

/// Attaches the logs beside the store at `path`, if they can be opened: a host sets a damaged file aside.
pub(super) fn attach_usable_logs(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let logs = path.with_file_name(LOGS_FILE);
    let is_usable = logs.exists() && LogStore::open(&logs).is_ok();
    attach_logs(connection, is_usable.then_some(&*logs))
}

/// Reads a store that no host uses.
pub(crate) struct Reader {
    connection: Connection,
    /// The folder of the files of artifacts.
    artifacts: PathBuf,
    node: NodeId,
}

impl Reader {
    /// Opens the store as a host does, which upgrades it and empties its log.
    pub(crate) fn open(path: &Path, fresh: NodeId) -> Result<Self, StoreError> {
        let node = SqliteStore::open(path)?.node(fresh)?;
        // What stands in for missing logs is made in memory, and could not be made in a connection that only reads.
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let logs = path.with_file_name(LOGS_FILE);
        let has_logs = logs.exists();
        if has_logs {
            drop(LogStore::open(&logs)?);
        }
        attach_logs(&connection, has_logs.then_some(&*logs))?;
        let ready = connection.execute_batch("BEGIN");
        ready.map_err(doing("read the store"))?;
        let artifacts = path.with_file_name(FOLDER);
        Ok(Self {
            connection,
            artifacts,
            node,
        })
    }

    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    /// Counts the rows of each part.
    pub(crate) fn counts(&self) -> Result<[u64; PARTS.len()], StoreError> {
        let mut counts = [0; PARTS.len()];
        for (part, count) in counts.iter_mut().enumerate() {
            let sql = format!("SELECT COUNT(*) FROM ({})", reading_of(part));
            let counted = self.connection.query_row(&sql, [], |row| row.get(0));
            *count = counted.map_err(doing("count the rows of the store"))?;
        }
        // A database has the content of each artifact.
        let [artifacts, contents] = [&ARTIFACTS, &ARTIFACT_CONTENTS].map(part_of);
        counts[contents] = counts[artifacts];
        Ok(counts)
    }

    pub(crate) fn each(&self, part: usize, see: See<'_>) -> Result<(), StoreError> {
        if PARTS[part].name == ARTIFACT_CONTENTS.many {
            return artifacts::each_content(&self.connection, &self.artifacts, see);
        }
        each(&self.connection, part, see)
    }

    /// Returns the place of the next new job.
    pub(crate) fn next_seq(&self) -> Result<i64, StoreError> {
        let next = counters::next_seq(&self.connection);
        next.map_err(doing("read the place of the next job"))
    }

    /// Returns the number of the next change.
    pub(crate) fn next_change(&self) -> Result<u64, StoreError> {
        changes::next(&self.connection)
    }
}

/// Writes a new store, in one transaction.
pub(crate) struct Writer {
    connection: Connection,
}

impl Writer {
    pub(crate) fn open(path: &Path, node: NodeId) -> Result<Self, StoreError> {
        SqliteStore::open(path)?.node(node)?;
        backup::private(path)?;
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // An incomplete file is removed, so it needs no journal. A complete one is synced.
        let begin = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN";
        let ready = connection.execute_batch(begin);
        ready.map_err(doing("write the copy"))?;
        Ok(Self { connection })
    }

    pub(crate) fn write(&self, part: usize, row: &Row) -> Result<(), StoreError> {
        insert(&self.connection, part, row)
    }

    pub(crate) fn each(&self, part: usize, see: See<'_>) -> Result<(), StoreError> {
        each(&self.connection, part, see)
    }

    /// Writes the numbers of queues and the place of the next new job.
    pub(crate) fn number(&self, next_seq: i64) -> Result<(), StoreError> {
        counters::rebuild(&self.connection, next_seq).map_err(doing("write the counters"))
    }

    pub(crate) fn commit(self) -> Result<(), StoreError> {
        let failed = doing("write the copy");
        self.connection.execute_batch("COMMIT").map_err(&failed)?;
        self.connection.close().map_err(|(_, error)| failed(error))
    }
}
