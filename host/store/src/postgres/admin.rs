//! Operations on a database without a host: show its status and migrate its schema.

use host_engine::StoreError;

use super::client::{Client, Connector, rows};
use super::schema;
use super::target::Target;
use super::trouble::{CONNECT, damaged};
use super::wait::Driver;

/// The status of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The version of the server, as it reports it.
    pub server: String,
    /// The version of the schema, 0 if there is none.
    pub schema: i64,
    /// The latest version that this host knows.
    pub known: i64,
    /// Settings of the server with which acknowledged jobs could be lost.
    pub unsafe_settings: Vec<&'static str>,
    /// How many jobs have not ended, and how many have, as the server estimates.
    pub live_jobs: i64,
    pub ended_jobs: i64,
    /// The size of the schema's tables, in bytes.
    pub bytes: i64,
}

/// Runs a query on a connection of its own.
pub(super) fn ask<T>(
    target: &Target,
    question: impl AsyncFnOnce(&Client) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let driver = Driver::start()?;
    driver.wait(async {
        let client = Connector::new(target)?
            .connect()
            .await
            .map_err(|trouble| trouble.into_error(CONNECT))?;
        question(&client).await
    })
}

/// Returns the status of a database.
pub fn status(target: &Target) -> Result<Status, StoreError> {
    ask(target, async |client| {
        let reading = "read the status of the database";
        let sql = "SELECT current_setting('server_version'), current_setting('fsync'), \
                   current_setting('synchronous_commit'), \
                   COALESCE((SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class AS c \
                   WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' \
                   AND relname LIKE 'host\\_%'), 0)::bigint, \
                   COALESCE((SELECT reltuples FROM pg_class WHERE oid = \
                   to_regclass('host_live')), 0)::bigint, \
                   COALESCE((SELECT reltuples FROM pg_class WHERE oid = \
                   to_regclass('host_ended')), 0)::bigint";
        let found = rows(client, reading, sql, &[]).await?;
        let row = found
            .first()
            .ok_or_else(|| damaged("the database", "it reports no settings"))?;
        let off = |column: usize| row.get::<_, &str>(column) == "off";
        let settings = [("fsync", off(1)), ("synchronous_commit", off(2))]
            .into_iter()
            .filter(|(_, is_off)| *is_off);
        Ok(Status {
            server: row.get(0),
            schema: schema::version(client).await?,
            known: schema::VERSION,
            unsafe_settings: settings.map(|(name, _)| name).collect(),
            // A table that was never analyzed has -1.
            live_jobs: row.get::<_, i64>(4).max(0),
            ended_jobs: row.get::<_, i64>(5).max(0),
            bytes: row.get(3),
        })
    })
}

/// Migrates the schema to the latest version. Returns the versions before and after.
pub fn migrate(target: &Target) -> Result<(i64, i64), StoreError> {
    ask(target, async |client| {
        // Only hosts, which write data, check whether the server may lose it.
        schema::check_server(client, true).await?;
        schema::migrate(client).await
    })
}
