//! What bounds the work of each kind of command, whatever is stored: what has no bound would hold the host as long as it
//! likes. Stores check in debug builds that no command changes more jobs.

use crate::job::Enqueue;
use crate::{Command, audit, batch, component, job, lease, limit, schedule, token};

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
            Self::Job(command) => bound_job(command),
            Self::Lease(command) => bound_lease(command),
            Self::Limit(limit::Command::Hold(_)) => (1, "one job"),
            Self::Limit(_) => (0, "one limit"),
            Self::Schedule(command) => bound_schedule(command),
            Self::Batch(batch::Command::NewBatch(new)) => (
                new.jobs.len(),
                "one batch, and the jobs and dependencies of a request, both limited",
            ),
            Self::Batch(batch::Command::CloseBatch(_)) => (0, "one batch"),
            Self::Batch(batch::Command::CancelBatch(_)) => (0, "one batch: ticks cancel its jobs"),
            Self::Component(component::Command::RemoveComponent(_)) => (
                0,
                "the handlers of a component, a look at their jobs, and its schedules",
            ),
            Self::Component(_) => (
                0,
                "the handlers of all components, a look at their jobs, and the schedules of a manifest, which are \
                 limited",
            ),
            Self::Token(token::Command::UseTokens(_)) => {
                (0, "the tokens of the store, which are limited")
            }
            Self::Token(_) => (0, "one token"),
            Self::State(_) => (0, "the keys of a request, which are limited"),
            Self::Queue(_) => (0, "one queue"),
            Self::Node(_) => (TAKEN_BACK_MAX, "a number of running jobs"),
            // And one entry of the audit.
            Self::Noted { command, .. } => return command.bound(),
            Self::Audit(audit::Command::AddNote(_)) => (0, "one entry"),
            Self::Audit(audit::Command::ForgetAudit(_)) => (0, "a number of entries"),
        };
        Bound { jobs, of }
    }
}

fn bound_job(command: &job::Command) -> (usize, &'static str) {
    match command {
        job::Command::Enqueue(Enqueue(jobs)) => (
            jobs.len(),
            "the jobs and dependencies of a request, both limited",
        ),
        job::Command::Cancel(_) => (1, "one job and a slice of its dependents"),
        job::Command::SetPriority(_) | job::Command::Reschedule(_) | job::Command::Record(_) => {
            (1, "one job")
        }
        job::Command::Retry(_) => (1, "one job and its prerequisites"),
        job::Command::Purge(_) => (
            1,
            "one job, its latest attempts and a slice of its dependents",
        ),
        job::Command::Tick(tick) => (
            tick.limit as usize,
            "its number of jobs and dependents, some keys of limits, some batches, and a time",
        ),
    }
}

fn bound_lease(command: &lease::Command) -> (usize, &'static str) {
    match command {
        lease::Command::Claim(claim) => (
            claim.slots.len(),
            "one job for each slot, and a number of jobs that it passes",
        ),
        lease::Command::Ack(_)
        | lease::Command::Heartbeat(_)
        | lease::Command::Log(_)
        | lease::Command::Renew(_)
        | lease::Command::CancelReceived(_) => (1, "one job"),
        lease::Command::Complete(complete) => (
            1 + complete
                .writes
                .as_ref()
                .map_or(0, |writes| writes.jobs.len()),
            "one job, a slice of its dependents, and what its attempt wrote, which is limited",
        ),
        lease::Command::Lose(_) | lease::Command::CancelAck(_) => {
            (1, "one job and a slice of its dependents")
        }
    }
}

fn bound_schedule(command: &schedule::Command) -> (usize, &'static str) {
    match command {
        schedule::Command::SetSchedule(_) => (0, "one schedule"),
        schedule::Command::RemoveSchedule(_) => (0, "one schedule and its latest firings"),
        schedule::Command::Fire(fire) => (
            fire.ids.len() + fire.open.len(),
            "one schedule, a number of nominal times, and one job for each id",
        ),
    }
}
