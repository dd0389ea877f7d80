//! A hub connects one session with its connections and requests, the clock and the host. Any thread may
//! submit input. If the hub is free, that thread processes all waiting input; otherwise it returns at
//! once.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use host_core::port::lease::Respond;
use host_core::port::{Clock, Counters};
use host_core::time::Time;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use super::session::{Action, Actions, Link, Moment, Session};

/// The default limit on the open connections of a hub.
pub const CONNECTIONS_MAX: usize = 4_096;

/// How many messages may wait for a session before connections must wait to submit more.
const WAITING_MAX: usize = 1_024;

/// How much memory the large frames of all connections of a hub may take while they arrive, in KiB.
const LARGE_KIB_MAX: usize = 256 << 10;

/// Carries out the effects that a session decides on.
pub trait EffectHandler<S: Session>: Send + Sync + Sized + 'static {
    /// Starts to carry out `effect`. Must not block. May call [`Hub::report`] before it returns.
    fn handle(&self, hub: &Arc<Hub<S, Self>>, effect: S::Effect);
}

/// Where the messages to one link go.
pub(super) trait Outlet<M>: Send {
    /// Takes a message. Returns whether it takes more.
    fn put(&mut self, message: M) -> bool;

    /// Takes no more messages.
    fn close(&mut self);
}

/// A request is answered once.
pub(super) struct Reply<M>(Option<oneshot::Sender<M>>);

impl<M: Send> Outlet<M> for Reply<M> {
    fn put(&mut self, message: M) -> bool {
        // A requester that has gone closes its link.
        let _ = self.0.take().map(|requester| requester.send(message));
        false
    }

    fn close(&mut self) {
        self.0 = None;
    }
}

/// One step of a session.
pub(super) enum Input<S: Session> {
    Opened(Link, Box<dyn Outlet<S::Out>>),
    Message(Link, S::In),
    Request(Link, S::In, Reply<S::Out>),
    /// Nothing more can be read from the connection.
    Broken(Link),
    Event(S::Event),
    Closed(Link),
    TimePassed,
}

/// The input that waits for the session, and whether a thread is processing it.
struct Inbox<S: Session> {
    waiting: VecDeque<Input<S>>,
    busy: bool,
}

/// A session with its connections. Only the processing thread changes it.
struct Core<S: Session> {
    session: S,
    links: HashMap<Link, Box<dyn Outlet<S::Out>>>,
    actions: Actions<S::Out, S::Effect>,
    /// The earliest time at which the session will be woken.
    armed: Option<Time>,
}

/// One session with its connections and its host.
pub struct Hub<S: Session, H> {
    inbox: Mutex<Inbox<S>>,
    core: Mutex<Core<S>>,
    handler: H,
    links_made: AtomicU64,
    connections: Arc<Semaphore>,
    large: Arc<Semaphore>,
    clock: Arc<dyn Clock>,
    counters: Arc<dyn Counters>,
    room: Notify,
    rearmed: Notify,
    settled: Notify,
}

/// Frees the hub if this thread panics, so that one broken effect does not block all connections.
struct Processing<'a, S: Session>(&'a Mutex<Inbox<S>>);

impl<S: Session> Drop for Processing<'_, S> {
    fn drop(&mut self) {
        self.0.lock().busy = false;
    }
}

impl<S: Session, H: EffectHandler<S>> Hub<S, H> {
    /// Makes a hub. [`Hub::keep_time`] must run as long as the hub is used.
    pub fn new(
        session: S,
        handler: H,
        clock: Arc<dyn Clock>,
        counters: Arc<dyn Counters>,
    ) -> Arc<Self> {
        Self::with_limit(session, handler, clock, counters, CONNECTIONS_MAX)
    }

