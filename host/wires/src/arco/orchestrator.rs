//! The control plane: foreign workers execute our jobs. Attempts are leased by TTL, sent to their
//! workers, and ended by callbacks. This file is what its parts share.

mod attempts;
mod callbacks;
mod deliver;
mod envelope;
mod executors;
mod explain;
mod health;
mod lanes;
mod openapi;

#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use host_core::lease::Fence;
use host_core::name::Name;
use host_core::port::lease::{LeaseError, LeaseMessage, Leases, Standing};
use host_core::port::{Clock, Counters};
use host_core::time::Time;
use host_http::route::{Description, Group, RoutePorts};
use host_runtime::mailbox::respond;
use tokio::sync::watch;

use self::attempts::{Attempt, Attempts};
use self::health::Health;
use super::refusals::Code;
use super::section::ControlConfig;
use super::token::Tokens;
use crate::kit::http_client::{BaseUrl, HttpClient};
use crate::wire::Ports;

pub(super) use self::executors::Remote;
pub(super) use self::lanes::run;

/// The control plane of one host.
pub(super) struct Control {
    config: ControlConfig,
    /// Where workers call back, once it is known.
    public_url: watch::Sender<Option<BaseUrl>>,
    /// What the host gives once it runs.
    running: OnceLock<Running>,
    attempts: Arc<Attempts>,
    health: BTreeMap<Name, Health>,
    client: HttpClient,
}

struct Running {
    clock: Arc<dyn Clock>,
    counters: Arc<dyn Counters>,
    leases: Arc<dyn Leases>,
    tokens: Tokens,
}

impl Control {
    pub(super) fn new(config: &ControlConfig) -> Self {
        let names = config.workers.keys();
        Self {
            public_url: watch::Sender::new(config.public_url.clone()),
            running: OnceLock::new(),
            attempts: Arc::default(),
            health: names
                .map(|name| (name.clone(), Health::default()))
                .collect(),
            client: HttpClient::default(),
            config: config.clone(),
        }
    }

    /// Lets callbacks in.
    pub(super) fn start(&self, ports: &Ports, leases: Arc<dyn Leases>, tokens: Tokens) {
        let running = Running {
            clock: Arc::clone(&ports.clock),
            counters: Arc::clone(&ports.counters),
            leases,
            tokens,
        };
        // It starts once.
        let _started = self.running.set(running);
    }

    /// Makes the routes of callbacks.
    pub(super) fn routes(self: &Arc<Self>, ports: &RoutePorts) -> Vec<Group> {
        self.public_url.send_if_modified(|url| {
            if url.is_none() {
                *url = format!("http://{}", ports.listen).parse().ok();
            }
            url.is_some()
        });
        callbacks::routes(self, ports)
    }

    fn count(&self, code: Code) {
        if let Some(running) = self.running.get() {
            running.counters.refused(super::NAME, code.as_str());
        }
    }
}

impl Running {
    fn now(&self) -> Time {
        self.clock.now()
    }

    /// Sends a message about an attempt and returns the answer, which comes after its commit.
    async fn tell(&self, attempt: &Attempt, message: LeaseMessage) -> Result<Standing, LeaseError> {
        let (respond, answer) = respond();
        let fence = Fence::Lease(attempt.lease);
        self.leases.send(attempt.job, fence, message, respond);
        answer.await.unwrap_or(Err(LeaseError::Stopping))
    }
}

/// Describes the routes.
pub(super) fn description() -> Description {
    openapi::description()
}
