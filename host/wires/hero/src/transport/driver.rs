//! Runs a session over Redis: sends its calls, and hands in answers and input from the host.
//! Connects again as long as it runs; executions continue without a connection. Decides nothing about jobs.

use std::collections::VecDeque;
use std::collections::hash_map::DefaultHasher;
use std::future::pending;
use std::hash::{Hash as _, Hasher as _};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use host_core::port::Clock;
use host_core::time::Time;
use host_runtime::backoff::Backoff;
use host_wire_kit::session::Moment;
use tokio_util::sync::CancellationToken;

use super::url::RedisUrl;
use super::{Link, Replied};
use crate::messages::{Call, CallTag, Value, Via};

/// The longest wait before another try to connect; half of it may pass by chance.
const RECONNECT: Backoff = Backoff::new(50, 2_000);

/// How many bytes go out together, unless one call alone has more.
const PIPELINE_BYTES_MAX: usize = 1 << 20;

/// How long a stopping host tries to return its jobs, in milliseconds.
const STOP_MS: u64 = 2_000;

/// A session over Redis. Pure.
pub(crate) trait RedisSession: Send {
    /// An action of the session.
    type Act: Send;

    /// The worker id whose blocking pops need their own connection; `None` if there are none.
    fn popping_worker(&self) -> Option<&str>;

    /// Handles a new connection: sends unconfirmed commands again, and takes back the jobs of an
    /// earlier run of this host.
    fn on_connected(&mut self, at: Moment, todo: &mut Vec<Self::Act>);

    /// Handles a lost connection. Calls in flight get no answer. Running jobs continue.
    fn on_disconnected(&mut self);

    /// Handles the answer to a call: one value for each command.
    fn on_reply(&mut self, at: Moment, tag: CallTag, values: &[Value], todo: &mut Vec<Self::Act>);

    /// Stops: takes no more jobs and gives up those that have not ended. Is over when it
    /// [`is_idle`](Self::is_idle).
    fn on_stop(&mut self, at: Moment, todo: &mut Vec<Self::Act>);

    /// Returns when the next timer is due.
    fn wakeup(&self) -> Option<Time>;

    /// Handles all timers that are due.
    fn on_wakeup(&mut self, at: Moment, todo: &mut Vec<Self::Act>);

    /// Returns whether nothing is left to do.
    fn is_idle(&self) -> bool;
}

/// What a session has to do with this host.
pub(crate) trait Host<S: RedisSession>: Send + Sync {
    /// Records that Redis answers, for the first time or again.
    fn on_connected(&self);

    /// Records that Redis cannot be reached, for the `tries`th time in a row. `why` has no secrets.
    fn on_away(&self, tries: u32, why: &str);

    /// Waits until there is input for the session. Cancel safe.
    fn arrived(&self) -> impl Future<Output = ()> + Send;

    /// Hands in all input.
    fn hand_in(&self, session: &mut S, at: Moment, todo: &mut Vec<S::Act>);

    /// Carries out an action. Returns a call if one must be sent.
    fn carry_out(&self, act: S::Act) -> Option<Call>;
}

/// Calls in flight, which resolve to their answers.
type Exchange = Pin<Box<dyn Future<Output = Result<Vec<Replied>, String>> + Send>>;

async fn arrived(exchange: &mut Option<Exchange>) -> Result<Vec<Replied>, String> {
    let replied = match exchange {
        Some(exchange) => exchange.await,
        None => pending().await,
    };
    *exchange = None;
    replied
}

/// Runs one session over its connections.
pub(crate) struct SessionLoop<S: RedisSession, H> {
    session: S,
    host: H,
    /// The name of this host among those that share the Redis.
    instance: String,
    clock: Arc<dyn Clock>,
    /// The calls to send on the shared connection.
    queued: VecDeque<Call>,
    /// The calls to send each on a connection of its own.
    apart: VecDeque<Call>,
    /// The call to send on the blocking connection.
    waiting: Option<Call>,
    todo: Vec<S::Act>,
    stopping: CancellationToken,
    /// When a stopping host gives up.
    stop_by: Option<Time>,
}

impl<S: RedisSession, H: Host<S>> SessionLoop<S, H> {
    /// Makes a session that does not run yet, on a host that Redis knows as `instance`.
    pub(crate) fn new(
        session: S,
        host: H,
        instance: &str,
        clock: Arc<dyn Clock>,
        stopping: CancellationToken,
    ) -> Self {
        Self {
            session,
            host,
            instance: instance.to_owned(),
            clock,
            queued: VecDeque::new(),
            apart: VecDeque::new(),
            waiting: None,
            todo: Vec::new(),
            stopping,
            stop_by: None,
        }
    }

    /// Runs the session until the host has stopped and the session is over.
    pub(crate) async fn run(&mut self, url: &RedisUrl) {
        let mut tries = 0;
        let worker_id = self.session.popping_worker().map(str::to_owned);
        while !self.is_over() {
            let pause = self.pause(tries);
            let connecting = async {
                tokio::time::sleep(pause).await;
                Link::connect(url, worker_id.as_deref()).await
            };
            let why = match self.wait_for(connecting).await {
                None => return,
                Some(Err(why)) => why,
                Some(Ok(link)) => match self.exchange(&link, &mut tries).await {
                    Ok(()) => return,
                    Err(why) => why,
                },
            };
            tries += 1;
            self.host.on_away(tries, &why);
        }
    }

