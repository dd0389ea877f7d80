//! Starts the executors: those of all wires, and that of webhooks.

use std::sync::Arc;

use host_cells::sandbox::broker::Broker;
use host_dispatch::lease_mail::LeaseService;
use host_runtime::clock::Clock;
use host_runtime::tasks::Tasks;
use host_wire_kit::{ExecutorPorts, OpenWire};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::config::Config;
use crate::executors::Executors;
use crate::logs::ForeignLogs;
use crate::metrics::Metrics;
use crate::webhooks::executor::{Deliveries, Parts};

/// What executors need of the host: time, metrics, leases, logs and tasks.
pub(super) type OfHost<'a> = (
    Clock,
    &'a Metrics,
    &'a LeaseService,
    &'a Arc<ForeignLogs>,
    &'a Tasks,
);

/// Starts the executors of all wires, and that of webhooks if the configuration has any. Returns what ends them when it is
/// dropped.
pub(super) fn start(
    config: &Config,
    wires: &mut [OpenWire],
    (clock, metrics, leases, logs, tasks): OfHost<'_>,
    broker: &Broker,
) -> (Executors, DropGuard) {
    let stopping = CancellationToken::new();
    let ports = ExecutorPorts {
        clock: Arc::new(clock),
        counters: Arc::new(metrics.clone()),
        leases: Arc::new(leases.clone()),
        logs: Arc::<ForeignLogs>::clone(logs),
        tasks: tasks.clone(),
        stopping: stopping.clone(),
    };
    let wires = wires.iter_mut();
    let mut all: Vec<_> = wires
        .filter_map(|wire| wire.active.executors(&ports))
        .collect();
    if config.webhooks.any() {
        all.push(Deliveries::start(Parts {
            webhooks: config.webhooks.clone(),
            broker: broker.clone(),
            clock,
            leases: ports.leases,
            tasks: tasks.clone(),
            stopping: stopping.clone(),
        }));
    }
    let executors = Executors::new(all, config.routes.clone());
    executors.register(metrics);
    (executors, stopping.drop_guard())
}
