//! The metrics of the dispatch loop, and what handlers cost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use host_cells::pool::Run;
use host_core::cost::{Sample, is_failure};
use host_core::job::{Lifecycle, STATES};
use host_core::name::address;
use host_core::outcome::{Meter, Outcome};
use host_core::port::requests::RequestWatch;
use host_core::port::spans::Spans;
use host_core::query::Change;
use host_core::time::Time;
use host_core::trend::Trends;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};

use crate::costs::CostBook;
use crate::labels::Labels;
use crate::requests::{RequestNumbers, Requests};

/// The upper bounds of the histogram buckets for commits and attempts, in seconds.
const SECONDS: [f64; 11] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0, 30.0, 300.0,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

/// What becomes of attempts: their outcomes, and that they are lost.
const ENDS: [&str; 5] = ["completed", "failed", "retry", "cancelled", LOST];
const LOST: &str = "lost";

/// How many pairs of a queue and a handler begin at 0 before anything has happened to their jobs.
pub const PAIRS_MAX: usize = 1_000;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HandlerLabels {
    handler: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ForeignEnded {
    wire: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Entered {
    queue: String,
    handler: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Worked {
    work: &'static str,
}

/// The longest time of something, in seconds.
type Longest = Gauge<f64, AtomicU64>;

/// What is counted of an attempt in a cell besides its outcome.
#[derive(Clone, Debug)]
pub struct RunStats {
    pub handler: String,
    pub revision: (String, u32),
    pub ran_ms: u64,
    pub ended_at: Time,
}

impl RunStats {
    /// Makes that of a run that ended at `now`.
    pub fn of(run: &Run, now: Time) -> Self {
        Self {
            handler: run.handler.clone(),
            revision: run.revision.clone(),
            ran_ms: run.ran_ms(now),
            ended_at: now,
        }
    }
}

/// The loop's metrics. Cloning shares them.
#[derive(Clone)]
pub struct Numbers {
    entered: Family<Entered, Counter>,
    queues: Labels,
    handlers: Labels,
    attempts: Family<OutcomeLabels, Counter>,
    attempt_seconds: Family<HandlerLabels, Histogram, fn() -> Histogram>,
    foreign: Family<ForeignEnded, Counter>,
    commands: Counter,
    commit_seconds: Histogram,
    commit_longest: Longest,
    failed: Counter,
    turn_longest: Family<Worked, Longest>,
    runs: Gauge,
    cells: Gauge,
    store_full: Gauge,
    requests: RequestNumbers,
    costs: CostBook,
    trends: Arc<Mutex<Trends>>,
}

impl Default for Numbers {
    fn default() -> Self {
        let attempts = Family::default();
        for outcome in ENDS {
            drop(attempts.get_or_create(&OutcomeLabels { outcome }));
        }
        let handlers = Labels::default();
        Self {
            entered: Family::default(),
            queues: Labels::default(),
            requests: RequestNumbers::new(handlers.clone()),
            handlers,
            attempts,
            attempt_seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            foreign: Family::default(),
            commands: Counter::default(),
            commit_seconds: Histogram::new(SECONDS),
            commit_longest: Longest::default(),
            failed: Counter::default(),
            turn_longest: Family::default(),
            runs: Gauge::default(),
            cells: Gauge::default(),
            store_full: Gauge::default(),
            costs: CostBook::default(),
            trends: Arc::default(),
        }
    }
}

impl Numbers {
    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        let entered = "Jobs that entered a state, by queue and handler, from 0 for the first 1,000 known pairs; \
                       the first 100 of each have a label of their own, the others share `_other`";
        registry.register("job_changes", entered, self.entered.clone());
        let attempts =
            "Attempts that ended in a cell or at a foreign runner, by outcome, including `lost`";
        registry.register("attempts", attempts, self.attempts.clone());
        let seconds = "Time of an attempt in its cell or at its foreign runner, by handler with the same \
                       labels";
        timed(registry, "attempt", seconds, self.attempt_seconds.clone());
        let foreign = "Attempts that ended in a cell for another orchestrator, by wire and outcome";
        registry.register("foreign_attempts", foreign, self.foreign.clone());
        let commands = "Commands that were committed to the store";
        registry.register("store_commands", commands, self.commands.clone());
        let commits = "Time of a commit of a batch of commands";
        timed(
            registry,
            "store_commit",
            commits,
            self.commit_seconds.clone(),
        );
        let longest = "The longest of these commits since the host started";
        let name = "store_commit_longest";
        timed(registry, name, longest, self.commit_longest.clone());
        let failed = "Batches that were not committed and were tried again, whole or in halves: conflicts with \
                      other nodes, connections that broke, statements that took too long";
        registry.register("store_batches_failed", failed, self.failed.clone());
        let turn = "The longest turn of the dispatch loop since the host started, with its commit; during it \
                    no request is answered. `work` is the kind of command that it had most of";
        drop(self.turn_longest.get_or_create(&Worked { work: "none" }));
        timed(registry, "turn_longest", turn, self.turn_longest.clone());
        registry.register("runs", "Attempts in cells now", self.runs.clone());
        registry.register("cells", "Cells that take runs now", self.cells.clone());
        let full = "1 while the disk has no room for new jobs, and enqueues are refused";
        registry.register("store_full", full, self.store_full.clone());
        self.requests.register(registry);
    }

    /// Shows the numbers of these queues and handlers at 0 if nothing has happened to their jobs yet, so that the
    /// first failure is an increase. For [`PAIRS_MAX`] pairs at most.
    pub fn show<'a>(
        &self,
        queues: impl Iterator<Item = &'a str>,
        handlers: impl Iterator<Item = &'a str>,
    ) {
        let labels = |known: &Labels, names: &mut dyn Iterator<Item = &'a str>| {
            names.map(|name| known.of(name)).collect::<BTreeSet<_>>()
        };
        let queues = labels(&self.queues, &mut { queues });
        let handlers = labels(&self.handlers, &mut { handlers });
        for handler in &handlers {
            let handler = handler.clone();
            drop(
                self.attempt_seconds
                    .get_or_create(&HandlerLabels { handler }),
            );
        }
        let pairs = queues
            .iter()
            .flat_map(|queue| handlers.iter().map(move |it| (queue, it)));
        for (queue, handler) in pairs.take(PAIRS_MAX) {
            self.show_pair(queue, handler);
        }
    }

    fn show_pair(&self, queue: &str, handler: &str) {
        for state in STATES {
            let entered = Entered {
                queue: queue.to_owned(),
                handler: handler.to_owned(),
                state: state.as_str(),
            };
            drop(self.entered.get_or_create(&entered));
        }
    }

    /// Counts the changes of a commit. Only the dispatch loop calls it.
    pub fn changed(&self, now: Time, changes: &[Change]) {
        let mut entered = BTreeMap::<_, u64>::new();
        let mut trend = BTreeMap::<_, u64>::new();
        for change in changes {
            if let Some(state) = change.to.filter(|_| change.from != change.to) {
                let handler = (change.executor.as_ref(), &change.handler);
                *entered.entry((handler, &change.queue, state)).or_default() += 1;
                *trend.entry((state, change.from.is_none())).or_default() += 1;
            }
        }
        if !trend.is_empty() {
            let mut trends = self.trends.lock();
            for ((state, is_new), jobs) in trend {
                trends.entered(now, state, is_new, jobs);
            }
        }
        for (((executor, handler), queue, state), jobs) in entered {
            let labels = Entered {
                queue: self.queues.of(queue.as_str()),
                handler: self.handlers.of(&address(executor, handler)),
                state: state.as_str(),
            };
            if self.entered.get(&labels).is_none() {
                self.show_pair(&labels.queue, &labels.handler);
            }
            self.entered.get_or_create(&labels).inc_by(jobs);
        }
    }

    /// Returns what counts requests of handlers, and passes on their spans.
    pub fn requests(&self, spans: Option<Arc<dyn Spans>>) -> Arc<dyn RequestWatch> {
        let numbers = self.requests.clone();
        Arc::new(Requests { numbers, spans })
    }

    /// Returns what handlers have cost.
    pub const fn costs(&self) -> &CostBook {
        &self.costs
    }

    /// Returns how many jobs came and went, and how long they took.
    pub fn trends(&self) -> Trends {
        self.trends.lock().clone()
    }

    /// Notes how many jobs wait for a slot.
    pub fn waiting(&self, now: Time, jobs: u64) {
        self.trends.lock().waiting(now, jobs);
    }

    /// Counts a job whose attempt begins.
    pub(super) fn began(&self, now: Time, job: &Lifecycle) {
        // Later ones waited for more than a slot.
        if job.attempt == 1 {
            let could = job
                .run_at
                .map_or(job.enqueued_at, |at| at.max(job.enqueued_at));
            let waited_ms = now.since_ms(could).saturating_sub(job.ended_ms);
            self.trends.lock().began(now, waited_ms);
        }
    }

    /// Counts an attempt that ended in a cell.
    pub(crate) fn ended_in_cell(&self, ran: &RunStats, outcome: &Outcome, meter: Meter) {
        let RunStats {
            handler,
            revision: (component, revision),
            ran_ms,
            ended_at,
        } = ran;
        self.ended(*ended_at, handler, outcome, *ran_ms);
        let sample = Sample {
            ran_ms: *ran_ms,
            is_failure: is_failure(outcome.as_str()),
            meter,
        };
        self.costs
            .add(handler, (component, *revision), *ended_at, sample);
    }

    /// Counts an attempt of this handler, with its executor, that ended.
    pub fn ended(&self, now: Time, handler: &str, outcome: &Outcome, ran_ms: u64) {
        self.attempt(outcome.as_str());
        let is_failure = is_failure(outcome.as_str());
        self.trends.lock().ended(now, ran_ms, is_failure);
        let ran = Duration::from_millis(ran_ms);
        let handler = self.handlers.of(handler);
        let seconds = self
            .attempt_seconds
            .get_or_create(&HandlerLabels { handler });
        seconds.observe(ran.as_secs_f64());
    }

    /// Counts an attempt for another orchestrator.
    pub fn foreign_ended(&self, wire: &'static str, outcome: &Outcome) {
        let outcome = outcome.as_str();
        self.foreign
            .get_or_create(&ForeignEnded { wire, outcome })
            .inc();
    }

    pub fn lost(&self) {
        self.attempt(LOST);
    }

    pub(super) fn committed(&self, commands: usize, took: Duration) {
        self.commands.inc_by(commands as u64);
        self.commit_seconds.observe(took.as_secs_f64());
        raise(&self.commit_longest, took);
    }

    pub(super) fn failed(&self) {
        self.failed.inc();
    }

    pub(super) fn turned(&self, took: Duration, work: &'static str) {
        raise(&self.turn_longest.get_or_create(&Worked { work }), took);
    }

    pub(super) fn store_full(&self, is_full: bool) {
        self.store_full.set(i64::from(is_full));
    }

    pub(super) fn pool(&self, runs: usize, cells: usize) {
        self.runs.set(i64::try_from(runs).unwrap_or(i64::MAX));
        self.cells.set(i64::try_from(cells).unwrap_or(i64::MAX));
    }

    fn attempt(&self, outcome: &'static str) {
        self.attempts
            .get_or_create(&OutcomeLabels { outcome })
            .inc();
    }
}

