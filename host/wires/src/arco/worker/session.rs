//! All decisions of the worker role: which dispatches are executed, when a callback is sent, and when a
//! guest must stop. Pure.

mod reporting;
mod running;
mod steps;
mod task;

use std::collections::{BTreeMap, BTreeSet};

use host_core::port::{Answer, ForeignJob, Stop, Tag};
use host_core::time::Time;

use self::task::{Ends, Stage, Task};
use super::callbacks::{Callback, Heard};
use super::memory::{Memory, Seen};
use super::order::Order;
use super::outbox::Pending;
use crate::arco::NAME;
use crate::arco::messages::Secret;
use crate::arco::refusals::Code;
use crate::kit::http_client::Origin;
use crate::kit::session::{ActionsOf, Link, Moment, Session};

/// How long ends are still sent after the stop of this worker, in milliseconds.
const LAST_MS: u64 = 1_500;

/// What became of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// It is over: reported, or the control plane has given it up.
    Over,
    /// The control plane refuses its callbacks.
    Refused(u16),
    /// It did not begin, and may come again.
    NotBegun,
    /// It runs already.
    Running,
    /// Too many others run.
    Full,
    Stopping,
}

/// What the host says.
#[derive(Debug)]
pub(super) enum Event {
    /// Ends that an earlier life of this worker left.
    Left(Vec<Pending>),
    /// The answer to a callback.
    Heard(Tag, Heard),
    /// What the guest of an execution says.
    Guest(Tag, Answer),
    /// An end is on disk, or the memory of a dispatch.
    Stored(Tag),
    Stop,
}

/// What the host is asked to do.
#[derive(Debug)]
pub(super) enum Effect {
    Start(Tag, Box<ForeignJob>),
    Stop(Tag, u64, Stop),
    Send(Tag, Box<Callback>),
    /// Drop a callback that has no answer yet.
    Abort(Tag),
    /// Keep an end on disk.
    Keep(Tag, Box<Pending>),
    /// Remove an end from disk, and remember its dispatch.
    Forget(Tag, String),
    Warn(String, &'static str),
}

type Actions = ActionsOf<Worker>;

/// Names a task in the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Id(u64);

/// The rules of this worker.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// Our name in callbacks.
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
    /// Whose a callback, an execution or a write is.
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

    /// Returns whether the session waits for nothing but guests and time.
    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        self.tasks.values().all(Task::is_quiet)
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

    /// Sets when a task goes on by itself.
    fn wake_at(&mut self, id: Id, at: Option<Time>) {
        let Some(task) = self.tasks.get_mut(&id) else {
            return;
        };
        if let Some(before) = std::mem::replace(&mut task.wake_at, at) {
            self.timers.remove(&(before, id));
        }
        if let Some(at) = at {
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

    /// Drops the callback of a task that has no answer yet.
    fn abort(&mut self, id: Id, actions: &mut Actions) {
        let request = self.task(id).and_then(|task| task.request.take());
        if let Some(tag) = request {
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
    fn finish(&mut self, id: Id, done: Done, actions: &mut Actions) {
        self.abort(id, actions);
        self.wake_at(id, None);
        let Some(task) = self.tasks.remove(&id) else {
            return;
        };
        if let Some(order) = &task.order {
            self.memory.end(&order.key, done == Done::Over);
        }
        if let Some(link) = task.link {
            actions.send(link, done);
        }
    }

    /// Everything ends soon: guests stop, what has not begun may come again, and ends are sent for a
    /// moment still.
    fn stop(&mut self, at: Moment, actions: &mut Actions) {
        self.is_stopping = true;
        let ids: Vec<Id> = self.tasks.keys().copied().collect();
        for id in ids {
            let Some(task) = self.tasks.get_mut(&id) else {
                continue;
            };
            match &mut task.stage {
                Stage::Starting { .. } if task.request.is_none() => {
                    self.finish(id, Done::NotBegun, actions);
                }
                Stage::Running(run) if run.ends.is_none() => {
                    run.ends = Some(Ends::ShutDown);
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

    /// Returns until when ends are sent that begin now, if the worker stops.
    fn give_up(&self, now: Time) -> Option<Time> {
        self.is_stopping.then(|| now.plus_ms(LAST_MS))
    }
}

impl Session for Worker {
    const WIRE: &'static str = NAME;
    type In = Order;
    type Out = Done;
    type Effect = Effect;
    type Event = Event;

    fn on_message(&mut self, at: Moment, link: Link, order: Order, actions: &mut Actions) {
        self.wall_ahead_ms = at.wall.0.saturating_sub(at.now.0);
        let done = if self.is_stopping {
            Done::Stopping
        } else {
            match self.memory.see(&order.key) {
                Seen::New => {
                    let id = self.add(Task::of(order, link, at.now));
                    return self.begin(at, id, actions);
                }
                Seen::Finished => Done::Over,
                Seen::Running => Done::Running,
                Seen::Full => Done::Full,
            }
        };
        if matches!(done, Done::Running | Done::Full) {
            actions.count(Code::Busy.as_str());
        }
        actions.send(link, done);
    }

    fn on_event(&mut self, at: Moment, event: Event, actions: &mut Actions) {
        self.wall_ahead_ms = at.wall.0.saturating_sub(at.now.0);
        match event {
            Event::Left(left) => {
                for pending in left {
                    let id = self.add(Task::left(pending));
                    self.send_end(id, actions);
                }
            }
            Event::Heard(tag, heard) => {
                let id = self.tags.remove(&tag);
                if let Some(id) = id
                    && let Some(task) = self.task(id)
                {
                    task.request = None;
                    self.on_heard(at, id, heard, actions);
                }
            }
            Event::Guest(tag, answer) => {
                if let Some(id) = self.tags.get(&tag).copied() {
                    self.on_guest(at, id, answer, actions);
                }
            }
            Event::Stored(tag) => {
                if let Some(id) = self.tags.remove(&tag) {
                    self.on_stored(id, actions);
                }
            }
            Event::Stop => self.stop(at, actions),
        }
    }

    /// A task that has begun goes on without its requester.
    fn on_closed(&mut self, _: Time, _: Link, _: &mut Actions) {}

    fn wakeup(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn on_wakeup(&mut self, now: Time, actions: &mut Actions) {
        while let Some((at, id)) = self.timers.first().copied()
            && at <= now
        {
            self.wake_at(id, None);
            let wall = Time(now.0.saturating_add(self.wall_ahead_ms));
            self.go_on(Moment { now, wall }, id, actions);
        }
    }

    fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }
}
