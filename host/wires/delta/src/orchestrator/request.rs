//! Requests to the orchestrator, and its answers. Reads bodies; knows no state.

use bytes::Bytes;
use host_core::id::{JobId, LeaseId};
use host_core::name::Name;
use host_core::port::lease::GrantedLease;
use host_core::time::Time;

use super::ends::End;
use crate::messages::HeartbeatAck;
use crate::messages::lease_id::LeaseText;
use crate::messages::read::{self, About, Ask, EndIn, HeartbeatIn};
use crate::refusals::{Stale, WireRefusal};
use crate::settings::PoolConfig;

/// The lease that a message names, and who sends it.
#[derive(Clone, Debug)]
pub(crate) struct NamedLease {
    pub(super) job: JobId,
    pub(super) lease: LeaseId,
    pub(super) text: LeaseText,
    pub(super) worker: String,
}

/// What a runner asks for, or the launcher on its behalf.
#[derive(Debug)]
pub(crate) enum Request {
    /// A job, now or when one comes.
    Ask(Name, Ask),
    Message(NamedLease, Message),
}

/// A message of the runner that holds a lease.
#[derive(Debug)]
pub(crate) enum Message {
    Ack,
    Extension(Extension),
    End(Box<End>),
}

/// A message that extends a lease.
#[derive(Debug)]
pub(crate) enum Extension {
    Heartbeat(HeartbeatIn),
    /// A chunk of a log. It is as good as a heartbeat.
    Log {
        offset: u64,
        bytes: Bytes,
    },
}

/// The answer to a request that is not refused.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The job, if one came in time.
    Granted(Option<Box<GrantedLease>>),
    Accepted,
    Completed(LeaseText),
    Heartbeat(HeartbeatAck),
    /// Where the log continues.
    Logged(u64),
}

impl NamedLease {
    pub(super) fn new(job: JobId, lease: LeaseId, worker: String) -> Self {
        let text = LeaseText::of(job, lease);
        Self {
            job,
            lease,
            text,
            worker,
        }
    }

    /// Finds out which lease a message is about.
    pub(crate) fn read(pool: &PoolConfig, about: &About) -> Result<Self, WireRefusal> {
        let parsed = about.lease_id.parse();
        let (job, lease) = parsed.ok_or_else(|| WireRefusal::stale(Stale::Unknown))?;
        Ok(Self {
            job,
            lease,
            text: about.lease_id.clone(),
            worker: worker(&pool.name, &about.runner_id),
        })
    }
}

/// How far the clock of a runner may be from this host's, in milliseconds.
const SKEW_MS_MAX: u64 = 60_000;

impl Message {
    /// Returns whether its sender's clock is far from this host's.
    pub(super) fn is_skewed(&self, wall: Time) -> bool {
        let Self::Extension(Extension::Heartbeat(beat)) = self else {
            return false;
        };
        let off_ms = |ts: Time| ts.since_ms(wall).max(wall.since_ms(ts));
        beat.ts.is_some_and(|ts| off_ms(ts) > SKEW_MS_MAX)
    }

    pub(crate) fn ack(body: &[u8]) -> Result<(About, Self), WireRefusal> {
        Ok((read::ack(body)?, Self::Ack))
    }

    pub(crate) fn heartbeat(body: &[u8]) -> Result<(About, Self), WireRefusal> {
        let heartbeat = read::heartbeat(body)?;
        let about = heartbeat.about.clone();
        Ok((about, Self::Extension(Extension::Heartbeat(heartbeat))))
    }

    pub(crate) fn complete(body: &[u8]) -> Result<(About, Self), WireRefusal> {
        Ok(Self::end(read::complete(body)?, false))
    }

    pub(crate) fn cancel_ack(body: &[u8]) -> Result<(About, Self), WireRefusal> {
        Ok(Self::end(read::cancel_ack(body)?, true))
    }

    fn end(report: EndIn, is_cancel_ack: bool) -> (About, Self) {
        let about = report.about.clone();
        let end = End {
            report,
            is_cancel_ack,
        };
        (about, Self::End(Box::new(end)))
    }
}

/// Returns the name of a runner in attempts.
pub(super) fn worker(pool: &Name, runner_id: &str) -> String {
    format!("{pool}/{runner_id}")
}
