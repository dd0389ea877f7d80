//! The rules of the worker role on successive connections: asks for a task, has it executed, and reports how
//! it ended. Pure.
//!
//! At most one task runs at a time. Whatever stops the worker first stops the guest; the next connection, or
//! the end, comes afterwards.
//!
//! A framed orchestrator answers not only READY but also DONE and FAILED, each with a task or a wait. So READY
//! follows them only if that answer does not come, and a second task waits for the first.

#[cfg(test)]
pub(super) mod tests;

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::outcome::Outcome;
use host_core::port::{ForeignJob, Stop, Tag};
use host_core::time::Time;
use host_wire_kit::session::{Actions, ActionsOf, Link, Moment, Session};
use host_wire_kit::stream::StreamSession;
use serde_json::json;

use super::WIRE;
use super::convert::error_text;
use super::frame::{Defect, Dialect, Messages};
use super::messages::{Out, OutMessage};
use super::read::{In, OrchestratorMessage, Order, Task, read_orchestrator};
use super::refusals::Code;

/// How long a guest may take to stop by itself, in milliseconds.
pub(super) const GRACE_MS: u64 = 1_000;

/// The longest id of an issue, in bytes.
const ISSUE_ID_BYTES_MAX: usize = 256;

/// How long to wait before asking again if the answer cannot be read, in milliseconds.
const PAUSE_MS: u64 = 30_000;

/// How long a framed orchestrator may take to answer DONE or FAILED, in milliseconds.
pub(super) const ANSWER_MS: u64 = 250;

/// How often a framed worker sends HEARTBEAT, in milliseconds.
pub(super) const HEARTBEAT_MS: u64 = 30_000;

/// The most tasks that wait for the one that runs.
const QUEUED_MAX: usize = 64;

/// The settings of the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorkerSetup {
    pub(super) worker_id: String,
    pub(super) handler: Name,
    /// The dialect to begin with. Frames are kept; lines are only a first try.
    pub(super) dialect: Dialect,
    /// Whether a program is called for issues.
    pub(super) has_program: bool,
}

/// The calls of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// `update ID --status=in_progress`
    Claim,
    /// `close ID`
    Close,
    /// `update ID --status=open`
    Reopen,
}

/// An external event.
#[derive(Debug)]
pub(super) enum Event {
    /// The guest has ended, or there was no free slot for it (`None`).
    Ended(Tag, Option<Outcome>),
    /// The program has ended, successfully or with a reason.
    Called(Result<(), String>),
    /// The host stops.
    Stop,
    /// A worker that got SHUTDOWN may ask again.
    Again,
    /// Another worker has found out that the orchestrator speaks this dialect.
    Speak(Dialect),
}

/// A request to the host.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Effect {
    Start(Tag, Box<ForeignJob>),
    Stop(Tag, Stop),
    /// Call the program for an issue. The answer is [`Event::Called`].
    Call(Call, String),
    /// Say that the next connection begins with frames, because lines had no answer.
    WarnOfFrames,
}

/// The state of the current task.
#[derive(Debug)]
enum Phase {
    Claiming,
    Running(Tag),
    /// The guest has done its work.
    Closing,
    /// The task has failed or was stopped, with the text for FAILED.
    Reopening(String),
}

#[derive(Debug)]
struct Work {
    task: Task,
    began_at: Time,
    phase: Phase,
    /// Its end is not reported.
    is_stopped: bool,
}

/// The dialect that the worker speaks, and what is known of the orchestrator's.
#[derive(Debug)]
struct DialectChoice {
    dialect: Dialect,
    /// It was configured, or an answer has come in it.
    is_settled: bool,
    /// Whether anything has come on this connection.
    is_answered: bool,
}

impl DialectChoice {
    const fn new(dialect: Dialect) -> Self {
        Self {
            is_settled: matches!(dialect, Dialect::Framed),
            dialect,
            is_answered: false,
        }
    }

    const fn answered_in(&mut self, dialect: Dialect) {
        *self = Self {
            dialect,
            is_settled: true,
            is_answered: true,
        };
    }

    /// Handles the end of a connection: the next one tries the other dialect if nothing has come. Returns
    /// whether it tries frames.
    fn closed(&mut self) -> bool {
        if std::mem::take(&mut self.is_answered) || self.is_settled {
            return false;
        }
        self.dialect = match self.dialect {
            Dialect::Lines => Dialect::Framed,
            Dialect::Framed => Dialect::Lines,
        };
        self.dialect == Dialect::Framed
    }
}

