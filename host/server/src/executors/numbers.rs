//! The metrics of executors, counted when `/metrics` is requested.

use host_wire_kit::executors::{ExecutorHealth, WorkerState};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct In {
    runner: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ExecutorLabels {
    runner: String,
}

/// The metrics of all executors. Cloning shares them.
#[derive(Clone, Default)]
pub(crate) struct Numbers {
    workers: Family<In, Gauge>,
    in_flight: Family<ExecutorLabels, Gauge>,
}

impl Numbers {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let workers = "Foreign runners, by pool and state";
        registry.register("runners", workers, self.workers.clone());
        let in_flight = "Attempts at foreign runners now, by pool";
        registry.register("runner_in_flight", in_flight, self.in_flight.clone());
    }

    pub(crate) fn set(&self, executor: &ExecutorHealth) {
        let runner = executor.name.as_str();
        for state in WorkerState::ALL {
            let workers = executor
                .workers
                .iter()
                .filter(|worker| worker.state == state);
            let labels = In {
                runner: runner.to_owned(),
                state: state.as_str(),
            };
            let count = gauge(workers.count());
            self.workers.get_or_create(&labels).set(count);
        }
        let in_flight = executor.workers.iter().map(|worker| worker.in_flight).sum();
        let labels = ExecutorLabels {
            runner: runner.to_owned(),
        };
        self.in_flight.get_or_create(&labels).set(gauge(in_flight));
    }
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