    /// Makes a hub that accepts at most `connections_max` concurrent connections, over all listeners.
    pub fn with_limit(
        session: S,
        handler: H,
        clock: Arc<dyn Clock>,
        counters: Arc<dyn Counters>,
        connections_max: usize,
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
            handler,
            links_made: AtomicU64::new(0),
            connections: Arc::new(Semaphore::new(connections_max)),
            large: Arc::new(Semaphore::new(LARGE_KIB_MAX)),
            clock,
            counters,
            room: Notify::new(),
            rearmed: Notify::new(),
            settled: Notify::new(),
        })
    }

    /// Returns the handler of the session's effects.
    pub const fn handler(&self) -> &H {
        &self.handler
    }

    /// Assigns a link to an accepted connection if there is room. The permit holds its place.
    pub(super) fn admit(&self) -> Option<(OwnedSemaphorePermit, Link)> {
        let permit = Arc::clone(&self.connections).try_acquire_owned().ok()?;
        Some((permit, self.link()))
    }

    fn link(&self) -> Link {
        Link(self.links_made.fetch_add(1, Ordering::Relaxed))
    }

    /// Submits a request and waits for its answer; `None` if the session gives none. A requester that
    /// stops waiting closes the request.
    pub async fn request(self: &Arc<Self>, message: S::In) -> Option<S::Out> {
        let (sender, answer) = oneshot::channel();
        let mut request = Requester {
            hub: self,
            link: self.link(),
            is_waiting: true,
        };
        let reply = Reply(Some(sender));
        self.submit(Input::Request(request.link, message, reply));
        let answer = answer.await.ok();
        request.is_waiting = answer.is_none();
        answer
    }

    /// Returns the memory that large frames share, one permit for each KiB.
    pub(super) const fn large(&self) -> &Arc<Semaphore> {
        &self.large
    }

    /// Reports something to the session. Never blocks for long.
    pub fn report(self: &Arc<Self>, event: S::Event) {
        self.submit(Input::Event(event));
    }

    /// Returns what reports an answer of the host to the session.
    pub fn responder<T: Send>(
        self: &Arc<Self>,
        event: impl FnOnce(T) -> S::Event + Send + 'static,
    ) -> Box<dyn Respond<T>> {
        let hub = Arc::clone(self);
        Box::new(Responder { hub, event })
    }

    /// Reads something from the session.
    pub fn inspect<R>(&self, read: impl FnOnce(&S) -> R) -> R {
        read(&self.core.lock().session)
    }

    /// Notes something in the session that leads to no action.
    pub fn note<R>(&self, note: impl FnOnce(&mut S) -> R) -> R {
        note(&mut self.core.lock().session)
    }

    /// Wakes the session when a timer is due. Never returns.
    pub async fn keep_time(self: Arc<Self>) {
        loop {
            let Some(at) = self.arm() else {
                self.rearmed.notified().await;
                continue;
            };
            let wait_ms = at.since_ms(self.clock.now());
            if wait_ms == 0 {
                self.submit(Input::TimePassed);
                // Another thread may still be processing.
                tokio::task::yield_now().await;
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(wait_ms)) => {}
                () = self.rearmed.notified() => {}
            }
        }
    }

    /// Wakes the session if a timer is due by the clock of a test.
    #[cfg(feature = "testing")]
    pub fn pass_time(self: &Arc<Self>) {
        if self
            .inspect(S::wakeup)
            .is_some_and(|due| due <= self.clock.now())
        {
            self.submit(Input::TimePassed);
        }
    }

    /// Returns when to wake the session, and records that it will be woken then.
    fn arm(&self) -> Option<Time> {
        let mut core = self.core.lock();
        core.armed = core.session.wakeup();
        core.armed
    }

    /// Waits until the session satisfies `condition`. Cancel safe.
    pub async fn until(&self, condition: impl Fn(&S) -> bool) {
        loop {
            let mut settled = pin!(self.settled.notified());
            settled.as_mut().enable();
            if self.inspect(&condition) {
                return;
            }
            settled.await;
        }
    }

    /// Submits a message when fewer than the allowed number wait. Cancel safe: the message is
    /// either submitted or not.
    pub(super) async fn submit_message(self: &Arc<Self>, link: Link, message: S::In) {
        loop {
            let mut room = pin!(self.room.notified());
            room.as_mut().enable();
            if self.inbox.lock().waiting.len() < WAITING_MAX {
                break;
            }
            room.await;
        }
        self.submit(Input::Message(link, message));
    }

    /// Submits input, and processes all waiting input unless another thread does.
    pub(super) fn submit(self: &Arc<Self>, input: Input<S>) {
        let mut inbox = self.inbox.lock();
        inbox.waiting.push_back(input);
        if inbox.busy {
            return;
        }
        inbox.busy = true;
        let processing = Processing(&self.inbox);
        loop {
            let batch = std::mem::take(&mut inbox.waiting);
            if batch.is_empty() {
                inbox.busy = false;
                // The guard is only for panics, and its lock is held here.
                std::mem::forget(processing);
                return;
            }
            drop(inbox);
            self.room.notify_waiters();
            self.process(batch);
            inbox = self.inbox.lock();
        }
    }

    fn process(self: &Arc<Self>, batch: VecDeque<Input<S>>) {
        let mut guard = self.core.lock();
        let core = &mut *guard;
        for input in batch {
            self.decide(core, input);
            self.carry_out(core);
        }
        // The timer needs no change for a later wakeup: it is read again when the earlier one is
        // due.
        if let Some(wakeup) = core.session.wakeup()
            && core.armed.is_none_or(|armed| wakeup < armed)
        {
            core.armed = Some(wakeup);
            self.rearmed.notify_one();
        }
        self.settled.notify_waiters();
    }

    fn decide(&self, core: &mut Core<S>, input: Input<S>) {
        let at = Moment {
            now: self.clock.now(),
            wall: self.clock.wall(),
        };
        let (session, actions) = (&mut core.session, &mut core.actions);
        match input {
            Input::Opened(link, outlet) => {
                core.links.insert(link, outlet);
                session.on_open(at.now, link, actions);
            }
            Input::Message(link, message) => handle_message(at, session, link, message, actions),
            Input::Request(link, message, reply) => {
                core.links.insert(link, Box::new(reply));
                handle_message(at, session, link, message, actions);
            }
            Input::Broken(link) => {
                if let Some(outlet) = core.links.get_mut(&link) {
                    outlet.close();
                }
            }
            Input::Event(event) => session.on_event(at, event, actions),
            Input::Closed(link) => {
                if core.links.remove(&link).is_some() {
                    session.on_closed(at.now, link, actions);
                }
            }
            Input::TimePassed => session.on_wakeup(at.now, actions),
        }
    }

    fn carry_out(self: &Arc<Self>, core: &mut Core<S>) {
        for action in core.actions.drain() {
            match action {
                Action::Send(link, message) => {
                    if let Entry::Occupied(mut outlet) = core.links.entry(link)
                        && !outlet.get_mut().put(message)
                    {
                        outlet.remove();
                    }
                }
                Action::Close(link) => {
                    if let Some(outlet) = core.links.get_mut(&link) {
                        outlet.close();
                    }
                }
                Action::Effect(effect) => self.handler.handle(self, effect),
                Action::Count(refusal) => self.counters.refused(S::WIRE, refusal),
            }
        }
    }
}

