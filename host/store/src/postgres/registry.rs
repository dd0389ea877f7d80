//! The rows of components.

use host_core::handler::{Digest, Revision};
use host_core::name::Name;
use tokio_postgres::Row;

use super::client::Client;
use super::trouble::{Trouble, damaged, unreadable};
use super::typed::Values;
use crate::error::StoreError;

async fn ask(
    client: &Client,
    operation: &'static str,
    sql: &'static str,
    values: Values<'_>,
) -> Result<Vec<Row>, Trouble> {
    let asked = client.ask(sql, values).await;
    asked.map_err(|error| Trouble::of(operation, &error))
}

fn read(rows: &[Row]) -> Result<Vec<Revision>, Trouble> {
    let revision = |row: &Row| {
        let read = serde_json::from_str(row.get(0));
        read.map_err(|error| {
            let what = format!(
                "revision {} of component {}",
                row.get::<_, i64>(2),
                row.get::<_, &str>(1)
            );
            Trouble::Fatal(unreadable(what, &error))
        })
    };
    rows.iter().map(revision).collect()
}

fn number(rows: &[Row]) -> Option<u32> {
    u32::try_from(rows.first()?.get::<_, i64>(0)).ok()
}

/// Returns all revisions of a component, oldest first.
pub(super) async fn revisions(client: &Client, component: &Name) -> Result<Vec<Revision>, Trouble> {
    let sql = "SELECT body, component, revision FROM host_revisions WHERE component = $1 ORDER BY revision";
    read(&ask(client, "read revisions", sql, &[&component.as_str()]).await?)
}

/// Returns the current revision of each component, by name.
pub(super) async fn current_revisions(client: &Client) -> Result<Vec<Revision>, Trouble> {
    let sql = "SELECT body, component, revision FROM host_components \
               JOIN host_revisions ON component = name AND revision = current ORDER BY name";
    read(&ask(client, "read revisions", sql, &[]).await?)
}

/// Returns the number of a component's current revision.
pub(super) async fn current(client: &Client, component: &Name) -> Result<Option<u32>, Trouble> {
    let sql = "SELECT current FROM host_components WHERE name = $1 AND current > 0";
    let rows = ask(client, "look up a component", sql, &[&component.as_str()]).await?;
    Ok(number(&rows))
}

/// Returns the latest revision of a removed component, 0 if there is none.
pub(super) async fn removed_at(client: &Client, component: &Name) -> Result<u32, Trouble> {
    let sql = "SELECT -current FROM host_components WHERE name = $1 AND current < 0";
    let rows = ask(
        client,
        "look up a removed component",
        sql,
        &[&component.as_str()],
    )
    .await?;
    Ok(number(&rows).unwrap_or(0))
}

/// Returns the bytes of a component.
pub(super) async fn bytes(client: &Client, digest: Digest) -> Result<Option<Vec<u8>>, Trouble> {
    let sql = "SELECT bytes FROM host_blobs WHERE digest = $1";
    let rows = ask(client, "read a component", sql, &[&&digest.0[..]]).await?;
    Ok(rows.first().map(|row| row.get(0)))
}

pub(super) async fn add(client: &Client, revision: &Revision, bytes: &[u8]) -> Result<(), Trouble> {
    let body = serde_json::to_string(revision)
        .map_err(|error| Trouble::Fatal(damaged("a value to write", error.to_string())))?;
    let digest = &revision.digest.0[..];
    let sql = "INSERT INTO host_blobs (digest, bytes) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    ask(client, "store a component", sql, &[&digest, &bytes]).await?;
    let sql = "INSERT INTO host_revisions (component, revision, digest, body) \
               VALUES ($1, $2, $3, $4)";
    let number = i64::from(revision.revision);
    let values: Values<'_> = &[&revision.component.as_str(), &number, &digest, &body];
    ask(client, "add a revision", sql, values).await?;
    Ok(())
}

/// Removes the revisions of a component below `number`.
pub(super) async fn forget(client: &Client, component: &Name, number: u32) -> Result<(), Trouble> {
    let sql = "DELETE FROM host_revisions WHERE component = $1 AND revision < $2";
    let values: Values<'_> = &[&component.as_str(), &i64::from(number)];
    ask(client, "delete old revisions", sql, values).await?;
    forget_blobs(client).await
}

pub(super) async fn set_current(
    client: &Client,
    component: &Name,
    revision: u32,
) -> Result<(), Trouble> {
    let sql = "INSERT INTO host_components (name, current) VALUES ($1, $2) \
               ON CONFLICT (name) DO UPDATE SET current = $2";
    let values: Values<'_> = &[&component.as_str(), &i64::from(revision)];
    ask(client, "make a revision current", sql, values).await?;
    Ok(())
}

/// Removes a component. Revision numbers continue if it returns, because attempts and users refer to
/// them.
pub(super) async fn remove(client: &Client, component: &Name) -> Result<(), Trouble> {
    for sql in [
        "UPDATE host_components SET current = \
         -(SELECT max(revision) FROM host_revisions WHERE component = $1) WHERE name = $1",
        "DELETE FROM host_revisions WHERE component = $1",
    ] {
        ask(client, "remove a component", sql, &[&component.as_str()]).await?;
    }
    forget_blobs(client).await
}

/// Removes bytes that no revision uses.
async fn forget_blobs(client: &Client) -> Result<(), Trouble> {
    let sql = "DELETE FROM host_blobs WHERE digest NOT IN (SELECT digest FROM host_revisions)";
    ask(client, "remove a component's bytes", sql, &[]).await?;
    Ok(())
}

/// Converts the failure of a query that cannot conflict with others.
pub(super) fn read_failed(trouble: Trouble) -> StoreError {
    trouble.into_error("read components")
}
