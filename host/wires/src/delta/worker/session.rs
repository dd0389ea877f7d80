//! One lease, from its acknowledgement to its end: which message is sent when, when the guest runs
//! and when it must stop. Pure: the driver sends, executes, and tells the time.

mod beats;
mod ending;
mod steps;
mod uploading;

#[cfg(test)]
mod tests;

use host_core::cell::LogLine;
use host_core::port::{ForeignJob, Stop, Tag};
use host_core::time::Time;

use super::exchange::{Kind, Response};
use super::lease::Lease;
use super::results::Results;
use super::upload::Upload;
use super::words::{Dialect, End, Speaker, Stage};
use crate::delta::messages::read::Status;
use crate::kit::backoff::Backoff;

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
    backoff: Backoff,
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
    beat_backoff: Backoff,
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
            beat_backoff: beats::backoff(lease.interval_ms),
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
    pub(super) fn on_response(
        &mut self,
        now: Time,
        wall: &str,
        kind: Kind,
        response: &Response,
    ) -> Vec<Act> {
        if self.is_done {
            return Vec::new();
        }
        match kind {
            Kind::Heartbeat => self.on_heartbeat_response(now, wall, response),
            Kind::Ack => self.on_ack_response(now, wall, response),
            Kind::Complete | Kind::CancelAck => self.on_end_response(now, kind, response),
            Kind::Log => self.on_log_response(now, response),
        }
    }

    fn on_ack_response(&mut self, now: Time, wall: &str, response: &Response) -> Vec<Act> {
        match response {
            Response::Accepted(_) => {
                self.main = None;
                self.is_acked = true;
                vec![self.send_beat(now, wall)]
            }
            Response::Stale => self.give_up(Done::Lost("the lease was taken away")),
            Response::UnknownField | Response::Refused(_) => {
                let why = format!("AckLease was refused{}", reason(response));
                self.give_up(Done::Refused(why))
            }
            Response::Again | Response::Logged(_) => {
                self.later(now);
                Vec::new()
            }
        }
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

    /// Sends the message again later, byte for byte.
    fn later(&mut self, now: Time) {
        if let Some(main) = &mut self.main {
            main.again_at = Some(now.plus_ms(main.backoff.next_ms()));
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
            backoff: Backoff::new(BACKOFF_MS, BACKOFF_MS_MAX),
        }
    }
}

fn reason(response: &Response) -> String {
    match response {
        Response::Refused(text) => format!(": {text}"),
        _ => String::new(),
    }
}
