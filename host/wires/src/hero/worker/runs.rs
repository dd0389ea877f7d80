//! Attempts and their ends: starts jobs, retries them, and records how they ended or returns them
//! to the queue.

use super::{
    Answered, Code, Command, Due, Ending, Guest, Lane, Phase, PopSide, Purpose, REFUSED_PAUSE_MS,
    Refusal, Script, Stop, Tag, Todo, Value, Worker, WorkerAct, messages,
};
use crate::hero::convert::{self, Verdict};
use crate::kit::backoff::Backoff;
use crate::kit::session::Moment;

/// How long after its deadline a guest is stopped if it has not ended, in milliseconds.
const OVERRUN_MS: u64 = 500;

/// The longest wait before a retry, in milliseconds.
const BACKOFF_MS_MAX: u64 = 3_600_000;

/// How long to wait if the cells have no room, in milliseconds.
const BUSY_PAUSE_MS: u64 = 50;

/// From how many bytes on an end is written on a connection of its own.
const LARGE_BYTES: usize = 256 << 10;

/// How many times a job may lose its cell before it fails.
const LOSSES_MAX: u32 = 3;

impl Worker {
    /// Starts the jobs that are ready, if there is room.
    pub(super) fn start_ready(&mut self, at: Moment, todo: &mut Todo) {
        while self.tags.len() < self.config.concurrency {
            let Some(id) = self.ready.pop_front() else {
                return;
            };
            self.start(at, &id, todo);
        }
    }

    fn start(&mut self, at: Moment, id: &str, todo: &mut Todo) {
        let Some(held) = self
            .jobs
            .get_mut(id)
            .filter(|held| held.phase == Phase::Ready)
        else {
            return;
        };
        let Some(job) = &held.job else { return };
        let log_path = job.log_path.clone();
        let work = match convert::work(job, &self.config.worker_id, held.attempt) {
            Ok(work) => Box::new(work),
            Err(refusal) => return self.finish(at, id, Ending::Error(refusal.text()), todo),
        };
        let tag = Tag(self.tags_made);
        self.tags_made += 1;
        held.phase = Phase::Running {
            tag,
            guest: Guest::Waits,
        };
        self.tags.insert(tag, id.to_owned());
        todo.push(WorkerAct::Start {
            tag,
            job: work,
            log_path,
        });
    }

    /// Handles the begin of a guest: its time limit begins, and Redis is told.
    pub(super) fn began(&mut self, at: Moment, tag: Tag, todo: &mut Todo) {
        let Some(id) = self.tags.get(&tag).cloned() else {
            return;
        };
        let Some(held) = self.jobs.get_mut(&id) else {
            return;
        };
        let timeout_ms = held.job.as_ref().map_or(0, |job| job.timeout_ms);
        let Phase::Running { guest, .. } = &mut held.phase else {
            return;
        };
        if *guest != Guest::Waits {
            return;
        }
        let until = at.now.plus_ms(timeout_ms).plus_ms(OVERRUN_MS);
        *guest = Guest::RunsUntil(until);
        held.began = Some(at.wall);
        self.arm(until, Due::Overrun(tag));
        self.write_start(&id, todo);
    }

    /// Sends that an attempt has begun, unless it is over.
    pub(super) fn write_start(&mut self, id: &str, todo: &mut Todo) {
        let Some(held) = self.jobs.get(id) else {
            return;
        };
        let (Phase::Running { .. }, Some(began)) = (&held.phase, held.began) else {
            return;
        };
        let mut keys = vec![messages::job_key(id), messages::claim_key(id)];
        keys.extend(self.context_of(id));
        let started = Command::Script {
            script: Script::Start,
            keys,
            args: vec![
                self.config.instance.clone().into_bytes(),
                began.to_rfc3339().into_bytes(),
                id.as_bytes().to_vec(),
            ],
        };
        self.call(Purpose::Start(id.to_owned()), vec![started], todo);
    }

    /// Handles the answer to a start: the job may belong to another host or have ended.
    pub(super) fn started(&mut self, at: Moment, id: &str, value: Option<&Value>, todo: &mut Todo) {
        match value.and_then(Value::text) {
            Some("held" | "ended") => self.lose(id, todo),
            Some(_) => {
                if let Some(held) = self.jobs.get_mut(id) {
                    held.began = None;
                }
            }
            None => {
                self.refused(at.now, value, todo);
                self.arm_once(at.now.plus_ms(REFUSED_PAUSE_MS), Due::Start(id.to_owned()));
            }
        }
    }

