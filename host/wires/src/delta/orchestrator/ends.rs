//! A runner ends its lease, once: the same message again gets the same answer, another one does not.

use host_core::id::{JobId, LeaseId};
use host_core::outcome::Meter;
use host_core::port::lease::{Kept, LeaseMessage};
use host_runtime::mailbox::respond;

use super::super::book::{Before, Digest};
use super::super::convert;
use super::super::lease_id::LeaseText;
use super::super::read::{EndIn, Status};
use super::super::refusals::{Code, Refused};
use super::super::section::PoolConfig;
use super::{Named, Orchestrator};

impl Orchestrator {
    /// A runner reports how its job ended.
    pub(in super::super) async fn complete(
        &self,
        pool: &PoolConfig,
        end: &EndIn,
        digest: Digest,
    ) -> Result<(), Refused> {
        let outcome = convert::outcome(end);
        let meter = Meter::default();
        let message = LeaseMessage::Complete { outcome, meter };
        self.end(pool, end, digest, message).await
    }

    /// A runner has stopped because of a cancel.
    pub(in super::super) async fn cancel_ack(
        &self,
        pool: &PoolConfig,
        end: &EndIn,
        digest: Digest,
    ) -> Result<(), Refused> {
        let message = LeaseMessage::CancelAck {
            partial: Some(convert::kept(end)),
            message: Some(convert::message(end)),
        };
        self.end(pool, end, digest, message).await
    }

    async fn end(
        &self,
        pool: &PoolConfig,
        end: &EndIn,
        digest: Digest,
        message: LeaseMessage,
    ) -> Result<(), Refused> {
        let named = Named::read(pool, &end.about)?;
        let _turn = self.lock(named.lease).lock().await;
        let before = self.book().before_end(named.lease, &named.worker, &digest);
        match before {
            Before::New => {}
            Before::Repeated => return Ok(()),
            Before::Recorded(status) => return Err(Refused::recorded(status.as_str())),
        }
        let standing = match self.tell(&named, message).await {
            Ok(standing) => standing,
            Err(refused) if refused.code == Code::StaleLease => {
                // This host may have started anew after the message had been kept.
                let is_kept = self.is_kept(&named, end).await?;
                return if is_kept { Ok(()) } else { Err(refused) };
            }
            Err(refused) => return Err(refused),
        };
        self.last_line(&named)?;
        let now = self.host()?.clock.now();
        let mut book = self.book();
        book.add(now, named.lease, &named.worker, standing.attempt, true);
        book.ended(named.lease, digest, end.status);
        Ok(())
    }

    /// Takes a lease from a runner of this host that has ended. Returns whether it still held it.
    pub(in super::super) async fn give_back(
        &self,
        job: JobId,
        lease: LeaseId,
        worker: &str,
        why: LeaseMessage,
    ) -> bool {
        let named = Named {
            job,
            lease,
            text: LeaseText::of(job, lease),
            worker: worker.to_owned(),
        };
        let _turn = self.lock(lease).lock().await;
        let told = self.tell(&named, why).await;
        if told.is_ok() {
            self.book().taken(lease);
        }
        told.is_ok()
    }

    /// Returns whether the latest attempt of the job was ended by this worker with such a message, and
    /// nothing else is known of the lease.
    async fn is_kept(&self, named: &Named, end: &EndIn) -> Result<bool, Refused> {
        if self.book().knows(named.lease) {
            return Ok(false);
        }
        let (respond, answer) = respond();
        self.host()?.leases.read(named.job, respond);
        let Ok(Ok(Some(Kept { job, attempts }))) = answer.await else {
            return Ok(false);
        };
        let latest = attempts.last().filter(|it| it.executor == named.worker);
        let (kept, details) = (
            Some(convert::kept(end)),
            latest.and_then(|it| it.failure.as_ref()),
        );
        Ok(latest.is_some_and(|it| it.number == job.lifecycle.attempt)
            && match end.status {
                Status::Succeeded => job.result == kept,
                Status::Failed | Status::TimedOut | Status::Canceled => {
                    job.result == kept || details.is_some_and(|it| it.details == kept)
                }
            })
    }

    /// Keeps the last line of a log, if it has no end.
    pub(super) fn last_line(&self, named: &Named) -> Result<(), Refused> {
        let now = self.host()?.clock.now();
        let mut book = self.book();
        let Some(known) = book.live(named.lease, &named.worker) else {
            return Ok(());
        };
        let (attempt, began_at) = (known.attempt, known.began_at);
        let line = known.log.flush(now.since_ms(began_at));
        drop(book);
        if let (Some(logs), Some(line)) = (self.logs.get(), line) {
            let _kept = logs.keep(named.job, attempt, began_at, vec![line]);
        }
        Ok(())
    }
}
