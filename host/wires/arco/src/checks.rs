//! Doctor's checks for Arco: whether workers and control planes can be reached, whether workers can call
//! back, and whether others could read secrets on the network.

#[cfg(test)]
mod tests;

use std::time::Duration;

use futures_util::future::join_all;
use host_core::name::Name;
use host_wire_kit::check::Check;
use host_wire_kit::http_client::{BaseUrl, Origin};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::settings::{ArcoConfig, OrchestratorConfig, RemoteWorker, WorkerConfig};

/// How long a peer may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A peer to connect to.
struct Peer<'a> {
    /// The name of the check.
    check: &'static str,
    /// The peer and its address, for people.
    shown: String,
    origin: &'a Origin,
    /// What to do if it is unreachable.
    next: String,
}

/// Runs all checks. Blocks for a few seconds at most.
pub(super) fn all(config: &ArcoConfig) -> Vec<Check> {
    let orchestrator = &config.orchestrator;
    let mut peers: Vec<Peer<'_>> = orchestrator.workers.iter().map(of_worker).collect();
    let origins = config.worker.iter().flat_map(|worker| &worker.origins);
    peers.extend(origins.map(of_plane));
    let mut checks = reach(&peers);
    checks.extend(
        config
            .worker
            .as_ref()
            .map(|worker| listener(worker, orchestrator)),
    );
    checks.extend(peers.iter().filter_map(clear_text));
    for (name, worker) in &orchestrator.workers {
        checks.extend(secret(name, worker));
        checks.extend(callbacks(orchestrator, name, worker));
    }
    checks
}

fn of_worker<'a>((name, worker): (&Name, &'a RemoteWorker)) -> Peer<'a> {
    Peer {
        check: "arco worker",
        shown: format!("{name} at {}", worker.url),
        origin: worker.url.origin(),
        next: format!(
            "start it, or correct protocol.arco.workers.{name}.url; its jobs wait until it answers"
        ),
    }
}

fn of_plane(origin: &Origin) -> Peer<'_> {
    Peer {
        check: "arco callbacks",
        shown: origin.to_string(),
        origin,
        next: "start the control plane, or correct protocol.arco.worker.callback_origins; tasks \
               cannot begin while it is unreachable"
            .to_owned(),
    }
}

/// Connects to all peers concurrently.
fn reach(peers: &[Peer<'_>]) -> Vec<Check> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let connected = match runtime {
        Ok(runtime) => runtime.block_on(join_all(peers.iter().map(connect))),
        Err(error) => vec![Err(error.to_string()); peers.len()],
    };
    let checks = peers.iter().zip(connected).map(|(peer, connected)| {
        let shown = &peer.shown;
        match connected {
            Ok(()) => Check::ok(peer.check, format!("{shown} accepts connections")),
            Err(why) => {
                let found = format!("{shown} cannot be reached: {why}");
                Check::warn(peer.check, found, &peer.next)
            }
        }
    });
    checks.collect()
}

async fn connect(peer: &Peer<'_>) -> Result<(), String> {
    let connecting = TcpStream::connect(peer.origin.authority());
    match timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", CONNECT_TIMEOUT.as_secs())),
    }
}

fn clear_text(peer: &Peer<'_>) -> Option<Check> {
    if !peer.origin.is_exposed() {
        return None;
    }
    Some(Check::warn(
        "arco network",
        format!(
            "secrets and task tokens cross the network in clear text on the way to {}",
            peer.shown
        ),
        "use an https:// URL",
    ))
}

/// Says by which names control planes may address our worker.
fn listener(worker: &WorkerConfig, orchestrator: &OrchestratorConfig) -> Check {
    let own = ["localhost".to_owned(), worker.listen.ip().to_string()];
    let names: Vec<String> = own.into_iter().chain(orchestrator.host()).collect();
    let found = format!(
        "dispatches to {} may name {} and what http.allowed_hosts lists as their host; others get 403",
        worker.listen,
        names.join(", ")
    );
    Check::ok("arco listener", found)
}

fn secret(name: &Name, worker: &RemoteWorker) -> Option<Check> {
    if worker.secret.is_some() {
        return None;
    }
    Some(Check::warn(
        "arco secret",
        format!("dispatches to {name} have no secret: anyone who can reach it can send it tasks"),
        format!(
            "name one with protocol.arco.workers.{name}.secret_file, and give the worker the same"
        ),
    ))
}

/// Checks that a worker on another machine is not given a loopback address to call back.
fn callbacks(
    orchestrator: &OrchestratorConfig,
    name: &Name,
    worker: &RemoteWorker,
) -> Option<Check> {
    let back = orchestrator.public_url.as_ref().map(BaseUrl::origin);
    let is_here = back.is_none_or(Origin::is_loopback);
    if worker.url.origin().is_loopback() || !is_here {
        return None;
    }
    let shown = back.map_or_else(|| "this host's own address".to_owned(), Origin::to_string);
    Some(Check::warn(
        "arco callbacks",
        format!("{name} is on another machine, but would have to call back {shown}"),
        "set protocol.arco.public_url to the URL by which workers reach this host's API",
    ))
}
