//! The rows of schedules and of their firings.

use host_core::name::Name;
use host_core::schedule::{FIRINGS_KEPT, Firing, KeptSchedule};
use host_core::time::Time;
use tokio_postgres::Row;

use super::client::{Client, rows};
use super::rows::Transaction;
use super::trouble::{Trouble, damaged, unreadable};
use super::typed::Values;
use crate::engine::ScheduleRows;
use crate::error::StoreError;

impl ScheduleRows for Transaction<'_> {
    /// Reads a schedule, which stays as it is until the batch ends.
    fn schedule(&mut self, name: &Name) -> Result<Option<KeptSchedule>, StoreError> {
        let sql = "SELECT name, body, progress FROM host_schedules WHERE name = $1 FOR UPDATE";
        let found = self.ask("look up a schedule", sql, &[&name.as_str()])?;
        found.first().map(decode).transpose()
    }

    fn count_schedules(&mut self) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) FROM host_schedules";
        let found = self.ask("count schedules", sql, &[])?;
        let count = found.first().map_or(0, |row| row.get::<_, i64>(0));
        Ok(count.unsigned_abs())
    }

    fn put_schedule(&mut self, kept: &KeptSchedule) -> Result<(), StoreError> {
        let (body, progress) = (json(&kept.schedule)?, json(&kept.progress)?);
        let fires_at = kept.fires_at().map(|at| at.0);
        let (name, holds) = (kept.schedule.name.as_str(), kept.holds());
        let sql = "INSERT INTO host_schedules (name, body, progress, fires_at, holds) \
                   VALUES ($1, $2, $3, $4, $5) ON CONFLICT (name) DO UPDATE \
                   SET body = $2, progress = $3, fires_at = $4, holds = $5";
        let values: Values<'_> = &[&name, &body, &progress, &fires_at, &holds];
        self.ask("store a schedule", sql, values)?;
        Ok(())
    }

    fn remove_schedule(&mut self, name: &Name) -> Result<(), StoreError> {
        let sql = "WITH gone AS (DELETE FROM host_firings WHERE schedule = $1) \
                   DELETE FROM host_schedules WHERE name = $1";
        self.ask("remove a schedule", sql, &[&name.as_str()])?;
        Ok(())
    }

    fn add_firings(&mut self, name: &Name, last: u64, new: &[Firing]) -> Result<(), StoreError> {
        let bodies: Result<Vec<String>, _> = new.iter().map(json).collect();
        let (bodies, last) = (bodies?, i64::try_from(last).unwrap_or(i64::MAX));
        let first = last.saturating_sub_unsigned(new.len() as u64);
        let forgotten = last.saturating_sub_unsigned(FIRINGS_KEPT);
        let sql = "WITH gone AS (DELETE FROM host_firings WHERE schedule = $1 AND number <= $4) \
                   INSERT INTO host_firings (schedule, number, body) \
                   SELECT $1, $2 + place, body FROM unnest($3::text[]) WITH ORDINALITY AS new (body, place)";
        let values: Values<'_> = &[&name.as_str(), &first, &bodies, &forgotten];
        self.ask("record firings", sql, values)?;
        Ok(())
    }
}

impl Transaction<'_> {
    fn ask(
        &mut self,
        operation: &'static str,
        sql: &'static str,
        values: Values<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.wait(async |client, _| {
            let asked = client.ask(sql, values).await;
            asked.map_err(|error| Trouble::of(operation, &error))
        })
    }
}

fn json(value: &impl serde::Serialize) -> Result<String, StoreError> {
    let text = serde_json::to_string(value);
    text.map_err(|error| damaged("a schedule to write", error.to_string()))
}

fn decode(row: &Row) -> Result<KeptSchedule, StoreError> {
    let name: &str = row.get(0);
    let wrong = |error: serde_json::Error| unreadable(format!("schedule {name}"), &error);
    Ok(KeptSchedule {
        schedule: serde_json::from_str(row.get(1)).map_err(wrong)?,
        progress: serde_json::from_str(row.get(2)).map_err(wrong)?,
    })
}

async fn read(
    client: &Client,
    sql: &'static str,
    values: Values<'_>,
) -> Result<Vec<KeptSchedule>, StoreError> {
    let found = rows(client, "read schedules", sql, values).await?;
    found.iter().map(decode).collect()
}

pub(super) async fn one(client: &Client, name: &Name) -> Result<Option<KeptSchedule>, StoreError> {
    let sql = "SELECT name, body, progress FROM host_schedules WHERE name = $1";
    Ok(read(client, sql, &[&name.as_str()]).await?.pop())
}

/// Returns at most `limit` schedules after the one with the name `after`, by name.
pub(super) async fn page(
    client: &Client,
    after: &str,
    limit: u32,
) -> Result<Vec<KeptSchedule>, StoreError> {
    let sql =
        "SELECT name, body, progress FROM host_schedules WHERE name > $1 ORDER BY name LIMIT $2";
    read(client, sql, &[&after, &i64::from(limit)]).await
}

/// Returns the schedules that fire until a time, at most `limit`, in the order of their times.
pub(super) async fn first(
    client: &Client,
    until: Time,
    limit: u32,
) -> Result<Vec<KeptSchedule>, StoreError> {
    let sql = "SELECT name, body, progress FROM host_schedules WHERE fires_at <= $1 \
               ORDER BY fires_at LIMIT $2";
    read(client, sql, &[&until.0, &i64::from(limit)]).await
}

/// Returns schedules with nominal times that wait for jobs to end, at most `limit`, after the one with the name `after`.
pub(super) async fn holding(
    client: &Client,
    after: &str,
    limit: u32,
) -> Result<Vec<KeptSchedule>, StoreError> {
    let sql = "SELECT name, body, progress FROM host_schedules WHERE holds AND name > $1 \
               ORDER BY name LIMIT $2";
    read(client, sql, &[&after, &i64::from(limit)]).await
}

/// Returns the latest firings of a schedule, newest first.
pub(super) async fn firings(client: &Client, name: &Name) -> Result<Vec<Firing>, StoreError> {
    let sql = "SELECT body FROM host_firings WHERE schedule = $1 ORDER BY number DESC";
    let found = rows(
        client,
        "read the firings of a schedule",
        sql,
        &[&name.as_str()],
    )
    .await?;
    let firing = |row: &Row| {
        let read = serde_json::from_str(row.get(0));
        read.map_err(|error| unreadable(format!("a firing of the schedule {name}"), &error))
    };
    found.iter().map(firing).collect()
}
