//! What bounds the work of each kind of command, whatever is stored: what has no bound would hold the host as long as it
//! likes. Stores check in debug builds that no command changes more jobs.

use crate::command::Command;

/// How many running jobs one command looks at to take leases back.
pub const TAKEN_BACK_MAX: usize = 512;

/// The bound of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// How many jobs it changes at most, beside the slices of dependents and of jobs that wait for limits, which the
    /// commands of a batch share.
    pub jobs: usize,
    /// What it works on.
    pub of: &'static str,
}

impl Command {
    /// Returns what bounds the command.
    pub fn bound(&self) -> Bound {
        let (jobs, of) = match self {
            Self::Enqueue(jobs) => (
                jobs.len(),
                "the jobs and dependencies of a request, both limited",
            ),
            Self::Claim { slots, .. } => (
                slots.len(),
                "one job for each slot, and a number of jobs that it passes",
            ),
            Self::Ack { .. }
            | Self::Heartbeat { .. }
            | Self::Log { .. }
            | Self::Renew(_)
            | Self::CancelReceived { .. }
            | Self::Hold(_)
            | Self::SetPriority { .. }
            | Self::Reschedule { .. }
            | Self::Record(_) => (1, "one job"),
            Self::Complete { .. } => (
                1 + self.new_jobs().len(),
                "one job, a slice of its dependents, and what its attempt wrote, which is limited",
            ),
            Self::Lose { .. } | Self::Cancel { .. } | Self::CancelAck { .. } => {
                (1, "one job and a slice of its dependents")
            }
            Self::Retry { .. } => (1, "one job and its prerequisites"),
            Self::Purge { .. } => (
                1,
                "one job, its latest attempts and a slice of its dependents",
            ),
            Self::Tick { limit } => (
                *limit as usize,
                "its number of jobs and dependents, some keys of limits, some batches, and a time",
            ),
            Self::Recover { .. } | Self::TakeOver { .. } => {
                (TAKEN_BACK_MAX, "a number of running jobs")
            }
            Self::SetState(_) => (0, "the keys of a request, which are limited"),
            Self::SetPaused { .. } => (0, "one queue"),
            Self::Deploy { .. } | Self::Rollback { .. } => (
                0,
                "the handlers of all components, a look at their jobs, and the schedules of a manifest, which are \
                 limited",
            ),
            Self::Remove { .. } => (
                0,
                "the handlers of a component, a look at their jobs, and its schedules",
            ),
            Self::SetSchedule { .. } => (0, "one schedule"),
            Self::RemoveSchedule { .. } => (0, "one schedule and its latest firings"),
            Self::Fire(fire) => (
                fire.ids.len() + fire.open.len(),
                "one schedule, a number of nominal times, and one job for each id",
            ),
            Self::SetLimit { .. } | Self::RemoveLimit { .. } => (0, "one limit"),
            Self::NewBatch(new) => (
                new.jobs.len(),
                "one batch, and the jobs and dependencies of a request, both limited",
            ),
            Self::CloseBatch { .. } => (0, "one batch"),
            Self::CancelBatch { .. } => (0, "one batch: ticks cancel its jobs"),
            Self::PutToken { .. }
            | Self::RevokeToken { .. }
            | Self::BeginSession(_)
            | Self::EndSession { .. } => (0, "one token"),
            Self::UseTokens { .. } => (0, "the tokens of the store, which are limited"),
            // And one entry of the audit.
            Self::Noted { command, .. } => return command.bound(),
            Self::Note { .. } => (0, "one entry"),
            Self::ForgetAudit { .. } => (0, "a number of entries"),
        };
        Bound { jobs, of }
    }
}
