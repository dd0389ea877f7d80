//! Acknowledgements, heartbeats and logs of the runner that holds a lease.

use std::pin::pin;
use std::time::Duration;

use host_core::port::lease::{LeaseMessage, Standing};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::super::convert;
use super::super::messages::HeartbeatAck;
use super::super::read::{About, AckIn, HeartbeatIn};
use super::super::refusals::{Code, Refused};
use super::super::section::PoolConfig;
use super::{Named, Orchestrator};

impl Orchestrator {
    /// A runner has begun.
    pub(in super::super) async fn ack(
        &self,
        pool: &PoolConfig,
        ack: &AckIn,
    ) -> Result<(), Refused> {
        let named = Named::read(pool, &ack.about)?;
        let job = named.job.to_string();
        if ack.job_id.as_ref().is_some_and(|id| *id != job) {
            let message = "job_id: it is not the job of the lease";
            return Err(Refused::new(Code::FieldMismatch, message));
        }
        let _turn = self.lock(named.lease).lock().await;
        let standing = self.tell(&named, LeaseMessage::Ack).await?;
        self.alive(&named, &standing)
    }

    /// A runner is alive. The answer may wait until the job is cancelled.
    pub(in super::super) async fn heartbeat(
        &self,
        pool: &PoolConfig,
        mut heartbeat: HeartbeatIn,
        stopping: &CancellationToken,
    ) -> Result<HeartbeatAck, Refused> {
        let named = Named::read(pool, &heartbeat.about)?;
        self.check_rate(&named)?;
        if heartbeat.wait_seconds > 0 {
            self.know(&named).await?;
        }
        let changed = self.changed(named.lease, &named.worker);
        let mut changed = pin!(changed.notified());
        // From here on no cancel is missed.
        changed.as_mut().enable();
        let first = self.beat(&named, &mut heartbeat).await?;
        let waits = heartbeat.wait_seconds > 0 && first.cancel.is_none();
        let standing = if waits {
            let wait = self.wait_ms(&named, heartbeat.wait_seconds * 1_000)?;
            let wait = Duration::from_millis(wait);
            tokio::select! {
                _ended = timeout(wait, changed) => {}
                () = stopping.cancelled() => {}
            }
            let _turn = self.lock(named.lease).lock().await;
            self.check_runtime(&named).await?;
            let again = LeaseMessage::Heartbeat { progress: None };
            let standing = self.tell(&named, again).await?;
            self.alive(&named, &standing)?;
            standing
        } else {
            first
        };
        let (now, times) = (self.host()?.clock.now(), self.config.times);
        let warnings = heartbeat.warnings;
        Ok(convert::heartbeat_ack(
            now, named.text, times, &standing, warnings,
        ))
    }

    /// Makes a lease of an earlier life of this host known, so that who waits hears of its changes.
    async fn know(&self, named: &Named) -> Result<(), Refused> {
        if self.book().live(named.lease, &named.worker).is_some() {
            return Ok(());
        }
        let _turn = self.lock(named.lease).lock().await;
        let heartbeat = LeaseMessage::Heartbeat { progress: None };
        let standing = self.tell(named, heartbeat).await?;
        self.alive(named, &standing)
    }

    fn check_rate(&self, named: &Named) -> Result<(), Refused> {
        let now = self.host()?.clock.now();
        let mut book = self.book();
        let known = book.live(named.lease, &named.worker);
        if known.is_none_or(|known| known.may_beat(now)) {
            return Ok(());
        }
        let message =
            "more than 10 heartbeats a second came for this lease; it lives by the others";
        Err(Refused::new(Code::Rate, message))
    }

    async fn beat(&self, named: &Named, heartbeat: &mut HeartbeatIn) -> Result<Standing, Refused> {
        let _turn = self.lock(named.lease).lock().await;
        self.check_runtime(named).await?;
        if let (Some(bytes), Some(known)) = (
            heartbeat.bytes_sent,
            self.book().live(named.lease, &named.worker),
        ) {
            if !known.has_sent(bytes) {
                let warning = "log_cursor.bytes_sent: it was more before, and stays so";
                heartbeat.warnings.push(warning.to_owned());
            }
            heartbeat.bytes_sent = Some(known.bytes_sent());
        }
        let progress = convert::progress(heartbeat);
        let message = LeaseMessage::Heartbeat { progress };
        let standing = self.tell(named, message).await?;
        self.alive(named, &standing)?;
        Ok(standing)
    }

    /// Notes that a message was accepted.
    fn alive(&self, named: &Named, standing: &Standing) -> Result<(), Refused> {
        let now = self.host()?.clock.now();
        let mut book = self.book();
        let known = book.add(now, named.lease, &named.worker, standing.attempt, true);
        known.alive(standing.expires_at);
        Ok(())
    }

    /// Keeps a chunk of a runner's log. Returns where the log goes on.
    pub(in super::super) async fn log(
        &self,
        pool: &PoolConfig,
        about: &About,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64, Refused> {
        let named = Named::read(pool, about)?;
        let _turn = self.lock(named.lease).lock().await;
        self.check_runtime(&named).await?;
        // It is as good as a heartbeat, and shows whether the lease is live.
        let message = LeaseMessage::Heartbeat { progress: None };
        let standing = self.tell(&named, message).await?;
        self.alive(&named, &standing)?;
        let now = self.host()?.clock.now();
        let mut book = self.book();
        let Some(known) = book.live(named.lease, &named.worker) else {
            return Ok(offset);
        };
        let at_ms = now.since_ms(known.began_at);
        let is_adopted = known.is_adopted();
        let lines = known.log.take(offset, bytes, at_ms, is_adopted);
        let lines = lines.map_err(Refused::offset)?;
        let (next, attempt, began_at) = (known.log.next(), known.attempt, known.began_at);
        drop(book);
        if let (Some(logs), false) = (self.logs.get(), lines.is_empty()) {
            let _kept = logs.keep(named.job, attempt, began_at, lines);
        }
        Ok(next)
    }
}
