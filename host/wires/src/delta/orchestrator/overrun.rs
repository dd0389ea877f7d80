//! A runner that sends heartbeats longer than its job may run loses the lease: the attempt has timed
//! out. Heartbeats alone would keep it for ever.

use host_core::failure::{Failure, FailureKind};
use host_core::outcome::{Meter, Outcome};
use host_core::port::lease::{Kept, LeaseMessage};
use host_core::time::Time;
use host_runtime::mailbox::respond;

use super::super::refusals::{Code, Refused, Stale};
use super::{Named, Orchestrator};

/// The time limit of a job that sets none, in milliseconds.
const TIMEOUT_MS: u64 = 30_000;

impl Orchestrator {
    /// Ends the attempt of a lease if it has lasted too long; the refusal says so. The caller holds the
    /// lock of the lease.
    pub(super) async fn check_runtime(&self, named: &Named) -> Result<(), Refused> {
        let now = self.host()?.clock.now();
        if !self.book().knows(named.lease) {
            self.adopt(named).await?;
        }
        if self.ends_by(named).is_none_or(|end| now < end) {
            return Ok(());
        }
        let message = format!(
            "the runner has not ended the job: its time limit passed more than {} s ago",
            self.config.times.attempt_ms(0) / 1_000
        );
        let outcome = Outcome::Failed(Failure::new(FailureKind::TimedOut, message));
        let meter = Meter::default();
        self.tell(named, LeaseMessage::Complete { outcome, meter })
            .await?;
        self.last_line(named)?;
        self.book().taken(named.lease);
        tracing::warn!(job = %named.job, worker = named.worker, "a runner went on past its time limit");
        Err(Refused::stale(Stale::Revoked))
    }

    /// Returns how much of a wait is left until the attempt has lasted too long.
    pub(super) fn wait_ms(&self, named: &Named, wait_ms: u64) -> Result<u64, Refused> {
        let now = self.host()?.clock.now();
        let left = self.ends_by(named).map(|end| end.since_ms(now));
        Ok(left.map_or(wait_ms, |left| left.min(wait_ms)))
    }

    fn ends_by(&self, named: &Named) -> Option<Time> {
        self.book().live(named.lease, &named.worker)?.ends_by()
    }

    /// Learns of a lease that was granted before the host started. One that is not current stays
    /// unknown, and the rules refuse its messages.
    async fn adopt(&self, named: &Named) -> Result<(), Refused> {
        let (respond, answer) = respond();
        self.host()?.leases.read(named.job, respond);
        let kept = answer.await.unwrap_or(Ok(None));
        let kept = kept.map_err(|error| Refused::new(Code::Busy, error.to_string()))?;
        let Some(Kept { job, .. }) = kept else {
            return Ok(());
        };
        let job = job.lifecycle;
        let Some(lease) = &job.lease else {
            return Ok(());
        };
        if lease.id != named.lease || lease.worker != named.worker || lease.ack_by.is_some() {
            return Ok(());
        }
        let ends_by = self.ends_at(lease.granted_at, job.policy.timeout_ms);
        let (granted_at, attempt) = (lease.granted_at, job.attempt);
        let mut book = self.book();
        let known = book.add(granted_at, named.lease, &named.worker, attempt, true);
        known.must_end_by(ends_by);
        known.ends_at(lease.expires_at);
        Ok(())
    }

    /// Returns when an attempt has lasted too long.
    pub(super) fn ends_at(&self, granted_at: Time, timeout_ms: Option<u64>) -> Time {
        let timeout_ms = timeout_ms.unwrap_or(TIMEOUT_MS);
        granted_at.plus_ms(self.config.times.attempt_ms(timeout_ms))
    }
}