/// One worker.
#[derive(Debug)]
pub(super) struct Worker {
    setup: WorkerSetup,
    /// Our name, or the one that the orchestrator gave us.
    name: String,
    choice: DialectChoice,
    link: Option<Link>,
    work: Option<Work>,
    /// The tasks that came while another one ran.
    queued: VecDeque<Task>,
    /// When to send READY.
    ready_at: Option<Time>,
    /// When to send HEARTBEAT. Only a framed orchestrator gets any.
    beat_at: Option<Time>,
    /// SHUTDOWN has come, or the host stops.
    is_over: bool,
    /// Whether the orchestrator asked for the end.
    was_shut_down: bool,
    tags_made: u64,
    wall_ahead_ms: i64,
}

type WorkerActions = Actions<Out, Effect>;

impl Worker {
    pub(super) fn new(setup: WorkerSetup, at: Moment) -> Self {
        Self {
            name: setup.worker_id.clone(),
            choice: DialectChoice::new(setup.dialect),
            setup,
            link: None,
            work: None,
            queued: VecDeque::new(),
            ready_at: None,
            beat_at: None,
            is_over: false,
            was_shut_down: false,
            tags_made: 0,
            wall_ahead_ms: at.wall.0.saturating_sub(at.now.0),
        }
    }

    /// Returns whether the orchestrator has sent this worker SHUTDOWN.
    pub(super) const fn was_shut_down(&self) -> bool {
        self.was_shut_down
    }

    /// Returns whether it knows the orchestrator's dialect, or tries the other one than it began with.
    pub(super) fn has_found_out(&self) -> bool {
        self.choice.is_settled || self.choice.dialect != self.setup.dialect
    }

    /// Returns the dialect that it speaks.
    pub(super) const fn dialect(&self) -> Dialect {
        self.choice.dialect
    }

    /// Returns the issue that the program has not closed or set back yet.
    pub(super) fn unfinished(&self) -> Option<&str> {
        let work = self.work.as_ref().filter(|_| self.setup.has_program)?;
        Some(&work.task.issue_id)
    }

    /// Returns whether a guest runs.
    pub(super) fn runs_guest(&self) -> bool {
        let phase = self.work.as_ref().map(|work| &work.phase);
        matches!(phase, Some(Phase::Running(_)))
    }

    fn at(&mut self, at: Moment) -> Time {
        self.wall_ahead_ms = at.wall.0.saturating_sub(at.now.0);
        at.now
    }

    fn send(&self, now: Time, message: OutMessage, actions: &mut WorkerActions) {
        if let Some(link) = self.link {
            let out = Out {
                dialect: self.choice.dialect,
                at: Time(now.0.saturating_add(self.wall_ahead_ms)),
                worker_id: self.name.clone(),
                message,
            };
            actions.send(link, out);
        }
    }

    fn ready(&mut self, now: Time, actions: &mut WorkerActions) {
        self.ready_at = None;
        self.send(now, OutMessage::Ready, actions);
    }

    /// Begins the next task that waits, or asks for one. A framed orchestrator first has a moment to answer
    /// the message before.
    fn next(&mut self, now: Time, actions: &mut WorkerActions) {
        if let Some(task) = self.queued.pop_front() {
            return self.begin(now, task, actions);
        }
        match self.choice.dialect {
            Dialect::Lines => self.ready(now, actions),
            Dialect::Framed => self.ready_at = Some(now.plus_ms(ANSWER_MS)),
        }
    }

    fn failed(
        &self,
        now: Time,
        issue_id: String,
        error: String,
        duration_ms: u64,
        actions: &mut WorkerActions,
    ) {
        let failed = OutMessage::Failed {
            issue_id,
            error,
            duration_ms,
        };
        self.send(now, failed, actions);
    }

    fn obey(&mut self, now: Time, order: Order, actions: &mut WorkerActions) {
        match order {
            Order::Task(task) => self.begin(now, task, actions),
            // WAIT while a task runs is the answer to a message about another one.
            Order::Wait { ms } if self.work.is_none() => self.ready_at = Some(now.plus_ms(ms)),
            Order::Wait { .. } => {}
            Order::Shutdown => {
                self.was_shut_down = true;
                self.end(actions);
            }
        }
    }

