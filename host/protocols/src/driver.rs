//! A session at work: connections, time and the host on one side, pure decisions on the other.
//! Whoever has something for the session hands it in and carries out what follows, unless another
//! thread is already at it and takes this along. Knows no wire.

mod accept;
mod link;
mod outbox;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use host_core::time::Time;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;

use self::outbox::Outbox;
use crate::session::{Action, Actions, Link, Moment, Session};
use host_core::port::{Clock, Counters};

pub use accept::{CONNECTIONS_MAX, accept};
pub use link::serve_link;

/// How many messages may wait for a session before connections are read more slowly.
const WAITING_MAX: usize = 1_024;

/// Where the connections of a stream wire come from.
pub trait Listener: Send {
    /// One connection.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Waits for the next connection. Cancel safe.
    fn accept(&mut self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// Carries out what a session asks of the host.
pub trait Edge<S: Session>: Send + Sync + Sized + 'static {
    /// Begins to carry out `ask`. Must not block; may answer through `hub` at once.
    fn ask(&self, hub: &Arc<Hub<S, Self>>, ask: S::Ask);
}

/// Something a session has to hear.
enum Event<S: Session> {
    Opened(Link, Arc<Outbox>),
    Message(Link, S::In),
    Said(S::Said),
    Closed(Link),
    TimePassed,
}

/// What waits for the session, and whether somebody is at it.
struct Inbox<S: Session> {
    waiting: VecDeque<Event<S>>,
    busy: bool,
}

/// A session and everything it decides about; only whoever is at it holds it.
struct Core<S: Session> {
    session: S,
    links: HashMap<Link, Arc<Outbox>>,
    actions: Actions<S::Out, S::Ask>,
    /// When the session will be woken at the latest.
    armed: Option<Time>,
}

/// One session between its connections and its host.
pub struct Hub<S: Session, E> {
    inbox: Mutex<Inbox<S>>,
    core: Mutex<Core<S>>,
    edge: E,
    clock: Arc<dyn Clock>,
    counters: Arc<dyn Counters>,
    room: Notify,
    rearmed: Notify,
    settled: Notify,
}

/// Lets others go on where this thread panics: one broken wish must not silence all connections.
struct AtIt<'a, S: Session>(&'a Mutex<Inbox<S>>);

impl<S: Session> Drop for AtIt<'_, S> {
    fn drop(&mut self) {
        lock(self.0).busy = false;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Session, E: Edge<S>> Hub<S, E> {
    /// Makes a hub; [`Hub::keep_time`] must run for as long as it is used.
    pub fn new(
        session: S,
        edge: E,
        clock: Arc<dyn Clock>,
        counters: Arc<dyn Counters>,
    ) -> Arc<Self> {
        Arc::new(Self {
            inbox: Mutex::new(Inbox {
                waiting: VecDeque::new(),
                busy: false,
            }),
            core: Mutex::new(Core {
                session,
                links: HashMap::new(),
                actions: Actions::default(),
                armed: None,
            }),
            edge,
            clock,
            counters,
            room: Notify::new(),
            rearmed: Notify::new(),
            settled: Notify::new(),
        })
    }

    /// Returns what carries out the session's wishes.
    pub const fn edge(&self) -> &E {
        &self.edge
    }

    /// Tells the session something. Never blocks for long.
    pub fn say(self: &Arc<Self>, said: S::Said) {
        self.hand_in(Event::Said(said));
    }

    /// Looks at the session.
    pub fn look<R>(&self, at: impl FnOnce(&S) -> R) -> R {
        at(&lock(&self.core).session)
    }

    /// Lets the session know when its times come; never returns.
    pub async fn keep_time(self: Arc<Self>) {
        loop {
            let Some(at) = self.arm() else {
                self.rearmed.notified().await;
                continue;
            };
            let wait_ms = at.since_ms(self.clock.now());
            if wait_ms == 0 {
                self.hand_in(Event::TimePassed);
                // Another thread may be at it and take a moment.
                tokio::task::yield_now().await;
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(wait_ms)) => {}
                () = self.rearmed.notified() => {}
            }
        }
    }

    /// Returns when the session is to be woken, and notes that it will be.
    fn arm(&self) -> Option<Time> {
        let mut core = lock(&self.core);
        core.armed = core.session.wakeup();
        core.armed
    }

    /// Waits until the session satisfies `condition`. Cancel safe.
    pub async fn until(&self, condition: impl Fn(&S) -> bool) {
        loop {
            let mut settled = pin!(self.settled.notified());
            settled.as_mut().enable();
            if self.look(&condition) {
                return;
            }
            settled.await;
        }
    }

    /// Hands in a message as soon as not too many wait. Cancel safe: it is handed in or not.
    async fn hand_in_message(self: &Arc<Self>, link: Link, message: S::In) {
        loop {
            let mut room = pin!(self.room.notified());
            room.as_mut().enable();
            if lock(&self.inbox).waiting.len() < WAITING_MAX {
                break;
            }
            room.await;
        }
        self.hand_in(Event::Message(link, message));
    }

    fn hand_in(self: &Arc<Self>, event: Event<S>) {
        let mut inbox = lock(&self.inbox);
        inbox.waiting.push_back(event);
        if inbox.busy {
            return;
        }
        inbox.busy = true;
        let at_it = AtIt(&self.inbox);
        loop {
            let batch = std::mem::take(&mut inbox.waiting);
            if batch.is_empty() {
                inbox.busy = false;
                // Only for those who do not come to this line.
                std::mem::forget(at_it);
                return;
            }
            drop(inbox);
            self.room.notify_waiters();
            self.work_off(batch);
            inbox = lock(&self.inbox);
        }
    }

    fn work_off(self: &Arc<Self>, batch: VecDeque<Event<S>>) {
        let mut core = lock(&self.core);
        let core = &mut *core;
        for event in batch {
            self.decide(core, event);
            self.carry_out(core);
        }
        // A later time is found out once the earlier one has come.
        if let Some(wakeup) = core.session.wakeup()
            && core.armed.is_none_or(|armed| wakeup < armed)
        {
            core.armed = Some(wakeup);
            self.rearmed.notify_one();
        }
        self.settled.notify_waiters();
    }

    fn decide(&self, core: &mut Core<S>, event: Event<S>) {
        let at = Moment {
            now: self.clock.now(),
            wall: self.clock.wall(),
        };
        let (session, todo) = (&mut core.session, &mut core.actions);
        match event {
            Event::Opened(link, outbox) => {
                core.links.insert(link, outbox);
                session.on_open(at.now, link, todo);
            }
            Event::Message(link, message) => {
                // What is due must not wait behind what a peer sends.
                if session.wakeup().is_some_and(|due| due <= at.now) {
                    session.on_wakeup(at.now, todo);
                }
                session.on_message(at, link, message, todo);
            }
            Event::Said(said) => session.on_said(at, said, todo),
            Event::Closed(link) => {
                core.links.remove(&link);
                session.on_closed(at.now, link, todo);
            }
            Event::TimePassed => session.on_wakeup(at.now, todo),
        }
    }

    fn carry_out(self: &Arc<Self>, core: &mut Core<S>) {
        for action in core.actions.drain() {
            match action {
                Action::Send(link, message) => {
                    if let Some(outbox) = core.links.get(&link) {
                        outbox.put(|out| S::write(&message, out));
                    }
                }
                Action::Close(link) => {
                    if let Some(outbox) = core.links.get(&link) {
                        outbox.close();
                    }
                }
                Action::Ask(ask) => self.edge.ask(self, ask),
                Action::Count(cause) => self.counters.refused(S::WIRE, cause),
            }
        }
    }
}
