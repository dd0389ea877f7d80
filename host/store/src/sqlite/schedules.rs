//! The rows of schedules and of their firings.

use host_core::name::Name;
use host_core::schedule::{FIRINGS_KEPT, Firing, KeptSchedule};
use host_core::time::Time;
use rusqlite::{Connection, Params, params};

use super::jobs::Transaction;
use super::{damaged, doing, execute};
use crate::engine::ScheduleRows;
use crate::error::StoreError;

impl ScheduleRows for Transaction<'_> {
    fn schedule(&mut self, name: &Name) -> Result<Option<KeptSchedule>, StoreError> {
        one(self.connection, name)
    }

    fn count_schedules(&mut self) -> Result<u64, StoreError> {
        self.connection
            .prepare_cached("SELECT COUNT(*) FROM schedules")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .map_err(doing("count schedules"))
    }

    fn put_schedule(&mut self, kept: &KeptSchedule) -> Result<(), StoreError> {
        let writing = || damaged("a schedule to write");
        let body = serde_json::to_string(&kept.schedule).map_err(writing())?;
        let progress = serde_json::to_string(&kept.progress).map_err(writing())?;
        let fires_at = kept.fires_at().map(|at| at.0);
        execute(
            self.connection,
            "store a schedule",
            "INSERT INTO schedules (name, body, progress, fires_at, holds) VALUES (?1, ?2, ?3, ?4, ?5) \
             ON CONFLICT (name) DO UPDATE SET body = excluded.body, progress = excluded.progress, \
             fires_at = excluded.fires_at, holds = excluded.holds",
            params![
                kept.schedule.name.as_str(),
                body,
                progress,
                fires_at,
                kept.holds()
            ],
        )
    }

    fn remove_schedule(&mut self, name: &Name) -> Result<(), StoreError> {
        for sql in [
            "DELETE FROM schedules WHERE name = ?1",
            "DELETE FROM firings WHERE schedule = ?1",
        ] {
            execute(self.connection, "remove a schedule", sql, [name.as_str()])?;
        }
        Ok(())
    }

    fn add_firings(&mut self, name: &Name, last: u64, new: &[Firing]) -> Result<(), StoreError> {
        let first = last - new.len() as u64;
        for (number, firing) in (first + 1..).zip(new) {
            let body = serde_json::to_string(firing).map_err(damaged("a firing to write"))?;
            execute(
                self.connection,
                "record a firing",
                "INSERT INTO firings (schedule, number, body) VALUES (?1, ?2, ?3)",
                params![name.as_str(), number, body],
            )?;
        }
        execute(
            self.connection,
            "forget old firings",
            "DELETE FROM firings WHERE schedule = ?1 AND number <= ?2",
            params![name.as_str(), last.saturating_sub(FIRINGS_KEPT)],
        )
    }
}

const COLUMNS: &str = "SELECT name, body, progress FROM schedules";

pub(super) fn one(
    connection: &Connection,
    name: &Name,
) -> Result<Option<KeptSchedule>, StoreError> {
    let sql = format!("{COLUMNS} WHERE name = ?1");
    Ok(read(connection, &sql, [name.as_str()])?.pop())
}

/// Returns at most `limit` schedules after the one with the name `after`, by name.
pub(super) fn page(
    connection: &Connection,
    after: &str,
    limit: u32,
) -> Result<Vec<KeptSchedule>, StoreError> {
    let sql = format!("{COLUMNS} WHERE name > ?1 ORDER BY name LIMIT ?2");
    read(connection, &sql, params![after, limit])
}

/// Returns the first schedules that fire, at most `limit`, in the order of their times, and when they do.
pub(super) fn first(
    connection: &Connection,
    until: Time,
    limit: u32,
) -> Result<Vec<KeptSchedule>, StoreError> {
    let sql = format!("{COLUMNS} WHERE fires_at <= ?1 ORDER BY fires_at LIMIT ?2");
    read(connection, &sql, params![until.0, limit])
}

/// Returns schedules with nominal times that wait for jobs to end, at most `limit`, after the one with the name `after`.
pub(super) fn holding(
    connection: &Connection,
    after: &str,
    limit: u32,
) -> Result<Vec<KeptSchedule>, StoreError> {
    let sql = format!("{COLUMNS} WHERE holds = 1 AND name > ?1 ORDER BY name LIMIT ?2");
    read(connection, &sql, params![after, limit])
}

fn read(
    connection: &Connection,
    sql: &str,
    values: impl Params,
) -> Result<Vec<KeptSchedule>, StoreError> {
    let rows = || {
        let mut statement = connection.prepare_cached(sql)?;
        let rows =
            statement.query_map(values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect::<Result<Vec<(String, String, String)>, _>>()
    };
    let rows = rows().map_err(doing("read schedules"))?.into_iter();
    rows.map(|(name, body, progress)| decode(&name, &body, &progress))
        .collect()
}

/// Reads a schedule from its row.
fn decode(name: &str, body: &str, progress: &str) -> Result<KeptSchedule, StoreError> {
    let reading = || damaged(format!("schedule {name}"));
    Ok(KeptSchedule {
        schedule: serde_json::from_str(body).map_err(reading())?,
        progress: serde_json::from_str(progress).map_err(reading())?,
    })
}

/// Returns the latest firings of a schedule, newest first.
pub(super) fn firings(connection: &Connection, name: &Name) -> Result<Vec<Firing>, StoreError> {
    let bodies = || {
        let sql = "SELECT body FROM firings WHERE schedule = ?1 ORDER BY number DESC";
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map([name.as_str()], |row| row.get(0))?;
        rows.collect::<Result<Vec<String>, _>>()
    };
    let bodies = bodies().map_err(doing("read the firings of a schedule"))?;
    let read = |body: String| {
        serde_json::from_str(&body).map_err(damaged(format!("a firing of the schedule {name}")))
    };
    bodies.into_iter().map(read).collect()
}
