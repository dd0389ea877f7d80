//! The rows of one open transaction, for the engine. The rows that the batch names are loaded already; the
//! rest is read on demand. Changes stay in the overlay until the end, or until a query needs them in the
//! tables.

use std::collections::{BTreeSet, VecDeque};

use host_core::failure::Failure;
use host_core::id::{JobId, NodeId};
use host_core::job::{Lane, Lifecycle, NewJob, Payload, STATES, State};
use host_core::json::JsonText;
use host_core::lease::{Hold, Lease};
use host_core::name::Name;
use host_core::query::Change;
use host_core::time::Time;
use host_core::transition::Effect;
use host_engine::component::tables::{COMPONENTS, Component};
use host_engine::job::Cascade;
use host_engine::node::Dead;
use host_engine::queue::QueueRefusal;
use host_engine::table::{Range, Record as _, TableRows as _};
use host_engine::{EndedAttempt, LIVE_JOBS_COUNTED, Rows, StoreError, Terms};
use tokio_postgres::Row;
use uuid::Uuid;

use super::client::Client;
use super::counts::Counts;
use super::gate::Gate;
use super::overlay::{AttemptRow, KeyHolder, Mail, New, Overlay};
use super::pipeline::{Pipeline, Value, values};
use super::trouble::{Trouble, damaged, unreadable};
use super::wait::Driver;
use super::{claim, fetch, flush, nodes};
use crate::record::{Extra, encode};

/// One open transaction of the writer.
pub(super) struct Transaction<'a> {
    pub(super) driver: &'a Driver,
    pub(super) gate: &'a Gate,
    pub(super) client: &'a Client,
    /// The node that writes.
    pub(super) node: NodeId,
    pub(super) counts: &'a mut Counts,
    pub(super) overlay: Overlay,
    pub(super) seqs: VecDeque<i64>,
    /// Whether there may be cascades that this host can continue.
    pub(super) has_cascades: bool,
    /// Whether a claim has stopped before it had looked at all jobs that it might take.
    pub(super) claim_goes_on: bool,
    /// Why the batch failed, if the database is the reason.
    pub(super) trouble: Option<Trouble>,
}

impl Transaction<'_> {
    /// Waits for the database. Keeps the reason of a failure.
    pub(super) fn wait<T>(
        &mut self,
        asked: impl AsyncFnOnce(&Client, &mut Overlay) -> Result<T, Trouble>,
    ) -> Result<T, StoreError> {
        let asking = asked(self.client, &mut self.overlay);
        let answer = self.driver.wait(self.gate.during(asking));
        answer.map_err(|trouble| {
            self.trouble = Some(trouble);
            StoreError::Broken {
                operation: "run a batch",
                message: "the database rejected a statement".to_owned(),
            }
        })
    }

    pub(super) fn query(
        &mut self,
        operation: &'static str,
        sql: &'static str,
        values: Vec<Value>,
    ) -> Result<Vec<Row>, StoreError> {
        self.wait(async |client, _| {
            let mut pipeline = Pipeline::new(client);
            pipeline.add(operation, sql, values).await?;
            Ok(pipeline.run().await?.pop().unwrap_or_default())
        })
    }

    /// Writes all changed rows, then runs a query, in the same round trip.
    pub(super) fn flush_and_ask(
        &mut self,
        operation: &'static str,
        sql: &'static str,
        values: Vec<Value>,
    ) -> Result<Vec<Row>, StoreError> {
        let made = self.counts.take_made();
        self.wait(async |client, overlay| {
            let mut pipeline = Pipeline::new(client);
            flush::add(&mut pipeline, overlay, made).await?;
            pipeline.add(operation, sql, values).await?;
            Ok(pipeline.run().await?.pop().unwrap_or_default())
        })
    }

    /// Tells other hosts to read all queues again.
    fn record_pause(&mut self) -> Result<(), StoreError> {
        let sql = "UPDATE host_log SET pauses = pauses + 1 WHERE id = 1";
        self.query("record that a queue has changed", sql, values![])?;
        Ok(())
    }

    /// Reads the payload of a job.
    fn enqueued(&mut self, id: JobId) -> Result<(Payload, Option<String>, Vec<JobId>), StoreError> {
        let sql = "SELECT params, wire, unique_key, extra FROM host_payloads WHERE job = $1";
        let rows = self.query("read a job's params", sql, values![id.0])?;
        let row = rows.first().ok_or_else(|| missing(id))?;
        payload_of(row, id)
    }

    fn place(&self, id: JobId) -> i64 {
        self.overlay.get(id).map_or(0, |entry| entry.seq)
    }

    fn rank(&self, id: JobId) -> i64 {
        self.overlay.get(id).map_or(0, |entry| entry.rank)
    }
}

