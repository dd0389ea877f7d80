//! What a store may be asked to change. Each feature declares its commands in a file of its own, each with its reply; this
//! file has what they share. Commands are plain data, so that a batch can be divided and repeated.

use host_core::failure::FailureKind;
use host_core::id::{BatchId, JobId};
use host_core::job::{Lifecycle, NewJob};
use host_core::name::Name;
use host_core::query::Change;
use host_core::state::StateWrites;
use host_core::time::Time;
use host_core::transition::Effect;
use host_core::writes::Writes;

use crate::audit::{Note, Noted};
use crate::batch::{CancelBatch, CloseBatch};
use crate::component::Deployed;
use crate::job::{Enqueue, EnqueueOnce, Enqueued, Ticked};
use crate::lease::{Claimed, Complete};
use crate::node::TakenBack;
use crate::schedule::{Fire, Firing};
use crate::state::SetState;
use crate::{
    Batch, Rejection, Rows, Stop, artifact, audit, batch, component, job, lease, limit, node,
    queue, schedule, state, step, token,
};

/// What may be asked of a store: a command, and what the store replies to it.
pub trait Ask: Into<Command> {
    /// What the store replies to this command.
    type Reply: Into<Reply> + TryFrom<Reply>;

    /// Adds a note for the audit.
    #[must_use]
    fn noted(self, note: Note) -> Noted<Self> {
        Noted {
            command: self,
            note: Box::new(note),
        }
    }
}

/// For a caller that makes different commands and does not look at their replies.
impl Ask for Command {
    type Reply = Reply;
}

/// What bounds the work of a command, whatever is stored: what has no bound would hold the host as long as it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// How many jobs it changes at most, beside the slices of dependents and of jobs that wait for limits, which the
    /// commands of a batch share. Checked in debug builds.
    pub jobs: usize,
    /// What it works on.
    pub of: &'static str,
}

/// Declares the commands of a feature, one row for each: how it is kept, its name in logs and metrics, its reply, the rule
/// of [`Batch`](crate::Batch) that carries it out, how many jobs that changes at most, and what it works on.
macro_rules! commands {
    ($feature:ident {
        $($variant:ident($($kept:tt)+) $kind:literal -> $reply:ty, $rule:ident, $jobs:expr, $of:literal;)+
    }) => {
        /// One of these commands.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Command { $($variant($($kept)+)),+ }

        impl Command {
            pub(crate) const fn kind(&self) -> &'static str {
                match self { $(Self::$variant(_) => $kind),+ }
            }

            pub(crate) fn bound(&self) -> crate::Bound {
                match self { $(Self::$variant(command) => {
                    let jobs: fn(&$($kept)+) -> usize = $jobs;
                    crate::Bound { jobs: jobs(command), of: $of }
                }),+ }
            }

            pub(crate) fn carry_out<R: crate::Rows>(
                &self,
                batch: &mut crate::Batch<'_, R>,
            ) -> Result<crate::Reply, crate::Stop> {
                match self { $(Self::$variant(command) => {
                    let reply: $reply = batch.$rule(command)?;
                    Ok(reply.into())
                }),+ }
            }
        }

        $(crate::commands! { @ask $feature $variant($($kept)+) -> $reply })+
    };
    (@ask $feature:ident $variant:ident(Box<$command:ident>) -> $reply:ty) => {
        impl From<$command> for crate::Command {
            fn from(command: $command) -> Self {
                Self::$feature(Command::$variant(Box::new(command)))
            }
        }

        impl crate::Ask for $command {
            type Reply = $reply;
        }
    };
    (@ask $feature:ident $variant:ident($command:ident) -> $reply:ty) => {
        impl From<$command> for crate::Command {
            fn from(command: $command) -> Self {
                Self::$feature(Command::$variant(command))
            }
        }

        impl crate::Ask for $command {
            type Reply = $reply;
        }
    };
}
pub(crate) use commands;

/// Lists the features that have commands.
macro_rules! features {
    ($($feature:ident($module:ident),)+) => {
        /// A change to the store.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Command {
            $($feature($module::Command),)+
            /// Execute a command, and record in the audit who requested it and its outcome. The reply is that of the
            /// command.
            Noted {
                command: Box<Self>,
                note: Box<Note>,
            },
        }

        impl Command {
            /// Returns what the command is called in logs and metrics.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$feature(command) => command.kind(),)+
                    Self::Noted { command, .. } => command.kind(),
                }
            }

            /// Returns what bounds the command.
            pub fn bound(&self) -> Bound {
                match self {
                    $(Self::$feature(command) => command.bound(),)+
                    // And one entry of the audit.
                    Self::Noted { command, .. } => command.bound(),
                }
            }

            /// Applies it to the rows of an open transaction.
            pub(crate) fn carry_out<R: Rows>(&self, batch: &mut Batch<'_, R>) -> Result<Reply, Stop> {
                match self {
                    $(Self::$feature(command) => command.carry_out(batch),)+
                    Self::Noted { command, note } => batch.noted(command, note),
                }
            }
        }
    };
}

features! {
    Job(job),
    Lease(lease),
    Limit(limit),
    Schedule(schedule),
    Batch(batch),
    Component(component),
    Token(token),
    State(state),
    Artifact(artifact),
    Step(step),
    Queue(queue),
    Node(node),
    Audit(audit),
}

impl Command {
    /// Returns the command itself, without the note about it.
    pub fn bare(&self) -> &Self {
        match self {
            Self::Noted { command, .. } => command.bare(),
            bare => bare,
        }
    }

