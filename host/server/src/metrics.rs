//! The metrics that `/metrics` shows, in the format of Prometheus. Each part of the server
//! registers its own metrics; this file has those of the API.

pub(crate) mod prometheus;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use host_core::job::{STATES, State};
use host_core::name::Name;
use host_core::port::Counters;
use host_core::query::QueueStatus;
use host_core::time::Time;
use host_dispatch::labels::{Labels, OTHER};
use host_engine::limit::Limits;
use host_engine::node::{NodeRecord, STANDINGS, Standing};
use host_engine::schedule::{Fate, Firing};
use host_http::metrics as http;
use host_runtime::log;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, text};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// The upper bounds of the buckets for durations, in seconds.
const SECONDS: [f64; 12] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResponseLabels {
    method: &'static str,
    route: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Routed {
    method: &'static str,
    route: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct In {
    queue: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InQueue {
    queue: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    wire: &'static str,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FateLabel {
    fate: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfLimit {
    limit: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Depth {
    wire: &'static str,
    worker: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Standings {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfNode {
    node: String,
}

/// How many nodes have their own label: the first that joined.
const NODES_MAX: usize = 100;

/// How many limits have metrics.
const LIMITS_SHOWN: usize = 100;

/// All metrics of one host. Cloning shares them.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    requests: Family<ResponseLabels, Counter>,
    seconds: Family<Routed, Histogram, fn() -> Histogram>,
    jobs: Family<In, Gauge>,
    queues: Labels,
    nodes: Family<Standings, Gauge>,
    beats: Family<OfNode, Gauge<f64, AtomicU64>>,
    clocks: Family<OfNode, Gauge<f64, AtomicU64>>,
    oldest: Family<InQueue, Gauge<f64, AtomicU64>>,
    connections: Gauge,
    handshakes: Counter,
    firings: Family<FateLabel, Counter>,
    waiting: Family<OfLimit, Gauge>,
    batches: Gauge,
    refused: Family<RefusalLabels, Counter>,
    depths: Family<Depth, Gauge>,
    certificate_days: Arc<OnceLock<Gauge<f64, AtomicU64>>>,
}

/// What counts the firings of schedules.
const FIRINGS: &str = "Nominal times of schedules that this node handled, by fate: \
                       fired, late (fired over 10 s after its time), held, skipped, missed or failed";

/// The lines of the process's own log that could not be written.
#[derive(Debug)]
struct LostLines;

impl Collector for LostLines {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let lost = ConstCounter::new(log::lost_lines());
        let help = "Lines of the host's own log that could not be written";
        let kind = lost.metric_type();
        lost.encode(encoder.encode_descriptor("log_lines_lost", help, None, kind)?)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("host");
        registry.register_collector(Box::new(LostLines));
        let requests = Family::default();
        let seconds: Family<_, _, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(SECONDS));
        let (jobs, connections) = (Family::default(), Gauge::default());
        let refused = Family::default();
        registry.register(
            "wire_refusals",
            "Refusals on wires other than HTTP, by code",
            refused.clone(),
        );
        let firings = Family::default();
        registry.register("schedule_firings", FIRINGS, firings.clone());
        let waiting = Family::default();
        registry.register(
            "limit_waiting_jobs",
            "Jobs that wait for a limit, for the first 100 by name; the same at each node",
            waiting.clone(),
        );
        let batches = Gauge::default();
        registry.register(
            "batches",
            "Batches that have not ended, the same at each node",
            batches.clone(),
        );
        let depths = Family::default();
        registry.register(
            "wire_jobs",
            "Jobs for our workers on other wires: `queued` in the worker's queue, `in_flight` here",
            depths.clone(),
        );
        registry.register("http_requests", "Requests answered", requests.clone());
        registry.register_with_unit(
            "http_request",
            "Time from the header of a request to the header of its answer",
            Unit::Seconds,
            seconds.clone(),
        );
        registry.register(
            "http_connections",
            "Open connections of the API",
            connections.clone(),
        );
        let handshakes = Counter::default();
        registry.register(
            "http_handshake_failures",
            "Connections to the API whose TLS handshake failed",
            handshakes.clone(),
        );
        let kept = "Jobs in the store, the same at each node, by state and queue; the first 100 queues \
                    have their own label, the others share `_other`";
        registry.register("jobs", kept, jobs.clone());
        let oldest = Family::default();
        registry.register_with_unit(
            "oldest_available_job_age",
            "Time since the oldest available job of a queue was enqueued, 0 without one; for the first 100 \
             queues, the same at each node",
            Unit::Seconds,
            oldest.clone(),
        );
        let (nodes, beats, clocks) = (Family::default(), Family::default(), Family::default());
        registry.register(
            "nodes",
            "Nodes that share the store, by state; the same at each node",
            nodes.clone(),
        );
        registry.register_with_unit(
            "node_heartbeat_age",
            "Time since the last heartbeat of a node, for the first 100 that are not gone",
            Unit::Seconds,
            beats.clone(),
        );
        registry.register_with_unit(
            "node_clock_ahead",
            "How far a node's host time is ahead of the database's time, for the same nodes",
            Unit::Seconds,
            clocks.clone(),
        );
        Self {
            registry: Arc::new(Mutex::new(registry)),
            requests,
            seconds,
            jobs,
            queues: Labels::default(),
            nodes,
            beats,
            clocks,
            oldest,
            connections,
            handshakes,
            firings,
            waiting,
            batches,
            refused,
            depths,
            certificate_days: Arc::default(),
        }
    }
}

impl Metrics {
    /// Lets another part of the server register its metrics.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.registry.lock());
    }

    /// Shows how long the certificate of the listeners is valid. There is one.
    pub(crate) fn show_certificate(&self, days_left: Gauge<f64, AtomicU64>) {
        let _ = self.certificate_days.set(days_left);
    }

    /// Returns how many days that certificate is still valid; `None` without TLS.
    pub(crate) fn certificate_days_left(&self) -> Option<f64> {
        self.certificate_days.get().map(Gauge::get)
    }

    /// Sets how many jobs wait for each limit.
    pub(crate) fn set_limits(&self, limits: &Limits, waiting: &BTreeMap<u64, u64>) {
        // Limits that are gone must not stay.
        self.waiting.clear();
        let kept = limits.0.iter().filter(|(_, kept)| !kept.is_removed);
        let named: BTreeMap<String, &u64> = kept
            .map(|(number, kept)| (kept.limit.name.to_string(), number))
            .collect();
        for (limit, number) in named.into_iter().take(LIMITS_SHOWN) {
            let jobs = waiting.get(number).copied().unwrap_or_default();
            let gauge = self.waiting.get_or_create(&OfLimit { limit });
            gauge.set(i64::try_from(jobs).unwrap_or(i64::MAX));
        }
    }

    /// Sets how many batches have not ended.
    pub(crate) fn set_batches(&self, batches: u64) {
        self.batches.set(i64::try_from(batches).unwrap_or(i64::MAX));
    }

    /// Counts what became of nominal times of a schedule.
    pub(crate) fn count_firing(&self, firing: &Firing, is_late: bool) {
        let (fate, times) = match firing.fate {
            Fate::Missed(times) => ("missed", times),
            Fate::Fired(_) if is_late => ("late", 1),
            _ => (firing.fate.as_str(), 1),
        };
        self.firings
            .get_or_create(&FateLabel { fate })
            .inc_by(times);
    }

    /// Sets the number of jobs of each queue in each state.
    pub(crate) fn set_jobs(&self, queues: &[QueueStatus]) {
        let mut counts: BTreeMap<String, [u64; STATES.len()]> = BTreeMap::new();
        for queue in queues {
            let sums = counts.entry(self.queues.of(queue.name.as_str()));
            for (sum, count) in sums.or_default().iter_mut().zip(queue.counts) {
                *sum += count;
            }
        }
        for (queue, counts) in counts {
            for (state, count) in STATES.into_iter().zip(counts) {
                let (queue, state) = (queue.clone(), state.as_str());
                let jobs = self.jobs.get_or_create(&In { queue, state });
                jobs.set(i64::try_from(count).unwrap_or(i64::MAX));
            }
        }
    }

    /// Returns those of these queues that have a label of their own and available jobs.
    pub(crate) fn waiting<'a>(&self, queues: &'a [QueueStatus]) -> Vec<&'a Name> {
        let waits = |queue: &&QueueStatus| {
            let jobs = STATES.into_iter().zip(queue.counts);
            let is_labelled = self.queues.of(queue.name.as_str()) != OTHER;
            is_labelled
                && jobs
                    .into_iter()
                    .any(|(state, jobs)| state == State::Available && jobs > 0)
        };
        queues
            .iter()
            .filter(waits)
            .map(|queue| &queue.name)
            .collect()
    }

    /// Sets the age of the oldest available job of each queue: of those where one was enqueued at an instant.
    pub(crate) fn set_oldest(&self, now: Time, queues: &[QueueStatus], oldest: &[(Name, Time)]) {
        for queue in queues {
            let label = self.queues.of(queue.name.as_str());
            if label == OTHER {
                continue;
            }
            let enqueued_at = oldest.iter().find(|(name, _)| *name == queue.name);
            let age_ms = enqueued_at.map_or(0, |(_, at)| now.since_ms(*at));
            let age = self.oldest.get_or_create(&InQueue { queue: label });
            age.set(Duration::from_millis(age_ms).as_secs_f64());
        }
    }

    /// Sets how many nodes there are in each state, and the time of their last heartbeats.
    pub(crate) fn set_nodes(&self, nodes: &[NodeRecord]) {
        for standing in STANDINGS {
            let standing_here = nodes.iter().filter(|node| node.standing() == standing);
            let count = i64::try_from(standing_here.count()).unwrap_or(i64::MAX);
            let state = standing.as_str();
            self.nodes.get_or_create(&Standings { state }).set(count);
        }
        // Nodes that are gone must not stay.
        self.beats.clear();
        self.clocks.clear();
        let left = nodes
            .iter()
            .filter(|node| node.standing() != Standing::Gone);
        for node in left.take(NODES_MAX) {
            let of = OfNode {
                node: node.id.to_string(),
            };
            let age = self.beats.get_or_create(&of);
            age.set(Duration::from_millis(node.silent_ms).as_secs_f64());
            let ahead = Duration::from_millis(node.ahead_ms.unsigned_abs()).as_secs_f64();
            let clock = self.clocks.get_or_create(&of);
            clock.set(if node.ahead_ms < 0 { -ahead } else { ahead });
        }
    }

    /// Writes all metrics in the `OpenMetrics` text format.
    pub(crate) fn encode(&self) -> String {
        let registry = self.registry.lock();
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut out, &registry);
        out
    }
}

impl http::Metrics for Metrics {
    fn count_response(
        &self,
        method: &'static str,
        path: &'static str,
        status: u16,
        took: Duration,
    ) {
        let labels = ResponseLabels {
            method,
            route: path,
            status,
        };
        self.requests.get_or_create(&labels).inc();
        let labels = Routed {
            method,
            route: path,
        };
        let seconds = self.seconds.get_or_create(&labels);
        seconds.observe(took.as_secs_f64());
    }

    fn connection_opened(&self) {
        self.connections.inc();
    }

    fn connection_closed(&self) {
        self.connections.dec();
    }

    fn handshake_failed(&self) {
        self.handshakes.inc();
    }
}

impl Counters for Metrics {
    fn refused(&self, wire: &'static str, code: &'static str) {
        self.refused
            .get_or_create(&RefusalLabels { wire, code })
            .inc();
    }

    fn set_depth(&self, wire: &'static str, worker: &str, state: &'static str, count: u64) {
        let worker = worker.to_owned();
        let depth = Depth {
            wire,
            worker,
            state,
        };
        let depth = self.depths.get_or_create(&depth);
        depth.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests;