/// Timers that are due come before messages of peers.
fn handle_message<S: Session>(
    at: Moment,
    session: &mut S,
    link: Link,
    message: S::In,
    actions: &mut Actions<S::Out, S::Effect>,
) {
    if session.wakeup().is_some_and(|due| due <= at.now) {
        session.on_wakeup(at.now, actions);
    }
    session.on_message(at, link, message, actions);
}

/// Closes its request, unless it was answered.
struct Requester<'a, S: Session, H: EffectHandler<S>> {
    hub: &'a Arc<Hub<S, H>>,
    link: Link,
    is_waiting: bool,
}

impl<S: Session, H: EffectHandler<S>> Drop for Requester<'_, S, H> {
    fn drop(&mut self) {
        if self.is_waiting {
            self.hub.submit(Input::Closed(self.link));
        }
    }
}

/// Reports an answer of the host to a session.
struct Responder<S: Session, H, F> {
    hub: Arc<Hub<S, H>>,
    event: F,
}

impl<T, S, H, F> Respond<T> for Responder<S, H, F>
where
    T: Send,
    S: Session,
    H: EffectHandler<S>,
    F: FnOnce(T) -> S::Event + Send,
{
    fn is_gone(&self) -> bool {
        false
    }

    fn respond(self: Box<Self>, answer: T) -> Result<(), T> {
        let Self { hub, event } = *self;
        hub.report(event(answer));
        Ok(())
    }
}
