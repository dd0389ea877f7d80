//! Attempts and their ends: starts jobs, retries them, and records how they ended or returns them
//! to the queue.

use host_runtime::backoff::Backoff;
use host_wire_kit::session::Moment;

use super::jobs::{Guest, Run};
use super::{
    Acts, Code, Command, Due, Ending, ExecutionAnswer, HeldJob, Phase, PopSide, Purpose, Refusal,
    Script, Stop, Tag, Value, Via, Worker, WorkerAct, messages,
};
use crate::convert::{self, Verdict};

/// How long after its deadline a guest is stopped if it has not ended, in milliseconds.
const OVERRUN_MS: u64 = 500;

/// The wait before the first retry, in milliseconds. Doubles with each retry.
const BACKOFF_MS: u64 = 1_000;

/// The longest wait before a retry, in milliseconds.
const BACKOFF_MS_MAX: u64 = 3_600_000;

/// The shortest wait that a job spends in Redis, where it takes no room, in milliseconds.
const REST_MS_MIN: u64 = 2_000;

/// How long to wait if the cells have no room, in milliseconds.
const BUSY_PAUSE_MS: u64 = 50;

/// From how many bytes on an end is written on a connection of its own.
const LARGE_BYTES: usize = 256 << 10;

/// How many times a job may lose its cell before it fails.
const LOSSES_MAX: u32 = 3;

impl Worker {
    /// Starts the jobs that are ready, if there is room.
    pub(super) fn start_ready(&mut self, at: Moment, todo: &mut Acts) {
        while self.jobs.running() < self.config.concurrency {
            let Some(id) = self.jobs.next_ready() else {
                return;
            };
            self.start(at, &id, todo);
        }
    }

    fn start(&mut self, at: Moment, id: &str, todo: &mut Acts) {
        let Some(held) = self.jobs.get(id) else {
            return;
        };
        let Some(job) = &held.job else { return };
        let log_path = job.log_path.clone();
        let work = match convert::work(job, &self.config.worker_id, held.attempt) {
            Ok(work) => Box::new(work),
            Err(refusal) => return self.finish(at, id, Ending::Error(refusal.text()), todo),
        };
        let tag = self.jobs.new_tag();
        let run = Run {
            tag,
            guest: Guest::Waits,
            began: None,
        };
        self.jobs.set_phase(id, Phase::Running(run));
        todo.push(WorkerAct::Start {
            tag,
            job: work,
            log_path,
        });
    }

    /// Handles the start of a guest: its time limit begins, and the start is written to Redis.
    pub(super) fn began(&mut self, at: Moment, tag: Tag, todo: &mut Acts) {
        let Some(id) = self.jobs.run(tag).cloned() else {
            return;
        };
        let Some(held) = self.jobs.get_mut(&id) else {
            return;
        };
        let until = at.now.plus_ms(held.timeout_ms()).plus_ms(OVERRUN_MS);
        let Some(run) = held.run_mut().filter(|run| run.guest == Guest::Waits) else {
            return;
        };
        run.guest = Guest::RunsUntil(until);
        run.began = Some(at.wall);
        self.timers.arm(until, Due::Overrun(tag));
        self.write_start(&id, todo);
    }

    /// Sends that an attempt has begun, unless it is over.
    pub(super) fn write_start(&mut self, id: &str, todo: &mut Acts) {
        let Some(Phase::Running(Run {
            began: Some(began), ..
        })) = self.jobs.phase(id)
        else {
            return;
        };
        let mut keys = vec![messages::job_key(id), messages::claim_key(id)];
        keys.extend(self.context_of(id));
        let began = began.to_rfc3339();
        let args = [self.config.instance.as_str(), &began, id];
        let started = Command::script(Script::Start, keys, args);
        self.call(Purpose::Start(id.to_owned()), vec![started], todo);
    }