/// Registers a metric of times.
fn timed(registry: &mut Registry, name: &str, help: &str, metric: impl Metric) {
    registry.register_with_unit(name, help, Unit::Seconds, metric);
}

/// Only the dispatch loop calls it.
fn raise(longest: &Longest, took: Duration) {
    let seconds = took.as_secs_f64();
    if seconds > longest.get() {
        longest.set(seconds);
    }
}

#[cfg(test)]
mod tests {
    use host_core::job::State;
    use prometheus_client::encoding::text;

    use super::*;

    fn shown(numbers: &Numbers) -> String {
        let (mut registry, mut text) = (Registry::default(), String::new());
        numbers.register(&mut registry);
        text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn what_is_known_begins_at_zero() {
        let numbers = Numbers::default();
        numbers.show(["default"].into_iter(), ["echo"].into_iter());
        let text = shown(&numbers);
        for line in [
            "job_changes_total{queue=\"default\",handler=\"echo\",state=\"discarded\"} 0",
            "attempt_seconds_count{handler=\"echo\"} 0",
            "attempts_total{outcome=\"lost\"} 0",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        let change = Change {
            job: "01990f3c-1a2b-7000-8000-000000000001".parse().unwrap(),
            handler: "late".parse().unwrap(),
            executor: None,
            queue: "new".parse().unwrap(),
            from: None,
            to: Some(State::Available),
            attempt: 0,
        };
        numbers.changed(Time(0), &[change]);
        let text = shown(&numbers);
        for (state, jobs) in [("available", 1), ("discarded", 0)] {
            let labels = format!("queue=\"new\",handler=\"late\",state=\"{state}\"");
            let line = format!("job_changes_total{{{labels}}} {jobs}");
            assert!(text.contains(&line), "{line} is not in {text}");
        }
    }

    #[test]
    fn only_so_many_pairs_begin_at_zero() {
        let numbers = Numbers::default();
        let names: Vec<_> = (0..60).map(|n| format!("n{n}")).collect();
        let names = || names.iter().map(String::as_str);
        numbers.show(names(), names());
        let series = shown(&numbers).matches("job_changes_total{").count();
        assert_eq!(series, PAIRS_MAX * STATES.len());
    }

    #[test]
    fn the_longest_turn_and_commit_are_kept() {
        let numbers = Numbers::default();
        for ms in [3, 40, 7] {
            numbers.turned(Duration::from_millis(2 * ms), "tick");
            numbers.committed(1, Duration::from_millis(ms));
        }
        let turn = numbers
            .turn_longest
            .get_or_create(&Worked { work: "tick" })
            .get();
        let longest = [turn, numbers.commit_longest.get()];
        let ms = longest.map(|seconds| Duration::from_secs_f64(seconds).as_millis());
        assert_eq!(ms, [80, 40]);
    }
}