    /// Returns how long to wait before a try. The time differs between hosts, so that they do not
    /// all connect together.
    fn pause(&self, tries: u32) -> Duration {
        let Some(doublings) = tries.checked_sub(1) else {
            return Duration::ZERO;
        };
        let longest_ms = RECONNECT.nth_ms(doublings);
        let mut chance = DefaultHasher::new();
        (&self.instance, self.session.popping_worker(), tries).hash(&mut chance);
        let half_ms = longest_ms / 2;
        Duration::from_millis(half_ms + chance.finish() % (half_ms + 1))
    }

    /// Waits for `work` while everything else continues; `None` if the host stops first.
    async fn wait_for<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        while !self.is_over() {
            tokio::select! {
                done = &mut work => return Some(done),
                () = self.turn() => {}
            }
        }
        None
    }

    /// Exchanges calls and answers with Redis until the connection is lost or the host has stopped.
    /// A connection counts as working after the first answers, because a replica accepts
    /// connections but no work.
    async fn exchange(&mut self, link: &Link, tries: &mut u32) -> Result<(), String> {
        let mut works = false;
        let (mut sent, mut popped, mut apart): (
            Option<Exchange>,
            Option<Exchange>,
            Option<Exchange>,
        ) = (None, None, None);
        self.session.on_connected(self.at(), &mut self.todo);
        self.carry_out();
        if self.queued.is_empty() && self.apart.is_empty() && self.waiting.is_none() {
            self.works(&mut works, tries);
        }
        let mut unblocked = false;
        let ended = loop {
            // A job that was returned must not be popped again by us, and the answer to a pop must
            // be read.
            if self.stop_by.is_some()
                && !std::mem::replace(&mut unblocked, true)
                && let Some(call) = link.unblock()
            {
                self.queued.push_front(call);
            }
            if sent.is_none() && !self.queued.is_empty() {
                sent = Some(Box::pin(link.send(self.next_calls())));
            }
            if apart.is_none()
                && let Some(call) = self.apart.pop_front()
            {
                apart = Some(Box::pin(link.send_apart(call)));
            }
            if let Some(call) = self.waiting.take() {
                popped = Some(Box::pin(link.wait(call)));
            }
            let unsent = self.queued.len() + self.apart.len();
            let quiet = sent.is_none() && popped.is_none() && apart.is_none() && unsent == 0;
            if self.is_over() && quiet || self.is_late() {
                break Ok(());
            }
            let replied = tokio::select! {
                replied = arrived(&mut sent) => replied,
                replied = arrived(&mut popped) => replied,
                replied = arrived(&mut apart) => replied,
                () = self.turn() => continue,
            };
            match replied {
                Ok(replied) => {
                    self.works(&mut works, tries);
                    self.on_replies(&replied);
                }
                Err(error) => break Err(error),
            }
        };
        self.session.on_disconnected();
        self.queued.clear();
        self.apart.clear();
        self.waiting = None;
        ended
    }

    /// Takes the calls that go out together: the first, and those after it while they are small enough
    /// together.
    fn next_calls(&mut self) -> Vec<Call> {
        let mut calls = Vec::new();
        let mut bytes = 0;
        while let Some(call) = self.queued.front() {
            bytes += call.bytes();
            if !calls.is_empty() && bytes > PIPELINE_BYTES_MAX {
                break;
            }
            calls.extend(self.queued.pop_front());
        }
        calls
    }

    /// Records that the connection works. Further calls do nothing.
    fn works(&self, works: &mut bool, tries: &mut u32) {
        if !std::mem::replace(works, true) {
            *tries = 0;
            self.host.on_connected();
        }
    }

    fn on_replies(&mut self, replied: &[Replied]) {
        for (tag, values) in replied {
            let at = self.at();
            self.session.on_reply(at, *tag, values, &mut self.todo);
        }
        self.carry_out();
    }

    /// Waits until the host has input, a timer is due or the host stops, and handles it. Cancel
    /// safe.
    async fn turn(&mut self) {
        let due = self.session.wakeup().into_iter().chain(self.stop_by).min();
        let now = self.clock.now();
        let passed = async {
            match due {
                Some(due) => tokio::time::sleep(Duration::from_millis(due.since_ms(now))).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = self.host.arrived() => {}
            () = passed => {}
            () = self.stopping.cancelled(), if self.stop_by.is_none() => {
                let at = self.at();
                self.stop_by = Some(at.now.plus_ms(STOP_MS));
                self.session.on_stop(at, &mut self.todo);
            }
        }
        let at = self.at();
        self.host.hand_in(&mut self.session, at, &mut self.todo);
        if self.session.wakeup().is_some_and(|due| due <= at.now) {
            self.session.on_wakeup(at, &mut self.todo);
        }
        self.carry_out();
    }

    fn carry_out(&mut self) {
        for act in self.todo.drain(..) {
            let Some(call) = self.host.carry_out(act) else {
                continue;
            };
            match call.via {
                Via::Shared => self.queued.push_back(call),
                Via::Blocking => self.waiting = Some(call),
                Via::Own => self.apart.push_back(call),
            }
        }
    }

    fn at(&self) -> Moment {
        Moment {
            now: self.clock.now(),
            wall: self.clock.wall(),
        }
    }

    /// Returns whether the host stops and either all jobs are gone or the wait was too long.
    fn is_over(&self) -> bool {
        self.stop_by.is_some() && self.session.is_idle() || self.is_late()
    }

    fn is_late(&self) -> bool {
        let now = self.clock.now();
        self.stop_by.is_some_and(|by| by <= now)
    }
}
