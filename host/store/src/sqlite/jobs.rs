//! The rows of one transaction. A changed job is written when it ends, or before a query that needs its row.

use std::collections::BTreeSet;

use host_core::failure::Failure;
use host_core::id::JobId;
use host_core::job::{Lane, Lifecycle, LimitKey, NewJob, Payload, State};
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::query::Change;
use host_core::time::Time;
use host_engine::batch::tables::BATCHES;
use host_engine::job::Cascade;
use host_engine::queue::QueueRefusal;
use host_engine::{Counts, EndedAttempt, Rows, StoreError, Terms};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::counters::Counters;
use super::hot::{Entry, Hot};
use super::{available, changes, dependencies, doing, execute, job_id, limits, payloads, tables};
use crate::held_keys::HeldKeys;
use crate::ready::{QueuePosition, executor_of};
use crate::record::{Extra, decode, encode};

/// One open transaction of the writer.
pub(super) struct Transaction<'a> {
    pub(super) connection: &'a Connection,
    pub(super) counters: &'a mut Counters,
    pub(super) hot: &'a mut Hot,
    pub(super) held: &'a mut HeldKeys,
}

impl<'a> Transaction<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        counters: &'a mut Counters,
        hot: &'a mut Hot,
        held: &'a mut HeldKeys,
    ) -> Self {
        Self {
            connection,
            counters,
            hot,
            held,
        }
    }

    /// Writes all changed jobs and keys of limits to their rows.
    pub(super) fn flush(&mut self) -> Result<(), StoreError> {
        let write = doing("write a job");
        let prepare = |sql| self.connection.prepare_cached(sql).map_err(&write);
        let mut insert = prepare(
            "INSERT INTO jobs \
             (seq, state, suspect, wakeup_at, body, priority, rank, waits_for, id, queue, handler, \
             runner, batch) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?;
        let mut update = prepare(
            "UPDATE jobs SET state = ?2, suspect = ?3, wakeup_at = ?4, body = ?5, priority = ?6, \
             rank = ?7, waits_for = ?8 WHERE seq = ?1",
        )?;
        self.hot.write(
            |Entry {
                 seq,
                 rank,
                 job,
                 stored,
                 ..
             }| {
                let state = job.state as u8;
                let wakeup_at = job.wakeup().map(|at| at.0);
                let body = encode(job)?;
                let waits_for = job.waits_for_key().map(LimitKey::to_string);
                let written = if *stored {
                    update.execute(params![
                        seq,
                        state,
                        job.suspicion.is_apart(),
                        wakeup_at,
                        body,
                        job.priority,
                        rank,
                        waits_for,
                    ])
                } else {
                    insert.execute(params![
                        seq,
                        state,
                        job.suspicion.is_apart(),
                        wakeup_at,
                        body,
                        job.priority,
                        rank,
                        waits_for,
                        job.id.0.as_bytes(),
                        self.counters.queue(self.connection, &job.queue)?,
                        job.handler.as_str(),
                        job.executor.as_ref().map(Name::as_str),
                        job.batch.as_ref().map(|batch| batch.0.as_bytes()),
                    ])
                };
                written.map(drop).map_err(&write)
            },
        )?;
        self.held.jobs_are_written();
        limits::write(self.connection, self.held)
    }

    fn execute(
        &self,
        operation: &'static str,
        sql: &str,
        params: impl Params,
    ) -> Result<(), StoreError> {
        execute(self.connection, operation, sql, params)
    }

    pub(super) fn ids(
        &self,
        operation: &'static str,
        sql: &str,
        params: impl Params,
    ) -> Result<Vec<JobId>, StoreError> {
        let read = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let rows = statement.query_map(params, job_id)?;
            rows.collect::<Result<Vec<JobId>, _>>()
        };
        read().map_err(doing(operation))
    }

    fn seq(&self, id: JobId) -> Result<i64, StoreError> {
        if let Some(entry) = self.hot.get(id) {
            return Ok(entry.seq);
        }
        seq_of(self.connection, id)?.ok_or_else(|| missing(id))
    }
}

fn missing(id: JobId) -> StoreError {
    StoreError::Damaged {
        what: format!("job {id}"),
        message: "it no longer exists".to_owned(),
    }
}

