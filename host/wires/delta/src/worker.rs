//! The runner role: executes the jobs of a foreign orchestrator, those that it leases over the network
//! or the one in a lease file.

mod client;
mod exchange;
mod host;
mod lease;
mod log_file;
mod log_text;
mod results;
mod session;
mod upload;
mod words;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::future::join_all;
use host_runtime::backoff::Backoff;
use host_wire_kit::http_client::BaseUrl;
use host_wire_kit::secret::Secret;
use host_wire_kit::trouble::Trouble;
use host_wire_kit::{OpenError, Ports};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use self::client::{Client, Leased};
use self::host::Orchestrator;
use self::lease::Lease;
use self::log_file::LogFile;
use self::session::Done;

/// The largest lease file, in bytes: as much as an answer over the network.
const LEASE_BYTES_MAX: u64 = 9 << 20;

/// How long a request for a lease waits for a job, in seconds, and for its answer beyond that.
const WAIT_SECONDS: u64 = 30;
const ANSWER_MS: u64 = 15_000;

/// The longest pause after a request for a lease has failed.
const FAILED_WAIT_MS_MAX: u64 = 30_000;

/// The longest pause if an orchestrator without a job does not let the request wait.
const EMPTY_WAIT_MS_MAX: u64 = 5_000;

/// What is known of an end whose first answer was lost.
const UNANSWERED: &str =
    "the lease of a job ended before the orchestrator answered; most likely it has the job's end";

/// A foreign orchestrator whose jobs we execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) url: BaseUrl,
    pub(super) runner_id: String,
    pub(super) token: Option<Secret>,
    pub(super) capabilities: BTreeSet<String>,
    /// How many leases are held concurrently.
    pub(super) concurrency: usize,
}

/// One lease that was handed out in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileJob {
    pub(super) lease: PathBuf,
    pub(super) log: Option<PathBuf>,
}

#[derive(Serialize)]
struct Ask<'a> {
    runner_id: &'a str,
    capabilities: &'a BTreeSet<String>,
    wait_seconds: u64,
}

/// A lease file that was read, and the log that it goes with.
#[derive(Debug)]
pub(super) struct OpenedLease {
    lease: Lease,
    log: Option<(LogFile, PathBuf)>,
}

impl FileJob {
    /// Reads the lease and opens the log.
    pub(super) fn open(&self) -> Result<OpenedLease, OpenError> {
        let shown = self.lease.display();
        let failed =
            |error| OpenError::failed(format!("cannot read the lease file {shown}: {error}"));
        let mut text = Vec::new();
        File::open(&self.lease)
            .and_then(|file| file.take(LEASE_BYTES_MAX + 1).read_to_end(&mut text))
            .map_err(|error| failed(error.to_string()))?;
        if text.len() as u64 > LEASE_BYTES_MAX {
            return Err(failed(format!("more than {LEASE_BYTES_MAX} bytes")));
        }
        let lease = lease::read(&text).map_err(failed)?;
        let log = self.log.as_ref().map(|path| {
            let cannot = |error| {
                let message = format!("cannot open the log {}: {error}", path.display());
                OpenError::failed(message)
            };
            let absolute = std::path::absolute(path).map_err(cannot)?;
            Ok((LogFile::open(&absolute).map_err(cannot)?, absolute))
        });
        Ok(OpenedLease {
            lease,
            log: log.transpose()?,
        })
    }
}

impl Peer {
    fn orchestrator(&self, is_network: bool) -> Arc<Orchestrator> {
        let token = self.token.as_ref().map(Secret::expose);
        Arc::new(Orchestrator {
            client: Client::new(self.url.clone(), token),
            runner_id: self.runner_id.clone(),
            is_network,
            is_strict: AtomicBool::new(false),
        })
    }

