//! The tables, and the checks before a host uses them. Migrations only go forward, one host at a time. A
//! released migration never changes: append the next one.

use host_engine::StoreError;
use tokio_postgres::error::SqlState;

use super::client::Client;
use super::trouble::{damaged, doing};

/// Each migration takes the schema from the version before it to its own.
const MIGRATIONS: [&str; 1] = [include_str!("schema/1.sql")];

/// The lock that a migration holds, so that hosts that start at the same time migrate one by one.
const LOCK: i64 = 0x686f_7374_7363_686d;

/// The latest version that this host knows.
pub const VERSION: i64 = 1;

/// Returns the version of the schema, 0 if there is none.
pub(super) async fn version(client: &Client) -> Result<i64, StoreError> {
    let reading = doing("read the version of the schema");
    let query = "SELECT to_regclass('host_schema') IS NOT NULL";
    let known = client.ask(query, &[]).await.map_err(reading)?;
    if !known.first().is_some_and(|row| row.get(0)) {
        return Ok(0);
    }
    kept_version(client).await
}

async fn kept_version(client: &Client) -> Result<i64, StoreError> {
    let kept = "SELECT max(version) FROM host_schema";
    let rows = client
        .ask(kept, &[])
        .await
        .map_err(doing("read the version of the schema"))?;
    Ok(rows.first().and_then(|row| row.get(0)).unwrap_or(0))
}

/// Migrates the schema to the latest version. Returns the versions before and after.
pub(super) async fn migrate(client: &Client) -> Result<(i64, i64), StoreError> {
    let before = version(client).await?;
    refuse_newer(before)?;
    if before == VERSION {
        return Ok((before, VERSION));
    }
    let run = async |sql: &str| client.batch_execute(sql).await.map_err(migrating);
    run(&format!("BEGIN; SELECT pg_advisory_xact_lock({LOCK})")).await?;
    let migrated = async {
        run("CREATE TABLE IF NOT EXISTS host_schema \
             (version bigint PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())")
        .await?;
        // Another host may have migrated while this one waited.
        let from = kept_version(client).await?;
        refuse_newer(from)?;
        for (number, sql) in (1..).zip(MIGRATIONS) {
            if number > from {
                run(sql).await?;
                run(&format!(
                    "INSERT INTO host_schema (version) VALUES ({number})"
                ))
                .await?;
            }
        }
        run("COMMIT").await
    };
    if let Err(error) = migrated.await {
        // If the connection failed, the server rolls back by itself.
        let _ = client.batch_execute("ROLLBACK").await;
        return Err(error);
    }
    Ok((before, VERSION))
}

fn migrating(error: tokio_postgres::Error) -> StoreError {
    let next = match error.code() {
        Some(&SqlState::INVALID_SCHEMA_NAME) => {
            "; create the schema with CREATE SCHEMA, or name another one in the address \
             (?options=-csearch_path%3DNAME)"
        }
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            "; GRANT the host's user USAGE and CREATE on the schema, or have the owner of the tables run \
             `host store migrate`"
        }
        _ => "",
    };
    match doing("create or migrate the tables")(error) {
        StoreError::Broken { operation, message } => StoreError::Broken {
            operation,
            message: format!("{message}{next}"),
        },
        other => other,
    }
}

/// Refuses a schema of a later version of the host.
pub(super) fn refuse_newer(version: i64) -> Result<(), StoreError> {
    if version <= VERSION {
        return Ok(());
    }
    Err(StoreError::Newer {
        what: "the schema in the database",
        place: "database",
        version,
        known: VERSION,
    })
}

/// Refuses a server that could lose acknowledged jobs, unless `allow_unsafe`.
pub(super) async fn check_server(client: &Client, allow_unsafe: bool) -> Result<(), StoreError> {
    let reading = doing("read the settings of the database");
    let settings = "SELECT current_setting('server_version_num')::int, \
                    current_setting('server_encoding'), current_setting('fsync'), \
                    current_setting('synchronous_commit')";
    let rows = client.ask(settings, &[]).await.map_err(reading)?;
    let row = rows
        .first()
        .ok_or_else(|| damaged("the server", "it does not report its settings"))?;
    let (version, encoding): (i32, String) = (row.get(0), row.get(1));
    let refuse = |message: String| {
        Err(StoreError::Broken {
            operation: "use the database",
            message,
        })
    };
    if version < 140_000 {
        return refuse("it is older than PostgreSQL 14".to_owned());
    }
    if encoding != "UTF8" {
        return refuse(format!("its encoding is {encoding}; create one with UTF8"));
    }
    for (name, value) in [
        ("fsync", row.get::<_, String>(2)),
        ("synchronous_commit", row.get(3)),
    ] {
        if value == "off" && !allow_unsafe {
            return refuse(format!(
                "its setting {name} is off, so acknowledged jobs could be lost; turn it on, or set \
                 [store] allow_unsafe = true"
            ));
        }
    }
    Ok(())
}