    /// Stops and drops a job that another host has taken.
    pub(super) fn lose(&mut self, id: &str, todo: &mut Todo) {
        self.again.remove(id);
        if let Some(Phase::Running { tag, .. }) = self.forget(id) {
            todo.push(WorkerAct::Stop {
                tag,
                grace_ms: 0,
                why: Stop::Disconnected,
            });
        }
    }

    /// Stops a guest that exceeds its deadline.
    pub(super) fn overrun(&mut self, tag: Tag, todo: &mut Todo) {
        let held = self.tags.get(&tag).and_then(|id| self.jobs.get_mut(id));
        if let Some(Phase::Running { guest, .. }) = held.map(|held| &mut held.phase) {
            *guest = Guest::Overran;
            todo.push(WorkerAct::Stop {
                tag,
                grace_ms: 0,
                why: Stop::Deadline,
            });
        }
    }

    pub(super) fn answered(&mut self, at: Moment, tag: Tag, answer: Answered, todo: &mut Todo) {
        let Some(id) = self.tags.remove(&tag) else {
            return;
        };
        let Some(held) = self.jobs.get_mut(&id) else {
            return;
        };
        let Phase::Running { guest, .. } = held.phase else {
            return;
        };
        held.began = None;
        if let Guest::RunsUntil(at) = guest {
            self.due.remove(&(at, Due::Overrun(tag)));
        }
        let verdict = match answer {
            Answered::Busy => {
                held.phase = Phase::Crowded;
                return self.arm(at.now.plus_ms(BUSY_PAUSE_MS), Due::Retry(id));
            }
            Answered::NoLog(why) => {
                let refusal = Refusal::new(Code::LogPath, format!("log_path: {why}"));
                todo.push(WorkerAct::Count(refusal.code()));
                Verdict::Ended(Ending::Error(refusal.text()))
            }
            Answered::Ended(_) if guest == Guest::Overran => Verdict::timed_out(),
            Answered::Ended(outcome) => convert::verdict(outcome),
        };
        let ended = matches!(verdict, Verdict::Ended(Ending::Finished(_)));
        if held.stop {
            self.finish(at, &id, Ending::stopped(), todo);
        } else if self.stopping && !ended {
            self.give_back(at, &id, todo);
        } else {
            self.follow(at, id, verdict, todo);
        }
    }

    /// Carries out what happens after an attempt.
    fn follow(&mut self, at: Moment, id: String, verdict: Verdict, todo: &mut Todo) {
        let Some(held) = self.jobs.get_mut(&id) else {
            return;
        };
        let (after_ms, ending, charged) = match verdict {
            Verdict::Ended(ending) => return self.finish(at, &id, ending, todo),
            Verdict::Again {
                after_ms,
                ending,
                charged,
            } => (after_ms, ending, charged),
        };
        let retries = held.job.as_ref().map_or(0, |job| job.retries);
        if charged {
            if held.attempt > retries {
                return self.finish(at, &id, ending, todo);
            }
            let doublings = held.attempt - 1;
            held.attempt += 1;
            let backoff = Backoff::new(self.config.backoff_ms, BACKOFF_MS_MAX);
            held.phase = Phase::Backoff;
            self.resting.insert(id.clone());
            let wait_ms =
                after_ms.map_or_else(|| backoff.nth_ms(doublings), |ms| ms.min(BACKOFF_MS_MAX));
            self.arm(at.now.plus_ms(wait_ms), Due::Retry(id));
        } else {
            held.losses += 1;
            if held.losses > LOSSES_MAX {
                return self.finish(at, &id, ending, todo);
            }
            held.phase = Phase::Ready;
            self.ready.push_back(id);
        }
    }

    /// Makes a job ready whose wait for the next attempt is over.
    pub(super) fn retry(&mut self, id: &str) {
        if let Some(held) = self
            .jobs
            .get_mut(id)
            .filter(|held| matches!(held.phase, Phase::Backoff | Phase::Crowded))
        {
            held.phase = Phase::Ready;
            self.resting.remove(id);
            self.ready.push_back(id.to_owned());
        }
    }

    /// Ends a job. This host keeps it until Redis has confirmed the end.
    pub(super) fn finish(&mut self, at: Moment, id: &str, ending: Ending, todo: &mut Todo) {
        self.leave_lines(id);
        if let Some(held) = self.jobs.get_mut(id) {
            held.phase = Phase::Finishing(ending);
            self.write_end(at, id, todo);
        }
    }

