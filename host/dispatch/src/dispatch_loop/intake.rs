//! The input of one turn of the loop, bounded in number and in bytes.

use std::collections::{BTreeSet, VecDeque};

use host_cells::port::CellEvent;
use host_core::job::NewJob;
use host_core::name::Name;
use host_core::state::{StateWrite, StateWrites};
use host_core::time::Time;
use host_core::writes::Writes;
use host_engine::{Command, batch, component, job, schedule, step};
use host_runtime::clock::Clock;
use tokio::sync::{mpsc, watch};

use super::Phase;
use crate::Request;
use crate::lease_mail::LeaseService;
use crate::nodes::RemoteChange;

/// The most requests in one batch.
pub const BATCH_COMMANDS_MAX: usize = 512;

/// A batch ends with the small request that takes it over this size, in bytes. A request of this size is large.
pub const BATCH_BYTES_MAX: usize = 8 << 20;

/// How many large requests wait apart, so that small ones pass them.
const LARGE_WAITING_MAX: usize = 64;

/// The most cell events in one turn.
const TURN_EVENTS_MAX: usize = 4_096;

/// How many changes and effects of other nodes one turn takes, besides those of the last message.
const TURN_REMOTE_MAX: usize = 1_000;

/// The size that a small command is counted with, in bytes.
const COMMAND_BYTES: usize = 256;

/// The sizes that a new job and one of its prerequisites are counted with, in bytes: as much as is written in the
/// time that they take.
const JOB_BYTES: usize = 2_048;
const DEPENDENCY_BYTES: usize = 1_024;

/// The size that a retry is counted with, in bytes: it reads the prerequisites of the job, at most a thousand.
const RETRY_BYTES: usize = 256 << 10;

/// The size that a key of state is counted with, beside itself, in bytes.
const KEY_BYTES: usize = 1_024;

/// The input of one turn.
#[derive(Debug, Default)]
pub(super) struct Intake {
    pub(super) requests: Vec<Request>,
    pub(super) events: Vec<CellEvent>,
    /// What other nodes have done: a part of what waits.
    pub(super) remote_changes: Vec<RemoteChange>,
    /// Whether the host was paused before this turn.
    pub(super) was_paused: bool,
    /// The size of the small requests.
    bytes: usize,
    has_large: bool,
}

/// The requests that wait for the loop. A turn takes one that is as large as a batch, and small ones beside it: they do not
/// wait for several.
pub(super) struct Requests {
    waiting: mpsc::Receiver<Request>,
    large: VecDeque<Request>,
}

/// Where input comes from, beside [`LeaseService`].
pub(super) struct Inputs {
    /// `None` if no other node shares the store.
    pub(super) remote_changes: Option<mpsc::Receiver<RemoteChange>>,
    pub(super) requests: Requests,
    pub(super) events: mpsc::Receiver<CellEvent>,
    pub(super) phase: watch::Receiver<Phase>,
    /// Whether an operator wants no more jobs to start here.
    pub(super) drain: watch::Receiver<bool>,
    /// The handlers that cannot run here.
    pub(super) unrunnable: watch::Receiver<BTreeSet<Name>>,
}

impl Inputs {
    /// Waits for something to do, until `due` at most, and collects the input of the turn.
    pub(super) async fn gather(
        &mut self,
        clock: Clock,
        leases: &LeaseService,
        due: Option<Time>,
    ) -> Intake {
        let mut intake = Intake::default();
        if self.requests.large.is_empty() && due.is_none_or(|due| due > clock.now()) {
            let due = async move {
                match due {
                    Some(due) => tokio::time::sleep(clock.until(due)).await,
                    None => std::future::pending().await,
                }
            };
            let remote_changes = async {
                match &mut self.remote_changes {
                    Some(remote_changes) => remote_changes.recv().await,
                    None => None,
                }
            };
            tokio::select! {
                biased;
                () = leases.arrived() => {}
                Some(event) = self.events.recv() => intake.events.push(event),
                Some(request) = self.requests.waiting.recv() => {
                    self.requests.large.extend(intake.add(request));
                }
                Ok(()) = self.phase.changed() => {}
                Ok(()) = self.drain.changed() => {}
                Ok(()) = self.unrunnable.changed() => {}
                Some(done) = remote_changes => intake.remote_changes.push(done),
                () = due => {}
            }
        }
        if let Some(remote_changes) = &mut self.remote_changes {
            intake.fill_remote(remote_changes);
        }
        intake.fill(&mut self.requests, &mut self.events);
        intake
    }
}

