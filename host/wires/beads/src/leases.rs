//! Connects the orchestrator's session to the host: requests leases, reports their ends, and passes on the
//! host's events. Makes no decisions.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use host_core::id::{JobId, LeaseId};
use host_core::lease::Hold;
use host_core::name::Name;
use host_core::port::lease::{self, LeaseRequest, Leases};
use host_core::port::{Assignment, Tag};
use host_wire_kit::driver::{EffectHandler, Hub};
use host_wire_kit::leases::{LeaseEvent, LeaseRequests, lease_events};
use host_wire_kit::text::cut_marked;
use serde::Deserialize;

use super::orchestrator::{Effect, Event, GrantedTask, Orchestrator};
use super::settings::OrchestratorConfig;

/// The longest title, in bytes.
const TITLE_BYTES_MAX: usize = 64 << 10;

/// The session with its connections.
pub(super) type OrchestratorHub = Hub<Orchestrator, LeasePort>;

/// The way to the host's leases.
pub(super) struct LeasePort {
    executor: Name,
    leases: Arc<dyn Leases>,
    requests: LeaseRequests,
}

impl LeasePort {
    pub(super) fn new(config: &OrchestratorConfig, leases: Arc<dyn Leases>) -> Self {
        Self {
            executor: config.executor.clone(),
            leases,
            requests: LeaseRequests::default(),
        }
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
                let request = LeaseRequest {
                    executors: vec![self.executor.clone()],
                    worker,
                    slots: 1,
                    hold: Hold::Connection,
                    wait_ms,
                    events: Some(lease_events(hub)),
                };
                let granted = move |mut granted: Vec<lease::GrantedLease>| {
                    let granted = granted.pop();
                    Event::Answered(ask, granted.map(|it| task(it.job, it.lease, it.assignment)))
                };
                let respond = self.requests.responder(hub, Tag(ask.0), granted);
                self.leases.lease(request, respond);
            }
            Effect::Withdraw(ask) => self.requests.withdraw(Tag(ask.0)),
            Effect::End(ended) => self.leases.end(*ended),
            Effect::Warn(link, refusal) => tracing::warn!(
                connection = link.0,
                code = refusal.code.as_str(),
                message = refusal.start,
                "a message of a worker is refused: {}",
                refusal.message
            ),
            Effect::Note(worker, text) => tracing::warn!(worker, "{text}"),
        }
    }
}

impl From<LeaseEvent> for Event {
    fn from(event: LeaseEvent) -> Self {
        match event {
            LeaseEvent::Cancelled {
                lease, grace_ms, ..
            } => Self::Cancelled { lease, grace_ms },
            LeaseEvent::Revoked { lease, .. } => Self::Revoked { lease },
        }
    }
}

/// The field of the params that workers get.
#[derive(Deserialize)]
struct Params {
    title: Option<serde_json::Value>,
}

/// Converts a lease to a task of the wire.
pub(super) fn task(job: JobId, lease: LeaseId, assignment: Assignment) -> GrantedTask {
    let params: Option<Params> = serde_json::from_str(assignment.params.as_str()).ok();
    let title = params.and_then(|params| params.title);
    let title = match title {
        Some(serde_json::Value::String(title)) if !title.is_empty() => title,
        _ => assignment.handler,
    };
    GrantedTask {
        job,
        lease,
        priority: assignment.priority / 2,
        title: cut_marked(&title, TITLE_BYTES_MAX).into_owned(),
        timeout_ms: assignment.timeout_ms,
    }
}
