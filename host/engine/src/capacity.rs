//! How much one store keeps at most, beyond which it refuses, and how long it keeps the deliveries that it makes.

use host_core::policy::Retention;

/// The limits of a store. The defaults are far above the intended use of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The most queues. A queue stays known after its last job is gone.
    pub queues_max: u64,
    /// The most jobs that have not ended.
    pub jobs_max: u64,
    /// The most components.
    pub components_max: u64,
    /// The most attempts that a job may ask for.
    pub attempts_max: u32,
    /// How long deliveries of webhooks are kept.
    pub deliveries: Retention,
}

impl Default for Capacity {
    fn default() -> Self {
        Self {
            queues_max: 10_000,
            jobs_max: 10_000_000,
            components_max: 1_000,
            attempts_max: 1_000,
            deliveries: Retention::default(),
        }
    }
}
