//! The params of jobs and the data kept with them.

use host_core::id::JobId;
use host_core::job::Payload;
use host_core::json::JsonText;
use host_engine::StoreError;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{doing, execute};
use crate::record::Extra;

/// Reads a job's payload and the data kept with it.
pub(super) fn of(
    connection: &Connection,
    seq: i64,
) -> Result<(Payload, Option<String>, Vec<JobId>), StoreError> {
    let (params, wire, unique_key, extra) = connection
        .prepare_cached("SELECT params, wire, unique_key, extra FROM payloads WHERE seq = ?1")
        .and_then(|mut statement| {
            statement.query_row([seq], |row| {
                let extra: Option<Vec<u8>> = row.get(3)?;
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, extra))
            })
        })
        .map_err(doing("read a job's params"))?;
    let extra = Extra::read(extra, || seq.to_string())?;
    let (payload, depends_on) = extra.whole(params, wire);
    Ok((payload, unique_key, depends_on))
}

/// Returns the result of a job's latest attempt, `null` if it has none.
pub(super) fn result(connection: &Connection, seq: i64) -> Result<JsonText, StoreError> {
    let sql = "SELECT result FROM attempts WHERE seq = ?1 ORDER BY number DESC LIMIT 1";
    let result: Option<Option<String>> = connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_row([seq], |row| row.get(0)).optional())
        .map_err(doing("read a job's result"))?;
    Ok(result.flatten().map_or_else(JsonText::null, JsonText))
}

/// Replaces the params of a job.
pub(super) fn set_params(
    connection: &Connection,
    seq: i64,
    params: &JsonText,
) -> Result<(), StoreError> {
    execute(
        connection,
        "replace a job's params",
        "UPDATE payloads SET params = ?2 WHERE seq = ?1",
        params![seq, params.as_str()],
    )
}
