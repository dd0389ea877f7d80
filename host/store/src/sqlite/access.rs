//! The rows of tokens and of the audit.

use host_core::access::token::{KeptToken, Token, TokenId};
use host_core::audit::{Entry, Link};
use host_core::time::Time;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::jobs::Transaction;
use super::{damaged, doing, execute};
use crate::engine::AccessRows;
use crate::error::StoreError;

impl AccessRows for Transaction<'_> {
    fn token(&mut self, id: &TokenId) -> Result<Option<Token>, StoreError> {
        token(self.connection, id)
    }

    fn count_tokens(&mut self) -> Result<u64, StoreError> {
        count(self.connection)
    }

    fn put_token(&mut self, token: &Token) -> Result<(), StoreError> {
        put(self.connection, token)
    }

    fn remove_token(&mut self, id: &TokenId) -> Result<(), StoreError> {
        remove(self.connection, id)
    }

    fn use_token(&mut self, id: &TokenId, at: Time) -> Result<(), StoreError> {
        record_use(self.connection, id, at)
    }

    fn append_audit(&mut self, at: Time, record: String) -> Result<(), StoreError> {
        append(self.connection, at, record)
    }

    fn forget_audit(&mut self, before: Time, limit: u32) -> Result<Option<Link>, StoreError> {
        forget(self.connection, before, limit)
    }

    fn owned(&mut self, principal: &str) -> Result<u64, StoreError> {
        owned(self.connection, principal)
    }

    fn count_owned(&mut self, principal: &str, step: i64) -> Result<(), StoreError> {
        execute(
            self.connection,
            "count the jobs of a principal",
            "INSERT INTO owned (principal, jobs) VALUES (?1, ?2) \
             ON CONFLICT (principal) DO UPDATE SET jobs = jobs + excluded.jobs",
            params![principal, step],
        )
    }
}

pub(super) fn owned(connection: &Connection, principal: &str) -> Result<u64, StoreError> {
    let found: Option<u64> = connection
        .prepare_cached("SELECT jobs FROM owned WHERE principal = ?1")
        .and_then(|mut statement| {
            let found = statement.query_row([principal], |row| row.get(0));
            found.optional()
        })
        .map_err(doing("count the jobs of a principal"))?;
    Ok(found.unwrap_or_default())
}

pub(super) fn token(connection: &Connection, id: &TokenId) -> Result<Option<Token>, StoreError> {
    let body: Option<String> = connection
        .prepare_cached("SELECT body FROM tokens WHERE id = ?1")
        .and_then(|mut statement| {
            let found = statement.query_row([id.as_str()], |row| row.get(0));
            found.optional()
        })
        .map_err(doing("look up a token"))?;
    let read = |body: String| serde_json::from_str(&body).map_err(damaged(format!("token {id}")));
    body.map(read).transpose()
}

/// Returns all tokens, by id.
pub(super) fn tokens(connection: &Connection) -> Result<Vec<KeptToken>, StoreError> {
    let bodies = || {
        let mut statement =
            connection.prepare_cached("SELECT id, body, used_at FROM tokens ORDER BY id")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect::<Result<Vec<(String, String, Option<i64>)>, _>>()
    };
    let bodies = bodies().map_err(doing("read tokens"))?.into_iter();
    let kept = |(id, body, used_at): (String, String, Option<i64>)| {
        let token = serde_json::from_str(&body).map_err(damaged(format!("token {id}")))?;
        let used_at = used_at.map(Time);
        Ok(KeptToken { token, used_at })
    };
    bodies.map(kept).collect()
}

pub(super) fn count(connection: &Connection) -> Result<u64, StoreError> {
    connection
        .prepare_cached("SELECT COUNT(*) FROM tokens")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .map_err(doing("count tokens"))
}

pub(super) fn put(connection: &Connection, token: &Token) -> Result<(), StoreError> {
    let body = serde_json::to_string(token).map_err(damaged("a token to write"))?;
    execute(
        connection,
        "store a token",
        "INSERT INTO tokens (id, body) VALUES (?1, ?2) \
         ON CONFLICT (id) DO UPDATE SET body = excluded.body",
        params![token.id.as_str(), body],
    )
}

pub(super) fn remove(connection: &Connection, id: &TokenId) -> Result<(), StoreError> {
    let sql = "DELETE FROM tokens WHERE id = ?1";
    execute(connection, "forget a token", sql, [id.as_str()])
}

pub(super) fn record_use(
    connection: &Connection,
    id: &TokenId,
    at: Time,
) -> Result<(), StoreError> {
    let sql = "UPDATE tokens SET used_at = ?2 WHERE id = ?1 AND COALESCE(used_at, 0) < ?2";
    let values = params![id.as_str(), at.0];
    execute(connection, "record the use of a token", sql, values)
}

/// Appends an entry to the audit.
pub(super) fn append(connection: &Connection, at: Time, record: String) -> Result<(), StoreError> {
    let appending = doing("append to the audit");
    let last: Option<(i64, [u8; 32])> = connection
        .prepare_cached("SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1")
        .and_then(|mut statement| {
            let found = statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?)));
            found.optional()
        })
        .map_err(&appending)?;
    let (last, previous) = last.unwrap_or_default();
    let entry = Entry::new(last.unsigned_abs() + 1, at, previous, record);
    execute(
        connection,
        "append to the audit",
        "INSERT INTO audit (number, at, previous, record, hash) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![entry.number, at.0, entry.previous, entry.record, entry.hash],
    )
}

/// Forgets at most `limit` entries before a time, but never the last.
pub(super) fn forget(
    connection: &Connection,
    before: Time,
    limit: u32,
) -> Result<Option<Link>, StoreError> {
    let sql = "DELETE FROM audit WHERE number IN (SELECT number FROM audit WHERE at < ?1 \
               AND number < (SELECT MAX(number) FROM audit) ORDER BY number LIMIT ?2) \
               RETURNING number, hash";
    let forgotten = connection.prepare_cached(sql).and_then(|mut statement| {
        let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get(1)?));
        let rows = statement.query_map(params![before.0, limit], read)?;
        rows.collect::<Result<Vec<_>, _>>()
    });
    let forgotten = forgotten.map_err(doing("forget old entries of the audit"))?;
    Ok(forgotten.into_iter().max())
}

/// Returns at most `limit` entries after the one with the number `after`, from a time on, oldest first.
pub(super) fn entries(
    connection: &Connection,
    after: u64,
    since: Time,
    limit: u32,
) -> Result<Vec<Entry>, StoreError> {
    let read = || {
        let mut statement = connection.prepare_cached(
            "SELECT number, at, previous, record, hash FROM audit \
             WHERE number > ?1 AND at >= ?2 ORDER BY number LIMIT ?3",
        )?;
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![after, since.0, limit], entry)?;
        rows.collect::<Result<Vec<_>, _>>()
    };
    read().map_err(doing("read the audit"))
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        number: row.get::<_, i64>(0)?.unsigned_abs(),
        at: Time(row.get(1)?),
        previous: row.get(2)?,
        record: row.get(3)?,
        hash: row.get(4)?,
    })
}
