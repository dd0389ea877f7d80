//! Watches the jobs that are out: their hashes, and the lists of jobs that no worker has started.

use std::collections::BTreeMap;

use host_core::failure::{Failure, FailureKind};
use host_core::outcome::Outcome;
use host_core::port::{End, Tag};
use host_core::time::Time;
use host_wire_kit::session::Moment;

use super::{Acts, Due, Orchestrator, Out, Purpose, STOP_LATE_MS};
use crate::convert::outcome;
use crate::job::OUTPUT_BYTES_MAX;
use crate::job::view::{self, Fields, JobView, READ_JOBS_MAX};
use crate::messages::{self, Value, Via};

/// How often hashes are read, in milliseconds: soon after a job was queued, and later.
pub(super) const READ_SOON_MS: u64 = 10;
pub(super) const READ_MS: u64 = 100;

/// How long the hash of a newly queued job is read often, in milliseconds.
const SOON_MS: u64 = 1_000;

/// Hashes that are due within this time are read together, in milliseconds.
const TOGETHER_MS: u64 = 5;

/// How often the lists are read, and the minimum age of the jobs checked there, in milliseconds.
pub(super) const ABSENT_EVERY_MS: u64 = 5_000;

/// How often time limits are checked while Redis is away, in milliseconds.
pub(super) const AWAY_EVERY_MS: u64 = 500;

/// When a job is considered lost, in milliseconds: this long after the time limit of a started job, or
/// after a job was taken and did not start.
const STALE_AFTER_MS: u64 = 10_000;

/// How many times a job that its worker lost is queued again.
const REQUEUES_MAX: u32 = 1;

/// How many starts of one job begin its time anew. A worker that changes `updated_at` while it runs a
/// job must not extend its time for ever.
const STARTS_MAX: u32 = 4;

/// The fields to read, with the longest value of each. Of a longer value, only the length is read:
/// many jobs may end together, so long outputs are read one at a time.
const WATCHED: Fields = &[
    ("status", 64),
    ("updated_at", 64),
    ("output", 64 << 10),
    ("error", 64 << 10),
];

/// The same for one job with a long output.
const WHOLE: Fields = &[
    ("status", 64),
    ("output", OUTPUT_BYTES_MAX),
    ("error", 64 << 10),
];

impl Orchestrator {
    /// Reads the hashes of all jobs that are due.
    pub(super) fn read_hashes(&mut self, at: Moment, todo: &mut Acts) {
        let until = at.now.plus_ms(TOGETHER_MS);
        let due = |out: &Out| out.queued && out.read_at.is_some_and(|read_at| read_at <= until);
        let tags: Vec<Tag> = self
            .out
            .iter_mut()
            .filter(|(_, out)| due(out))
            .map(|(tag, out)| {
                out.read_at = None;
                *tag
            })
            .collect();
        for tags in tags.chunks(READ_JOBS_MAX) {
            let read = view::read(self.ids(tags), WATCHED);
            self.call(Purpose::Read(tags.to_vec()), vec![read], todo);
        }
        self.arm_read();
    }

    /// Schedules an early read of a job's hash.
    pub(super) fn read_soon(&mut self, now: Time, tag: Tag) {
        if let Some(out) = self.out.get_mut(&tag) {
            out.read_at = Some(now.plus_ms(READ_SOON_MS));
            self.arm_read();
        }
    }

    /// Arms the timer for the next read.
    pub(super) fn arm_read(&mut self) {
        self.timers.retain(|due| *due != Due::Read);
        let queued = self.out.values().filter(|out| out.queued);
        if let Some(next) = queued.filter_map(|out| out.read_at).min()
            && self.calls.is_connected()
        {
            self.timers.arm(next, Due::Read);
        }
    }

    fn ids(&self, tags: &[Tag]) -> impl Iterator<Item = &str> {
        let outs = tags.iter().filter_map(|tag| self.out.get(tag));
        outs.map(|out| out.execution.job.id.as_str())
    }

    /// Handles the hashes of several jobs.
    pub(super) fn hashes_read(
        &mut self,
        at: Moment,
        tags: &[Tag],
        values: &[Value],
        todo: &mut Acts,
    ) {
        for tag in tags {
            if let Some(out) = self.out.get_mut(tag) {
                let young = at.now.since_ms(out.queued_at) < SOON_MS;
                let wait_ms = if young { READ_SOON_MS } else { READ_MS };
                out.read_at.get_or_insert(at.now.plus_ms(wait_ms));
            }
        }
        self.see(at, tags, WATCHED, values, todo);
        self.arm_read();
    }