    /// Executes one lease of a file. The error says why its end was not delivered.
    pub(super) async fn execute(self, opened: OpenedLease, ports: Ports) -> Result<(), OpenError> {
        let orchestrator = self.orchestrator(false);
        let OpenedLease { lease, log } = opened;
        let job = lease.job_id.clone();
        let done = host::execute(&orchestrator, &ports, lease, log).await;
        match done {
            Done::Reported(status) => {
                tracing::info!(job, status = status.as_str(), "the job has ended");
                Ok(())
            }
            Done::Unanswered(status) => {
                tracing::warn!(job, status = status.as_str(), "{UNANSWERED}");
                Ok(())
            }
            Done::Lost(why) => Err(OpenError::failed(format!("job {job}: {why}"))),
            Done::Refused(why) => Err(OpenError::failed(format!("job {job}: {why}"))),
            Done::ShutDown => Err(OpenError::failed(format!(
                "job {job}: stopped before it ended; its lease will expire"
            ))),
        }
    }

    /// Leases and executes jobs until the host stops.
    pub(super) async fn work(&self, ports: &Ports) {
        let orchestrator = self.orchestrator(true);
        let trouble = Trouble::default();
        let slots = (0..self.concurrency).map(|_| self.slot(&orchestrator, ports, &trouble));
        join_all(slots).await;
    }

    async fn slot(&self, orchestrator: &Arc<Orchestrator>, ports: &Ports, trouble: &Trouble) {
        let mut failed = Backoff::new(1_000, FAILED_WAIT_MS_MAX);
        let mut empty = Backoff::new(1_000, EMPTY_WAIT_MS_MAX);
        while !ports.stopping.is_cancelled() {
            let asked_at = Instant::now();
            let leased = tokio::select! {
                leased = self.lease(&orchestrator.client) => leased,
                () = ports.stopping.cancelled() => return,
            };
            if leased.is_ok() {
                failed.reset();
                if trouble.is_over() {
                    let orchestrator = orchestrator.client.base();
                    tracing::info!(%orchestrator, "leases can be requested again");
                }
            }
            let pause = match leased {
                Ok(Some(lease)) => {
                    empty.reset();
                    let job = lease.job_id.clone();
                    let done = host::execute(orchestrator, ports, lease, None).await;
                    report(orchestrator, &job, &done);
                    None
                }
                Ok(None) => empty.rest(asked_at.elapsed()),
                Err(error) => {
                    if trouble.is_news(&error) {
                        let orchestrator = orchestrator.client.base();
                        tracing::warn!(%orchestrator, error, "cannot request a lease; retrying within {} s", FAILED_WAIT_MS_MAX / 1_000);
                    }
                    Some(failed.next_wait())
                }
            };
            let Some(pause) = pause else { continue };
            tokio::select! {
                () = sleep(pause) => {}
                () = ports.stopping.cancelled() => return,
            }
        }
    }

    async fn lease(&self, client: &Client) -> Result<Option<Lease>, String> {
        let ask = Ask {
            runner_id: &self.runner_id,
            capabilities: &self.capabilities,
            wait_seconds: WAIT_SECONDS,
        };
        let body = serde_json::to_string(&ask).map_err(|error| error.to_string())?;
        match client.lease(body, WAIT_SECONDS * 1_000 + ANSWER_MS).await {
            Leased::Granted(body) => lease::read(&body).map(Some),
            Leased::Nothing => Ok(None),
            Leased::Failed(why) => Err(why),
        }
    }
}

fn report(orchestrator: &Orchestrator, job: &str, done: &Done) {
    let orchestrator = orchestrator.client.base();
    match done {
        Done::Reported(status) => {
            tracing::debug!(%orchestrator, job, status = status.as_str(), "a job has ended");
        }
        Done::Unanswered(status) => {
            tracing::warn!(%orchestrator, job, status = status.as_str(), "{UNANSWERED}");
        }
        Done::Lost(why) => tracing::warn!(%orchestrator, job, why, "lost a lease"),
        Done::Refused(why) => {
            tracing::warn!(%orchestrator, job, why, "the orchestrator refused the end of a job");
        }
        Done::ShutDown => tracing::info!(%orchestrator, job, "stopped a job"),
    }
}
