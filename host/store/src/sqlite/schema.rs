//! The tables, and the checks when a file is opened.

use rusqlite::Connection;

use super::doing;
use crate::error::StoreError;

/// The version of the file, kept in its `user_version`. It covers the tables and the newest
/// records.
///
/// Version 2 adds the table `node`, and its records may be ones that a host of version 1 cannot
/// read (see `record`). Such a host must refuse the file when it opens it.
///
/// Version 3 adds the table `changes` and indexes for the filters of lists.
///
/// Version 4 has the same tables. Its records keep discarded jobs for a time of their own.
const VERSION: i64 = 4;

/// The table that version 2 adds. Its only row is the id of the host that this file belongs to.
const NODE: &str = "
CREATE TABLE node (
  row INTEGER PRIMARY KEY CHECK (row = 1),
  id BLOB NOT NULL
) STRICT;
";

/// What version 3 adds. A row of `changes` holds the changes of one batch, and `first` is the number
/// of the first of them.
const CHANGES: &str = "
CREATE TABLE changes (
  first INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  body BLOB NOT NULL
) STRICT;
CREATE INDEX jobs_queue ON jobs (queue, seq);
CREATE INDEX jobs_handler ON jobs (handler, seq);
";

/// The index by state. Before version 3 it left out the states 2 and 5.
const BY_STATE: &str = "CREATE INDEX jobs_state ON jobs (state, seq);";

/// A state in SQL is its index in [`host_core::job::STATES`]: 2 is available, 5 completed.
///
/// `seq` is the order of acceptance. A value is never used twice. `jobs` holds what changes: the
/// columns for searching, and the whole lifecycle as a record in `body`. `payloads` holds what is
/// written once, `attempts` what attempts leave, and `failures` why a job failed after the attempt
/// of that number (0 is before the first). Queue 0 of `counters` holds the place after the newest
/// purged job. `current` of a removed component is its last revision as a negative number.
const TABLES: &str = "
CREATE TABLE queues (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  paused INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE counters (
  queue INTEGER NOT NULL,
  state INTEGER NOT NULL,
  jobs INTEGER NOT NULL,
  PRIMARY KEY (queue, state)
) STRICT, WITHOUT ROWID;
CREATE TABLE jobs (
  seq INTEGER PRIMARY KEY,
  id BLOB NOT NULL UNIQUE,
  state INTEGER NOT NULL,
  queue INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  suspect INTEGER NOT NULL,
  handler TEXT NOT NULL,
  runner TEXT,
  wakeup_at INTEGER,
  body BLOB NOT NULL
) STRICT;
CREATE INDEX jobs_claim ON jobs (queue, priority, seq)
  WHERE state = 2 AND suspect = 0 AND runner IS NULL;
CREATE INDEX jobs_suspect ON jobs (priority, seq)
  WHERE state = 2 AND suspect = 1 AND runner IS NULL;
CREATE INDEX jobs_runner ON jobs (runner, queue, priority, seq)
  WHERE state = 2 AND runner IS NOT NULL;
CREATE INDEX jobs_wakeup ON jobs (wakeup_at, seq) WHERE wakeup_at IS NOT NULL;
CREATE TABLE payloads (
  seq INTEGER PRIMARY KEY,
  params TEXT NOT NULL,
  wire TEXT NOT NULL,
  unique_key TEXT,
  extra BLOB
) STRICT;
CREATE TABLE attempts (
  seq INTEGER NOT NULL,
  number INTEGER NOT NULL,
  body BLOB NOT NULL,
  progress BLOB,
  result TEXT,
  PRIMARY KEY (seq, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE failures (
  seq INTEGER PRIMARY KEY,
  attempt INTEGER NOT NULL,
  body BLOB NOT NULL
) STRICT;
CREATE TABLE unique_keys (
  queue INTEGER NOT NULL,
  key TEXT NOT NULL,
  job BLOB NOT NULL,
  PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE dependencies (
  prerequisite BLOB NOT NULL,
  dependent INTEGER NOT NULL,
  job BLOB NOT NULL,
  PRIMARY KEY (prerequisite, dependent)
) STRICT, WITHOUT ROWID;
CREATE INDEX dependencies_dependent ON dependencies (dependent);
CREATE TABLE components (
  name TEXT PRIMARY KEY,
  current INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE revisions (
  component TEXT NOT NULL,
  revision INTEGER NOT NULL,
  digest BLOB NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (component, revision)
) STRICT, WITHOUT ROWID;
CREATE TABLE blobs (
  digest BLOB PRIMARY KEY,
  bytes BLOB NOT NULL
) STRICT;
";

/// Sets the journal mode, creates the tables of a new file, and refuses a file that this version
/// must not write.
pub(super) fn prepare(connection: &Connection) -> Result<(), StoreError> {
    let set_up = doing("set up the store");
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY; \
             PRAGMA cache_size = -16384;",
        )
        .map_err(&set_up)?;
    let version: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(&set_up)?;
    let steps = match version {
        0 => [TABLES, NODE, CHANGES, BY_STATE].concat(),
        1 => [NODE, CHANGES, "DROP INDEX jobs_state;", BY_STATE].concat(),
        2 => [CHANGES, "DROP INDEX jobs_state;", BY_STATE].concat(),
        3 => String::new(),
        VERSION => return Ok(()),
        version => {
            return Err(StoreError::Newer {
                what: "the store",
                place: "data directory",
                version,
                known: VERSION,
            });
        }
    };
    connection
        .execute_batch(&format!(
            "BEGIN; {steps} PRAGMA user_version = {VERSION}; COMMIT;"
        ))
        .map_err(doing("make the store's tables or raise its version"))
}
