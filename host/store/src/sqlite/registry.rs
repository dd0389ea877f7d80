//! The rows of components.

use host_core::handler::{Digest, Revision};
use host_core::name::Name;
use rusqlite::{Connection, OptionalExtension, Params, params};

use super::{damaged, doing, execute};
use crate::error::StoreError;

/// Returns all revisions of a component, oldest first.
pub(super) fn revisions(
    connection: &Connection,
    component: &Name,
) -> Result<Vec<Revision>, StoreError> {
    read(
        connection,
        "SELECT component, revision, body FROM revisions WHERE component = ?1 ORDER BY revision",
        [component.as_str()],
    )
}

/// Returns the current revision of each component, by name.
pub(super) fn current_revisions(connection: &Connection) -> Result<Vec<Revision>, StoreError> {
    read(
        connection,
        "SELECT component, revision, body FROM components JOIN revisions ON component = name AND revision = current \
         ORDER BY name",
        [],
    )
}

/// Returns the number of a component's current revision.
pub(super) fn current(
    connection: &Connection,
    component: &Name,
) -> Result<Option<u32>, StoreError> {
    connection
        .prepare_cached("SELECT current FROM components WHERE name = ?1 AND current > 0")
        .and_then(|mut statement| {
            statement
                .query_row([component.as_str()], |row| row.get(0))
                .optional()
        })
        .map_err(doing("look up a component"))
}

/// Returns the latest revision of a removed component, 0 if there is none.
pub(super) fn removed_at(connection: &Connection, component: &Name) -> Result<u32, StoreError> {
    connection
        .prepare_cached("SELECT -current FROM components WHERE name = ?1 AND current < 0")
        .and_then(|mut statement| {
            statement
                .query_row([component.as_str()], |row| row.get(0))
                .optional()
        })
        .map(Option::unwrap_or_default)
        .map_err(doing("look up a removed component"))
}

/// Returns the bytes of a component.
pub(super) fn bytes(
    connection: &Connection,
    digest: Digest,
) -> Result<Option<Vec<u8>>, StoreError> {
    connection
        .prepare_cached("SELECT bytes FROM blobs WHERE digest = ?1")
        .and_then(|mut statement| statement.query_row([digest.0], |row| row.get(0)).optional())
        .map_err(doing("read a component"))
}

fn read(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<Vec<Revision>, StoreError> {
    let bodies = || {
        let mut statement = connection.prepare_cached(sql)?;
        let rows =
            statement.query_map(params, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect::<Result<Vec<(String, i64, String)>, _>>()
    };
    let bodies = bodies().map_err(doing("read revisions"))?.into_iter();
    let revision = |(component, number, body): (String, i64, String)| {
        let what = format!("revision {number} of component {component}");
        serde_json::from_str(&body).map_err(damaged(what))
    };
    bodies.map(revision).collect()
}

pub(super) fn add(
    connection: &Connection,
    revision: &Revision,
    bytes: &[u8],
) -> Result<(), StoreError> {
    let body = serde_json::to_string(revision).map_err(damaged("a value to write"))?;
    execute(
        connection,
        "store a component",
        "INSERT OR IGNORE INTO blobs (digest, bytes) VALUES (?1, ?2)",
        params![revision.digest.0, bytes],
    )?;
    execute(
        connection,
        "add a revision",
        "INSERT INTO revisions (component, revision, digest, body) VALUES (?1, ?2, ?3, ?4)",
        params![
            revision.component.as_str(),
            revision.revision,
            revision.digest.0,
            body
        ],
    )
}

/// Removes the revisions of a component below `number`, and bytes that no other revision uses.
pub(super) fn forget(
    connection: &Connection,
    component: &Name,
    number: u32,
) -> Result<(), StoreError> {
    let sql = "DELETE FROM revisions WHERE component = ?1 AND revision < ?2";
    let params = params![component.as_str(), number];
    execute(connection, "delete old revisions", sql, params)?;
    forget_blobs(connection)
}

pub(super) fn set_current(
    connection: &Connection,
    component: &Name,
    revision: u32,
) -> Result<(), StoreError> {
    let sql = "INSERT OR REPLACE INTO components (name, current) VALUES (?1, ?2)";
    let params = params![component.as_str(), revision];
    execute(connection, "make a revision current", sql, params)
}

/// Removes a component with all its revisions.
pub(super) fn remove(connection: &Connection, component: &Name) -> Result<(), StoreError> {
    for sql in [
        // Revision numbers continue if the component returns, because attempts and users refer
        // to them.
        "UPDATE components SET current = \
         -(SELECT MAX(revision) FROM revisions WHERE component = ?1) WHERE name = ?1",
        "DELETE FROM revisions WHERE component = ?1",
    ] {
        execute(connection, "remove a component", sql, [component.as_str()])?;
    }
    forget_blobs(connection)
}

/// Removes bytes that no revision uses.
fn forget_blobs(connection: &Connection) -> Result<(), StoreError> {
    let sql = "DELETE FROM blobs WHERE digest NOT IN (SELECT digest FROM revisions)";
    execute(connection, "remove a component's bytes", sql, [])
}
