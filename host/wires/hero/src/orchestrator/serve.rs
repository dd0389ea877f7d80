//! Runs the orchestrator role for one Redis: connects its session with the host, whose jobs it sends
//! to foreign workers.

use std::sync::Arc;

use host_wire_kit::ExecutorPorts;
use host_wire_kit::session::Moment;

use super::executors::{HeroExecutors, Request};
use super::{Orchestrator, OrchestratorAct};
use crate::messages::Call;
use crate::settings::HeroConfig;
use crate::transport::driver::{Host, SessionLoop};

/// Starts the session that sends jobs to Redis, where this host is known as `instance`. It ends with
/// `ports.stopping`: then it takes back all executions, which are lost, within two seconds.
pub(crate) fn start(
    config: &HeroConfig,
    instance: &str,
    ports: &ExecutorPorts,
) -> Arc<HeroExecutors> {
    let executors = HeroExecutors::new(config, &ports.leases);
    let session = Orchestrator::new(instance);
    let host = Arc::clone(&executors);
    let (clock, stopping) = (Arc::clone(&ports.clock), ports.stopping.clone());
    let mut running = SessionLoop::new(session, host, instance, clock, stopping);
    let (url, closing) = (config.url.clone(), Arc::clone(&executors));
    ports.tasks.spawn(async move {
        running.run(&url).await;
        closing.close();
    });
    executors
}

impl Host<Orchestrator> for Arc<HeroExecutors> {
    fn on_connected(&self) {
        self.connected();
    }

    fn on_away(&self, tries: u32, why: &str) {
        self.away(tries, why);
    }

    async fn arrived(&self) {
        self.requests().arrived().await;
    }

    fn hand_in(&self, session: &mut Orchestrator, at: Moment, todo: &mut Vec<OrchestratorAct>) {
        for request in self.requests().take() {
            match request {
                Request::Start(tag, execution) => session.on_start(at, tag, *execution, todo),
                Request::Cancel(tag, grace_ms) => session.on_cancel(at, tag, grace_ms, todo),
                Request::Drain => session.on_drain(at, todo),
            }
        }
    }

    fn carry_out(&self, act: OrchestratorAct) -> Option<Call> {
        match act {
            OrchestratorAct::Call(call) => return Some(call),
            OrchestratorAct::Ready => self.ready(),
            OrchestratorAct::Refused { times, why } => self.refused(times, &why),
            OrchestratorAct::Ended { tag, end } => self.ended(tag, end),
        }
        None
    }
}
