//! One batch of commands for the store, and for each command where its answer goes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use host_cells::pool::CellSlot;
use host_core::id::{JobId, LeaseId, NodeId};
use host_core::job::Lane;
use host_core::lease::{Fence, Hold, Renewal};
use host_core::name::Name;
use host_core::outcome::Report;
use host_core::requests::Requests;
use host_core::suspicion::{Groups, Suspicion};
use host_core::transition::Loss;
use host_core::writes::{WriteBuffer, Writes};
use host_engine::job::Tick;
use host_engine::lease::{Claim, Complete, Lose, Renew, Slot};
use host_engine::queue::SetPaused;
use host_engine::{Command, Reply, job, lease, node, queue};
use host_runtime::ids;
use tokio::sync::oneshot;

use super::intake::{weight_of, weight_of_files, weight_of_state};
use crate::numbers::RunStats;
use crate::span::Enqueues;
use crate::workers::WorkerMessage;
use crate::workers::requests::RequestId;
use crate::{Request, SubmitError};

/// The size that an end is counted with beside its result and what it writes, in bytes.
const END_BYTES: usize = 2_048;

/// An attempt that has ended but is not stored yet.
#[derive(Clone, Debug)]
pub(super) struct Finished {
    pub(super) job: JobId,
    pub(super) lease: LeaseId,
    pub(super) end: End,
}

#[derive(Clone, Debug)]
pub(super) enum End {
    Reported(Box<Report>),
    /// A report of an attempt that completed, what it writes, and what is counted of it.
    Wrote(Box<Report>, Box<Wrote>),
    Lost {
        loss: Loss,
        executor: String,
        requests: Option<Box<Requests>>,
    },
}

/// What an attempt wrote.
#[derive(Clone, Debug)]
pub(super) struct Wrote {
    pub(super) writes: Writes,
    pub(super) ran: RunStats,
    /// Holds the files of its artifacts until the store has their rows.
    pub(super) _collected: Option<WriteBuffer>,
}

impl Finished {
    /// Estimates how much work it is, in bytes to write.
    pub(super) fn weight(&self) -> usize {
        let written = match &self.end {
            End::Wrote(report, wrote) => {
                let writes = &wrote.writes;
                let state: usize = writes.state.iter().map(weight_of_state).sum();
                let files = weight_of_files(writes);
                report.outcome.bytes() + weight_of(&writes.jobs) + state + files
            }
            End::Reported(report) => report.outcome.bytes(),
            End::Lost { .. } => 0,
        };
        END_BYTES + written
    }

    fn command(&self) -> Command {
        let (job, fence) = (self.job, Fence::Lease(self.lease));
        match self.end.clone() {
            End::Reported(report) => complete(job, fence, report, None).into(),
            End::Wrote(report, wrote) => {
                complete(job, fence, report, Some(Box::new(wrote.writes))).into()
            }
            End::Lost {
                loss,
                executor,
                requests,
            } => Lose {
                job,
                fence,
                loss,
                executor,
                requests,
            }
            .into(),
        }
    }
}

fn complete(
    job: JobId,
    fence: Fence,
    report: Box<Report>,
    writes: Option<Box<Writes>>,
) -> Complete {
    Complete {
        job,
        fence,
        report,
        writes,
    }
}

/// Where a claimed job goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Cell(CellSlot),
    /// A request for jobs of this executor.
    Request(RequestId, Name),
    /// An executor that is not configured: the job fails.
    Unconfigured(Name),
}

/// A slot that is offered to the store.
#[derive(Clone, Debug)]
pub(super) struct OfferedSlot {
    pub(super) target: Target,
    /// The name of the worker: shown to people, and used as a fence.
    pub(super) worker: String,
    pub(super) hold: Hold,
}

impl OfferedSlot {
    /// Makes a slot whose lease is held by connection.
    pub(super) fn connected(target: Target, worker: String) -> Self {
        Self {
            target,
            worker,
            hold: Hold::Connection,
        }
    }
}

/// Slots that were offered to the store.
#[derive(Debug, Default)]
pub(super) struct Offer {
    pub(super) slots: HashMap<LeaseId, (Target, String)>,
    pub(super) shared: usize,
    /// The cells for groups of suspects. Each has a slot for each job that its group may have.
    pub(super) apart: Vec<CellSlot>,
    pub(super) executors: BTreeMap<Name, usize>,
    /// The claim ends when its params reach this many bytes.
    pub(super) params_bytes_max: usize,
}

impl Offer {
    /// Adds a slot and returns it in the store's form.
    fn slot(
        &mut self,
        OfferedSlot {
            target,
            worker,
            hold,
        }: OfferedSlot,
    ) -> Slot {
        let lease = ids::lease();
        let lane = match &target {
            Target::Cell(CellSlot::Shared(_) | CellSlot::OfComponent) => {
                self.shared += 1;
                Lane::Shared
            }
            Target::Cell(CellSlot::Apart(_)) => Lane::Apart,
            Target::Request(_, name) | Target::Unconfigured(name) => {
                *self.executors.entry(name.clone()).or_default() += 1;
                Lane::Executor(name.clone())
            }
        };
        self.slots.insert(lease, (target, worker.clone()));
        Slot {
            lease,
            worker,
            lane,
            hold,
        }
    }

