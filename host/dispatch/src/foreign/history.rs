//! Writes the history of foreign work to the store, in batches, after the answer was sent. Entries
//! that find no room are dropped and counted.

use std::sync::Arc;

use futures_util::future::join_all;
use host_core::job::{NewJob, Payload};
use host_core::name::Name;
use host_core::outcome::{Outcome, Report};
use host_core::policy::{Policy, Retention};
use host_core::port::ForeignJob;
use host_core::time::Time;
use host_engine::job::{Foreign, Record};
use host_runtime::tasks::Tasks;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::request::Ids;
use crate::Dispatch;

/// How many entries may wait.
const WAITING_MAX: usize = 2_048;

/// The most params and results that waiting entries may hold together, in KiB.
const WAITING_KIB_MAX: u32 = 32 << 10;

/// The most entries in one write.
const BATCH_MAX: usize = 128;

/// The attribute that holds the orchestrator's attempt number.
const EXTERNAL_ATTEMPT: &str = "external_attempt";

/// Returns how long an entry of a queue and a handler is kept.
pub type KeptFor = Arc<dyn Fn(&Name, &Name) -> Retention + Send + Sync>;

/// Keeps history. Cloning shares it.
#[derive(Clone)]
pub struct History {
    kept_for: KeptFor,
    waiting: mpsc::Sender<Entry>,
    room: Arc<Semaphore>,
    dropped: Counter,
}

/// Registers the count of entries that were dropped.
pub fn register_dropped(dropped: &Counter, registry: &mut Registry) {
    let help = "Executions for other orchestrators that are missing in the history";
    registry.register("foreign_history_dropped", help, dropped.clone());
}

/// One entry and the memory reserved for it until it is stored.
struct Entry {
    foreign: Box<Foreign>,
    _room: OwnedSemaphorePermit,
}

impl History {
    /// Starts the task that writes history to the store.
    pub fn start(dispatch: Dispatch, tasks: &Tasks, kept_for: KeptFor) -> Self {
        let (waiting, entries) = mpsc::channel(WAITING_MAX);
        let dropped = Counter::default();
        tasks.spawn(write(dispatch, entries, dropped.clone()));
        let room = Arc::new(Semaphore::new(WAITING_KIB_MAX as usize));
        Self {
            kept_for,
            waiting,
            room,
            dropped,
        }
    }

    /// Registers the count of dropped entries in `/metrics`.
    pub fn register(&self, registry: &mut Registry) {
        register_dropped(&self.dropped, registry);
    }

    pub(super) fn keep(&self, ids: Ids, job: ForeignJob, times: (Time, Time), report: Report) {
        let entry = Foreign {
            job: entry(ids, job, &self.kept_for),
            lease: ids.lease,
            started_at: times.0,
            finished_at: times.1,
            report,
        };
        let room = Arc::clone(&self.room).try_acquire_many_owned(size_kib(&entry));
        let kept = room.is_ok_and(|room| {
            let foreign = Box::new(entry);
            let entry = Entry {
                foreign,
                _room: room,
            };
            self.waiting.try_send(entry).is_ok()
        });
        if !kept {
            self.dropped.inc();
        }
    }
}

/// Returns the size of an entry's large parts.
fn size_kib(entry: &Foreign) -> u32 {
    let text = match &entry.report.outcome {
        Outcome::Completed { result } | Outcome::Cancelled { partial: result } => result.as_ref(),
        Outcome::Failed(_) | Outcome::Retry { .. } => None,
    };
    let result = text.map_or(0, |text| text.as_str().len());
    let bytes = entry.job.payload.params.as_str().len() + result;
    u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX)
}

fn entry(ids: Ids, job: ForeignJob, kept_for: &KeptFor) -> NewJob {
    let queue = job.queue.parse().unwrap_or_else(|_| Name::default_queue());
    let retention = kept_for(&queue, &job.handler);
    let mut attributes = job.attributes;
    attributes.push((EXTERNAL_ATTEMPT.to_owned(), job.attempt.to_string()));
    NewJob {
        id: ids.job,
        handler: job.handler,
        executor: None,
        component: None,
        queue,
        priority: 5,
        run_at: None,
        deadline: job.deadline,
        policy: Policy {
            max_attempts: 1,
            lost_lease_costs_attempt: true,
            retention,
            ..Policy::default()
        },
        unique_key: None,
        depends_on: Vec::new(),
        conditions: None,
        batch: None,
        notify: Vec::new(),
        files: Vec::new(),
        payload: Payload {
            params: job.kept_params.unwrap_or(job.params),
            wire: job.wire.to_owned(),
            external_id: Some(job.external_id),
            trace_context: job.trace,
            attributes,
            origin: None,
            latest_start: None,
        },
    }
}

/// Writes entries until the last sender is gone.
async fn write(dispatch: Dispatch, mut entries: mpsc::Receiver<Entry>, dropped: Counter) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while entries.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let kept = batch.drain(..).map(|entry| async {
            let Entry { foreign, _room } = entry;
            dispatch.submit(Record(foreign)).await
        });
        for kept in join_all(kept).await {
            if let Err(error) = kept {
                tracing::debug!(%error, "an execution is missing in the history");
                dropped.inc();
            }
        }
    }
}