    /// Handles the answer to a start: the job may belong to another host or have ended.
    pub(super) fn started(&mut self, at: Moment, id: &str, value: Option<&Value>, todo: &mut Acts) {
        match value.and_then(Value::text) {
            Some("held" | "ended") => self.lose(id, todo),
            Some(_) => {
                if let Some(run) = self.jobs.get_mut(id).and_then(HeldJob::run_mut) {
                    run.began = None;
                }
            }
            None => self.try_again(at.now, value, Due::Start(id.to_owned()), todo),
        }
    }

    /// Stops and drops a job that another host has taken.
    pub(super) fn lose(&mut self, id: &str, todo: &mut Acts) {
        let held = self.forget(id);
        if let Some(Phase::Running(run)) = held.as_ref().map(HeldJob::phase) {
            todo.push(WorkerAct::Stop {
                tag: run.tag,
                grace_ms: 0,
                why: Stop::Disconnected,
            });
        }
    }

    /// Stops a guest that exceeds its deadline.
    pub(super) fn overrun(&mut self, tag: Tag, todo: &mut Acts) {
        let id = self.jobs.run(tag).cloned().unwrap_or_default();
        if let Some(run) = self.jobs.get_mut(&id).and_then(HeldJob::run_mut) {
            run.guest = Guest::Overran;
            todo.push(WorkerAct::Stop {
                tag,
                grace_ms: 0,
                why: Stop::Deadline,
            });
        }
    }

    pub(super) fn answered(
        &mut self,
        at: Moment,
        tag: Tag,
        answer: ExecutionAnswer,
        todo: &mut Acts,
    ) {
        let Some(id) = self.jobs.run(tag).cloned() else {
            return;
        };
        // Where it goes from here is decided below.
        let Some(Phase::Running(run)) = self.jobs.set_phase(&id, Phase::Crowded) else {
            return;
        };
        self.disarm(run);
        let verdict = match answer {
            ExecutionAnswer::Busy => {
                return self
                    .timers
                    .arm(at.now.plus_ms(BUSY_PAUSE_MS), Due::Retry(id));
            }
            ExecutionAnswer::NoLog(why) => {
                let refusal = Refusal::new(Code::LogPath, format!("log_path: {why}"));
                todo.push(WorkerAct::Count(refusal.code()));
                Verdict::Ended(Ending::Error(refusal.text()))
            }
            ExecutionAnswer::Ended(_) if run.guest == Guest::Overran => Verdict::timed_out(),
            ExecutionAnswer::Ended(outcome) => convert::verdict(outcome),
        };
        let ended = matches!(verdict, Verdict::Ended(Ending::Finished(_)));
        if self.jobs.get(&id).is_some_and(|held| held.stop) {
            self.finish(at, &id, Ending::stopped(), todo);
        } else if self.stopping && !ended {
            self.give_back(at, &id, todo);
        } else {
            self.follow(at, id, verdict, todo);
        }
    }