    /// Sends a claimed suspect to the cell of its group. The claim has put the same suspects into the same groups.
    pub(super) fn regroup(&mut self, lease: LeaseId, suspicion: Suspicion, groups: &mut Groups) {
        if let Some((Target::Cell(slot @ CellSlot::Apart(_)), _)) = self.slots.get_mut(&lease)
            && let Some(group) = groups.add(suspicion)
            && let Some(cell) = self.apart.get(group)
        {
            *slot = cell.clone();
        }
    }
}

/// Where the answer to a command goes.
pub(super) enum Origin {
    /// A request, with the spans of its new jobs.
    Request(oneshot::Sender<Result<Reply, SubmitError>>, Enqueues),
    /// A worker's message about its lease.
    Lease(WorkerMessage),
    /// A lease that was renewed in memory.
    Renewal(JobId),
    Finished,
    Tick,
    Claim(Offer),
}

impl Origin {
    /// Returns whether the loop itself has made the command.
    pub(super) const fn is_ours(&self) -> bool {
        matches!(
            self,
            Self::Renewal(_) | Self::Finished | Self::Tick | Self::Claim(_)
        )
    }
}

/// Commands and their origins, in the same order.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) commands: Vec<Command>,
    pub(super) origins: Vec<Origin>,
    /// An upper bound of the jobs that this batch makes available, to decide how many to claim.
    pub(super) newly_available_max: u64,
    /// The number of new jobs for each executor.
    pub(super) new_by_executor: BTreeMap<Name, u64>,
    /// Whether it was cut out of a batch that failed.
    pub(super) is_part: bool,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Divides the batch, and the ended attempts that it includes, into halves.
    pub(super) fn halve(mut self, mut finished: Vec<Finished>) -> ([Self; 2], [Vec<Finished>; 2]) {
        let half = self.commands.len() / 2;
        let is_finished = |origin: &&Origin| matches!(origin, Origin::Finished);
        let first_finished = self.origins.iter().take(half).filter(is_finished).count();
        let second = Self {
            commands: self.commands.split_off(half),
            origins: self.origins.split_off(half),
            // An upper bound of both is one of each.
            newly_available_max: self.newly_available_max,
            new_by_executor: BTreeMap::new(),
            is_part: true,
        };
        self.is_part = true;
        let second_finished = finished.split_off(first_finished);
        ([self, second], [finished, second_finished])
    }

    /// Stores renewals. They come first: nothing else in the batch may take such a lease for over.
    pub(super) fn renew(&mut self, renewals: Vec<Renewal>) {
        for renewal in renewals {
            self.push(Renew(renewal), Origin::Renewal(renewal.job));
        }
    }

    pub(super) fn finish(&mut self, finished: &[Finished]) {
        for finished in finished {
            self.push(finished.command(), Origin::Finished);
        }
    }

    pub(super) fn tick(&mut self, limit: u32) {
        self.push(Tick { limit }, Origin::Tick);
    }

    pub(super) fn request(&mut self, request: Request, enqueues: Enqueues) {
        self.push(request.command, Origin::Request(request.reply, enqueues));
    }

    pub(super) fn message(&mut self, command: lease::Command, message: WorkerMessage) {
        self.push(Command::Lease(command), Origin::Lease(message));
    }

    pub(super) fn claim(
        &mut self,
        node: NodeId,
        slots: Vec<OfferedSlot>,
        apart: Vec<CellSlot>,
        except: BTreeSet<Name>,
        params_bytes_max: usize,
    ) {
        let mut offer = Offer {
            apart,
            params_bytes_max,
            ..Offer::default()
        };
        let slots = slots.into_iter().map(|slot| offer.slot(slot)).collect();
        let claim = Claim {
            node,
            slots,
            except,
            params_bytes_max,
        };
        self.push(claim, Origin::Claim(offer));
    }

    fn push(&mut self, command: impl Into<Command>, origin: Origin) {
        let command = command.into();
        for executor in command.new_executors().flatten() {
            match self.new_by_executor.get_mut(executor) {
                Some(jobs) => *jobs += 1,
                None => drop(self.new_by_executor.insert(executor.clone(), 1)),
            }
        }
        let more = newly_available_max(&command);
        self.newly_available_max = self.newly_available_max.saturating_add(more);
        self.commands.push(command);
        self.origins.push(origin);
    }
}

/// Returns an upper bound of the jobs that a command makes available.
fn newly_available_max(command: &Command) -> u64 {
    let new = command.new_executors().filter(Option::is_none).count() as u64;
    match command.bare() {
        Command::Job(command) => match command {
            job::Command::Enqueue(_) => new,
            job::Command::Retry(_) | job::Command::Reschedule(_) => 1,
            job::Command::Tick(Tick { limit }) => u64::from(*limit),
            _ => 0,
        },
        Command::Batch(_) | Command::Schedule(_) | Command::Step(_) => new,
        Command::Lease(lease::Command::Complete(_)) => 1 + new,
        Command::Lease(lease::Command::Lose(_)) => 1,
        Command::Node(node::Command::TakeOver(_)) => u64::MAX,
        Command::Queue(queue::Command::SetPaused(SetPaused { paused, .. })) if !paused => u64::MAX,
        _ => 0,
    }
}
