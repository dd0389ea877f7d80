//! How long jobs are kept after they have ended. What a job says comes first, then its queue in the
//! configuration, then the manifest of its handler.

use std::collections::BTreeMap;
use std::sync::Arc;

use host_cells::handlers::Handler;
use host_core::name::Name;
use host_core::policy::RetentionChoice;

/// What the configuration says about queues. Cloning shares it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retentions(Arc<BTreeMap<Name, RetentionChoice>>);

impl Retentions {
    pub fn new(queues: BTreeMap<Name, RetentionChoice>) -> Self {
        Self(Arc::new(queues))
    }

    /// Returns what holds for a job that says nothing itself.
    pub fn of(&self, queue: &Name, handler: Option<&Handler>) -> RetentionChoice {
        let of_queue = self.0.get(queue).copied().unwrap_or_default();
        let of_handler = handler.map(Handler::retention);
        of_queue.or(of_handler.unwrap_or_default())
    }
}
