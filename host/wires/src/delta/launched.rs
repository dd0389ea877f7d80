//! The runners that this host starts: each of a pool's places takes one job after the other, and starts
//! a process for it with the lease in a file. A process that ends without an end of its job loses the
//! lease at once.

mod files;
mod job_log;
mod place;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use host_core::name::Name;
use host_core::port::Clock;
use host_core::port::lease::{LeaseEvents, LeaseMessage, Leases, Resumed};
use host_runtime::mailbox::respond;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use self::files::Files;
use self::place::Place;
use super::orchestrator::{Orchestrator, worker};
use super::section::{Launch, PoolConfig};
use crate::kit::process::Launcher;

/// How often the files of jobs that are not kept any more are removed.
const SWEEP_TIME: Duration = Duration::from_hours(1);

/// What the places of one pool share.
struct Pool {
    orchestrator: Arc<Orchestrator>,
    config: PoolConfig,
    launch: Launch,
    files: Files,
    clock: Arc<dyn Clock>,
    launcher: Launcher,
    listen: SocketAddr,
    stopping: CancellationToken,
}

/// What starting runners needs of the host.
pub(super) struct LauncherDeps {
    pub(super) leases: Arc<dyn Leases>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) stopping: CancellationToken,
    /// Where the files of jobs are.
    pub(super) folder: PathBuf,
}

/// Starts runners until the host stops, and then ends them.
pub(super) async fn run(orchestrator: &Arc<Orchestrator>, deps: LauncherDeps) {
    take_over(orchestrator, &deps.leases).await;
    if !orchestrator.config.launches() {
        return;
    }
    let LauncherDeps {
        leases,
        clock,
        stopping,
        folder,
    } = deps;
    let files = Files::new(folder);
    files.forget_leases();
    let listen = tokio::select! {
        Some(listen) = orchestrator.listening() => listen,
        () = stopping.cancelled() => return,
    };
    let launcher = match Launcher::start() {
        Ok(launcher) => launcher,
        Err(error) => {
            tracing::error!(%error, "cannot start runners: cannot create a thread");
            return;
        }
    };
    let pools = orchestrator.config.pools.iter().filter_map(|config| {
        Some(Arc::new(Pool {
            orchestrator: Arc::clone(orchestrator),
            launch: config.launch.clone()?,
            config: config.clone(),
            files: files.clone(),
            clock: Arc::clone(&clock),
            launcher: launcher.clone(),
            listen,
            stopping: stopping.clone(),
        }))
    });
    let places = pools.flat_map(|pool| {
        let numbers = 1..=pool.launch.pool_size;
        numbers.map(move |number| Place::new(Arc::clone(&pool), number).work())
    });
    let working = join_all(places);
    let sweeping = async {
        loop {
            files.sweep(&*leases).await;
            sleep(SWEEP_TIME).await;
        }
    };
    tokio::select! {
        _ended = working => {}
        () = sweeping => {}
    }
}

/// Hears from now on of all leases of an earlier life of this host, for the heartbeats that wait. Gives
/// back those of the runners that it had started, which have ended with it.
pub(super) async fn take_over(orchestrator: &Arc<Orchestrator>, leases: &Arc<dyn Leases>) {
    for pool in &orchestrator.config.pools {
        // The answer to the first request shows that the host has read its store: only then all lanes
        // are known.
        let mut resumed = resume(orchestrator, leases, pool.name.clone()).await;
        for lane in orchestrator.lanes_of(pool, &pool.capabilities) {
            resumed.extend(resume(orchestrator, leases, lane).await);
        }
        let Some(launch) = &pool.launch else {
            continue;
        };
        for Resumed {
            granted,
            worker: of,
            ..
        } in resumed
        {
            let mut own = 1..=launch.pool_size;
            if own.any(|number| of == worker(pool, &number.to_string())) {
                let back = LeaseMessage::GiveBack { begun: true };
                orchestrator
                    .give_back(granted.job, granted.lease, &of, back)
                    .await;
            }
        }
    }
}

/// Hears of the leases of an executor that were granted before the host started.
async fn resume(
    orchestrator: &Arc<Orchestrator>,
    leases: &Arc<dyn Leases>,
    executor: Name,
) -> Vec<Resumed> {
    let (respond, answer) = respond();
    let events = Arc::clone(orchestrator) as Arc<dyn LeaseEvents>;
    leases.resume(executor, events, respond);
    answer.await.unwrap_or(Ok(Vec::new())).unwrap_or_default()
}
