//! One lease, from its acknowledgement to its end: which message is sent when, when the guest runs
//! and when it must stop. Pure: the driver sends, executes, and tells the time.

mod uploading;

#[cfg(test)]
mod tests;

use host_core::cell::LogLine;
use host_core::outcome::Outcome;
use host_core::port::{Answer, ForeignJob, Stop, Tag};
use host_core::time::Time;

use super::super::NAME;
use super::super::read::Status;
use super::exchange::{Heard, Kind};
use super::lease::Lease;
use super::results::{Results, failed_text};
use super::upload::Upload;
use super::words::{Dialect, End, Speaker, Stage};

/// The wait before a message is sent again: it doubles up to the longest.
const BACKOFF_MS: u64 = 250;
const BACKOFF_MS_MAX: u64 = 5_000;

/// How long an answer may take, in milliseconds.
const ANSWER_MS: u64 = 15_000;

/// How much sooner than a cancel's deadline a guest is stopped, so that the answer is in time.
const CANCEL_MARGIN_MS: u64 = 1_000;

/// The grace of a cancel that names none, as the document recommends it.
const CANCEL_MS: u64 = 30_000;

/// The longest time that a heartbeat's answer may wait for a cancel, in seconds.
const WAIT_SECONDS_MAX: u64 = 60;

/// What the driver has to do.
#[derive(Debug, PartialEq)]
pub(super) enum Act {
    Send {
        kind: Kind,
        body: String,
        timeout_ms: u64,
    },
    Start(Tag, Box<ForeignJob>),
    Stop(Tag, u64, Stop),
    /// Append lines to the log file.
    Log(Time, Vec<LogLine>),
    /// Send a part of the log, from this offset on.
    Upload {
        offset: u64,
        text: String,
        timeout_ms: u64,
    },
    /// Write a result that is too large for the summary to this file.
    Keep(String, String),
    /// Nothing more happens.
    Done(Done),
}

/// How a lease ended for its runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// The orchestrator has its end.
    Reported(Status),
    /// The orchestrator took the lease away, or it ran out; nothing more is sent.
    Lost(&'static str),
    /// The orchestrator refuses a message.
    Refused(String),
    /// The runner is shutting down; the lease is left to run out.
    ShutDown,
}

/// Why the guest has to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Why {
    Cancelled,
    Over(Done),
}

/// A message whose answer is not there yet, or that is sent again.
#[derive(Debug)]
struct Pending {
    kind: Kind,
    body: String,
    timeout_ms: u64,
    sent_at: Time,
    /// When it is sent again; `None` while its answer is awaited.
    again_at: Option<Time>,
    backoff_ms: u64,
}

/// One lease.
#[derive(Debug)]
pub(super) struct Session {
    lease: Lease,
    speaker: Speaker,
    dialect: Dialect,
    /// Whether the lease came over the network: then heartbeats may wait for a cancel, and the log is
    /// sent.
    is_network: bool,
    upload: Upload,
    stage: Stage,
    results: Results,
    is_acked: bool,
    started_at: Option<(Time, String)>,
    live_until: Time,
    next_beat: Time,
    beat: Option<Pending>,
    beat_backoff_ms: u64,
    /// The acknowledgement, or what ends the lease.
    main: Option<Pending>,
    end: Option<(Kind, End)>,
    /// Until when the end waits for the log; `None` if it is sent.
    end_at: Option<Time>,
    guest: Option<Tag>,
    stop: Option<Why>,
    is_done: bool,
}

impl Session {
    pub(super) fn new(
        now: Time,
        lease: Lease,
        runner_id: &str,
        dialect: Dialect,
        (is_network, takes_logs): (bool, bool),
        results: Results,
    ) -> Self {
        Self {
            speaker: Speaker {
                runner: runner_id.to_owned(),
                lease: lease.id.clone(),
                job: lease.job_id.clone(),
            },
            dialect,
            is_network,
            upload: Upload::new(now, is_network && takes_logs),
            stage: Stage::default(),
            results,
            is_acked: false,
            started_at: None,
            live_until: now.plus_ms(lease.ttl_ms),
            next_beat: now,
            beat: None,
            beat_backoff_ms: BACKOFF_MS,
            main: None,
            end: None,
            end_at: None,
            guest: None,
            stop: None,
            is_done: false,
            lease,
        }
    }

    /// Returns the dialect that the orchestrator understands.
    pub(super) const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Begins: acknowledges the lease. `wall` is the time for the message.
    pub(super) fn begin(&mut self, now: Time, wall: &str) -> Vec<Act> {
        let body = self.speaker.ack(wall);
        vec![self.send_main(now, Kind::Ack, body)]
    }

    fn send_main(&mut self, now: Time, kind: Kind, body: String) -> Act {
        self.main = Some(Pending::new(now, kind, body.clone(), ANSWER_MS));
        Act::Send {
            kind,
            body,
            timeout_ms: ANSWER_MS,
        }
    }

