//! Checks a store: that the file is intact, that every job obeys the rules, and that the tables
//! agree. It changes nothing, and the store may be in use at the same time.

use std::collections::BTreeMap;
use std::path::Path;

use host_core::invariants;
use host_core::job::{Lifecycle, LimitKey, STATES};
use host_core::name::Name;
use host_core::outcome::Attempt;
use host_engine::StoreError;
use host_engine::audit::{Chain, Entry};
use host_engine::limit::Limits;
use host_engine::schedule::KeptSchedule;
use host_engine::table::{Range, Record as _};
use rusqlite::{Connection, OpenFlags, Row};

use super::{connect, doing, limits, parts, tables, wal};
use crate::finding::{Finding, Findings, is_compared, unreadable};
use crate::parts::LOGS;
use crate::record::decode;

/// Queries that find errors, each with the text of the finding. Every row is one finding. The first
/// column names what it concerns.
const ORPHANS: [(&str, &str); 9] = [
    (
        "SELECT 'job ' || seq FROM jobs WHERE seq NOT IN (SELECT seq FROM payloads)",
        "its params are missing",
    ),
    (
        "SELECT 'params ' || seq FROM payloads WHERE seq NOT IN (SELECT seq FROM jobs)",
        "they belong to no job",
    ),
    (
        "SELECT 'attempt ' || number || ' of job ' || seq FROM attempts \
         WHERE seq NOT IN (SELECT seq FROM jobs)",
        "it belongs to no job",
    ),
    (
        "SELECT 'unique key ' || key FROM unique_keys WHERE job NOT IN (SELECT id FROM jobs)",
        "it refers to no job",
    ),
    (
        "SELECT 'job ' || seq FROM jobs WHERE state = 0 AND waits_for IS NULL AND NOT EXISTS \
         (SELECT 1 FROM dependencies WHERE dependent = jobs.seq)",
        "it waits for no job",
    ),
    (
        "SELECT 'job ' || dependent FROM dependencies AS waits WHERE NOT EXISTS \
         (SELECT 1 FROM jobs WHERE id = prerequisite AND state <> 5) AND NOT EXISTS \
         (SELECT 1 FROM cascades WHERE cascades.prerequisite = waits.prerequisite)",
        "it waits for a job that is gone or has completed",
    ),
    (
        "SELECT 'the state ' || space FROM state_spaces AS kept WHERE (keys, bytes) IS NOT \
         (SELECT count(*), COALESCE(sum(length(CAST(key AS BLOB)) + length(value) + 64), 0) \
          FROM state WHERE state.space = kept.space) \
         UNION SELECT 'the state ' || space FROM state \
         WHERE space NOT IN (SELECT space FROM state_spaces)",
        "its size differs from that of its keys",
    ),
    (
        "SELECT DISTINCT 'firings of schedule ' || schedule FROM firings \
         WHERE schedule NOT IN (SELECT name FROM schedules)",
        "they belong to no schedule",
    ),
    (
        "SELECT 'component ' || name FROM components WHERE current > 0 AND NOT EXISTS \
         (SELECT 1 FROM revisions JOIN blobs USING (digest) \
          WHERE component = name AND revision = current)",
        "its current revision is missing",
    ),
];

/// How many entries of the audit are read at a time.
const CHUNK: u32 = 1_000;

/// Checks the store at `path`. Returns no findings if nothing is wrong.
///
/// This reads the whole file, which takes about a minute for ten million jobs.
pub fn check(path: &Path) -> Vec<Finding> {
    let mut findings = Findings::default();
    for checked in [wal::check(path), findings.inspect(path)] {
        match checked {
            Err(
                StoreError::Damaged { what, message } | StoreError::Unreadable { what, message },
            ) => {
                findings.add(what, message);
            }
            Err(error) => findings.add("the store", error.to_string()),
            Ok(()) => {}
        }
    }
    findings.found
}

impl Findings {
    fn inspect(&mut self, path: &Path) -> Result<(), StoreError> {
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        // One transaction, so that all reads see the same state.
        let moment = connection
            .unchecked_transaction()
            .map_err(doing("check the store"))?;
        self.part(&moment, Self::whole);
        self.part(&moment, Self::records);
        self.part(&moment, Self::jobs);
        self.part(&moment, Self::limits);
        self.part(&moment, Self::batches);
        self.part(&moment, Self::attempts);
        self.part(&moment, Self::counters);
        self.part(&moment, Self::access);
        self.part(&moment, Self::schedules);
        for (sql, message) in ORPHANS {
            self.part(&moment, |findings, moment| {
                each(moment, sql, |row| {
                    findings.add(row.get::<_, String>(0)?, message);
                    Ok(())
                })
            });
        }
        Ok(())
    }

    /// Runs SQLite's own check of pages and indexes.
    fn whole(&mut self, connection: &Connection) -> Result<(), StoreError> {
        each(connection, "PRAGMA integrity_check", |row| {
            let message: String = row.get(0)?;
            if message != "ok" {
                self.add(named(connection, &message), message);
            }
            Ok(())
        })
    }

