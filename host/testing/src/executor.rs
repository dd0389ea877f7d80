//! An executor of foreign jobs in memory. The test decides how each job goes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use host_core::failure::{Failure, FailureKind};
use host_core::outcome::{Meter, Outcome};
use host_core::port::{Execute, ForeignJob, Reply, Stop, Tag};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

/// Longer than anything in a test takes.
const BOUND: Duration = Duration::from_mins(1);

/// How an execution goes.
#[derive(Debug)]
pub enum Run {
    /// It ends immediately.
    Ends(Outcome, Meter),
    /// It runs until it is stopped.
    Hangs,
    /// It runs until the test takes its reply, whether or not it is stopped.
    IgnoresStops,
    /// There is no room for it.
    Busy,
    /// Its reply is dropped.
    Lost,
}

impl Run {
    /// Completes with the params as the result.
    pub fn echo(job: &ForeignJob) -> Self {
        let result = Some(job.params.clone());
        Self::Ends(Outcome::Completed { result }, Meter::default())
    }

    /// Fails.
    pub fn fails(kind: FailureKind, message: &str) -> Self {
        Self::Ends(
            Outcome::Failed(Failure::new(kind, message)),
            Meter::default(),
        )
    }

    /// Goes as the name of the handler says: `echo`, `hang`, `deaf` (ignores stops), `busy` or `lost`.
    /// There is no other handler.
    pub fn by_handler(job: &ForeignJob) -> Self {
        match job.handler.as_str() {
            "echo" => Self::echo(job),
            "hang" => Self::Hangs,
            "deaf" => Self::IgnoresStops,
            "busy" => Self::Busy,
            "lost" => Self::Lost,
            _ => Self::fails(FailureKind::HandlerNotFound, "no such handler"),
        }
    }
}

struct Running {
    reply: Reply,
    ignores_stops: bool,
}

/// The executor. Tests look at its fields, and may wait for them.
pub struct FakeExecutor {
    decide: Box<dyn Fn(&ForeignJob, &Reply) -> Run + Send + Sync>,
    executions: Mutex<BTreeMap<Tag, Running>>,
    /// All jobs that were started, in order.
    pub jobs: watch::Sender<Vec<ForeignJob>>,
    /// All stops, in order: of which job, with how many milliseconds of grace, and why.
    pub stops: watch::Sender<Vec<(Tag, u64, Stop)>>,
    /// How many executions run.
    pub running: watch::Sender<usize>,
}

impl FakeExecutor {
    /// Executes jobs as `decide` says, which may report progress and log lines before.
    pub fn new(decide: impl Fn(&ForeignJob, &Reply) -> Run + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            decide: Box::new(decide),
            executions: Mutex::default(),
            jobs: watch::Sender::default(),
            stops: watch::Sender::default(),
            running: watch::Sender::default(),
        })
    }

    /// Executes jobs as the names of their handlers say ([`Run::by_handler`]).
    pub fn by_handler() -> Arc<Self> {
        Self::new(|job, _| Run::by_handler(job))
    }

    /// Has no room for any job.
    pub fn busy() -> Arc<Self> {
        Self::new(|_, _| Run::Busy)
    }

    /// Returns whether an execution runs.
    pub fn is_running(&self, tag: Tag) -> bool {
        self.executions.lock().contains_key(&tag)
    }

    /// Takes the reply of an execution that runs, to end it.
    pub fn take(&self, tag: Tag) -> Reply {
        let taken = self.executions.lock().remove(&tag);
        self.running.send_modify(|running| *running -= 1);
        taken.unwrap().reply
    }

    /// Waits until this many executions run.
    pub async fn until_running(&self, count: usize) {
        let mut running = self.running.subscribe();
        let reached = running.wait_for(|running| *running == count);
        let _ = timeout(BOUND, reached).await.unwrap().unwrap();
    }

    fn run(&self, reply: Reply, ignores_stops: bool) {
        let tag = reply.tag();
        let running = Running {
            reply,
            ignores_stops,
        };
        self.executions.lock().insert(tag, running);
        self.running.send_modify(|running| *running += 1);
    }
}

impl Execute for FakeExecutor {
    fn start(&self, job: ForeignJob, reply: Reply) {
        self.jobs.send_modify(|jobs| jobs.push(job.clone()));
        match (self.decide)(&job, &reply) {
            Run::Ends(outcome, meter) => reply.ended(outcome, meter),
            Run::Hangs => self.run(reply, false),
            Run::IgnoresStops => self.run(reply, true),
            Run::Busy => reply.busy(),
            Run::Lost => drop(reply),
        }
    }

    fn stop(&self, tag: Tag, grace_ms: u64, why: Stop) {
        self.stops
            .send_modify(|stops| stops.push((tag, grace_ms, why)));
        let stopped = {
            let mut executions = self.executions.lock();
            match executions.get(&tag) {
                Some(running) if !running.ignores_stops => executions.remove(&tag),
                _ => None,
            }
        };
        if let Some(running) = stopped {
            let outcome = Outcome::Cancelled { partial: None };
            running.reply.ended(outcome, Meter::default());
            self.running.send_modify(|running| *running -= 1);
        }
    }
}