/// Returns the place of a job.
pub(super) fn seq_of(connection: &Connection, id: JobId) -> Result<Option<i64>, StoreError> {
    connection
        .prepare_cached("SELECT seq FROM jobs WHERE id = ?1")
        .and_then(|mut statement| {
            statement
                .query_row([id.0.as_bytes()], |row| row.get(0))
                .optional()
        })
        .map_err(doing("find a job"))
}

impl Rows for Transaction<'_> {
    fn job(&mut self, id: JobId) -> Result<Option<Lifecycle>, StoreError> {
        if let Some(entry) = self.hot.get(id) {
            return Ok(Some(entry.job.clone()));
        }
        let row: Option<(i64, Vec<u8>, i64)> = self
            .connection
            .prepare_cached("SELECT seq, body, rank FROM jobs WHERE id = ?1")
            .and_then(|mut statement| {
                statement
                    .query_row([id.0.as_bytes()], |row| {
                        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                    })
                    .optional()
            })
            .map_err(doing("read a job"))?;
        let Some((seq, body, rank)) = row else {
            return Ok(None);
        };
        let job: Lifecycle = decode(&body, || format!("job {id}"))?;
        if job.id != id {
            return Err(StoreError::Unreadable {
                what: format!("job {id}"),
                message: format!("it is the record of job {}", job.id),
            });
        }
        self.hot.load(seq, rank, job.clone());
        Ok(Some(job))
    }

    fn payload(&mut self, id: JobId) -> Result<Payload, StoreError> {
        if let Some(payload) = self.hot.take_payload(id) {
            return Ok(payload);
        }
        Ok(payloads::of(self.connection, self.seq(id)?)?.0)
    }

    fn set_params(&mut self, id: JobId, params: &JsonText) -> Result<(), StoreError> {
        drop(self.hot.take_payload(id));
        payloads::set_params(self.connection, self.seq(id)?, params)
    }

    fn insert(&mut self, job: &Lifecycle, new: &NewJob) -> Result<(), StoreError> {
        let seq = self.counters.take_seq();
        self.hot.insert(seq, job.clone(), &new.payload);
        self.counters.queue(self.connection, &job.queue)?;
        let extra = Extra::of(&new.payload, &new.depends_on)
            .map(|extra| encode(&extra))
            .transpose()?;
        let key = new.unique_key.as_ref().map(|unique| unique.key.as_str());
        self.execute(
            "insert a job's params",
            "INSERT INTO payloads (seq, params, wire, unique_key, extra) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![seq, new.payload.params.as_str(), new.payload.wire, key, extra],
        )?;
        if let Some(key) = key {
            self.set_unique_key(job, key)?;
        }
        self.counters.count(seq, None, Some(job));
        self.held.note(seq, None, Some(job));
        Ok(())
    }

    fn update(&mut self, before: &Lifecycle, after: &Lifecycle) -> Result<(), StoreError> {
        if self.hot.get(after.id).is_none() {
            self.job(after.id)?;
        }
        let places = self.hot.get(after.id).map(|entry| (entry.seq, entry.rank));
        let Some((seq, rank)) = places else {
            return Err(missing(after.id));
        };
        self.counters.count(rank, Some(before), Some(after));
        self.held.note(seq, Some(before), Some(after));
        self.hot.change(after);
        Ok(())
    }

    fn delete(&mut self, job: &Lifecycle) -> Result<(), StoreError> {
        self.flush()?;
        let seq = self.seq(job.id)?;
        self.hot.remove(job.id);
        self.counters.note_purge();
        self.counters.count(seq, Some(job), None);
        let queue = self.counters.queue(self.connection, &job.queue)?;
        self.execute(
            "purge a unique key",
            "DELETE FROM unique_keys WHERE queue = ?1 \
             AND key = (SELECT unique_key FROM payloads WHERE seq = ?2) AND job = ?3",
            params![queue, seq, job.id.0.as_bytes()],
        )?;
        for sql in [
            "DELETE FROM jobs WHERE seq = ?1",
            "DELETE FROM payloads WHERE seq = ?1",
            "DELETE FROM attempts WHERE seq = ?1",
            "DELETE FROM failures WHERE seq = ?1",
            "DELETE FROM dependencies WHERE dependent = ?1",
        ] {
            self.execute("purge a job", sql, [seq])?;
        }
        for sql in [
            "DELETE FROM artifacts WHERE job = ?1",
            "DELETE FROM artifact_contents WHERE job = ?1",
            "DELETE FROM input_files WHERE job = ?1",
            "DELETE FROM steps WHERE job = ?1",
        ] {
            self.execute("purge a job", sql, [job.id.0.as_bytes()])?;
        }
        Ok(())
    }

    fn add_attempt(&mut self, id: JobId, ended: &EndedAttempt) -> Result<(), StoreError> {
        let progress = ended.progress.as_ref().map(encode).transpose()?;
        self.execute(
            "write an attempt",
            "INSERT INTO attempts (seq, number, body, progress, result) \
             VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                self.seq(id)?,
                ended.attempt.number,
                encode(&ended.attempt)?,
                progress,
                ended.result.as_ref().map(JsonText::as_str),
            ],
        )
    }

    fn forget_attempts(&mut self, id: JobId, number: u32) -> Result<(), StoreError> {
        let sql = "DELETE FROM attempts WHERE seq = ?1 AND number < ?2";
        self.execute("delete old attempts", sql, params![self.seq(id)?, number])
    }

    fn result(&mut self, id: JobId) -> Result<Option<JsonText>, StoreError> {
        match self.job(id)? {
            Some(_) => payloads::result(self.connection, self.seq(id)?).map(Some),
            None => Ok(None),
        }
    }

    fn set_failure(&mut self, job: &Lifecycle, failure: &Failure) -> Result<(), StoreError> {
        self.execute(
            "write why a job failed",
            "INSERT OR REPLACE INTO failures (seq, attempt, body) VALUES (?1, ?2, ?3)",
            params![self.seq(job.id)?, job.attempt, encode(failure)?],
        )
    }

    fn terms(&mut self, id: JobId) -> Result<Terms, StoreError> {
        let seq = self.seq(id)?;
        let (unique_key, extra): (_, Option<Vec<u8>>) = self
            .connection
            .prepare_cached("SELECT unique_key, extra FROM payloads WHERE seq = ?1")
            .and_then(|mut statement| {
                statement.query_row([seq], |row| Ok((row.get(0)?, row.get(1)?)))
            })
            .map_err(doing("read a job's unique key"))?;
        let extra = Extra::read(extra, || seq.to_string())?;
        Ok(Terms {
            unique_key,
            depends_on: extra.depends_on,
            is_foreign: extra.external_id.is_some(),
        })
    }

    fn set_unique_key(&mut self, job: &Lifecycle, key: &str) -> Result<(), StoreError> {
        let queue = self.counters.queue(self.connection, &job.queue)?;
        self.execute(
            "insert a unique key",
            "INSERT OR REPLACE INTO unique_keys (queue, key, job) VALUES (?1, ?2, ?3)",
            params![queue, key, job.id.0.as_bytes()],
        )
    }

    fn by_unique_key(&mut self, queue: &Name, key: &str) -> Result<Option<JobId>, StoreError> {
        let Some(queue) = self.counters.queue_id(queue) else {
            return Ok(None);
        };
        self.connection
            .prepare_cached("SELECT job FROM unique_keys WHERE queue = ?1 AND key = ?2")
            .and_then(|mut statement| statement.query_row(params![queue, key], job_id).optional())
            .map_err(doing("look up a unique key"))
    }

    fn set_dependencies(
        &mut self,
        job: &Lifecycle,
        prerequisites: &[JobId],
    ) -> Result<(), StoreError> {
        let seq = self.seq(job.id)?;
        if self.counters.has_dependencies() && self.hot.is_stored(job.id) {
            dependencies::clear(self.connection, seq)?;
        }
        if !prerequisites.is_empty() {
            self.counters.note_dependency();
        }
        dependencies::add(self.connection, (seq, job.id), prerequisites)
    }

    fn dependencies(
        &mut self,
        on: &[JobId],
        limit: usize,
    ) -> Result<Vec<(JobId, JobId)>, StoreError> {
        if !self.counters.has_dependencies() {
            return Ok(Vec::new());
        }
        dependencies::on(self.connection, on, limit)
    }

    fn remove_dependencies(&mut self, settled: &[(JobId, JobId)]) -> Result<(), StoreError> {
        for (prerequisite, dependent) in settled {
            let seq = self.seq(*dependent)?;
            dependencies::remove(self.connection, *prerequisite, seq)?;
        }
        Ok(())
    }

    fn keep_cascades(&mut self, cascades: &[Cascade]) -> Result<(), StoreError> {
        self.counters.note_cascades(true);
        dependencies::keep_cascades(self.connection, cascades)
    }

    fn cascades(&mut self, limit: usize) -> Result<Vec<Cascade>, StoreError> {
        if !self.counters.has_cascades() {
            return Ok(Vec::new());
        }
        let found = dependencies::cascades(self.connection, limit)?;
        self.counters.note_cascades(!found.is_empty());
        Ok(found)
    }

    fn end_cascade(&mut self, prerequisite: JobId) -> Result<(), StoreError> {
        dependencies::end_cascade(self.connection, prerequisite)
    }

    fn is_cascading(&mut self, prerequisite: JobId) -> Result<bool, StoreError> {
        Ok(self.counters.has_cascades()
            && dependencies::is_cascading(self.connection, prerequisite)?)
    }

    fn claimable(
        &mut self,
        lane: &Lane,
        except: &BTreeSet<Name>,
        limit: usize,
    ) -> Result<Vec<JobId>, StoreError> {
        let in_hand = self.hot.dirty().filter(|Entry { job, .. }| {
            job.state == State::Available
                && lane.has(job)
                && !except.contains(&job.handler)
                && !self.counters.is_paused(&job.queue)
        });
        let mut found: Vec<(u8, i64, JobId)> = in_hand
            .map(|entry| (entry.job.priority, entry.rank, entry.job.id))
            .collect();
        if *lane == Lane::Apart {
            let stored = self.stored_suspects(except, limit);
            found.extend(stored.map_err(doing("find suspects to claim"))?);
        } else {
            let stored = self.stored_available(lane, except, limit);
            found.extend(stored.map_err(doing("find jobs to claim"))?);
        }
        found.sort_unstable();
        Ok(found.into_iter().take(limit).map(|(_, _, id)| id).collect())
    }

    fn due(&mut self, now: Time, limit: u32) -> Result<Vec<JobId>, StoreError> {
        self.flush()?;
        let passed_over = &self.counters.passed_over;
        let mut due = self.ids(
            "find due jobs",
            "SELECT id FROM jobs WHERE wakeup_at <= ?1 ORDER BY wakeup_at, seq LIMIT ?2",
            params![now.0, limit as usize + passed_over.len()],
        )?;
        due.retain(|id| !passed_over.contains(id));
        due.truncate(limit as usize);
        Ok(due)
    }

    fn passed_over(&mut self) -> &mut BTreeSet<JobId> {
        &mut self.counters.passed_over
    }

    fn running(&mut self, after: i64, limit: usize) -> Result<Vec<(i64, JobId)>, StoreError> {
        self.flush()?;
        let sql = "SELECT id, seq FROM jobs WHERE state = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
        let read = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let values = params![State::Running as u8, after, limit];
            let rows = statement.query_map(values, |row| Ok((row.get(1)?, job_id(row)?)))?;
            rows.collect::<Result<_, _>>()
        };
        read().map_err(doing("find running jobs"))
    }

    fn next_wakeup(&mut self) -> Result<Option<Time>, StoreError> {
        if !self.cascades(1)?.is_empty() {
            return Ok(Some(Time(0)));
        }
        self.flush()?;
        let of_jobs = self
            .next_wakeup_of_jobs()
            .map_err(doing("find the next wakeup"))?;
        let of_keys = limits::next_wakeup(self.connection, &self.counters.limits)?;
        let of_batches = tables::first_time(self.connection, &BATCHES)?;
        Ok([of_jobs, of_keys, of_batches].into_iter().flatten().min())
    }

    fn available(&mut self) -> Result<u64, StoreError> {
        Ok(self.counters.available())
    }

    fn set_paused(&mut self, queue: &Name, paused: bool) -> Result<(), StoreError> {
        self.counters.set_paused(self.connection, queue, paused)
    }

    fn remove_queue(&mut self, queue: &Name) -> Result<Result<(), QueueRefusal>, StoreError> {
        self.counters.remove(self.connection, queue)
    }

    fn has_queue(&mut self, queue: &Name) -> bool {
        self.counters.queue_id(queue).is_some()
    }

    fn counts(&mut self) -> Counts {
        self.counters.all()
    }

    fn keep_changes(&mut self, now: Time, changes: &[Change]) -> Result<Option<u64>, StoreError> {
        let first = self.counters.take_changes(changes.len());
        if !changes.is_empty() {
            changes::keep(self.connection, first, now, changes)?;
        }
        Ok(Some(first))
    }

    fn forget_blobs(&mut self) -> Result<(), StoreError> {
        let sql = "DELETE FROM blobs WHERE digest NOT IN (SELECT digest FROM revisions)";
        self.execute("remove a component's bytes", sql, [])
    }

    fn live_jobs(&mut self, handler: &Name) -> Result<u64, StoreError> {
        Ok(self.counters.live_jobs(handler))
    }
}

