//! Connects the orchestrator's session to the host: requests leases, reports their ends, and passes on the
//! host's events. Makes no decisions.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use host_core::id::{JobId, LeaseId};
use host_core::lease::{Fence, Hold};
use host_core::name::Name;
use host_core::port::Assignment;
use host_core::port::lease::{
    self, LeaseError, LeaseEvents, LeaseRequest, Leases, Respond, Standing,
};
use serde::Deserialize;

use super::orchestrator::{Ask, Effect, Event, Granted, Orchestrator};
use super::settings::OrchestratorConfig;
use crate::kit::driver::{EffectHandler, Hub};
use crate::kit::text::cut_marked;

/// The longest title, in bytes.
const TITLE_BYTES_MAX: usize = 64 << 10;

/// The session with its connections.
pub(super) type OrchestratorHub = Hub<Orchestrator, LeasePort>;

/// The way to the host's leases.
pub(super) struct LeasePort {
    executor: Name,
    leases: Arc<dyn Leases>,
    /// The pending requests, and whether the answer is still wanted.
    waiting: Mutex<HashMap<Ask, Arc<AtomicBool>>>,
}

impl LeasePort {
    pub(super) fn new(config: &OrchestratorConfig, leases: Arc<dyn Leases>) -> Self {
        Self {
            executor: config.executor.clone(),
            leases,
            waiting: Mutex::default(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Ask, Arc<AtomicBool>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EffectHandler<Orchestrator> for LeasePort {
    fn handle(&self, hub: &Arc<OrchestratorHub>, effect: Effect) {
        match effect {
            Effect::Ask {
                ask,
                worker,
                wait_ms,
            } => {
                let is_gone = Arc::new(AtomicBool::new(false));
                self.waiting().insert(ask, Arc::clone(&is_gone));
                let request = LeaseRequest {
                    executors: vec![self.executor.clone()],
                    worker,
                    slots: 1,
                    hold: Hold::Connection,
                    wait_ms,
                    events: Some(Arc::new(Told(Arc::downgrade(hub)))),
                };
                let hub = Arc::clone(hub);
                self.leases
                    .lease(request, Box::new(Grant { hub, ask, is_gone }));
            }
            Effect::Withdraw(ask) => {
                if let Some(is_gone) = self.waiting().remove(&ask) {
                    is_gone.store(true, Ordering::Release);
                }
            }
            Effect::Tell {
                job,
                lease,
                message,
            } => {
                let answer = Box::new(Answer {
                    hub: Arc::clone(hub),
                    lease,
                });
                self.leases.send(job, Fence::Lease(lease), *message, answer);
            }
            Effect::Warn(link, refusal) => tracing::warn!(
                connection = link.0,
                code = refusal.code.as_str(),
                message = refusal.start,
                "a message of a worker is refused: {}",
                refusal.text
            ),
            Effect::Note(worker, text) => tracing::warn!(worker, "{text}"),
        }
    }
}

/// Gets the answer to one request for a lease.
struct Grant {
    hub: Arc<OrchestratorHub>,
    ask: Ask,
    is_gone: Arc<AtomicBool>,
}

impl Respond<Vec<lease::Granted>> for Grant {
    fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    fn respond(
        self: Box<Self>,
        mut answer: Vec<lease::Granted>,
    ) -> Result<(), Vec<lease::Granted>> {
        if self.is_gone() {
            return Err(answer);
        }
        self.hub.handler().waiting().remove(&self.ask);
        let granted = answer.pop();
        let granted = granted.map(|granted| task(granted.job, granted.lease, granted.assignment));
        self.hub.report(Event::Answered(self.ask, granted));
        Ok(())
    }
}

/// Gets the answer to the end of one lease.
struct Answer {
    hub: Arc<OrchestratorHub>,
    lease: LeaseId,
}

impl Respond<Result<Standing, LeaseError>> for Answer {
    fn is_gone(&self) -> bool {
        false
    }

    fn respond(
        self: Box<Self>,
        answer: Result<Standing, LeaseError>,
    ) -> Result<(), Result<Standing, LeaseError>> {
        let event = match answer {
            Err(LeaseError::Busy | LeaseError::StoreFull) => Event::Repeat(self.lease),
            // A host that is stopping takes the leases back when it starts again.
            Ok(_) | Err(LeaseError::Rejected(_) | LeaseError::Stopping) => {
                Event::Settled(self.lease)
            }
        };
        self.hub.report(event);
        Ok(())
    }
}

/// Receives ends of leases that workers did not cause.
struct Told(Weak<OrchestratorHub>);

impl LeaseEvents for Told {
    fn cancelled(&self, _job: JobId, lease: LeaseId, grace_ms: u64) {
        if let Some(hub) = self.0.upgrade() {
            hub.report(Event::Cancelled { lease, grace_ms });
        }
    }

    fn revoked(&self, _job: JobId, lease: LeaseId) {
        if let Some(hub) = self.0.upgrade() {
            hub.report(Event::Revoked { lease });
        }
    }
}

/// The field of the params that workers get.
#[derive(Deserialize)]
struct Params {
    title: Option<serde_json::Value>,
}

/// Converts a lease to a task of the wire.
pub(super) fn task(job: JobId, lease: LeaseId, assignment: Assignment) -> Granted {
    let params: Option<Params> = serde_json::from_str(assignment.params.as_str()).ok();
    let title = params.and_then(|params| params.title);
    let title = match title {
        Some(serde_json::Value::String(title)) => title,
        _ => assignment.handler,
    };
    Granted {
        job,
        lease,
        priority: assignment.priority / 2,
        title: cut_marked(&title, TITLE_BYTES_MAX).into_owned(),
        timeout_ms: assignment.timeout_ms,
    }
}
