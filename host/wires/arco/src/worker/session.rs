//! All decisions of the worker role: which dispatches are executed, when callbacks are sent, and when
//! guests must stop. Pure.

mod reporting;
mod running;
mod steps;
mod task;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use host_core::port::{Answer, ForeignJob, Stop, Tag};
use host_core::time::Time;
use host_wire_kit::http_client::Origin;
use host_wire_kit::session::{ActionsOf, Link, Moment, Session};

use self::task::{Stage, StopCause, Task};
use super::callbacks::{Callback, CallbackAnswer};
use super::memory::{Admission, Memory};
use super::order::Order;
use super::outbox::Pending;
use crate::NAME;
use crate::messages::Secret;
use crate::refusals::Code;

/// How long ends are sent after the worker was stopped, in milliseconds.
const LAST_MS: u64 = 1_500;

/// How a dispatch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DispatchEnd {
    /// The task is over: its end was reported, or the control plane has given it up.
    Over,
    /// The control plane refused a callback.
    Refused(u16),
    /// The task did not begin; the dispatch may be repeated.
    NotBegun,
    /// The same dispatch is running.
    Running,
    /// Too many others are running.
    Full,
    Stopping,
}

/// A report from the host.
#[derive(Debug)]
pub(super) enum Event {
    /// Ends that an earlier process left on disk.
    Restored(Vec<Pending>),
    /// The answer to a callback.
    CallbackAnswer(Tag, CallbackAnswer),
    /// The answer of an execution's guest.
    Guest(Tag, Answer),
    /// An end was written to disk or removed from it.
    Stored(Tag),
    Stop,
}

/// A request to the host.
#[derive(Debug)]
pub(super) enum Effect {
    Start(Tag, Box<ForeignJob>),
    Stop(Tag, u64, Stop),
    Send(Tag, Box<Callback>),
    /// Drop a callback that has no answer yet.
    Abort(Tag),
    /// Keep an end on disk.
    Keep(Tag, Box<Pending>),
    /// Remove an end from disk and remember its dispatch.
    Forget(Tag, String),
    Warn(String, &'static str),
    /// Warn that the log of a task was not taken, and why.
    WarnOfLog(String, String),
}

type Actions = ActionsOf<Worker>;

/// Names a task in the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Id(u64);

/// The rules of this worker.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// The name of this worker in callbacks.
    pub(super) name: String,
    /// Where callbacks may go.
    pub(super) origins: Vec<Origin>,
    pub(super) logs_token: Option<Secret>,
}

/// All tasks of this worker.
#[derive(Debug)]
pub(super) struct Worker {
    setup: Setup,
    memory: Memory,
    tasks: BTreeMap<Id, Task>,
    /// The tasks of callbacks, executions and writes.
    tags: BTreeMap<Tag, Id>,
    timers: BTreeSet<(Time, Id)>,
    made: u64,
    is_stopping: bool,
    /// The wall clock minus host time, in milliseconds.
    wall_ahead_ms: i64,
}

impl Worker {
    pub(super) const fn new(setup: Setup, memory: Memory) -> Self {
        Self {
            setup,
            memory,
            tasks: BTreeMap::new(),
            tags: BTreeMap::new(),
            timers: BTreeSet::new(),
            made: 0,
            is_stopping: false,
            wall_ahead_ms: 0,
        }
    }

    /// Returns how many tasks run, how many may, and whether the worker stops.
    pub(super) fn load(&self) -> (usize, usize, bool) {
        let (running, most) = self.memory.load();
        (running, most, self.is_stopping)
    }