    /// Returns a job to its queue, so that it is taken next.
    pub(super) fn give_back(&mut self, at: Moment, id: &str, todo: &mut Todo) {
        self.release(at, id, self.config.pop_side, todo);
    }

    /// Returns a job to one end of its queue.
    pub(super) fn release(&mut self, at: Moment, id: &str, side: PopSide, todo: &mut Todo) {
        self.leave_lines(id);
        if let Some(held) = self.jobs.get_mut(id) {
            held.phase = Phase::Releasing(side);
            self.write_end(at, id, todo);
        }
    }

    /// Writes how a job ended or that it is returned, if Redis can be reached.
    pub(super) fn write_end(&mut self, at: Moment, id: &str, todo: &mut Todo) {
        let Some(held) = self.jobs.get(id) else {
            return;
        };
        let config = &self.config;
        let worker = &config.worker_id;
        let now = at.wall.to_rfc3339();
        let mut keys = vec![
            messages::job_key(id),
            messages::claim_key(id),
            messages::processing(worker),
        ];
        let (purpose, script, args) = match &held.phase {
            Phase::Finishing(ending) => {
                let timeout_ms = held.job.as_ref().map_or(0, |job| job.timeout_ms);
                let reply_seconds = messages::reply_seconds(timeout_ms);
                let (field, text) = ending.field();
                let stop = held.stop || self.stops.contains(id);
                keys.extend([messages::reply_queue(id), messages::stop_queue(worker)]);
                let args = vec![
                    id.to_owned(),
                    config.instance.clone(),
                    ending.status().to_owned(),
                    field.to_owned(),
                    text.to_owned(),
                    now,
                    ending.reply(),
                    reply_seconds.to_string(),
                    config.job_ttl_seconds.to_string(),
                    u8::from(stop).to_string(),
                    u8::from(held.has_turn).to_string(),
                ];
                (Purpose::Finish(id.to_owned()), Script::Finish, args)
            }
            Phase::Releasing(side) => {
                keys.push(messages::work_queue(worker));
                let side = side.as_str().to_owned();
                let args = vec![id.to_owned(), config.instance.clone(), side, now];
                (Purpose::Release(id.to_owned()), Script::Release, args)
            }
            _ => return,
        };
        keys.extend(self.context_of(id));
        let args = args.into_iter().map(String::into_bytes).collect();
        let command = Command::Script { script, keys, args };
        // A large output must not keep claims from being renewed.
        let lane = match command.bytes() {
            LARGE_BYTES.. => Lane::Own,
            _ => Lane::Shared,
        };
        self.send(purpose, lane, vec![command], todo);
    }

    /// Handles the confirmation of a job's end.
    pub(super) fn ended(&mut self, at: Moment, id: &str, value: Option<&Value>, todo: &mut Todo) {
        if value.is_none_or(|value| value.text().is_none()) {
            self.refused(at.now, value, todo);
            return self.arm(at.now.plus_ms(REFUSED_PAUSE_MS), Due::Finish(id.to_owned()));
        }
        let is_written = value.and_then(Value::text) == Some("written");
        if let Some(Phase::Finishing(ending)) = self.forget(id)
            && is_written
        {
            let finished = matches!(ending, Ending::Finished(_));
            self.has_ended(at, id, finished, todo);
        }
        if self.again.remove(id) {
            self.take_again(id, todo);
        }
    }

    /// Handles the confirmation that a job is returned.
    pub(super) fn released(
        &mut self,
        at: Moment,
        id: &str,
        value: Option<&Value>,
        todo: &mut Todo,
    ) {
        if value.is_none_or(|value| value.text().is_none()) {
            self.refused(at.now, value, todo);
            return self.arm(at.now.plus_ms(REFUSED_PAUSE_MS), Due::Finish(id.to_owned()));
        }
        self.forget(id);
        if self.again.remove(id) {
            self.take_again(id, todo);
        }
    }

    /// Drops a job and returns its phase.
    pub(super) fn forget(&mut self, id: &str) -> Option<Phase> {
        self.leave_lines(id);
        let held = self.jobs.remove(id)?;
        if let Phase::Running { tag, guest } = held.phase {
            self.tags.remove(&tag);
            if let Guest::RunsUntil(at) = guest {
                self.due.remove(&(at, Due::Overrun(tag)));
            }
        }
        Some(held.phase)
    }
}