impl Transaction<'_> {
    fn next_wakeup_of_jobs(&self) -> rusqlite::Result<Option<Time>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, wakeup_at FROM jobs WHERE wakeup_at IS NOT NULL ORDER BY wakeup_at",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if !self.counters.passed_over.contains(&job_id(row)?) {
                return Ok(Some(Time(row.get(1)?)));
            }
        }
        Ok(None)
    }

    /// Returns the first available jobs of a lane whose rows are up to date, in their order. Each step reads
    /// the queue whose next job is the first of all, up to the next job of any other.
    fn stored_available(
        &self,
        lane: &Lane,
        except: &BTreeSet<Name>,
        limit: usize,
    ) -> rusqlite::Result<Vec<(u8, i64, JobId)>> {
        let executor = executor_of(lane);
        let mut found = Vec::new();
        let mut queues = self.counters.ready().queues(executor, None).peekable();
        let mut begun: BTreeSet<(QueuePosition, i64)> = BTreeSet::new();
        while found.len() < limit {
            let next = [queues.peek().copied(), begun.first()]
                .into_iter()
                .flatten()
                .min();
            let Some((from, queue)) = next.copied() else {
                break;
            };
            if !begun.remove(&(from, queue)) {
                queues.next();
            }
            let others = [queues.peek().copied(), begun.first()];
            let until = others.into_iter().flatten().map(|(place, _)| *place).min();
            let mut statement = available::from(self.connection, executor, queue, from)?;
            let mut rows = statement.raw_query();
            while found.len() < limit
                && let Some(row) = rows.next()?
            {
                let place: QueuePosition = (row.get(1)?, row.get(2)?);
                if until.is_some_and(|until| place > until) {
                    begun.insert((place, queue));
                    break;
                }
                let id = job_id(row)?;
                let is_free = !self.hot.is_dirty(id) && !self.counters.passed_over.contains(&id);
                if is_free && !is_in(except, row, 3)? {
                    found.push((place.0, place.1, id));
                }
            }
        }
        Ok(found)
    }

    /// Returns the first suspects with current rows in queues that are not paused. Suspects are few.
    fn stored_suspects(
        &self,
        except: &BTreeSet<Name>,
        limit: usize,
    ) -> rusqlite::Result<Vec<(u8, i64, JobId)>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, priority, rank, queue, handler FROM jobs INDEXED BY jobs_suspect \
             WHERE state = 2 AND suspect = 1 AND runner IS NULL ORDER BY priority, rank",
        )?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while found.len() < limit
            && let Some(row) = rows.next()?
        {
            let id = job_id(row)?;
            let is_free = !self.hot.is_dirty(id)
                && !self.counters.passed_over.contains(&id)
                && !self.counters.is_paused_id(row.get(3)?);
            if is_free && !is_in(except, row, 4)? {
                found.push((row.get(1)?, row.get(2)?, id));
            }
        }
        Ok(found)
    }
}

/// Returns whether the handler in a column is one of these, usually none.
fn is_in(names: &BTreeSet<Name>, row: &Row<'_>, column: usize) -> rusqlite::Result<bool> {
    if names.is_empty() {
        return Ok(false);
    }
    let handler: String = row.get(column)?;
    Ok(names.iter().any(|name| name.as_str() == handler))
}
