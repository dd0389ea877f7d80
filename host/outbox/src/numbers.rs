//! What the metrics say of outboxes.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfOutbox {
    outbox: String,
}

/// The metrics of all outboxes of a host.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    accepted: Family<OfOutbox, Counter>,
    refused: Family<OfOutbox, Counter>,
    lag: Family<OfOutbox, Gauge<f64, AtomicU64>>,
    reachable: Family<OfOutbox, Gauge>,
}

impl Numbers {
    /// Registers all metrics.
    pub fn register(&self, registry: &mut Registry) {
        let (accepted, refused) = (self.accepted.clone(), self.refused.clone());
        registry.register(
            "outbox_accepted_jobs",
            "Jobs of an outbox that this node accepted",
            accepted,
        );
        registry.register(
            "outbox_refused_jobs",
            "Jobs that stay in an outbox with the reason why this node refused them",
            refused,
        );
        registry.register_with_unit(
            "outbox_lag",
            "Age of the oldest job in the last batch that this node took from the outbox, 0 once none waits",
            Unit::Seconds,
            self.lag.clone(),
        );
        registry.register(
            "outbox_reachable",
            "Whether this node could read the outbox when it last tried",
            self.reachable.clone(),
        );
    }

    /// Returns the metrics of one outbox, which exist from then on.
    pub fn of_outbox(&self, name: &str) -> OutboxNumbers {
        let label = OfOutbox {
            outbox: name.to_owned(),
        };
        OutboxNumbers {
            accepted: self.accepted.get_or_create_owned(&label),
            refused: self.refused.get_or_create_owned(&label),
            lag: self.lag.get_or_create_owned(&label),
            reachable: self.reachable.get_or_create_owned(&label),
        }
    }
}

/// The metrics of one outbox.
pub struct OutboxNumbers {
    pub(crate) accepted: Counter,
    pub(crate) refused: Counter,
    pub(crate) lag: Gauge<f64, AtomicU64>,
    pub(crate) reachable: Gauge,
}
