//! Keeps in memory how many jobs for each handler of this host's cells have not ended. An index over jobs would cost more:
//! each change of a job's state would touch it.

use std::collections::{BTreeMap, BTreeSet};

use host_core::job::Lifecycle;
use host_core::name::Name;
use host_engine::StoreError;
use rusqlite::{Connection, params};

use super::doing;

#[derive(Default)]
pub(super) struct LiveJobs {
    /// Handlers without such jobs are left out.
    jobs: BTreeMap<Name, i64>,
    /// The handlers whose rows must be written.
    changed: BTreeSet<Name>,
}

impl LiveJobs {
    pub(super) fn load(connection: &Connection) -> Result<Self, StoreError> {
        let read = || {
            let mut statement = connection.prepare("SELECT handler, jobs FROM live_jobs")?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<Result<Vec<(String, i64)>, _>>()
        };
        let rows = read()
            .map_err(doing("read how many jobs handlers have"))?
            .into_iter()
            .map(|(handler, jobs)| {
                let name = handler
                    .parse::<Name>()
                    .map_err(|error| StoreError::Unreadable {
                        what: format!("handler {handler}"),
                        message: error.to_string(),
                    });
                Ok((name?, jobs))
            });
        Ok(Self {
            jobs: rows.collect::<Result<_, StoreError>>()?,
            changed: BTreeSet::new(),
        })
    }

    /// Counts a job's change.
    pub(super) fn note(&mut self, before: Option<&Lifecycle>, after: Option<&Lifecycle>) {
        let is_live = |job: &Lifecycle| job.executor.is_none() && !job.state.is_terminal();
        let [was, is] = [before, after].map(|job| job.is_some_and(is_live));
        let Some(job) = after.or(before).filter(|_| was != is) else {
            return;
        };
        let jobs = self.jobs.entry(job.handler.clone()).or_default();
        *jobs += if is { 1 } else { -1 };
        if *jobs <= 0 {
            self.jobs.remove(&job.handler);
        }
        if !self.changed.contains(&job.handler) {
            self.changed.insert(job.handler.clone());
        }
    }

    pub(super) fn of(&self, handler: &Name) -> u64 {
        let jobs = self.jobs.get(handler).copied().unwrap_or(0);
        u64::try_from(jobs).unwrap_or(0)
    }

    /// Writes the changes since the last call.
    pub(super) fn save(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        for handler in std::mem::take(&mut self.changed) {
            if let Some(jobs) = self.jobs.get(&handler) {
                let sql = "INSERT OR REPLACE INTO live_jobs (handler, jobs) VALUES (?1, ?2)";
                let mut statement = connection.prepare_cached(sql)?;
                statement.execute(params![handler.as_str(), jobs])?;
            } else {
                let sql = "DELETE FROM live_jobs WHERE handler = ?1";
                connection
                    .prepare_cached(sql)?
                    .execute([handler.as_str()])?;
            }
        }
        Ok(())
    }
}

/// Counts the jobs of a store that has no such rows yet.
pub(super) fn rebuild(connection: &Connection) -> rusqlite::Result<()> {
    let count = "INSERT INTO live_jobs (handler, jobs) SELECT handler, COUNT(*) FROM jobs \
                 WHERE state < 5 AND runner IS NULL GROUP BY handler";
    connection.execute(count, []).map(drop)
}
