//! One lease, from its acknowledgement to its end: which message is sent when, when the guest runs
//! and when it must stop. Pure.

mod beats;
mod ending;
mod steps;
mod uploading;

#[cfg(test)]
mod tests;

use std::convert::Infallible;

use host_core::cell::LogLine;
use host_core::port::{Answer, ForeignJob, Stop, Tag};
use host_core::time::Time;
use host_runtime::backoff::Backoff;
use host_wire_kit::session::{ActionsOf, Link, Moment, Session};

use super::exchange::{Kind, Response};
use super::lease::Lease;
use super::results::Results;
use super::upload::Upload;
use super::words::{Dialect, End, Speaker, Stage};
use crate::NAME;
use crate::messages::read::Status;

/// The wait before a message is sent again: it doubles up to the longest.
const BACKOFF_MS: u64 = 250;
const BACKOFF_MS_MAX: u64 = 5_000;

/// How long an answer may take, in milliseconds.
const ANSWER_MS: u64 = 15_000;

/// How much sooner than a cancel's deadline a guest is stopped, so that the answer is in time.
const CANCEL_MARGIN_MS: u64 = 1_000;

/// The grace of a cancel that names none, as the document recommends it.
const CANCEL_MS: u64 = 30_000;

/// What the host is to do.
#[derive(Debug, PartialEq)]
pub(super) enum Effect {
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
    /// Say that no more of the log is sent, and why.
    WarnOfLog(String),
    /// Write a result that is too large for the summary to this file.
    Keep(String, String),
    /// Nothing more happens.
    Done(Done),
}

/// What the host reports.
#[derive(Debug)]
pub(super) enum Event {
    /// The lease is to be acknowledged.
    Begin,
    Answered(Kind, Response),
    Guest(Tag, Answer),
    /// How many bytes were appended to the log file in all.
    Logged(u64),
    /// The runner must end.
    Stop,
}

/// How a lease ended for its runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// The orchestrator has its end.
    Reported(Status),
    /// The orchestrator may have its end: the first answer was lost, and then the lease was over.
    Unanswered(Status),
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

/// The acknowledgement, or what ends the lease: sent until it is answered.
#[derive(Debug)]
struct Pending {
    kind: Kind,
    body: String,
    /// When it is sent again; `None` while its answer is awaited.
    again_at: Option<Time>,
    backoff: Backoff,
    /// It had no answer once: the orchestrator may have it.
    may_be_known: bool,
}

/// How a runner and its orchestrator deal with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode {
    pub(super) dialect: Dialect,
    /// Whether the lease came over the network: then heartbeats may wait for a cancel and the log is sent, if
    /// the orchestrator takes that.
    pub(super) is_network: bool,
}

/// One lease.
#[derive(Debug)]
pub(super) struct LeaseSession {
    lease: Lease,
    speaker: Speaker,
    mode: Mode,
    upload: Upload,
    stage: Stage,
    results: Results,
    is_acked: bool,
    /// When the lease came: its time limit counts from then.
    received_at: Time,
    /// When the first step started, also as text.
    started_at: Option<(Time, String)>,
    live_until: Time,
    next_beat: Time,
    /// When the heartbeat was sent whose answer is awaited.
    beat_sent_at: Option<Time>,
    beat_backoff: Backoff,
    main: Option<Pending>,
    end: Option<End>,
    /// Until when the end waits for the log; `None` if it is sent.
    end_at: Option<Time>,
    guest: Option<Tag>,
    stop: Option<Why>,
    is_done: bool,
    /// The wall clock minus host time, in milliseconds.
    wall_ahead_ms: i64,
}

type Actions = ActionsOf<LeaseSession>;

impl LeaseSession {
    pub(super) fn new(
        now: Time,
        lease: Lease,
        runner_id: &str,
        mode: Mode,
        results: Results,
    ) -> Self {
        Self {
            speaker: Speaker {
                runner: runner_id.to_owned(),
                lease: lease.id.clone(),
                job: lease.job_id.clone(),
            },
            mode,
            upload: Upload::new(now, mode.is_network && lease.log_uri.is_some()),
            stage: Stage::default(),
            results,
            is_acked: false,
            received_at: now,
            started_at: None,
            live_until: now.plus_ms(lease.ttl_ms),
            next_beat: now,
            beat_sent_at: None,
            beat_backoff: beats::backoff(lease.interval_ms),
            main: None,
            end: None,
            end_at: None,
            guest: None,
            stop: None,
            is_done: false,
            wall_ahead_ms: 0,
            lease,
        }
    }

    /// Returns the time as it stands in messages.
    fn wall(&self, now: Time) -> String {
        Time(now.0.saturating_add(self.wall_ahead_ms)).to_rfc3339()
    }

    fn send_main(&mut self, kind: Kind, body: String, todo: &mut Actions) {
        self.main = Some(Pending {
            kind,
            body: body.clone(),
            again_at: None,
            backoff: Backoff::new(BACKOFF_MS, BACKOFF_MS_MAX),
            may_be_known: false,
        });
        let timeout_ms = ANSWER_MS;
        todo.effect(Effect::Send {
            kind,
            body,
            timeout_ms,
        });
    }

    fn answered(&mut self, now: Time, kind: Kind, response: &Response, todo: &mut Actions) {
        if self.is_done {
            return;
        }
        match kind {
            Kind::Heartbeat => self.on_heartbeat_response(now, response, todo),
            Kind::Ack => self.on_ack_response(now, response, todo),
            Kind::Complete | Kind::CancelAck => self.on_end_response(now, kind, response, todo),
            Kind::Log => self.on_log_response(now, response, todo),
        }
    }

