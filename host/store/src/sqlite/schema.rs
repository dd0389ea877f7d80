//! The tables, and the checks when a file is opened.

use host_engine::StoreError;
use rusqlite::Connection;

use super::doing;

/// Each step takes the tables and records from the version before it to its own. A released step never
/// changes: append the next one.
const STEPS: [&str; 1] = [include_str!("schema/1.sql")];

/// The version of the file, kept in its `user_version`. It covers the tables and the newest records.
const VERSION: i64 = 1;

/// Sets the journal mode, brings the tables to the current version, and refuses a file of a version that
/// this host does not know.
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
    if version == VERSION {
        return Ok(());
    }
    let missing = usize::try_from(version).ok().and_then(|it| STEPS.get(it..));
    let Some(missing) = missing else {
        return Err(StoreError::Newer {
            what: "the store",
            place: "data directory",
            version,
            known: VERSION,
        });
    };
    connection
        .execute_batch(&format!(
            "BEGIN; {} PRAGMA user_version = {VERSION}; COMMIT;",
            missing.concat()
        ))
        .map_err(doing("create or upgrade the store's tables"))
}
