//! The rows of tokens and of the audit.

use host_core::access::token::{KeptToken, Token, TokenId};
use host_core::audit::{Entry, Link};
use host_core::time::Time;
use tokio_postgres::Row;

use super::client::{Client, rows};
use super::pipeline::{Pipeline, values};
use super::trouble::{Trouble, damaged, unreadable};
use super::typed::Values;
use crate::error::StoreError;

/// Appends entries to the audit, each with the hash of the one before. The row of `host_audit_end` is locked until the
/// commit, which follows immediately. Batches without entries do not touch it.
const APPEND: &str = "WITH \
    last AS MATERIALIZED (SELECT next, hash FROM host_audit_end WHERE id = 1 FOR UPDATE), \
    added AS (INSERT INTO host_audit (number, at, previous, record, hash) \
      SELECT next, $1, hash, $2, \
      sha256(convert_to(encode(hash, 'hex') || E'\\n' || next || E'\\n' || $2, 'UTF8')) \
      FROM last RETURNING number, hash) \
    UPDATE host_audit_end SET next = added.number + 1, hash = added.hash FROM added WHERE id = 1";

async fn ask(
    client: &Client,
    operation: &'static str,
    sql: &'static str,
    values: Values<'_>,
) -> Result<Vec<Row>, Trouble> {
    let asked = client.ask(sql, values).await;
    asked.map_err(|error| Trouble::of(operation, &error))
}

fn read_token(id: &str, body: &str) -> Result<Token, StoreError> {
    serde_json::from_str(body).map_err(|error| unreadable(format!("token {id}"), &error))
}

/// Reads a token, which stays as it is until the batch ends.
pub(super) async fn token(client: &Client, id: &TokenId) -> Result<Option<Token>, Trouble> {
    let sql = "SELECT body FROM host_tokens WHERE id = $1 FOR UPDATE";
    let found = ask(client, "look up a token", sql, &[&id.as_str()]).await?;
    let body = found.first().map(|row| row.get(0));
    body.map(|body| read_token(id.as_str(), body))
        .transpose()
        .map_err(Trouble::Fatal)
}

pub(super) async fn count(client: &Client) -> Result<u64, Trouble> {
    let found = ask(
        client,
        "count tokens",
        "SELECT count(*) FROM host_tokens",
        &[],
    )
    .await?;
    let count = found.first().map_or(0, |row| row.get::<_, i64>(0));
    Ok(count.unsigned_abs())
}

pub(super) async fn put(client: &Client, token: &Token) -> Result<(), Trouble> {
    let body = serde_json::to_string(token)
        .map_err(|error| Trouble::Fatal(damaged("a token to write", error.to_string())))?;
    let sql = "INSERT INTO host_tokens (id, body) VALUES ($1, $2) \
               ON CONFLICT (id) DO UPDATE SET body = $2";
    ask(client, "store a token", sql, &[&token.id.as_str(), &body]).await?;
    changed(client).await
}

pub(super) async fn remove(client: &Client, id: &TokenId) -> Result<(), Trouble> {
    let sql = "DELETE FROM host_tokens WHERE id = $1";
    ask(client, "forget a token", sql, &[&id.as_str()]).await?;
    changed(client).await
}

/// Tells other nodes to read the tokens again.
async fn changed(client: &Client) -> Result<(), Trouble> {
    let sql = "UPDATE host_access SET version = version + 1 WHERE id = 1";
    ask(client, "record that tokens have changed", sql, &[]).await?;
    Ok(())
}

pub(super) async fn record_use(client: &Client, id: &TokenId, at: Time) -> Result<(), Trouble> {
    let sql = "UPDATE host_tokens SET used_at = $2 WHERE id = $1 AND COALESCE(used_at, 0) < $2";
    let values: Values<'_> = &[&id.as_str(), &at.0];
    ask(client, "record the use of a token", sql, values).await?;
    Ok(())
}

/// Forgets at most `limit` entries before a time, but never the last.
pub(super) async fn forget(
    client: &Client,
    before: Time,
    limit: u32,
) -> Result<Option<Link>, Trouble> {
    let sql = "DELETE FROM host_audit WHERE number IN (SELECT number FROM host_audit \
               WHERE at < $1 AND number < (SELECT max(number) FROM host_audit) \
               ORDER BY number LIMIT $2) RETURNING number, hash";
    let values: Values<'_> = &[&before.0, &i64::from(limit)];
    let rows = ask(client, "forget old entries of the audit", sql, values).await?;
    let read = |row: &Row| {
        let number = row.get::<_, i64>(0).unsigned_abs();
        Some((number, row.get::<_, &[u8]>(1).try_into().ok()?))
    };
    Ok(rows.iter().filter_map(read).max())
}

/// Adds the statements that append entries.
pub(super) async fn append(
    pipeline: &mut Pipeline<'_>,
    entries: Vec<(Time, String)>,
) -> Result<(), Trouble> {
    for (at, record) in entries {
        let values = values![at.0, record];
        pipeline.add("append to the audit", APPEND, values).await?;
    }
    Ok(())
}

/// Returns all tokens, by id.
pub(super) async fn tokens(client: &Client) -> Result<Vec<KeptToken>, StoreError> {
    let sql = "SELECT id, body, used_at FROM host_tokens ORDER BY id";
    let kept = |row: &Row| {
        Ok(KeptToken {
            token: read_token(row.get(0), row.get(1))?,
            used_at: row.get::<_, Option<i64>>(2).map(Time),
        })
    };
    let found = rows(client, "read tokens", sql, &[]).await?;
    found.iter().map(kept).collect()
}

/// How many jobs of a principal have not ended, as all nodes have counted them.
pub(super) const OWNED: &str =
    "SELECT COALESCE(sum(jobs), 0)::bigint FROM host_owned WHERE principal = $1";

pub(super) async fn owned(client: &Client, principal: &str) -> Result<u64, StoreError> {
    let found = rows(
        client,
        "count the jobs of a principal",
        OWNED,
        &[&principal],
    )
    .await?;
    let jobs = found.first().map_or(0, |row| row.get::<_, i64>(0));
    Ok(u64::try_from(jobs).unwrap_or_default())
}

/// Returns how often tokens have changed.
pub(super) async fn version(client: &Client) -> Result<u64, StoreError> {
    let sql = "SELECT version FROM host_access";
    let found = rows(client, "check whether tokens have changed", sql, &[]).await?;
    let version = found.first().map_or(0, |row| row.get::<_, i64>(0));
    Ok(version.unsigned_abs())
}

/// Returns at most `limit` entries after the one with the number `after`, from a time on, oldest first.
pub(super) async fn entries(
    client: &Client,
    after: u64,
    since: Time,
    limit: u32,
) -> Result<Vec<Entry>, StoreError> {
    let sql = "SELECT number, at, previous, record, hash FROM host_audit \
               WHERE number > $1 AND at >= $2 ORDER BY number LIMIT $3";
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let values: Values<'_> = &[&after, &since.0, &i64::from(limit)];
    let found = rows(client, "read the audit", sql, values).await?;
    found.iter().map(entry).collect()
}

fn entry(row: &Row) -> Result<Entry, StoreError> {
    let number = row.get::<_, i64>(0).unsigned_abs();
    let hash = |column: usize| {
        let bytes = <[u8; 32]>::try_from(row.get::<_, &[u8]>(column));
        bytes.map_err(|_| {
            unreadable(
                format!("entry {number} of the audit"),
                &"a hash is too short",
            )
        })
    };
    Ok(Entry {
        number,
        at: Time(row.get(1)),
        previous: hash(2)?,
        record: row.get(3),
        hash: hash(4)?,
    })
}
