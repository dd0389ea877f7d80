//! A runner asks for a job, and may wait for one.

use std::sync::Arc;

use host_core::lease::Hold;
use host_core::port::lease::{Granted, LeaseEvents, LeaseRequest};
use host_runtime::mailbox::respond;
use tokio_util::sync::CancellationToken;

use super::super::convert;
use super::super::messages::LeaseGranted;
use super::super::read::Ask;
use super::super::refusals::Refused;
use super::super::section::PoolConfig;
use super::{Orchestrator, worker};

/// A request that waits, for as long as this lives.
struct Waits<'a>(&'a Orchestrator, String);

impl<'a> Waits<'a> {
    fn begin(orchestrator: &'a Orchestrator, worker: String) -> Self {
        orchestrator.book().waits(&worker, true);
        Self(orchestrator, worker)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.book().waits(&self.1, false);
    }
}

impl Orchestrator {
    /// Waits for a job that the runner can execute; `None` if none comes in time.
    ///
    /// Cancel safe: a lease that nobody takes is given back.
    pub(in super::super) async fn lease(
        self: &Arc<Self>,
        pool: &PoolConfig,
        ask: &Ask,
        stopping: &CancellationToken,
    ) -> Result<Option<LeaseGranted>, Refused> {
        let granted = self.grant(pool, ask, stopping).await?;
        Ok(granted.map(|granted| convert::granted(&granted, self.config.times)))
    }

    /// Does the same for a runner of this host.
    pub(in super::super) async fn grant(
        self: &Arc<Self>,
        pool: &PoolConfig,
        ask: &Ask,
        stopping: &CancellationToken,
    ) -> Result<Option<Granted>, Refused> {
        let worker = worker(pool, &ask.runner_id);
        let _waits = Waits::begin(self, worker.clone());
        let granted = self.wait(pool, ask, &worker, stopping).await?;
        if let Some(granted) = &granted {
            let now = self.host.get().map(|host| host.clock.now());
            let attempt = granted.assignment.attempt;
            let mut book = self.book();
            let known = book.add(
                now.unwrap_or_default(),
                granted.lease,
                &worker,
                attempt,
                false,
            );
            known.ends_at(granted.expires_at);
            let timeout_ms = Some(granted.assignment.timeout_ms);
            known.must_end_by(self.ends_at(now.unwrap_or_default(), timeout_ms));
        }
        Ok(granted)
    }

    async fn wait(
        self: &Arc<Self>,
        pool: &PoolConfig,
        ask: &Ask,
        worker: &str,
        stopping: &CancellationToken,
    ) -> Result<Option<Granted>, Refused> {
        let host = self.host()?;
        let until = host.clock.now().plus_ms(ask.wait_seconds * 1_000);
        let mut lanes = self.lanes.subscribe();
        let fits = pool.capabilities.is_subset(&ask.capabilities);
        loop {
            let executors = if fits {
                lanes.borrow_and_update().of(&pool.name, &ask.capabilities)
            } else {
                Vec::new()
            };
            let (respond, answer) = respond();
            let request = LeaseRequest {
                executors,
                worker: worker.to_owned(),
                slots: 1,
                hold: Hold::Ttl {
                    ttl_ms: self.config.times.lease_ttl * 1_000,
                },
                wait_ms: until.since_ms(host.clock.now()),
                events: Some(Arc::clone(self) as Arc<dyn LeaseEvents>),
            };
            host.leases.lease(request, respond);
            tokio::select! {
                biased;
                granted = answer => return Ok(granted.ok().and_then(|mut granted| granted.pop())),
                () = stopping.cancelled() => return Ok(None),
                // A lane that is new may be one for this runner: ask again. A lease that comes
                // meanwhile is given back, because its answer finds nobody.
                Ok(()) = lanes.changed(), if fits => {}
            }
        }
    }
}