impl Requests {
    pub(super) fn new(waiting: mpsc::Receiver<Request>) -> Self {
        Self {
            waiting,
            large: VecDeque::new(),
        }
    }

    /// Takes no more requests, and returns those that wait.
    pub(super) fn close(mut self) -> Vec<Request> {
        self.waiting.close();
        let mut left = Vec::from(self.large);
        left.extend(std::iter::from_fn(|| self.waiting.try_recv().ok()));
        left
    }
}

impl Intake {
    /// Adds a request. Returns it if it is large and the turn has one already.
    fn add(&mut self, request: Request) -> Option<Request> {
        let bytes = weight(&request.command);
        if bytes < BATCH_BYTES_MAX {
            self.bytes += bytes;
        } else if std::mem::replace(&mut self.has_large, true) {
            return Some(request);
        }
        self.requests.push(request);
        None
    }

    /// Takes waiting messages about other nodes. The rest is for the next turn.
    fn fill_remote(&mut self, remote_changes: &mut mpsc::Receiver<RemoteChange>) {
        let mut taken: usize = self.remote_changes.iter().map(RemoteChange::weight).sum();
        while taken < TURN_REMOTE_MAX
            && let Ok(change) = remote_changes.try_recv()
        {
            taken += change.weight();
            self.remote_changes.push(change);
        }
    }

    /// Takes the waiting input without waiting for more.
    fn fill(&mut self, requests: &mut Requests, events: &mut mpsc::Receiver<CellEvent>) {
        while self.events.len() < TURN_EVENTS_MAX {
            let Ok(event) = events.try_recv() else { break };
            self.events.push(event);
        }
        let Requests { waiting, large } = requests;
        if !self.has_large
            && let Some(request) = large.pop_front()
        {
            self.add(request);
        }
        while self.requests.len() < BATCH_COMMANDS_MAX
            && self.bytes < BATCH_BYTES_MAX
            && large.len() < LARGE_WAITING_MAX
        {
            let Ok(request) = waiting.try_recv() else {
                break;
            };
            large.extend(self.add(request));
        }
    }
}

/// Estimates how much work a command is, in bytes to write.
fn weight(command: &Command) -> usize {
    let others = match command.bare() {
        Command::Batch(batch::Command::NewBatch(new)) => {
            let callbacks = new.plan.callbacks.iter();
            callbacks
                .map(|(_, job)| weight_of(std::slice::from_ref(job)))
                .sum()
        }
        Command::Schedule(schedule::Command::Fire(fire)) => fire.job.as_ref().map_or(0, |job| {
            weight_of(std::slice::from_ref(job)) * fire.ids.len()
        }),
        Command::Job(job::Command::Retry(_)) => RETRY_BYTES,
        Command::Component(component::Command::Deploy(deploy)) => deploy.bytes.len(),
        Command::Step(step::Command::CommitStep(commit)) => {
            let writes = commit.writes.as_deref();
            commit.state.value().as_str().len() + writes.map_or(0, weight_of_files)
        }
        _ => 0,
    };
    let state: usize = command.state_writes().iter().map(weight_of_state).sum();
    COMMAND_BYTES + weight_of(command.new_jobs()) + state + others
}

/// Estimates how much work the content of files is.
pub(super) fn weight_of_files(writes: &Writes) -> usize {
    let contents = writes.artifacts.iter().flat_map(|it| &it.content);
    contents.map(Vec::len).sum()
}

/// Estimates how much work changes of state are.
pub(super) fn weight_of_state(writes: &StateWrites) -> usize {
    let weight = |write: &StateWrite| KEY_BYTES + write.bytes();
    writes.writes.iter().map(weight).sum()
}

