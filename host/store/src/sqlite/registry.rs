//! The rows of components.

use host_core::handler::{Digest, Revision};
use host_core::name::Name;
use rusqlite::{Connection, OptionalExtension, Params};

use super::{damaged, doing};
use crate::error::StoreError;

/// Returns all revisions of a component, oldest first.
pub(super) fn revisions(
    connection: &Connection,
    component: &Name,
) -> Result<Vec<Revision>, StoreError> {
    read(
        connection,
        "SELECT body FROM revisions WHERE component = ?1 ORDER BY revision",
        [component.as_str()],
    )
}

/// Returns the current revision of each component, by name.
pub(super) fn current_revisions(connection: &Connection) -> Result<Vec<Revision>, StoreError> {
    read(
        connection,
        "SELECT body FROM components JOIN revisions ON component = name AND revision = current \
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
        let rows = statement.query_map(params, |row| row.get(0))?;
        rows.collect::<Result<Vec<String>, _>>()
    };
    bodies()
        .map_err(doing("read revisions"))?
        .iter()
        .map(|body| serde_json::from_str(body).map_err(damaged("a revision")))
        .collect()
}