    /// Takes the answer to a message.
    pub(super) fn on_heard(
        &mut self,
        now: Time,
        wall: &str,
        kind: Kind,
        heard: &Heard,
    ) -> Vec<Act> {
        if self.is_done {
            return Vec::new();
        }
        match kind {
            Kind::Heartbeat => self.heard_heartbeat(now, wall, heard),
            Kind::Ack => self.heard_ack(now, wall, heard),
            Kind::Complete | Kind::CancelAck => self.heard_end(now, kind, heard),
            Kind::Log => self.heard_log(now, heard),
        }
    }

    fn heard_ack(&mut self, now: Time, wall: &str, heard: &Heard) -> Vec<Act> {
        match heard {
            Heard::Accepted(_) => {
                self.main = None;
                self.is_acked = true;
                vec![self.send_beat(now, wall)]
            }
            Heard::Stale => self.give_up(Done::Lost("the lease was taken away")),
            Heard::UnknownField | Heard::Refused(_) => {
                let why = format!("AckLease was refused{}", said(heard));
                self.give_up(Done::Refused(why))
            }
            Heard::Again | Heard::Logged(_) => {
                self.later(now);
                Vec::new()
            }
        }
    }

    fn send_beat(&mut self, now: Time, wall: &str) -> Act {
        let wait = self.lease.interval_ms / 1_000;
        let is_running = self.started_at.is_some() && self.stop.is_none();
        let waits = self.is_network && wait > 0 && is_running;
        let wait = waits.then_some(wait.min(WAIT_SECONDS_MAX));
        let body = self
            .speaker
            .heartbeat(self.dialect, wall, &self.stage, wait);
        let timeout_ms = ANSWER_MS + wait.unwrap_or_default() * 1_000;
        self.next_beat = now.plus_ms(self.lease.interval_ms);
        let kind = Kind::Heartbeat;
        self.beat = Some(Pending::new(now, kind, String::new(), timeout_ms));
        Act::Send {
            kind,
            body,
            timeout_ms,
        }
    }

    fn heard_heartbeat(&mut self, now: Time, wall: &str, heard: &Heard) -> Vec<Act> {
        let Some(beat) = self.beat.take() else {
            return Vec::new();
        };
        match heard {
            // What ends the lease is on its way, and decides.
            _ if self.end.is_some() => Vec::new(),
            Heard::Accepted(reply) => {
                let ttl_ms = reply.ttl_ms.unwrap_or(self.lease.ttl_ms);
                self.live_until = beat.sent_at.plus_ms(ttl_ms);
                self.beat_backoff_ms = BACKOFF_MS;
                match (reply.cancel_ms, &self.started_at) {
                    (Some(_), None) => {
                        self.finish(now, wall, Status::Canceled, "stopped before it began")
                    }
                    (Some(ms), Some(_)) => self.cancel(ms),
                    (None, Some(_)) => Vec::new(),
                    (None, None) => {
                        // Only now it is known how long the lease lives: an acknowledgement that is
                        // sent again need not extend it.
                        self.started_at = Some((now, wall.to_owned()));
                        self.next_step(now, wall)
                    }
                }
            }
            Heard::Stale => self.lose("the orchestrator says that the lease is stale"),
            Heard::UnknownField if self.dialect == Dialect::Documented => {
                self.dialect = Dialect::Strict;
                vec![self.send_beat(now, wall)]
            }
            // A heartbeat that is refused does not keep the lease; it ends by its time.
            Heard::UnknownField | Heard::Refused(_) | Heard::Again | Heard::Logged(_) => {
                self.next_beat = now.plus_ms(self.beat_backoff_ms);
                let longest = BACKOFF_MS_MAX.min(self.lease.interval_ms);
                self.beat_backoff_ms = (2 * self.beat_backoff_ms).min(longest);
                Vec::new()
            }
        }
    }

    fn cancel(&mut self, deadline_ms: u64) -> Vec<Act> {
        if self.stop.is_some() {
            return Vec::new();
        }
        self.stop = Some(Why::Cancelled);
        let deadline_ms = if deadline_ms == 0 {
            CANCEL_MS
        } else {
            deadline_ms
        };
        let grace_ms = deadline_ms.saturating_sub(CANCEL_MARGIN_MS);
        let stop = self
            .guest
            .map(|tag| Act::Stop(tag, grace_ms, Stop::Cancelled));
        stop.into_iter().collect()
    }

    /// The lease is over: the guest must stop at once, and nothing more is sent.
    fn lose(&mut self, why: &'static str) -> Vec<Act> {
        self.give_up(Done::Lost(why))
    }