/// Estimates how much work new jobs are.
pub(super) fn weight_of(jobs: &[NewJob]) -> usize {
    let weight = |job: &NewJob| JOB_BYTES + DEPENDENCY_BYTES * job.depends_on.len() + job.bytes();
    jobs.iter().map(weight).sum()
}

#[cfg(test)]
mod tests {
    use host_core::id::BatchId;
    use host_core::query::Change;
    use host_engine::batch::{BatchPlan, NewBatch};
    use host_engine::job::{Enqueue, Retry};

    use super::super::tests::bench::job;
    use super::*;

    fn with(dependencies: usize) -> Vec<NewJob> {
        let mut new = job("noop");
        new.depends_on = vec![new.id; dependencies];
        vec![new]
    }

    /// Returns how many dependencies the requests of each turn have, if these wait.
    async fn turns(commands: Vec<Command>) -> Vec<Vec<usize>> {
        let (sender, waiting) = mpsc::channel(16);
        for command in commands {
            let (reply, _) = tokio::sync::oneshot::channel();
            let taken = crate::TakenFlag::default();
            let request = Request {
                command,
                reply,
                taken,
            };
            sender.send(request).await.unwrap();
        }
        let (_sender, mut events) = mpsc::channel(1);
        let mut requests = Requests::new(waiting);
        let mut turns = Vec::new();
        while !requests.waiting.is_empty() || !requests.large.is_empty() {
            let mut intake = Intake::default();
            intake.fill(&mut requests, &mut events);
            let commands = intake.requests.iter().map(|request| &request.command);
            let dependencies = commands.map(|command| command.new_jobs()[0].depends_on.len());
            turns.push(dependencies.collect());
        }
        turns
    }

    #[tokio::test]
    async fn a_batch_ends_with_the_request_that_has_too_many_dependencies() {
        let batch_of = |jobs| NewBatch {
            id: BatchId(job("noop").id.0),
            plan: BatchPlan {
                name: None,
                callbacks: Vec::new(),
                notify: None,
                origin: None,
                created_at: Time::default(),
                kept_ms: 0,
            },
            jobs,
            is_open: false,
        };
        let commands = vec![
            Enqueue(with(1)).into(),
            batch_of(with(5_000)).into(),
            Enqueue(with(5_000)).into(),
            Enqueue(with(1)).into(),
        ];
        assert_eq!(turns(commands).await, [vec![1, 5_000, 5_000], vec![1]]);
    }

    #[tokio::test]
    async fn small_requests_do_not_wait_for_several_large_ones() {
        let commands = [9_001, 9_002, 9_003, 1, 9_004, 2].map(|n| Enqueue(with(n)).into());
        let turns = turns(commands.into()).await;
        assert_eq!(
            turns,
            [vec![9_001, 1, 2], vec![9_002], vec![9_003], vec![9_004]]
        );
    }

    #[tokio::test]
    async fn a_turn_takes_a_part_of_what_other_nodes_have_done() {
        let (sender, mut remote_changes) = mpsc::channel(64);
        let changes = |count: usize| {
            let job = job("noop");
            let change = Change {
                job: job.id,
                handler: job.handler,
                executor: None,
                queue: job.queue,
                from: None,
                to: None,
                attempt: 0,
            };
            RemoteChange::Changes(vec![change; count])
        };
        for count in [1_000, 400, 700, 1] {
            sender.send(changes(count)).await.unwrap();
        }
        sender.send(RemoteChange::Queues).await.unwrap();
        let mut taken = Vec::new();
        while !remote_changes.is_empty() {
            let mut intake = Intake::default();
            intake.fill_remote(&mut remote_changes);
            taken.push(intake.remote_changes.len());
        }
        assert_eq!(taken, [1, 2, 2]);
    }

    #[test]
    fn retries_weigh_what_they_may_read() {
        let job = job("noop").id;
        let retry = Retry { job, force: false };
        assert!(BATCH_BYTES_MAX / weight(&retry.into()) < 32);
    }
}