    fn begin(&mut self, now: Time, task: Task, actions: &mut WorkerActions) {
        if self.is_over {
            return;
        }
        if self.work.is_some() {
            if self.choice.dialect == Dialect::Framed && self.queued.len() < QUEUED_MAX {
                return self.queued.push_back(task);
            }
            actions.count(Code::Busy.as_str());
            return self.failed(now, task.issue_id, "busy".to_owned(), 0, actions);
        }
        if let Some(why) = unusable(&task.issue_id) {
            actions.count(Code::FieldRange.as_str());
            self.failed(now, task.issue_id, why.to_owned(), 0, actions);
            return self.next(now, actions);
        }
        self.ready_at = None;
        let issue_id = task.issue_id.clone();
        self.work = Some(Work {
            task,
            began_at: now,
            phase: Phase::Claiming,
            is_stopped: false,
        });
        if self.setup.has_program {
            actions.effect(Effect::Call(Call::Claim, issue_id));
        } else {
            self.run(actions);
        }
    }

    /// Starts the guest.
    fn run(&mut self, actions: &mut WorkerActions) {
        let tag = Tag(self.tags_made);
        let Some(work) = &mut self.work else { return };
        self.tags_made += 1;
        work.phase = Phase::Running(tag);
        let Task {
            issue_id,
            title,
            priority,
        } = &work.task;
        let fields = json!({"issue_id": issue_id, "title": title, "priority": priority});
        let params = JsonText(fields.to_string());
        let job = ForeignJob {
            worker_id: Some(self.name.clone()),
            ..ForeignJob::new(WIRE, issue_id, self.setup.handler.clone(), params)
        };
        actions.effect(Effect::Start(tag, Box::new(job)));
    }

    /// Handles the end of the guest.
    fn ended(
        &mut self,
        now: Time,
        tag: Tag,
        outcome: Option<&Outcome>,
        actions: &mut WorkerActions,
    ) {
        let Some(work) = &mut self.work else { return };
        if !matches!(work.phase, Phase::Running(of) if of == tag) {
            return;
        }
        let issue_id = work.task.issue_id.clone();
        let error = error_text(outcome).filter(|_| !work.is_stopped);
        let (phase, call) = match error {
            None if !work.is_stopped => (Phase::Closing, Call::Close),
            error => (Phase::Reopening(error.unwrap_or_default()), Call::Reopen),
        };
        work.phase = phase;
        if self.setup.has_program {
            actions.effect(Effect::Call(call, issue_id));
        } else {
            self.report(now, actions);
        }
    }

    /// Handles the end of the program.
    fn called(&mut self, now: Time, end: Result<(), String>, actions: &mut WorkerActions) {
        let Some(work) = &mut self.work else { return };
        match (&work.phase, end) {
            (Phase::Claiming, Ok(())) if !work.is_stopped => self.run(actions),
            // The claim may have taken effect, so it is undone.
            (Phase::Claiming, end) => {
                let why = end.err().map(|why| format!("Failed to claim task: {why}"));
                self.reopen(why.unwrap_or_default(), actions);
            }
            (Phase::Closing, Err(why)) => {
                self.reopen(format!("Failed to close task: {why}"), actions);
            }
            (Phase::Closing, Ok(())) | (Phase::Reopening(_), _) => self.report(now, actions),
            (Phase::Running(_), _) => {}
        }
    }

    fn reopen(&mut self, why: String, actions: &mut WorkerActions) {
        if let Some(work) = &mut self.work {
            work.phase = Phase::Reopening(why);
            actions.effect(Effect::Call(Call::Reopen, work.task.issue_id.clone()));
        }
    }

    /// Reports how the task ended and asks for the next one.
    fn report(&mut self, now: Time, actions: &mut WorkerActions) {
        let Some(work) = self.work.take() else { return };
        if work.is_stopped {
            return self.leave(actions);
        }
        let (issue_id, duration_ms) = (work.task.issue_id, now.since_ms(work.began_at));
        if let Phase::Reopening(error) = work.phase {
            self.failed(now, issue_id, error, duration_ms, actions);
        } else {
            let done = OutMessage::Done {
                issue_id,
                duration_ms,
            };
            self.send(now, done, actions);
        }
        self.next(now, actions);
    }

    /// Stops the guest, for this reason.
    fn stop(&mut self, why: Stop, actions: &mut WorkerActions) {
        // The orchestrator gives them to others.
        self.queued.clear();
        if let Some(work) = &mut self.work {
            work.is_stopped = true;
            if let Phase::Running(tag) = work.phase {
                actions.effect(Effect::Stop(tag, why));
            }
        }
    }