    fn make(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    /// Makes a tag for something that a task waits for.
    fn tag(&mut self, id: Id) -> Tag {
        let tag = Tag(self.make());
        self.tags.insert(tag, id);
        tag
    }

    fn untag(&mut self, tag: Tag) {
        self.tags.remove(&tag);
    }

    fn task(&mut self, id: Id) -> Option<&mut Task> {
        self.tasks.get_mut(&id)
    }

    /// Sets when a task continues without an event. Follows each step of the task.
    fn settle(&mut self, id: Id) {
        let Some(task) = self.tasks.get_mut(&id) else {
            return;
        };
        let due = task.due();
        if let Some(before) = std::mem::replace(&mut task.wake_at, due) {
            self.timers.remove(&(before, id));
        }
        if let Some(at) = due {
            self.timers.insert((at, id));
        }
    }

    /// Sends a callback of a task.
    fn send(&mut self, id: Id, callback: Callback, actions: &mut Actions) {
        let tag = self.tag(id);
        if let Some(task) = self.task(id) {
            task.request = Some(tag);
        }
        actions.effect(Effect::Send(tag, Box::new(callback)));
    }

    /// Drops the callbacks of a task that have no answer yet.
    fn abort(&mut self, id: Id, actions: &mut Actions) {
        let Some(task) = self.task(id) else { return };
        let beat = match &mut task.stage {
            Stage::Reporting(report) => report.beats.take().and_then(|beats| beats.request),
            _ => None,
        };
        for tag in [task.request.take(), beat].into_iter().flatten() {
            self.tags.remove(&tag);
            actions.effect(Effect::Abort(tag));
        }
    }

    fn add(&mut self, task: Task) -> Id {
        let id = Id(self.make());
        self.tasks.insert(id, task);
        id
    }

    /// Ends a task, and answers its dispatch.
    fn finish(&mut self, id: Id, done: DispatchEnd, actions: &mut Actions) {
        self.abort(id, actions);
        let Some(task) = self.tasks.remove(&id) else {
            return;
        };
        if let Some(at) = task.wake_at {
            self.timers.remove(&(at, id));
        }
        if let Some(order) = &task.order {
            self.memory.end(&order.key, done == DispatchEnd::Over);
        }
        if let Some(link) = task.link {
            actions.send(link, done);
        }
    }

    /// Stops the worker: guests stop, dispatches that have not begun may be repeated, and ends are sent for
    /// a moment longer.
    fn stop(&mut self, at: Moment, actions: &mut Actions) {
        self.is_stopping = true;
        let ids: Vec<Id> = self.tasks.keys().copied().collect();
        for id in ids {
            let Some(task) = self.tasks.get_mut(&id) else {
                continue;
            };
            match &mut task.stage {
                Stage::Starting { .. } if task.request.is_none() => {
                    self.finish(id, DispatchEnd::NotBegun, actions);
                }
                Stage::Running(run) if run.ends.is_none() => {
                    run.ends = Some(StopCause::ShutDown);
                    let tag = run.tag;
                    self.abort(id, actions);
                    actions.effect(Effect::Stop(tag, 0, Stop::ShuttingDown));
                }
                Stage::Reporting(report) => report.give_up = Some(at.now.plus_ms(LAST_MS)),
                _ => {}
            }
            self.settle(id);
        }
    }

    /// Returns when to give up an end that is sent from now on, if the worker stops.
    fn give_up(&self, now: Time) -> Option<Time> {
        self.is_stopping.then(|| now.plus_ms(LAST_MS))
    }
}

impl Session for Worker {
    const WIRE: &'static str = NAME;
    type In = Order;
    type Out = DispatchEnd;
    type Effect = Effect;
    type Event = Event;

    fn on_message(&mut self, at: Moment, link: Link, order: Order, actions: &mut Actions) {
        self.wall_ahead_ms = at.wall.0.saturating_sub(at.now.0);
        let done = if self.is_stopping {
            DispatchEnd::Stopping
        } else {
            match self.memory.admit(&order.key) {
                Admission::New => {
                    let id = self.add(Task::of(order, link, at.now));
                    return self.begin(at, id, actions);
                }
                Admission::Finished => DispatchEnd::Over,
                Admission::Running => DispatchEnd::Running,
                Admission::Full => DispatchEnd::Full,
            }
        };
        if matches!(done, DispatchEnd::Running | DispatchEnd::Full) {
            actions.count(Code::Busy.as_str());
        }
        actions.send(link, done);
    }

    fn on_event(&mut self, at: Moment, event: Event, actions: &mut Actions) {
        self.wall_ahead_ms = at.wall.0.saturating_sub(at.now.0);
        match event {
            Event::Restored(pending) => {
                for pending in pending {
                    let id = self.add(Task::restored(pending));
                    self.send_end(at, id, actions);
                    self.settle(id);
                }
            }
            Event::CallbackAnswer(tag, answer) => {
                let id = self.tags.remove(&tag);
                if let Some(id) = id {
                    let is_over = matches!(answer, CallbackAnswer::Over(_));
                    if !self.on_late_beat(at, id, tag, is_over)
                        && let Some(task) = self.task(id)
                    {
                        task.request = None;
                        self.on_answered(at, id, answer, actions);
                    }
                    self.settle(id);
                }
            }
            Event::Guest(tag, answer) => {
                if let Some(id) = self.tags.get(&tag).copied() {
                    self.on_guest(at, id, answer, actions);
                    self.settle(id);
                }
            }
            Event::Stored(tag) => {
                if let Some(id) = self.tags.remove(&tag) {
                    self.on_stored(at, id, actions);
                    self.settle(id);
                }
            }
            Event::Stop => self.stop(at, actions),
        }
    }

    /// A task that has begun continues without its requester.
    fn on_closed(&mut self, _: Time, _: Link, _: &mut Actions) {}

    fn wakeup(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn on_wakeup(&mut self, now: Time, actions: &mut Actions) {
        while let Some((at, id)) = self.timers.first().copied()
            && at <= now
        {
            self.timers.pop_first();
            let wall = Time(now.0.saturating_add(self.wall_ahead_ms));
            self.go_on(Moment { now, wall }, id, actions);
            self.settle(id);
        }
    }

    fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }
}