    /// Handles the hash of the job with a long output, and asks for the next one.
    pub(super) fn fetched(&mut self, at: Moment, tag: Tag, values: &[Value], todo: &mut Acts) {
        self.see(at, &[tag], WHOLE, values, todo);
        self.fetch_next(todo);
    }

    fn see(&mut self, at: Moment, tags: &[Tag], of: Fields, values: &[Value], todo: &mut Acts) {
        self.refused(values, todo);
        // A job that has ended keeps its position, because answers are matched by position.
        let out = |tag| self.out.get(tag);
        let ids = tags
            .iter()
            .map(|tag| out(tag).map_or("", |out| out.execution.job.id.as_str()));
        let views = values
            .first()
            .map(|value| view::parse(ids, of, value))
            .and_then(Result::ok)
            .unwrap_or_default();
        for (tag, view) in tags.iter().zip(views) {
            self.seen(at, *tag, view, todo);
        }
    }

    /// Schedules the read of a long output.
    fn fetch(&mut self, tag: Tag, todo: &mut Acts) {
        let is_fetched = self.calls.purposes().any(|it| *it == Purpose::Fetch(tag));
        if !is_fetched && !self.long.contains(&tag) {
            self.long.push_back(tag);
            self.fetch_next(todo);
        }
    }

    fn fetch_next(&mut self, todo: &mut Acts) {
        let is_fetching = |it: &Purpose| matches!(it, Purpose::Fetch(_));
        if self.calls.purposes().any(is_fetching) {
            return;
        }
        while let Some(tag) = self.long.pop_front() {
            if self.out.contains_key(&tag) {
                let read = view::read(self.ids(&[tag]), WHOLE);
                return self.send(Purpose::Fetch(tag), Via::Own, vec![read], todo);
            }
        }
    }

    /// Handles a job's hash; `None` if the hash is gone.
    fn seen(&mut self, at: Moment, tag: Tag, view: Option<JobView>, todo: &mut Acts) {
        let Some(out) = self.out.get_mut(&tag) else {
            return;
        };
        let Some(view) = view else {
            let lost = "its hash is gone from Redis".to_owned();
            return self.give_up(at, tag, End::Lost(lost), todo);
        };
        match view.status() {
            "finished" => {
                let outcome = match view.left_out.get("output") {
                    None => outcome::finished(view.get("output").unwrap_or_default()),
                    Some(bytes) if *bytes <= OUTPUT_BYTES_MAX as u64 => {
                        return self.fetch(tag, todo);
                    }
                    Some(bytes) => outcome::too_large(*bytes),
                };
                return self.reported(at, tag, outcome, todo);
            }
            "error" => {
                let stop = match (out.stop_by, out.late_since) {
                    (Some(_), _) => outcome::Stop::Cancelled,
                    (None, Some(_)) => outcome::Stop::Late,
                    (None, None) => outcome::Stop::Unasked,
                };
                let outcome = outcome::failed(view.get("error").unwrap_or_default(), stop);
                return self.reported(at, tag, outcome, todo);
            }
            "started" => {
                let written = view.get("updated_at").map(str::to_owned);
                let (seen, starts) = &mut out.start_seen;
                if out.started_at.is_none() || *seen != written && *starts < STARTS_MAX {
                    // Its worker gave it back or was replaced, and another runs it from the start.
                    *starts += 1;
                    *seen = written;
                    out.started_at = Some(at.now);
                }
                out.absent_since = None;
            }
            "dispatched" if out.started_at.take().is_some() => {
                // Its worker gave it back, so it does not run now.
                out.queued_at = at.now;
            }
            _ => {}
        }
        self.watch_time(at, tag, todo);
    }

    /// Stops a job that exceeds its time limit. Gives it up if its worker does not report the end.
    fn watch_time(&mut self, at: Moment, tag: Tag, todo: &mut Acts) {
        let Some(out) = self.out.get_mut(&tag) else {
            return;
        };
        let timeout_ms = out.execution.timeout_ms;
        let ran_ms = out.started_at.map(|since| at.now.since_ms(since));
        let overran = ran_ms.is_some_and(|ms| ms >= timeout_ms.saturating_add(STOP_LATE_MS));
        let overdue = out.is_overdue(at.now);
        if (overran || overdue) && out.stop_by.is_none() && out.late_since.is_none() {
            out.late_since = Some(at.now);
            return self.withdraw(at, tag, todo);
        }
        let silent = |since: Time| at.now.since_ms(since) >= STALE_AFTER_MS;
        if ran_ms.is_some_and(|ms| ms >= timeout_ms.saturating_add(STALE_AFTER_MS)) {
            // Its worker may still run it and was asked to stop: a second run would be beside it.
            self.give_up(at, tag, timed_out(), todo);
        } else if out.started_at.is_none() && out.late_since.is_some_and(silent) {
            self.give_up(at, tag, timed_out(), todo);
        }
    }