    fn give_up(&mut self, done: Done) -> Vec<Act> {
        self.beat = None;
        self.main = None;
        if let Some(tag) = self.guest {
            let reason = if done == Done::ShutDown {
                Stop::ShuttingDown
            } else {
                Stop::Disconnected
            };
            self.stop = Some(Why::Over(done));
            return vec![Act::Stop(tag, 0, reason)];
        }
        self.is_done = true;
        vec![Act::Done(done)]
    }

    /// The runner must end.
    pub(super) fn shut_down(&mut self) -> Vec<Act> {
        let is_over = self.is_done || matches!(self.stop, Some(Why::Over(_)));
        if is_over || self.end.is_some() {
            return Vec::new();
        }
        self.give_up(Done::ShutDown)
    }

    /// Starts the next step, or ends the job.
    fn next_step(&mut self, now: Time, wall: &str) -> Vec<Act> {
        let at = self.results.len();
        let Some(step) = self.lease.steps.get(at) else {
            let status = if at == 0 {
                Status::Failed
            } else {
                Status::Succeeded
            };
            let text = if at == 0 { "the job has no steps" } else { "" };
            return self.finish(now, wall, status, text);
        };
        self.stage.step.clone_from(&step.name);
        self.stage.step_index = at;
        self.stage.progress = None;
        let (handler, params) = match &step.run {
            Ok((handler, params)) => (handler.clone(), params.clone()),
            Err(why) => {
                let text = why.clone();
                return self.finish(now, wall, Status::Failed, &text);
            }
        };
        let tag = Tag(at as u64);
        let mut job = ForeignJob::new(NAME, &self.lease.job_id, handler, params);
        job.request_id = format!("{}-{at}", self.lease.job_id);
        job.worker_id = Some(self.speaker.runner.clone());
        job.env.clone_from(&self.lease.env);
        job.wants_log = true;
        let run_id = self.lease.run_id.clone();
        job.attributes
            .extend(run_id.map(|id| ("delta.run_id".to_owned(), id)));
        job.deadline = self
            .lease
            .max_runtime_ms
            .zip(self.started_at.as_ref())
            .map(|(most, (began, _))| began.plus_ms(most));
        self.guest = Some(tag);
        vec![Act::Start(tag, Box::new(job))]
    }

    /// Takes what a guest says.
    pub(super) fn on_guest(&mut self, now: Time, wall: &str, tag: Tag, answer: Answer) -> Vec<Act> {
        if self.guest != Some(tag) {
            return Vec::new();
        }
        match answer {
            Answer::Progressed(progress) => {
                self.stage.progress = Some(progress);
                Vec::new()
            }
            Answer::Logged { started_at, lines } if self.is_network => {
                self.wrote(now, started_at, &lines)
            }
            Answer::Logged { started_at, lines } => vec![Act::Log(started_at, lines)],
            Answer::Began => Vec::new(),
            Answer::Busy => {
                self.guest = None;
                self.ended(
                    now,
                    wall,
                    Err((Status::Failed, "this runner has no room".to_owned())),
                )
            }
            Answer::Ended(outcome, _) => {
                self.guest = None;
                let ended = match outcome {
                    Outcome::Completed { result } => {
                        Ok(result.map_or("null".to_owned(), |it| it.0))
                    }
                    other => Err(failed_text(other)),
                };
                self.ended(now, wall, ended)
            }
        }
    }

    fn ended(
        &mut self,
        now: Time,
        wall: &str,
        ended: Result<String, (Status, String)>,
    ) -> Vec<Act> {
        if let Some(Why::Over(done)) = self.stop.take_if(|why| matches!(why, Why::Over(_))) {
            self.is_done = true;
            return vec![Act::Done(done)];
        }
        match ended {
            Ok(result) => {
                self.results.push(result);
                let is_last = self.results.len() == self.lease.steps.len();
                if self.stop.is_some() && !is_last {
                    return self.finish(now, wall, Status::Canceled, "stopped between two steps");
                }
                self.next_step(now, wall)
            }
            Err((_, text)) if self.stop.is_some() => {
                self.finish(now, wall, Status::Canceled, &text)
            }
            Err((status, text)) => self.finish(now, wall, status, &text),
        }
    }

    fn finish(&mut self, now: Time, wall: &str, status: Status, text: &str) -> Vec<Act> {
        let text = match (status, self.stage.step.as_str()) {
            (Status::Succeeded, _) | (_, "") => text.to_owned(),
            (_, step) => format!("{step}: {text}"),
        };
        let (summary, artifacts, files) = self.results.report(status == Status::Succeeded, &text);
        let end = End {
            status,
            started_at: self
                .started_at
                .as_ref()
                .map_or_else(String::new, |(_, at)| at.clone()),
            finished_at: wall.to_owned(),
            artifacts,
            summary,
        };
        let kind = if status == Status::Canceled {
            Kind::CancelAck
        } else {
            Kind::Complete
        };
        let mut acts: Vec<Act> = files
            .into_iter()
            .map(|(name, text)| Act::Keep(name, text))
            .collect();
        self.end = Some((kind, end));
        self.end_at = self.log_wait(now);
        acts.extend(if self.end_at.is_some() {
            self.send_log(now)
        } else {
            self.send_end(now)
        });
        acts
    }

