//! Sets records aside in a database that no host uses.

use std::borrow::Cow;

use host_core::outcome::Progress;
use host_core::transition::Effect;
use host_engine::StoreError;
use tokio_postgres::types::ToSql;

use super::columns::Column;
use super::copy::{Open, columns, count_queues, table};
use super::target::Target;
use super::trouble::doing;
use crate::aside::{self, Engine, Keep};
use crate::parts::{PARTS, Row, See, Value};
use crate::record::decode;

/// Counts what the store counts besides queues, registers those of all jobs, lets what waits for a job that is gone continue, removes components whose current
/// revision is gone, and has nodes read the tokens again.
const RECOUNT: &str = "\
    DELETE FROM host_state_spaces;
    INSERT INTO host_state_spaces (space, keys, bytes)
      SELECT space, count(*), sum(octet_length(key) + octet_length(value) + 64) FROM host_state GROUP BY space;
    INSERT INTO host_cascades (prerequisite, state)
      SELECT DISTINCT prerequisite, 7 FROM host_dependencies
      WHERE NOT EXISTS (SELECT FROM host_live WHERE id = prerequisite)
      AND NOT EXISTS (SELECT FROM host_ended WHERE id = prerequisite)
      ON CONFLICT (prerequisite) DO NOTHING;
    UPDATE host_components SET current = -current WHERE current > 0 AND NOT EXISTS (
      SELECT FROM host_revisions JOIN host_blobs USING (digest) WHERE component = name AND revision = current);
    INSERT INTO host_queues (name) SELECT queue FROM host_live UNION SELECT queue FROM host_ended
      ON CONFLICT (name) DO NOTHING;
    UPDATE host_access SET version = version + 1;
    DELETE FROM host_counts;";

/// Sets aside what cannot be read of the store of a target, which no host may use. Returns how many records were kept elsewhere.
pub fn set_aside(target: &Target, keep: &mut dyn Keep) -> Result<u64, StoreError> {
    let open = Open::begin(target, true, "BEGIN")?;
    let kept = aside::set_aside(&open, keep)?;
    passing::<Effect>(&open, "host_mail", "id")?;
    passing::<Progress>(&open, "host_progress", "job")?;
    open.run("set aside what cannot be read", "COMMIT")?;
    Ok(kept)
}

/// Removes what nodes tell each other and cannot be read. It means nothing once all nodes have ended.
fn passing<T: serde::de::DeserializeOwned>(
    open: &Open,
    table: &str,
    key: &str,
) -> Result<(), StoreError> {
    let reading = "read what nodes tell each other";
    for row in open.all(reading, &format!("SELECT {key}, body FROM {table}"))? {
        let [key_of_row, Value::Bytes(body)] = &*row else {
            continue;
        };
        if decode::<T>(body, String::new).is_err() {
            let sql = format!("DELETE FROM {table} WHERE {key} = $1");
            open.execute(&sql, std::slice::from_ref(key_of_row))?;
        }
    }
    Ok(())
}

impl Engine for Open {
    fn columns(part: usize) -> Cow<'static, str> {
        columns(part)
    }

    fn each(&self, part: usize, see: See<'_>) -> Result<(), StoreError> {
        let mut rows = self.rows(part)?;
        while let Some(row) = rows.next()? {
            see(row)?;
        }
        Ok(())
    }

    fn delete(&self, part: usize, keys: &Row) -> Result<(), StoreError> {
        let columns = columns(part);
        let names: Vec<&str> = columns.split(", ").map(str::trim).collect();
        let conditions = (1..).zip(PARTS[part].keys);
        let conditions = conditions
            .map(|(n, column)| format!("{} = ${n}", names[*column]))
            .collect::<Vec<_>>()
            .join(" AND ");
        let sql = format!("DELETE FROM {} WHERE {conditions}", table(part));
        self.execute(&sql, keys)
    }

    fn insert(&self, part: usize, row: &Row) -> Result<(), StoreError> {
        if aside::is_of_jobs(part) {
            let sql = "INSERT INTO host_queues (name) VALUES ($1) ON CONFLICT (name) DO NOTHING";
            self.execute(sql, &row[aside::QUEUE..=aside::QUEUE])?;
        }
        let numbers = (1..=row.len()).map(|n| format!("${n}"));
        let values = numbers.collect::<Vec<_>>().join(", ");
        let (table, columns) = (table(part), columns(part));
        let sql = format!("INSERT INTO {table} ({columns}) VALUES ({values})");
        self.execute(&sql, row)
    }

    fn empty_changes(&self, row: &Row, body: &[u8]) -> Result<(), StoreError> {
        let sql = "UPDATE host_changes SET body = $2 WHERE first = $1";
        self.execute(sql, &[row[0].clone(), Value::Bytes(body.to_vec())])
    }

    fn recount(&self) -> Result<(), StoreError> {
        let queues = count_queues("(SELECT min(number) FROM host_nodes)");
        self.run("count what is left", &format!("{RECOUNT} {queues}"))
    }
}

impl Open {
    /// Runs a statement with values.
    fn execute(&self, sql: &str, values: &[Value]) -> Result<(), StoreError> {
        let columns: Vec<_> = values.iter().map(Column).collect();
        let sent: Vec<&(dyn ToSql + Sync)> = columns.iter().map(|it| it as _).collect();
        let run = self.driver().wait(self.client().execute(sql, &sent));
        run.map(drop)
            .map_err(doing("set aside what cannot be read"))
    }
}