    /// Returns the jobs that it enqueues.
    pub fn new_jobs(&self) -> &[NewJob] {
        match self.bare() {
            Self::Job(job::Command::Enqueue(Enqueue(jobs))) => jobs,
            Self::Job(job::Command::EnqueueOnce(EnqueueOnce(job))) => std::slice::from_ref(job),
            Self::Batch(batch::Command::NewBatch(new)) => &new.jobs,
            _ => self.writes().map_or(&[], |writes| &writes.jobs),
        }
    }

    /// Returns the firing of a schedule.
    pub fn firing(&self) -> Option<&Fire> {
        match self.bare() {
            Self::Schedule(schedule::Command::Fire(fire)) => Some(fire),
            _ => None,
        }
    }

    /// Returns the job that it names.
    pub fn job(&self) -> Option<JobId> {
        match self.bare() {
            Self::Job(command) => command.job(),
            Self::Lease(command) => command.job(),
            Self::Limit(limit::Command::Hold(hold)) => Some(hold.job),
            Self::Step(step::Command::CommitStep(commit)) => Some(commit.job),
            _ => None,
        }
    }

    /// Returns the batches that it looks up before others that it touches.
    pub fn batches(&self) -> impl Iterator<Item = BatchId> {
        let named = match self.bare() {
            Self::Batch(
                batch::Command::CloseBatch(CloseBatch { batch })
                | batch::Command::CancelBatch(CancelBatch { batch, .. }),
            ) => Some(*batch),
            _ => None,
        };
        let of_jobs = self.new_jobs().iter().filter_map(NewJob::batch_id);
        named.into_iter().chain(of_jobs)
    }

    /// Returns the executors of the jobs that it may enqueue: `None` for each job for cells.
    pub fn new_executors(&self) -> impl Iterator<Item = Option<&Name>> {
        let firing = self.firing().into_iter();
        let fired = firing
            .flat_map(|fire| fire.job.as_deref().map(|job| (job, fire.ids.len())))
            .flat_map(|(job, jobs)| std::iter::repeat_n(job, jobs));
        self.new_jobs()
            .iter()
            .chain(fired)
            .map(|job| job.executor.as_ref())
    }

    /// Returns the state that it changes.
    pub fn state_writes(&self) -> &[StateWrites] {
        match self.bare() {
            Self::State(state::Command::SetState(SetState(writes))) => {
                std::slice::from_ref(&**writes)
            }
            _ => self.writes().map_or(&[], |writes| &writes.state),
        }
    }

    /// Returns what an attempt writes with it.
    pub fn writes(&self) -> Option<&Writes> {
        match self.bare() {
            Self::Lease(lease::Command::Complete(Complete { writes, .. })) => writes.as_deref(),
            Self::Step(step::Command::CommitStep(commit)) => commit.writes.as_deref(),
            _ => None,
        }
    }
}

/// Declares what stores reply, by type.
macro_rules! replies {
    ($($(#[$doc:meta])* $variant:ident($reply:ty),)+) => {
        /// The reply of a store to one command, whichever that was. [`Reply::unpack`] gives the caller its own.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Reply {
            $($(#[$doc])* $variant($reply),)+
            /// To commands that return nothing.
            Done,
        }

        $(
            impl From<$reply> for Reply {
                fn from(reply: $reply) -> Self {
                    Self::$variant(reply)
                }
            }

            impl TryFrom<Reply> for $reply {
                type Error = Reply;

                fn try_from(reply: Reply) -> Result<Self, Reply> {
                    match reply {
                        Reply::$variant(reply) => Ok(reply),
                        other => Err(other),
                    }
                }
            }
        )+
    };
}

replies! {
    /// In the order of the jobs.
    Enqueued(Vec<Enqueued>),
    Claimed(Vec<Claimed>),
    /// To commands about one job: the job after the command.
    Moved(Box<Lifecycle>),
    TakenBack(TakenBack),
    Ticked(Ticked),
    Deployed(Deployed),
    Fired(Vec<Firing>),
}

impl Reply {
    /// Unpacks the reply to a command whose [`Ask::Reply`] is `T`.
    pub fn unpack<T: TryFrom<Self>>(self) -> T {
        match self.try_into() {
            Ok(reply) => reply,
            // A store can only pack what has the type `Ask::Reply` of the command.
            Err(_) => unreachable!("a command has a reply of another type than its own"),
        }
    }
}

impl From<()> for Reply {
    fn from((): ()) -> Self {
        Self::Done
    }
}

impl TryFrom<Reply> for () {
    type Error = Reply;

    fn try_from(reply: Reply) -> Result<(), Reply> {
        match reply {
            Reply::Done => Ok(()),
            other => Err(other),
        }
    }
}

/// A job failed for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discard {
    pub job: JobId,
    pub queue: Name,
    /// The handler, behind its executor's name if it has one.
    pub handler: String,
    pub failure: Option<FailureKind>,
}

/// The result of a commit, in the order of its commands. When it is returned, everything is on disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Committed {
    /// One answer for each command.
    pub replies: Vec<Result<Reply, Rejection>>,
    /// Every change of state, in order.
    pub changes: Vec<Change>,
    /// The number of the first of these changes. Numbers grow by one with each change that the store has ever made.
    /// `None` if the store numbers changes later, because other nodes make some as well.
    pub first_change: Option<u64>,
    /// The jobs that were discarded, in order.
    pub discards: Vec<Discard>,
    /// Why the store cannot read what it has left out.
    pub unreadable: Vec<String>,
    /// The effects to carry out now, in order.
    pub effects: Vec<(JobId, Effect)>,
    /// When the next job is due, after this batch.
    pub next_wakeup: Option<Time>,
    /// How many jobs cells may claim. Jobs of executors and of paused queues are not counted.
    pub available: u64,
    /// Whether a claim has stopped before it had seen all jobs that it might take: the next one continues from there.
    pub claim_goes_on: bool,
}