fn missing(id: JobId) -> StoreError {
    damaged(format!("job {id}"), "it no longer exists")
}

/// Reads params, wire, key and the rare parts of a payload.
pub(super) fn payload_of(
    row: &Row,
    id: JobId,
) -> Result<(Payload, Option<String>, Vec<JobId>), StoreError> {
    let key = row
        .get::<_, Option<Vec<u8>>>(2)
        .map(String::from_utf8)
        .transpose()
        .map_err(|error| unreadable(format!("the unique key of job {id}"), &error))?;
    let extra = Extra::read(row.get(3), || id.to_string())?;
    let (payload, depends_on) = extra.whole(row.get(0), row.get(1));
    Ok((payload, key, depends_on))
}

impl Rows for Transaction<'_> {
    fn job(&mut self, id: JobId) -> Result<Option<Lifecycle>, StoreError> {
        if self.overlay.get(id).is_none() && !self.overlay.is_absent(id) {
            self.wait(async |client, overlay| fetch::lock(client, overlay, &[id]).await)?;
        }
        match self.overlay.unreadable.get(&id) {
            Some(reason) => Err(unreadable(format!("job {id}"), reason)),
            None => Ok(self.overlay.get(id).map(|entry| entry.job.clone())),
        }
    }

    fn payload(&mut self, id: JobId) -> Result<Payload, StoreError> {
        if let Some(payload) = self.overlay.claimed.remove(&id) {
            return Ok(payload);
        }
        match self.overlay.new.get(&id) {
            Some(new) => Ok(new.payload.clone()),
            None => Ok(self.enqueued(id)?.0),
        }
    }

    fn set_params(&mut self, id: JobId, params: &JsonText) -> Result<(), StoreError> {
        drop(self.overlay.claimed.remove(&id));
        if let Some(new) = self.overlay.new.get_mut(&id) {
            new.payload.params.clone_from(params);
        }
        if !self.overlay.payloads.contains(&id) {
            let sql = "UPDATE host_payloads SET params = $2 WHERE job = $1";
            let values = values![id.0, params.as_str().to_owned()];
            self.query("replace a job's params", sql, values)?;
        }
        Ok(())
    }

    fn insert(&mut self, job: &Lifecycle, new: &NewJob) -> Result<(), StoreError> {
        let seq = self.take_seq()?;
        self.counts.make(&job.queue);
        let key = new.unique_key.as_ref().map(|unique| unique.key.clone());
        let kept = New {
            payload: new.payload.clone(),
            unique_key: key.clone(),
            depends_on: new.depends_on.clone(),
        };
        self.overlay.insert(seq, job.clone(), kept);
        if let Some(key) = key {
            self.set_unique_key(job, &key)?;
        }
        self.counts.count(seq, None, Some(job));
        self.overlay.limits.keys.note(seq, None, Some(job));
        Ok(())
    }

    fn update(&mut self, before: &Lifecycle, after: &Lifecycle) -> Result<(), StoreError> {
        if self.overlay.get(after.id).is_none() {
            self.job(after.id)?;
        }
        let (seq, rank) = (self.place(after.id), self.rank(after.id));
        self.counts.count(rank, Some(before), Some(after));
        self.overlay
            .limits
            .keys
            .note(seq, Some(before), Some(after));
        if self.overlay.change(after) {
            Ok(())
        } else {
            Err(missing(after.id))
        }
    }

    fn delete(&mut self, job: &Lifecycle) -> Result<(), StoreError> {
        let rank = self.rank(job.id);
        self.counts.count(rank, Some(job), None);
        self.overlay.delete(job.id);
        Ok(())
    }

    fn add_attempt(&mut self, id: JobId, ended: &EndedAttempt) -> Result<(), StoreError> {
        let attempts = self.overlay.attempts.entry(id).or_default();
        attempts.push(AttemptRow {
            number: ended.attempt.number,
            body: encode(&ended.attempt)?,
            progress: ended.progress.as_ref().map(encode).transpose()?,
            result: ended.result.clone(),
        });
        Ok(())
    }

    fn forget_attempts(&mut self, id: JobId, number: u32) -> Result<(), StoreError> {
        self.overlay.forgotten_attempts.insert(id, number);
        Ok(())
    }

    fn result(&mut self, id: JobId) -> Result<Option<JsonText>, StoreError> {
        if self.job(id)?.is_none() {
            return Ok(None);
        }
        let here = self.overlay.attempts.get(&id).and_then(|rows| rows.last());
        if let Some(latest) = here {
            return Ok(Some(latest.result.clone().unwrap_or_else(JsonText::null)));
        }
        let sql = "SELECT result FROM host_attempts WHERE job = $1 ORDER BY number DESC LIMIT 1";
        let rows = self.query("read a job's result", sql, values![id.0])?;
        let result = rows.first().and_then(|row| row.get::<_, Option<String>>(0));
        Ok(Some(result.map_or_else(JsonText::null, JsonText)))
    }

    fn set_failure(&mut self, job: &Lifecycle, failure: &Failure) -> Result<(), StoreError> {
        let row = (job.attempt, encode(failure)?);
        self.overlay.failures.insert(job.id, row);
        Ok(())
    }

    fn terms(&mut self, id: JobId) -> Result<Terms, StoreError> {
        if let Some(new) = self.overlay.new.get(&id) {
            return Ok(Terms {
                unique_key: new.unique_key.clone(),
                depends_on: new.depends_on.clone(),
                is_foreign: new.payload.external_id.is_some(),
            });
        }
        let (payload, unique_key, depends_on) = self.enqueued(id)?;
        Ok(Terms {
            unique_key,
            depends_on,
            is_foreign: payload.external_id.is_some(),
        })
    }

    fn set_unique_key(&mut self, job: &Lifecycle, key: &str) -> Result<(), StoreError> {
        let held = KeyHolder {
            job: Some(job.id),
            is_new: true,
        };
        let key = (job.queue.clone(), key.to_owned());
        self.overlay.hold(key, held);
        Ok(())
    }

    fn by_unique_key(&mut self, queue: &Name, key: &str) -> Result<Option<JobId>, StoreError> {
        let key = (queue.clone(), key.to_owned());
        if self.overlay.key(&key).is_none() {
            self.wait(async |client, overlay| fetch::lock_key(client, overlay, &key).await)?;
        }
        Ok(self.overlay.key(&key).and_then(|held| held.job))
    }

    fn set_dependencies(
        &mut self,
        job: &Lifecycle,
        prerequisites: &[JobId],
    ) -> Result<(), StoreError> {
        let seq = self.place(job.id);
        if self
            .overlay
            .get(job.id)
            .is_some_and(|it| it.stored.is_some())
        {
            self.overlay.dependencies.clear(job.id, seq);
        }
        self.overlay.dependencies.add(job.id, seq, prerequisites);
        Ok(())
    }

    fn dependencies(
        &mut self,
        on: &[JobId],
        limit: usize,
    ) -> Result<Vec<(JobId, JobId)>, StoreError> {
        self.wait(async |client, overlay| fetch::dependencies(client, overlay, on, limit).await)
    }

    fn remove_dependencies(&mut self, settled: &[(JobId, JobId)]) -> Result<(), StoreError> {
        for pair in settled {
            let seq = self.place(pair.1);
            self.overlay.dependencies.remove(*pair, seq);
        }
        Ok(())
    }

    fn keep_cascades(&mut self, cascades: &[Cascade]) -> Result<(), StoreError> {
        let ids: Vec<Uuid> = cascades.iter().map(|it| it.prerequisite.0).collect();
        let states: Vec<i16> = cascades.iter().map(|it| it.ended as i16).collect();
        let sql = "INSERT INTO host_cascades (prerequisite, state) \
                   SELECT * FROM unnest($1::uuid[], $2::smallint[]) ON CONFLICT DO NOTHING";
        self.query("keep cascades", sql, values![ids, states])?;
        Ok(())
    }

    fn cascades(&mut self, limit: usize) -> Result<Vec<Cascade>, StoreError> {
        if !self.has_cascades {
            return Ok(Vec::new());
        }
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let sql = "SELECT prerequisite, state FROM host_cascades ORDER BY n LIMIT $1 \
                   FOR UPDATE SKIP LOCKED";
        let rows = self.query("read cascades", sql, values![limit])?;
        self.has_cascades = !rows.is_empty();
        let cascade = |row: &Row| {
            let prerequisite = JobId(row.get(0));
            let index = usize::try_from(row.get::<_, i16>(1)).ok();
            let ended = index.and_then(|index| STATES.get(index).copied());
            let unknown = || {
                unreadable(
                    format!("the cascade of job {prerequisite}"),
                    &"its state is unknown",
                )
            };
            Ok(Cascade {
                prerequisite,
                ended: ended.ok_or_else(unknown)?,
            })
        };
        rows.iter().map(cascade).collect()
    }

    fn end_cascade(&mut self, prerequisite: JobId) -> Result<(), StoreError> {
        self.overlay.dependencies.end_cascade(prerequisite);
        Ok(())
    }

    fn is_cascading(&mut self, prerequisite: JobId) -> Result<bool, StoreError> {
        let sql = "SELECT FROM host_cascades WHERE prerequisite = $1";
        let rows = self.wait(async |client, overlay| {
            let mut pipeline = Pipeline::new(client);
            flush::dependencies(&mut pipeline, overlay).await?;
            pipeline
                .add("look up a cascade", sql, values![prerequisite.0])
                .await?;
            Ok(pipeline.run().await?.pop().unwrap_or_default())
        })?;
        Ok(!rows.is_empty())
    }

    fn claimable(
        &mut self,
        lane: &Lane,
        except: &BTreeSet<Name>,
        limit: usize,
    ) -> Result<Vec<JobId>, StoreError> {
        self.available_jobs(lane, except, limit)
    }

    fn claim_goes_on(&self) -> bool {
        self.claim_goes_on
    }

    fn due(&mut self, now: Time, limit: u32) -> Result<Vec<JobId>, StoreError> {
        let limit = limit as usize;
        let passed_over = self.counts.passed_over.clone();
        let loaded = self.wait(async |client, overlay| {
            claim::due(client, overlay, &passed_over, now, limit).await
        })?;
        let unreadable = &self.overlay.unreadable;
        let is_unreadable = |id: &&JobId| unreadable.contains_key(id);
        let flawed: Vec<_> = loaded
            .iter()
            .filter(is_unreadable)
            .map(|id| (Time(i64::MIN), 0, *id))
            .collect();
        let stored = loaded.into_iter().filter(|id| !self.overlay.is_dirty(*id));
        let in_hand = self.overlay.dirty().map(|entry| entry.job.id);
        let entries = stored.chain(in_hand).filter_map(|id| self.overlay.get(id));
        let mut due: Vec<(Time, i64, JobId)> = entries
            .filter_map(|entry| {
                let at = entry.job.wakeup().filter(|at| *at <= now)?;
                Some((at, entry.seq, entry.job.id))
            })
            .chain(flawed)
            .collect();
        due.sort_unstable();
        due.truncate(limit);
        Ok(due.into_iter().map(|(_, _, id)| id).collect())
    }

    fn passed_over(&mut self) -> &mut BTreeSet<JobId> {
        &mut self.counts.passed_over
    }

    fn running(&mut self, after: i64, limit: usize) -> Result<Vec<(i64, JobId)>, StoreError> {
        let stored =
            self.wait(async |client, overlay| claim::running(client, overlay, after, limit).await)?;
        let is_running = |(place, id): &(i64, JobId)| match self.overlay.get(*id) {
            Some(entry) => entry.job.state == State::Running && *place > after,
            None => self.overlay.unreadable.contains_key(id),
        };
        let in_hand = self.overlay.dirty().map(|it| (it.seq, it.job.id));
        let mut running: Vec<(i64, JobId)> = stored
            .into_iter()
            .chain(in_hand)
            .filter(is_running)
            .collect();
        running.sort_unstable();
        running.dedup();
        running.truncate(limit);
        Ok(running)
    }

    /// The commit finds it.
    fn next_wakeup(&mut self) -> Result<Option<Time>, StoreError> {
        Ok(None)
    }

    fn fence(&mut self, dead: &Dead) -> Result<Option<Dead>, StoreError> {
        let dead = *dead;
        self.wait(async move |client, _| nodes::fence(client, &dead).await)
    }

    fn end_take_over(&mut self, fenced: &Dead) -> Result<(), StoreError> {
        let fenced = *fenced;
        self.wait(async move |client, _| nodes::end_take_over(client, &fenced).await)
    }

    fn notify(&mut self, lease: &Lease, job: JobId, effect: &Effect) -> Result<(), StoreError> {
        // The worker of a lease by TTL may wait at any node.
        let is_for_others = lease.hold != Hold::Connection;
        if is_for_others || lease.node != self.node {
            self.overlay.mail.push(Mail {
                node: if is_for_others { self.node } else { lease.node },
                is_for_others,
                job,
                body: encode(effect)?,
            });
        }
        Ok(())
    }

    fn available(&mut self) -> Result<u64, StoreError> {
        Ok(self.counts.available())
    }

    fn has_queue(&mut self, queue: &Name) -> bool {
        self.counts.has(queue)
    }

    fn counts(&mut self) -> host_engine::Counts {
        self.counts.limited()
    }

    fn set_paused(&mut self, queue: &Name, paused: bool) -> Result<(), StoreError> {
        self.counts.set_paused(queue, paused);
        let values = values![queue.to_string(), paused];
        let sql = "INSERT INTO host_queues (name, paused) VALUES ($1, $2) \
                   ON CONFLICT (name) DO UPDATE SET paused = $2";
        self.query("pause or resume a queue", sql, values)?;
        self.record_pause()
    }

    /// The locks wait for the batches of other hosts that write jobs, and keep others from writing some until the commit;
    /// each batch writes the queues of its new jobs behind them.
    fn remove_queue(&mut self, queue: &Name) -> Result<Result<(), QueueRefusal>, StoreError> {
        let operation = "remove a queue";
        let locks = "LOCK TABLE host_live, host_ended IN SHARE ROW EXCLUSIVE MODE";
        self.flush_and_ask(operation, locks, values![])?;
        let name = queue.to_string();
        let jobs = "SELECT FROM host_live WHERE queue = $1 UNION ALL \
                    SELECT FROM host_ended WHERE queue = $1 LIMIT 1";
        let found = self.query(operation, jobs, values![name.clone()])?;
        if !found.is_empty() {
            return Ok(Err(QueueRefusal::HasJobs(queue.clone())));
        }
        let delete = "DELETE FROM host_queues WHERE name = $1 RETURNING name";
        let deleted = self.query(operation, delete, values![name.clone()])?;
        if deleted.is_empty() {
            return Ok(Err(QueueRefusal::Unknown(queue.clone())));
        }
        let counts = "DELETE FROM host_counts WHERE queue = $1";
        self.query(operation, counts, values![name])?;
        self.counts.remove(queue);
        self.record_pause()?;
        Ok(Ok(()))
    }

    /// The commit writes changes, and their readers number them.
    fn keep_changes(&mut self, _now: Time, _changes: &[Change]) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    fn has_component(&mut self, component: &Name) -> Result<bool, StoreError> {
        if let Some(deployed) = &self.overlay.components {
            return Ok(deployed.contains(component));
        }
        let range = Range::of(Component::key(component)).marked();
        Ok(self.count_rows(&COMPONENTS, range)? > 0)
    }

    fn forget_blobs(&mut self) -> Result<(), StoreError> {
        let sql = "DELETE FROM host_blobs WHERE digest NOT IN (SELECT digest FROM host_revisions)";
        self.flush_and_ask("remove a component's bytes", sql, values![])?;
        Ok(())
    }

    fn live_jobs(&mut self, handler: &Name) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) FROM (SELECT FROM host_live \
                   WHERE handler = $1 AND runner IS NULL LIMIT $2) AS counted";
        let values = values![handler.to_string(), i64::from(LIVE_JOBS_COUNTED)];
        let rows = self.flush_and_ask("count a handler's jobs", sql, values)?;
        let jobs = rows.first().map_or(0, |row| row.get::<_, i64>(0));
        Ok(u64::try_from(jobs).unwrap_or(0))
    }
}
