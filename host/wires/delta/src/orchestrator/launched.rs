//! The runners that this host starts: each of a pool's places takes one job after the other, and starts
//! a process for it with the lease in a file. A process that ends without an end of its job loses the
//! lease immediately.

mod files;
mod job_log;
mod place;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use host_core::lease::Fence;
use host_core::name::Name;
use host_core::port::Clock;
use host_core::port::lease::{LeaseMessage, Leases, Resumed};
use host_runtime::mailbox::respond;
use host_wire_kit::process::Launcher;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use self::files::Files;
use self::place::LaunchedRunner;
use super::{NamedLease, Pools};
use crate::settings::{Launch, PoolConfig};

/// How often the files of jobs that are not kept any more are removed.
const SWEEP_TIME: Duration = Duration::from_hours(1);

/// What the places of one pool share.
struct Pool {
    pools: Arc<Pools>,
    leases: Arc<dyn Leases>,
    config: PoolConfig,
    launch: Launch,
    files: Files,
    clock: Arc<dyn Clock>,
    launcher: Launcher,
    /// Where its runners reach this host.
    url: String,
    stopping: CancellationToken,
}

/// What starting runners needs of the host.
pub(crate) struct LauncherDeps {
    pub(crate) leases: Arc<dyn Leases>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stopping: CancellationToken,
    /// Where the files of jobs are.
    pub(crate) folder: PathBuf,
}

/// Starts runners until the host stops, and then ends them.
pub(crate) async fn run(pools: &Arc<Pools>, deps: LauncherDeps) {
    pools.name_runners(deps.leases.node());
    take_over(pools, &deps.leases).await;
    if !pools.config.launches() {
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
    let url = tokio::select! {
        Some(url) = pools.reached() => url,
        () = stopping.cancelled() => return,
    };
    let started = if cfg!(test) {
        Launcher::start()
    } else {
        Launcher::start_for_trees()
    };
    let launcher = match started {
        Ok(launcher) => launcher,
        Err(error) => {
            tracing::error!(%error, "cannot start runners: cannot create a thread");
            return;
        }
    };
    let shared = pools.config.pools.iter().filter_map(|config| {
        Some(Arc::new(Pool {
            pools: Arc::clone(pools),
            leases: Arc::clone(&leases),
            launch: config.launch.clone()?,
            config: config.clone(),
            files: files.clone(),
            clock: Arc::clone(&clock),
            launcher: launcher.clone(),
            url: url.clone(),
            stopping: stopping.clone(),
        }))
    });
    let places = shared.flat_map(|pool| {
        let numbers = 1..=pool.launch.pool_size;
        numbers.map(move |number| LaunchedRunner::new(Arc::clone(&pool), number).work())
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

/// Takes over the leases that were granted before the host was restarted, for the heartbeats that wait. Gives
/// back those of the runners that it had started, which have ended with it, or with another node that is dead.
pub(crate) async fn take_over(pools: &Pools, leases: &Arc<dyn Leases>) {
    for pool in &pools.config.pools {
        // The answer to the first request shows that the host has read its store: only then all lanes
        // are known.
        let mut resumed = resume(pools, leases, pool.name.clone()).await;
        for lane in pools.own_lanes(pool) {
            resumed.extend(resume(pools, leases, lane).await);
        }
        if pool.launch.is_none() {
            continue;
        }
        for Resumed {
            granted,
            worker: of,
            ..
        } in resumed
        {
            let (_, runner_id) = of.split_once('/').unwrap_or_default();
            if pool.starts(runner_id) {
                let named = NamedLease::new(granted.job, granted.lease, of);
                let back = LeaseMessage::GiveBack { begun: true };
                give_back(&**leases, named, back).await;
            }
        }
    }
}

/// Takes over the leases of an executor.
async fn resume(pools: &Pools, leases: &Arc<dyn Leases>, executor: Name) -> Vec<Resumed> {
    let Some(events) = pools.lease_events() else {
        return Vec::new();
    };
    let (respond, answer) = respond();
    leases.resume(executor, events, respond);
    answer.await.unwrap_or(Ok(Vec::new())).unwrap_or_default()
}

/// Takes a lease from a runner of this host that has ended. Returns whether it still held it.
async fn give_back(leases: &dyn Leases, named: NamedLease, why: LeaseMessage) -> bool {
    let (respond, answer) = respond();
    let fence = Fence::Holder(named.lease, named.worker);
    leases.send(named.job, fence, why, respond);
    matches!(answer.await, Ok(Ok(_)))
}
