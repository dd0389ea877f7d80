//! Connects a session with the host's leases: requests that may be withdrawn, and changes that workers did not
//! cause. Decides nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use host_core::id::{JobId, LeaseId};
use host_core::lease::Revocation;
use host_core::port::Tag;
use host_core::port::lease::{LeaseEvents, Respond};
use parking_lot::Mutex;

use super::driver::{EffectHandler, Hub};
use super::session::Session;

/// A change of a lease that its worker did not cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseEvent {
    /// The attempt must stop within `grace_ms` milliseconds.
    Cancelled {
        job: JobId,
        lease: LeaseId,
        grace_ms: u64,
    },
    /// The lease is over.
    Revoked {
        job: JobId,
        lease: LeaseId,
        why: Revocation,
    },
}

/// Returns what reports changes of leases to a session, as long as its hub lives.
pub fn lease_events<S, H>(hub: &Arc<Hub<S, H>>) -> Arc<dyn LeaseEvents>
where
    S: Session<Event: From<LeaseEvent>>,
    H: EffectHandler<S>,
{
    Arc::new(Events(Arc::downgrade(hub)))
}

struct Events<S: Session, H>(Weak<Hub<S, H>>);

impl<S: Session<Event: From<LeaseEvent>>, H: EffectHandler<S>> Events<S, H> {
    fn report(&self, event: LeaseEvent) {
        if let Some(hub) = self.0.upgrade() {
            hub.report(event.into());
        }
    }
}

impl<S, H> LeaseEvents for Events<S, H>
where
    S: Session<Event: From<LeaseEvent>>,
    H: EffectHandler<S>,
{
    fn cancelled(&self, job: JobId, lease: LeaseId, grace_ms: u64) {
        self.report(LeaseEvent::Cancelled {
            job,
            lease,
            grace_ms,
        });
    }

    fn revoked(&self, job: JobId, lease: LeaseId, why: Revocation) {
        self.report(LeaseEvent::Revoked { job, lease, why });
    }
}

/// The requests for leases that have no answer yet.
#[derive(Debug, Default)]
pub struct LeaseRequests(Arc<Mutex<HashMap<Tag, Arc<AtomicBool>>>>);

impl LeaseRequests {
    /// Returns what reports the answer to a request, unless it is withdrawn before.
    pub fn responder<S, H, T>(
        &self,
        hub: &Arc<Hub<S, H>>,
        tag: Tag,
        event: impl FnOnce(T) -> S::Event + Send + 'static,
    ) -> Box<dyn Respond<T>>
    where
        S: Session,
        H: EffectHandler<S>,
        T: Send + 'static,
    {
        let is_withdrawn = Arc::new(AtomicBool::new(false));
        self.0.lock().insert(tag, Arc::clone(&is_withdrawn));
        Box::new(Request {
            open: Arc::clone(&self.0),
            tag,
            is_withdrawn,
            report: hub.responder(event),
        })
    }

    /// Withdraws a request. Its answer may be on its way already.
    pub fn withdraw(&self, tag: Tag) {
        if let Some(is_withdrawn) = self.0.lock().remove(&tag) {
            is_withdrawn.store(true, Ordering::Release);
        }
    }
}

struct Request<T> {
    open: Arc<Mutex<HashMap<Tag, Arc<AtomicBool>>>>,
    tag: Tag,
    is_withdrawn: Arc<AtomicBool>,
    report: Box<dyn Respond<T>>,
}

impl<T: Send> Respond<T> for Request<T> {
    fn is_gone(&self) -> bool {
        self.is_withdrawn.load(Ordering::Acquire)
    }

    fn respond(self: Box<Self>, answer: T) -> Result<(), T> {
        if self.is_gone() {
            return Err(answer);
        }
        self.open.lock().remove(&self.tag);
        self.report.respond(answer)
    }
}