    fn on_ack_response(&mut self, now: Time, response: &Response, todo: &mut Actions) {
        match response {
            Response::Accepted(_) => {
                self.main = None;
                self.is_acked = true;
                self.send_beat(now, todo);
            }
            Response::Stale => self.lose("the lease was taken away", todo),
            Response::UnknownField | Response::Refused(_) => {
                let why = format!("AckLease was refused{}", reason(response));
                self.give_up(Done::Refused(why), todo);
            }
            Response::Again | Response::Logged(_) => self.later(now),
        }
    }

    /// The lease is over: the guest must stop immediately, and nothing more is sent.
    fn lose(&mut self, why: &'static str, todo: &mut Actions) {
        self.give_up(Done::Lost(why), todo);
    }

    fn give_up(&mut self, done: Done, todo: &mut Actions) {
        self.beat_sent_at = None;
        self.main = None;
        if let Some(tag) = self.guest {
            let reason = if done == Done::ShutDown {
                Stop::ShuttingDown
            } else {
                Stop::Disconnected
            };
            self.stop = Some(Why::Over(done));
            return todo.effect(Effect::Stop(tag, 0, reason));
        }
        self.is_done = true;
        todo.effect(Effect::Done(done));
    }

    fn is_over(&self) -> bool {
        self.is_done || matches!(self.stop, Some(Why::Over(_)))
    }

    /// Sends the message again later, byte for byte.
    fn later(&mut self, now: Time) {
        if let Some(main) = &mut self.main {
            main.again_at = Some(now.plus_ms(main.backoff.next_ms()));
            main.may_be_known = true;
        }
    }

    /// Returns when the lease is lost unless it is extended before. A guest must not run when another
    /// runner may have the job.
    fn over_at(&self) -> Time {
        if self.end.is_some() {
            return self.live_until;
        }
        let margin_ms = (self.lease.ttl_ms / 10)
            .max(2_000)
            .min(self.lease.ttl_ms / 4);
        Time(self.live_until.0.saturating_sub_unsigned(margin_ms))
    }

    fn beat_due(&self) -> Option<Time> {
        let beats = self.is_acked
            && (self.end.is_none() || self.repeats_end())
            && self.beat_sent_at.is_none();
        beats.then_some(self.next_beat)
    }

    /// Returns whether an end was not accepted and is about to be sent again. It may be that the orchestrator waits for
    /// another one: the answer to a heartbeat says so.
    fn repeats_end(&self) -> bool {
        let main = self.main.as_ref();
        self.end.is_some() && main.is_some_and(|main| main.again_at.is_some())
    }
}

impl Session for LeaseSession {
    const WIRE: &'static str = NAME;
    /// The orchestrator only answers.
    type In = Infallible;
    type Out = Infallible;
    type Effect = Effect;
    type Event = Event;

    fn on_message(&mut self, _: Moment, _: Link, message: Infallible, _: &mut Actions) {
        match message {}
    }

    fn on_event(&mut self, at: Moment, event: Event, todo: &mut Actions) {
        let now = at.now;
        self.wall_ahead_ms = at.wall.0.saturating_sub(now.0);
        match event {
            Event::Begin => {
                let body = self.speaker.ack(&self.wall(now));
                self.send_main(Kind::Ack, body, todo);
            }
            Event::Answered(kind, response) => self.answered(now, kind, &response, todo),
            Event::Guest(tag, answer) => self.on_guest(now, tag, answer, todo),
            Event::Logged(bytes) => self.stage.log_bytes = bytes,
            Event::Stop if self.is_over() || self.end.is_some() => {}
            Event::Stop => self.give_up(Done::ShutDown, todo),
        }
    }

    fn on_closed(&mut self, _: Time, _: Link, _: &mut Actions) {}

    fn wakeup(&self) -> Option<Time> {
        if self.is_over() {
            return None;
        }
        let again = self.main.as_ref().and_then(|main| main.again_at);
        let may_log = self.is_acked && (self.end.is_none() || self.end_at.is_some());
        let log = self.upload.due().filter(|_| may_log);
        let over = Some(self.over_at());
        let times = [self.beat_due(), again, over, log, self.end_at];
        times.into_iter().flatten().min()
    }

    fn on_wakeup(&mut self, now: Time, todo: &mut Actions) {
        if self.wakeup().is_none_or(|due| now < due) {
            return;
        }
        if now >= self.over_at() {
            return self.lose(
                match self.end {
                    None => "the lease ran out: no heartbeat was answered in time",
                    Some(_) => "the lease ran out: the orchestrator has not accepted its end",
                },
                todo,
            );
        }
        if let Some(main) = &mut self.main
            && main.again_at.take_if(|at| *at <= now).is_some()
        {
            todo.effect(Effect::Send {
                kind: main.kind,
                body: main.body.clone(),
                timeout_ms: ANSWER_MS,
            });
        }
        if self.beat_due().is_some_and(|due| due <= now) {
            self.send_beat(now, todo);
        }
        if self.end_at.take_if(|until| *until <= now).is_some() {
            self.send_end(todo);
        }
        if self.end.is_none() || self.end_at.is_some() {
            self.send_log(now, todo);
        }
    }

    fn is_idle(&self) -> bool {
        self.is_done
    }
}

fn reason(response: &Response) -> String {
    match response {
        Response::Refused(text) => format!(": {text}"),
        _ => String::new(),
    }
}