    /// Ends the worker once nothing runs.
    fn end(&mut self, actions: &mut WorkerActions) {
        self.is_over = true;
        (self.ready_at, self.beat_at) = (None, None);
        self.stop(Stop::ShuttingDown, actions);
        self.leave(actions);
    }

    fn leave(&self, actions: &mut WorkerActions) {
        if let (true, None, Some(link)) = (self.is_over, &self.work, self.link) {
            actions.close(link);
        }
    }
}

/// Explains why an issue's id is refused. It becomes an argument of a program, which must not mistake it for
/// an option.
fn unusable(issue_id: &str) -> Option<&'static str> {
    match issue_id {
        "" => Some("issue_id: it is empty"),
        _ if issue_id.len() > ISSUE_ID_BYTES_MAX => Some("issue_id: it has more than 256 bytes"),
        _ if issue_id.starts_with('-') => Some("issue_id: it begins with `-`"),
        _ if issue_id.chars().any(char::is_control) => {
            Some("issue_id: it contains a control character")
        }
        _ => None,
    }
}

impl StreamSession for Worker {
    type Framing = Messages;

    fn read(frame: Result<Bytes, Defect>) -> In<OrchestratorMessage> {
        read_orchestrator(frame)
    }

    fn write(message: &Out, out: &mut BytesMut) {
        message.write(out);
    }
}

impl Session for Worker {
    const WIRE: &'static str = WIRE;
    type In = In<OrchestratorMessage>;
    type Out = Out;
    type Effect = Effect;
    type Event = Event;

    fn on_open(&mut self, now: Time, link: Link, actions: &mut ActionsOf<Self>) {
        self.link = Some(link);
        self.name.clone_from(&self.setup.worker_id);
        if self.is_over {
            return actions.close(link);
        }
        if self.choice.dialect == Dialect::Framed {
            self.beat_at = Some(now.plus_ms(HEARTBEAT_MS));
        }
        self.ready(now, actions);
    }

    fn on_message(
        &mut self,
        at: Moment,
        _link: Link,
        input: In<OrchestratorMessage>,
        actions: &mut ActionsOf<Self>,
    ) {
        let now = self.at(at);
        if let Some(dialect) = input.dialect {
            self.choice.answered_in(dialect);
            if dialect == Dialect::Framed && self.beat_at.is_none() && !self.is_over {
                self.beat_at = Some(now.plus_ms(HEARTBEAT_MS));
            }
        }
        match input.message {
            Ok(message) => {
                // In the framed dialect, the orchestrator names the programs.
                if let (Dialect::Framed, Some(name)) = (self.choice.dialect, message.worker_id) {
                    self.name = name;
                }
                self.obey(now, message.order, actions);
            }
            Err(refusal) => {
                actions.count(refusal.code.as_str());
                // It may have been the answer to READY.
                if self.work.is_none() && !self.is_over && self.ready_at.is_none() {
                    self.ready_at = Some(now.plus_ms(PAUSE_MS));
                }
            }
        }
    }

    fn on_event(&mut self, at: Moment, event: Event, actions: &mut ActionsOf<Self>) {
        let now = self.at(at);
        match event {
            Event::Ended(tag, outcome) => self.ended(now, tag, outcome.as_ref(), actions),
            Event::Called(end) => self.called(now, end, actions),
            Event::Stop => self.end(actions),
            Event::Speak(dialect) => self.choice.dialect = dialect,
            Event::Again => (self.is_over, self.was_shut_down) = (false, false),
        }
    }

    fn on_closed(&mut self, _now: Time, _link: Link, actions: &mut ActionsOf<Self>) {
        self.link = None;
        (self.ready_at, self.beat_at) = (None, None);
        self.stop(Stop::Disconnected, actions);
        if !self.is_over && self.choice.closed() {
            actions.effect(Effect::WarnOfFrames);
        }
    }

    fn wakeup(&self) -> Option<Time> {
        self.ready_at.into_iter().chain(self.beat_at).min()
    }

    fn on_wakeup(&mut self, now: Time, actions: &mut ActionsOf<Self>) {
        if self.beat_at.take_if(|at| *at <= now).is_some() {
            self.beat_at = Some(now.plus_ms(HEARTBEAT_MS));
            self.send(now, OutMessage::Heartbeat, actions);
        }
        if self.ready_at.is_some_and(|at| at <= now) {
            self.ready(now, actions);
        }
    }

    fn is_idle(&self) -> bool {
        self.work.is_none()
    }
}
