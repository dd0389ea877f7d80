//! Runs the dispatcher role for one Redis: connects its session with the host, whose jobs it sends
//! to foreign workers.

use std::sync::Arc;

use host_core::port::{Clock, End, Tag};
use host_core::time::Time;
use host_runtime::mailbox::Mailbox;
use tokio_util::sync::CancellationToken;

use super::{RedisSession, SessionLoop};
use crate::hero::address::RedisUrl;
use crate::hero::config::DispatcherConfig;
use crate::hero::lane_states::LaneStates;
use crate::hero::messages::{Call, CallTag, Value};
use crate::hero::orchestrator::{Dispatcher, DispatcherAct, Execution};
use crate::kit::session::Moment;

/// Sends requests of the host to the session. Cloning shares it.
#[derive(Clone)]
pub(in crate::hero) struct DispatcherHandle {
    lanes: Arc<LaneStates>,
    mailbox: Arc<Mailbox<Request>>,
}

/// A request of the host to the session.
enum Request {
    Start(Tag, Box<Execution>),
    Cancel(Tag, u64),
    Drain,
}

impl DispatcherHandle {
    /// Makes the handle of a session that does not run yet.
    pub(in crate::hero) fn new(lanes: Arc<LaneStates>) -> Self {
        Self {
            lanes,
            mailbox: Arc::default(),
        }
    }

    /// Sends an execution out. [`LaneStates::ended`] follows exactly once in any case.
    pub(in crate::hero) fn start(&self, tag: Tag, execution: Execution) {
        self.put(Request::Start(tag, Box::new(execution)));
    }

    /// Stops an execution. One that has not stopped a second after the grace period is given up.
    pub(in crate::hero) fn cancel(&self, tag: Tag, grace_ms: u64) {
        self.put(Request::Cancel(tag, grace_ms));
    }

    /// Takes back the executions that no worker has. They end with [`End::NoRoom`].
    pub(in crate::hero) fn drain(&self) {
        self.put(Request::Drain);
    }

    /// Runs the session once, until `stopping`. Then takes back all executions, which are lost,
    /// within two seconds.
    pub(in crate::hero) async fn run(
        self,
        config: DispatcherConfig,
        url: RedisUrl,
        clock: Arc<dyn Clock>,
        stopping: CancellationToken,
    ) {
        let instance = config.instance.clone();
        let session = DispatcherSession {
            session: Dispatcher::new(config),
            lanes: Arc::clone(&self.lanes),
            mailbox: Arc::clone(&self.mailbox),
        };
        let mut running = SessionLoop::new(session, instance, clock, stopping);
        running.run(&url).await;
        for request in self.mailbox.close() {
            self.turn_away(&request);
        }
    }

    fn put(&self, request: Request) {
        if let Err(request) = self.mailbox.put(request) {
            self.turn_away(&request);
        }
    }

    /// Answers a request that arrives when the session no longer runs.
    fn turn_away(&self, request: &Request) {
        if let Request::Start(tag, _) = request {
            self.lanes.ended(*tag, End::NoRoom);
        }
    }
}

struct DispatcherSession {
    session: Dispatcher,
    lanes: Arc<LaneStates>,
    mailbox: Arc<Mailbox<Request>>,
}

impl RedisSession for DispatcherSession {
    type Act = DispatcherAct;

    fn waiting_worker(&self) -> Option<&str> {
        None
    }

    fn on_works(&self) {
        self.lanes.connected();
    }

    fn on_away(&self, tries: u32, why: &str) {
        self.lanes.away(tries, why);
    }

    async fn host_spoke(&self) {
        self.mailbox.arrived().await;
    }

    fn hear_host(&mut self, at: Moment, todo: &mut Vec<DispatcherAct>) {
        for request in self.mailbox.take() {
            match request {
                Request::Start(tag, execution) => self.session.on_start(at, tag, *execution, todo),
                Request::Cancel(tag, grace_ms) => self.session.on_cancel(at, tag, grace_ms, todo),
                Request::Drain => self.session.on_drain(at, todo),
            }
        }
    }

    fn carry_out(&mut self, act: DispatcherAct) -> Option<Call> {
        match act {
            DispatcherAct::Call(call) => return Some(call),
            DispatcherAct::Ready => self.lanes.ready(),
            DispatcherAct::Refused { times, why } => self.lanes.refused(times, &why),
            DispatcherAct::Ended { tag, end } => self.lanes.ended(tag, end),
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
