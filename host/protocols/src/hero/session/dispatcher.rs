//! The dispatcher role at work for one Redis: its session between the host, which has jobs to give
//! away, and foreign workers.

use std::sync::{Arc, Mutex, PoisonError};

use host_core::time::Time;
use tokio_util::sync::CancellationToken;

use super::{Mailbox, News, Serving, Station};
use crate::hero::address::RedisUrl;
use crate::hero::config::DispatcherConfig;
use crate::hero::dispatcher::{Dispatcher, DispatcherAct, Execution};
use crate::hero::wire::{Call, CallTag, Value};
use host_core::port::{Clock, Tag};
use host_core::port::End;
use crate::session::Moment;

/// Whoever has work for foreign workers. Called one at a time and in order; no call may block.
pub trait Employer: News {
    /// Work is taken from now on, until [`News::away`].
    fn ready(&self);

    /// An execution is over.
    fn ended(&self, tag: Tag, end: End);
}

/// What the dispatcher role needs of its host.
#[derive(Clone)]
pub struct DispatcherPorts {
    /// Has the work.
    pub employer: Arc<dyn Employer>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

/// The host's way to the session. Cloning shares it.
#[derive(Clone)]
pub struct Desk {
    employer: Arc<dyn Employer>,
    mailbox: Arc<Mailbox<Said>>,
    /// What the session is made of, until it runs; then nothing.
    waiting: Arc<Mutex<Option<(DispatcherConfig, DispatcherPorts)>>>,
    closed: CancellationToken,
}

/// What the host says to the session.
enum Said {
    Start(Tag, Box<Execution>),
    Cancel(Tag, u64),
    Drain,
}

impl Desk {
    /// Makes a session with nothing out; nothing is sent before [`Desk::run`].
    pub fn new(config: DispatcherConfig, ports: DispatcherPorts) -> Self {
        Self {
            employer: Arc::clone(&ports.employer),
            mailbox: Arc::default(),
            waiting: Arc::new(Mutex::new(Some((config, ports)))),
            closed: CancellationToken::new(),
        }
    }

    /// Sends an execution out; [`Employer::ended`] follows exactly once, whatever happens.
    pub fn start(&self, tag: Tag, execution: Execution) {
        self.mailbox.put(Said::Start(tag, Box::new(execution)));
        if self.closed.is_cancelled() {
            self.turn_away();
        }
    }

    /// Stops an execution; what does not stop within the grace and a second is given up.
    pub fn cancel(&self, tag: Tag, grace_ms: u64) {
        self.mailbox.put(Said::Cancel(tag, grace_ms));
    }

    /// Takes back what waits in Redis and no worker has taken: it is over with [`End::NoRoom`].
    pub fn drain(&self) {
        self.mailbox.put(Said::Drain);
    }

    /// Runs the session until `stopping`; then what is out is taken back and lost, all within two
    /// seconds. A second call returns at once.
    pub async fn run(self, url: RedisUrl, stopping: CancellationToken) {
        let made = self
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some((config, ports)) = made else {
            return;
        };
        let instance = config.instance.clone();
        let session = Dispatching {
            session: Dispatcher::new(config),
            employer: ports.employer,
            mailbox: Arc::clone(&self.mailbox),
        };
        let mut serving = Serving::new(session, instance, ports.clock, stopping);
        serving.run(&url).await;
        self.closed.cancel();
        self.turn_away();
    }

    /// Answers whatever came when nobody listened any more.
    fn turn_away(&self) {
        for said in self.mailbox.take() {
            if let Said::Start(tag, _) = said {
                self.employer.ended(tag, End::NoRoom);
            }
        }
    }
}

struct Dispatching {
    session: Dispatcher,
    employer: Arc<dyn Employer>,
    mailbox: Arc<Mailbox<Said>>,
}

impl Station for Dispatching {
    type Act = DispatcherAct;

    const WAITS: bool = false;

    fn name(&self) -> &'static str {
        "dispatcher"
    }

    fn news(&self) -> &dyn News {
        &*self.employer
    }

    async fn mail(&self) {
        self.mailbox.news.notified().await;
    }

    fn hear(&mut self, at: Moment, todo: &mut Vec<DispatcherAct>) {
        for said in self.mailbox.take() {
            match said {
                Said::Start(tag, execution) => self.session.on_start(at, tag, *execution, todo),
                Said::Cancel(tag, grace_ms) => self.session.on_cancel(at, tag, grace_ms, todo),
                Said::Drain => self.session.on_drain(at, todo),
            }
        }
    }

    fn carry_out(&mut self, act: DispatcherAct) -> Option<Call> {
        match act {
            DispatcherAct::Call(call) => return Some(call),
            DispatcherAct::Ready => self.employer.ready(),
            DispatcherAct::Refused { times, why } => {
                self.employer.refused(self.name(), times, &why);
            }
            DispatcherAct::Ended { tag, end } => self.employer.ended(tag, end),
        }
        None
    }

    fn on_connected(&mut self, at: Moment, todo: &mut Vec<DispatcherAct>) {
        self.session.on_connected(at, todo);
    }

    fn on_disconnected(&mut self) {
        self.session.on_disconnected();
    }

    fn on_reply(
        &mut self,
        at: Moment,
        tag: CallTag,
        values: &[Value],
        todo: &mut Vec<DispatcherAct>,
    ) {
        self.session.on_reply(at, tag, values, todo);
    }

    fn on_stop(&mut self, at: Moment, todo: &mut Vec<DispatcherAct>) {
        self.session.on_stop(at, todo);
    }

    fn on_wakeup(&mut self, at: Moment, todo: &mut Vec<DispatcherAct>) {
        self.session.on_wakeup(at, todo);
    }

    fn wakeup(&self) -> Option<Time> {
        self.session.wakeup()
    }

    fn is_idle(&self) -> bool {
        self.session.is_idle()
    }
}