    fn send_end(&mut self, now: Time) -> Option<Act> {
        let (kind, end) = self.end.as_ref()?;
        let (kind, body) = match kind {
            Kind::CancelAck => (*kind, self.speaker.cancel_ack(self.dialect, end)),
            _ => (*kind, self.speaker.complete(self.dialect, end)),
        };
        Some(self.send_main(now, kind, body))
    }

    fn heard_end(&mut self, now: Time, kind: Kind, heard: &Heard) -> Vec<Act> {
        let Some((_, end)) = &self.end else {
            return Vec::new();
        };
        let done = match heard {
            Heard::Accepted(_) => Done::Reported(end.status),
            Heard::UnknownField if self.dialect == Dialect::Documented => {
                self.dialect = Dialect::Strict;
                return self.send_end(now).into_iter().collect();
            }
            Heard::Stale => Done::Refused(format!("{kind:?} was refused: the lease is stale")),
            Heard::UnknownField | Heard::Refused(_) => {
                Done::Refused(format!("{kind:?} was refused{}", said(heard)))
            }
            Heard::Again | Heard::Logged(_) => {
                self.later(now);
                return Vec::new();
            }
        };
        self.give_up(done)
    }

    /// Sends the message again later, byte for byte.
    fn later(&mut self, now: Time) {
        if let Some(main) = &mut self.main {
            main.again_at = Some(now.plus_ms(main.backoff_ms));
            main.backoff_ms = (2 * main.backoff_ms).min(BACKOFF_MS_MAX);
        }
    }

    /// Returns when the guest must be stopped unless the lease is extended before: it must not run when
    /// another runner may have the job.
    fn must_stop_at(&self) -> Time {
        let margin_ms = (self.lease.ttl_ms / 10)
            .max(2_000)
            .min(self.lease.ttl_ms / 4);
        Time(self.live_until.0.saturating_sub_unsigned(margin_ms))
    }

    /// Returns when [`Session::on_wakeup`] is due.
    pub(super) fn wakeup(&self) -> Option<Time> {
        if self.is_done || matches!(self.stop, Some(Why::Over(_))) {
            return None;
        }
        let beats = self.is_acked && self.end.is_none() && self.beat.is_none();
        let beat = beats.then_some(self.next_beat);
        let again = self.main.as_ref().and_then(|main| main.again_at);
        let over = Some(if self.end.is_some() {
            self.live_until
        } else {
            self.must_stop_at()
        });
        let may_log = self.is_acked && (self.end.is_none() || self.end_at.is_some());
        let log = self.upload.due().filter(|_| may_log);
        let times = [beat, again, over, log, self.end_at];
        times.into_iter().flatten().min()
    }

    /// Does what is due.
    pub(super) fn on_wakeup(&mut self, now: Time, wall: &str) -> Vec<Act> {
        if self.wakeup().is_none_or(|due| now < due) {
            return Vec::new();
        }
        let over = if self.end.is_some() {
            self.live_until
        } else {
            self.must_stop_at()
        };
        if now >= over {
            return self.lose("the lease ran out: no heartbeat was answered in time");
        }
        let mut acts = Vec::new();
        if let Some(main) = &mut self.main
            && main.again_at.is_some_and(|at| at <= now)
        {
            main.again_at = None;
            main.sent_at = now;
            acts.push(Act::Send {
                kind: main.kind,
                body: main.body.clone(),
                timeout_ms: main.timeout_ms,
            });
        }
        let beats = self.is_acked && self.end.is_none() && self.beat.is_none();
        if beats && self.next_beat <= now {
            acts.push(self.send_beat(now, wall));
        }
        if self.end_at.take_if(|until| *until <= now).is_some() {
            acts.extend(self.send_end(now));
        }
        if self.end.is_none() || self.end_at.is_some() {
            acts.extend(self.send_log(now));
        }
        acts
    }

    /// Notes how much of the log is written.
    pub(super) fn logged(&mut self, bytes: u64) {
        self.stage.log_bytes = bytes;
    }
}

impl Pending {
    fn new(now: Time, kind: Kind, body: String, timeout_ms: u64) -> Self {
        Self {
            kind,
            body,
            timeout_ms,
            sent_at: now,
            again_at: None,
            backoff_ms: BACKOFF_MS,
        }
    }
}

fn said(heard: &Heard) -> String {
    match heard {
        Heard::Refused(text) => format!(": {text}"),
        _ => String::new(),
    }
}
