//! What was executed for others, on its way to the store: in batches, after the answer has left.
//! What finds no room is dropped and counted.

use futures_util::future::join_all;
use host_core::command::{Command, Foreign, NewJob};
use host_core::job::Payload;
use host_core::name::Name;
use host_core::outcome::Report;
use host_core::policy::Policy;
use host_core::time::Time;
use host_protocols::port::ForeignJob;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;

use super::order::Ids;
use crate::dispatch::Dispatch;
use crate::tasks::Tasks;

/// How many entries may wait.
const WAITING_MAX: usize = 2_048;

/// How many entries are given to the store at once.
const BATCH_MAX: usize = 128;

/// The attribute that holds how often the orchestrator has tried.
const EXTERNAL_ATTEMPT: &str = "external_attempt";

/// Keeps history. Cloning shares it.
#[derive(Clone)]
pub struct History {
    waiting: mpsc::Sender<Box<Foreign>>,
    dropped: Counter,
}

impl History {
    /// Starts the task that gives history to the store.
    pub fn start(dispatch: Dispatch, tasks: &Tasks) -> Self {
        let (waiting, entries) = mpsc::channel(WAITING_MAX);
        let dropped = Counter::default();
        tasks.spawn(write(dispatch, entries, dropped.clone()));
        Self { waiting, dropped }
    }

    /// Lets `/metrics` show what was dropped.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Executions for other orchestrators that are missing in the history";
        registry.register("foreign_history_dropped", help, self.dropped.clone());
    }

    pub(super) fn keep(&self, ids: Ids, job: ForeignJob, times: (Time, Time), report: Report) {
        let entry = Foreign {
            job: entry(ids, job),
            lease: ids.lease,
            started_at: times.0,
            finished_at: times.1,
            report,
        };
        if self.waiting.try_send(Box::new(entry)).is_err() {
            self.dropped.inc();
        }
    }
}

fn entry(ids: Ids, job: ForeignJob) -> NewJob {
    let mut attributes = job.attributes;
    attributes.push((EXTERNAL_ATTEMPT.to_owned(), job.attempt.to_string()));
    NewJob {
        id: ids.job,
        handler: job.handler,
        runner: None,
        queue: job.queue.parse().unwrap_or_else(|_| Name::default_queue()),
        priority: 5,
        run_at: None,
        deadline: job.deadline,
        policy: Policy {
            max_attempts: 1,
            lost_lease_costs_attempt: true,
            ..Policy::default()
        },
        unique_key: None,
        depends_on: Vec::new(),
        payload: Payload {
            params: job.params,
            wire: job.wire.to_owned(),
            external_id: Some(job.external_id),
            trace_context: job.trace,
            attributes,
        },
    }
}

/// Writes until nobody keeps anything any more.
async fn write(dispatch: Dispatch, mut entries: mpsc::Receiver<Box<Foreign>>, dropped: Counter) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while entries.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let kept = batch
            .drain(..)
            .map(|entry| dispatch.submit(Command::Record(entry)));
        for kept in join_all(kept).await {
            if let Err(error) = kept {
                tracing::debug!(%error, "an execution is missing in the history");
                dropped.inc();
            }
        }
    }
}