    /// Gives up the jobs whose time is over while Redis is away. What they left there is taken back when
    /// it is there again.
    pub(super) fn watch_without_redis(&mut self, at: Moment, todo: &mut Acts) {
        let over = |out: &Out| {
            let limit = out
                .started_at
                .map(|since| since.plus_ms(out.execution.timeout_ms));
            let ends = limit.into_iter().chain(out.execution.deadline);
            ends.min()
                .is_some_and(|end| at.now.since_ms(end) >= STALE_AFTER_MS)
        };
        let late: Vec<Tag> = self
            .out
            .iter()
            .filter(|(_, out)| over(out))
            .map(|(tag, _)| *tag)
            .collect();
        for tag in late {
            self.give_up(at, tag, timed_out(), todo);
        }
        self.timers.arm(at.now.plus_ms(AWAY_EVERY_MS), Due::Away);
    }

    /// Checks whether the jobs that no worker has started are still in a list.
    pub(super) fn read_lists(&mut self, at: Moment, todo: &mut Acts) {
        self.timers
            .arm(at.now.plus_ms(ABSENT_EVERY_MS), Due::Absent);
        let mut by_worker: BTreeMap<String, (Vec<Tag>, Vec<String>)> = BTreeMap::new();
        for (tag, out) in &self.out {
            let waits_ms = at.now.since_ms(out.queued_at);
            if out.queued && out.started_at.is_none() && waits_ms >= ABSENT_EVERY_MS {
                let worker = out.execution.job.worker_id.clone();
                let (tags, ids) = by_worker.entry(worker).or_default();
                tags.push(*tag);
                ids.push(out.execution.job.id.clone());
            }
        }
        for (worker, (tags, ids)) in by_worker {
            let read = messages::absent(&worker, &ids);
            self.call(Purpose::Absent(tags), vec![read], todo);
        }
    }

    /// Handles jobs that are in no list: a worker took them but has not reported a start.
    pub(super) fn absent(
        &mut self,
        at: Moment,
        tags: &[Tag],
        value: Option<&Value>,
        todo: &mut Acts,
    ) {
        let Some(Value::List(places)) = value else {
            self.refused(value.map_or(&[], std::slice::from_ref), todo);
            return;
        };
        for (place, tag) in (0..).zip(tags) {
            let Some(out) = self.out.get_mut(tag) else {
                continue;
            };
            if !places.contains(&Value::Int(place)) || out.started_at.is_some() {
                out.absent_since = None;
                continue;
            }
            let since = *out.absent_since.get_or_insert(at.now);
            if at.now.since_ms(since) >= STALE_AFTER_MS {
                self.stale(at, *tag, todo);
            }
        }
    }

    /// Queues a job again whose worker does not report, or gives it up after too many times.
    fn stale(&mut self, at: Moment, tag: Tag, todo: &mut Acts) {
        let Some(out) = self.out.get_mut(&tag) else {
            return;
        };
        if out.is_overdue(at.now) || out.late_since.is_some() {
            return self.give_up(at, tag, timed_out(), todo);
        }
        if out.requeues >= REQUEUES_MAX || out.stop_by.is_some() {
            let times = out.requeues;
            let lost = format!(
                "its worker took it and reported nothing; it was queued again {times} times"
            );
            return self.give_up(at, tag, End::Lost(lost), todo);
        }
        out.requeues += 1;
        out.queued_at = at.now;
        out.started_at = None;
        out.absent_since = None;
        out.late_since = None;
        let (id, worker) = (&out.execution.job.id, &out.execution.job.worker_id);
        let again = messages::queue_again(id, worker, &at.wall.to_rfc3339());
        self.call(Purpose::NothingFollows, vec![again], todo);
    }
}

impl Out {
    fn is_overdue(&self, now: Time) -> bool {
        let deadline = self.execution.deadline;
        deadline.is_some_and(|deadline| now >= deadline)
    }
}

fn timed_out() -> End {
    let message = "its time limit passed before a worker reported anything";
    End::Outcome(Outcome::Failed(Failure::new(
        FailureKind::TimedOut,
        message,
    )))
}