    /// Carries out what happens after an attempt.
    fn follow(&mut self, at: Moment, id: String, verdict: Verdict, todo: &mut Acts) {
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
            let backoff = Backoff::new(BACKOFF_MS, BACKOFF_MS_MAX);
            let after_ms = after_ms.map_or(0, |ms| ms.min(BACKOFF_MS_MAX));
            let wait_ms = backoff.nth_ms(doublings).max(after_ms);
            if wait_ms >= REST_MS_MIN {
                let until = at.wall.plus_ms(wait_ms);
                return self.end(at, &id, Phase::Resting(until), todo);
            }
            self.jobs.set_phase(&id, Phase::Backoff);
            self.timers.arm(at.now.plus_ms(wait_ms), Due::Retry(id));
        } else {
            held.losses += 1;
            if held.losses > LOSSES_MAX {
                return self.finish(at, &id, ending, todo);
            }
            self.jobs.set_phase(&id, Phase::Ready);
        }
    }

    /// Makes a job ready whose wait for the next attempt is over.
    pub(super) fn retry(&mut self, id: &str) {
        if let Some(Phase::Backoff | Phase::Crowded) = self.jobs.phase(id) {
            self.jobs.set_phase(id, Phase::Ready);
        }
    }

    /// Ends a job. This host keeps it until Redis has confirmed the end.
    pub(super) fn finish(&mut self, at: Moment, id: &str, ending: Ending, todo: &mut Acts) {
        self.end(at, id, Phase::Finishing(ending), todo);
    }

    /// Returns a job to its queue, so that it is taken next.
    pub(super) fn give_back(&mut self, at: Moment, id: &str, todo: &mut Acts) {
        self.release(at, id, self.config.pop_side, todo);
    }

    /// Returns a job to one end of its queue.
    pub(super) fn release(&mut self, at: Moment, id: &str, side: PopSide, todo: &mut Acts) {
        self.end(at, id, Phase::Releasing(side), todo);
    }

    fn end(&mut self, at: Moment, id: &str, phase: Phase, todo: &mut Acts) {
        self.leave_line(id);
        self.jobs.set_phase(id, phase);
        self.write_end(at, id, todo);
    }

    /// Writes how a job ended or that it is returned, if Redis can be reached.
    pub(super) fn write_end(&mut self, at: Moment, id: &str, todo: &mut Acts) {
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
        let (purpose, script, args) = match held.phase() {
            Phase::Finishing(ending) => {
                let reply_seconds = messages::reply_seconds(held.timeout_ms());
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
                    messages::flag(stop).to_owned(),
                    messages::flag(held.has_turn).to_owned(),
                ];
                (Purpose::Finish(id.to_owned()), Script::Finish, args)
            }
            Phase::Releasing(side) => {
                keys.extend([messages::work_queue(worker), messages::resting(worker)]);
                let side = side.as_str().to_owned();
                let args = vec![id.to_owned(), config.instance.clone(), side, now];
                (Purpose::Release(id.to_owned()), Script::Release, args)
            }
            Phase::Resting(until) => {
                keys.extend([messages::work_queue(worker), messages::resting(worker)]);
                let (until, attempt) = (until.0.to_string(), held.attempt.to_string());
                let args = vec![
                    id.to_owned(),
                    config.instance.clone(),
                    "REST".to_owned(),
                    now,
                    until,
                    attempt,
                ];
                (Purpose::Release(id.to_owned()), Script::Release, args)
            }
            _ => return,
        };
        keys.extend(self.context_of(id));
        let command = Command::script(script, keys, args);
        // A large output must not keep claims from being renewed.
        let via = match command.bytes() {
            LARGE_BYTES.. => Via::Own,
            _ => Via::Shared,
        };
        self.send(purpose, via, vec![command], todo);
    }

    /// Handles the confirmation that a job has ended or is returned.
    pub(super) fn ended(&mut self, at: Moment, id: &str, value: Option<&Value>, todo: &mut Acts) {
        let Some(word) = value.and_then(Value::text) else {
            return self.try_again(at.now, value, Due::Finish(id.to_owned()), todo);
        };
        let Some(held) = self.forget(id) else { return };
        if let Phase::Finishing(ending) = held.phase()
            && word == "written"
        {
            let finished = matches!(ending, Ending::Finished(_));
            self.has_ended(at, id, finished, todo);
        }
        if held.again {
            self.jobs.add(id.to_owned(), false, false);
            self.claim(vec![id.to_owned()], todo);
        }
    }

    /// Drops a job.
    pub(super) fn forget(&mut self, id: &str) -> Option<HeldJob> {
        self.leave_line(id);
        let held = self.jobs.remove(id)?;
        if let Phase::Running(run) = held.phase() {
            self.disarm(*run);
        }
        Some(held)
    }

    /// Cancels the timer of an attempt that is over.
    fn disarm(&mut self, run: Run) {
        if let Guest::RunsUntil(at) = run.guest {
            self.timers.cancel(at, Due::Overrun(run.tag));
        }
    }
}