    /// Continues after an error, so that one does not hide the others.
    fn part(
        &mut self,
        connection: &Connection,
        inspect: impl FnOnce(&mut Self, &Connection) -> Result<(), StoreError>,
    ) {
        if let Err(error) = inspect(self, connection) {
            match name(connection, error) {
                StoreError::Damaged { what, message } => self.add(what, message),
                StoreError::Unreadable { what, message } => self.add_once(what, message),
                error => self.add("the store", error.to_string()),
            }
        }
    }

    /// Reads all records, except those of jobs, which are compared with their columns.
    fn records(&mut self, connection: &Connection) -> Result<(), StoreError> {
        for part in (0..LOGS).filter(|part| !is_compared(*part)) {
            parts::each(connection, part, &mut |row| {
                self.record(part, &row);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn jobs(&mut self, connection: &Connection) -> Result<(), StoreError> {
        each(
            connection,
            "SELECT seq, body, jobs.id, state, name, priority, suspect, handler, wakeup_at, \
             runner, waits_for, batch FROM jobs \
             LEFT JOIN queues ON queues.id = jobs.queue",
            |row| {
                let what = || Ok::<_, rusqlite::Error>(format!("job {}", row.get::<_, i64>(0)?));
                let body: Vec<u8> = row.get(1)?;
                let job: Lifecycle = match decode(&body, String::new) {
                    Ok(job) => job,
                    Err(error) => {
                        self.add(what()?, unreadable(error));
                        return Ok(());
                    }
                };
                if let Err(broken) = invariants::check(&job) {
                    self.add(what()?, format!("violates the rule: {}", broken.0));
                }
                self.tally.add(&job);
                if let Some(column) = differing(row, &job)? {
                    self.add(what()?, format!("its {column} differs from its record"));
                }
                Ok(())
            },
        )
    }

    fn attempts(&mut self, connection: &Connection) -> Result<(), StoreError> {
        each(
            connection,
            "SELECT seq, number, body FROM attempts",
            |row| {
                let (seq, number, body): (i64, u32, Vec<u8>) =
                    (row.get(0)?, row.get(1)?, row.get(2)?);
                let what = format!("attempt {number} of job {seq}");
                match decode::<Attempt>(&body, String::new) {
                    Err(error) => self.add(what, unreadable(error)),
                    Ok(attempt) if attempt.number != number => {
                        self.add(what, "its number differs from its record");
                    }
                    Ok(_) => {}
                }
                Ok(())
            },
        )
    }

    /// Follows the chain of the audit.
    fn access(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let mut chain = Chain::default();
        loop {
            let after = chain.last().map_or(0, |entry| entry.number);
            let entries =
                tables::list::<Entry>(connection, &Range::all().after(after).first(CHUNK))?;
            if entries.is_empty() {
                self.end_of(&chain);
                return Ok(());
            }
            for entry in entries {
                self.entry(&mut chain, entry);
            }
        }
    }

    /// Compares when schedules fire.
    fn schedules(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let mut found = Vec::new();
        let sql = "SELECT name, fires_at, holds FROM schedules";
        each(connection, sql, |row| {
            found.push((row.get::<_, String>(0)?, (row.get(1)?, row.get(2)?)));
            Ok(())
        })?;
        for (name, indexed) in found {
            let what = format!("schedule {name}");
            let name = name.parse::<Name>().ok();
            let kept = name.and_then(|name| {
                let range = Range::of(KeptSchedule::key(&name));
                tables::list::<KeptSchedule>(connection, &range).ok()?.pop()
            });
            if kept.is_some_and(|kept| (kept.fires_at().map(|at| at.0), kept.holds()) != indexed) {
                self.add(what, "when it fires differs from its record");
            }
        }
        Ok(())
    }

    /// Compares how much of the keys of limits is used with the jobs.
    fn limits(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let limits = Limits::from_iter(tables::list(connection, &Range::all())?);
        let kept = tables::list(connection, &Range::all())?;
        self.compare_keys(&limits, kept);
        self.compare_listed(limits::all_listed(connection)?);
        Ok(())
    }

    fn batches(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let kept = tables::list(connection, &Range::all())?;
        self.compare_batches(kept);
        Ok(())
    }

    /// Compares the counters with the rows they count.
    fn counters(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let live = "SELECT handler, SUM(kept), SUM(there) FROM \
                    (SELECT handler, jobs AS kept, 0 AS there FROM live_jobs UNION ALL \
                    SELECT handler, 0, COUNT(*) FROM jobs WHERE state < 5 AND runner IS NULL GROUP BY handler) \
                    GROUP BY handler HAVING SUM(kept) <> SUM(there)";
        each(connection, live, |row| {
            let (handler, kept, there): (String, i64, i64) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
            self.add(
                format!("handler {handler}"),
                format!("its counter of live jobs is {kept}, but there are {there}"),
            );
            Ok(())
        })?;
        let mut counts: BTreeMap<(String, usize), (i64, i64)> = BTreeMap::new();
        let counted = "SELECT COALESCE(name, 'number ' || queue), state, jobs FROM counters \
                       LEFT JOIN queues ON queues.id = queue WHERE queue > 0";
        each(connection, counted, |row| {
            counts.entry((row.get(0)?, row.get(1)?)).or_default().0 = row.get(2)?;
            Ok(())
        })?;
        let rows = "SELECT COALESCE(name, 'number ' || queue), state, COUNT(*) FROM jobs \
                    LEFT JOIN queues ON queues.id = queue GROUP BY queue, state";
        each(connection, rows, |row| {
            counts.entry((row.get(0)?, row.get(1)?)).or_default().1 = row.get(2)?;
            Ok(())
        })?;
        for ((queue, state), (counted, there)) in counts {
            if counted != there {
                let state = STATES.get(state).map_or("unknown", |state| state.as_str());
                self.add(
                    format!("queue {queue}"),
                    format!("its counter of {state} jobs is {counted}, but there are {there}"),
                );
            }
        }
        Ok(())
    }
}

/// Runs SQLite's quick check of all pages. The error names the first damaged table.
pub(super) fn quick(connection: &Connection) -> Result<(), StoreError> {
    let mut found = None;
    let checked = each(connection, "PRAGMA quick_check(1)", |row| {
        let message: String = row.get(0)?;
        found = (message != "ok").then_some(message);
        Ok(())
    });
    match (found, checked) {
        (None, Ok(())) => Ok(()),
        (Some(message), _) => Err(StoreError::Damaged {
            what: named(connection, &message),
            message,
        }),
        (None, Err(error)) => Err(name(connection, error)),
    }
}

/// Adds the damaged table to an error about a damaged store.
pub(super) fn name(connection: &Connection, error: StoreError) -> StoreError {
    let StoreError::Damaged { message, .. } = error else {
        return error;
    };
    let tables = tables(connection);
    let unreadable = tables.iter().find(|table| {
        let sql = format!("PRAGMA quick_check(\"{table}\")");
        let mut is_whole = true;
        let checked = each(connection, &sql, |row| {
            is_whole &= row.get::<_, String>(0)? == "ok";
            Ok(())
        });
        !is_whole || checked.is_err()
    });
    let what = unreadable.map_or("the store".to_owned(), |table| format!("the table {table}"));
    StoreError::Damaged { what, message }
}

fn tables(connection: &Connection) -> Vec<String> {
    let mut tables = Vec::new();
    // A damaged list of tables may lack names.
    let _ = each(
        connection,
        "SELECT name FROM sqlite_schema WHERE type = 'table'",
        |row| {
            tables.push(row.get(0)?);
            Ok(())
        },
    );
    tables
}

/// Names the table in a message of SQLite's check, which names the first page of a table or index.
fn named(connection: &Connection, message: &str) -> String {
    let root = message
        .split("Tree ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next()?.parse::<i64>().ok());
    let table = root.and_then(|root| {
        let sql = "SELECT tbl_name FROM sqlite_schema WHERE rootpage = ?1";
        let found = connection.query_row(sql, [root], |row| row.get::<_, String>(0));
        found.ok()
    });
    table.map_or("the file".to_owned(), |table| format!("the table {table}"))
}

/// Returns the first column of a job that differs from its record.
fn differing(row: &Row<'_>, job: &Lifecycle) -> rusqlite::Result<Option<&'static str>> {
    let columns = [
        ("id", row.get::<_, [u8; 16]>(2)? == *job.id.0.as_bytes()),
        ("state", row.get::<_, u8>(3)? == job.state as u8),
        (
            "queue",
            row.get::<_, Option<String>>(4)?.as_deref() == Some(job.queue.as_str()),
        ),
        ("priority", row.get::<_, u8>(5)? == job.priority),
        (
            "suspect",
            row.get::<_, bool>(6)? == job.suspicion.is_apart(),
        ),
        ("handler", row.get::<_, String>(7)? == job.handler.as_str()),
        (
            "runner",
            row.get::<_, Option<String>>(9)?.as_deref() == job.executor.as_ref().map(Name::as_str),
        ),
        (
            "wakeup",
            row.get::<_, Option<i64>>(8)? == job.wakeup().map(|at| at.0),
        ),
        (
            "limit",
            row.get::<_, Option<String>>(10)? == job.waits_for_key().map(LimitKey::to_string),
        ),
        (
            "batch",
            row.get::<_, Option<[u8; 16]>>(11)? == job.batch.map(|batch| batch.0.into_bytes()),
        ),
    ];
    let differs = columns.into_iter().find(|(_, agrees)| !agrees);
    Ok(differs.map(|(column, _)| column))
}

fn each(
    connection: &Connection,
    sql: &str,
    mut take: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> Result<(), StoreError> {
    let mut read = || {
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            take(row)?;
        }
        Ok(())
    };
    read().map_err(doing("check the store"))
}
