//! The open wire: the orchestrator and the worker in `host serve`, the worker alone in `host worker`.

use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use host_core::name::Name;
use host_core::port::JobLogs;
use host_wire_kit::executors::Executors;
use host_wire_kit::{Active, ExecutorPorts, Mode, OpenError, OpenWire, Ports};

use super::NAME;
use super::orchestrator::{Remote, Role};
use super::settings::{ArcoConfig, WorkerConfig};
use super::token::Tokens;
use super::token::key::Keys;
use super::worker::Bound;

/// The file with the key that this host makes.
const KEY_FILE: &str = "arco.key";

/// The folder of our worker.
const WORKER_FOLDER: &str = "arco-worker";

struct OpenedRoles {
    orchestrator: Arc<Role>,
    /// Whether workers are configured for our jobs.
    has_workers: bool,
    /// The configured keys, or if there are workers, the key that this host has made.
    keys: Option<Keys>,
    /// `None` if the worker role is off.
    worker: Option<Bound>,
    /// Where lines about our jobs go.
    logs: Option<Arc<dyn JobLogs>>,
}

/// Reads or makes the key, and binds the socket of the worker.
pub(super) async fn open(
    config: &ArcoConfig,
    orchestrator: &Arc<Role>,
    mode: &Mode,
) -> Result<OpenWire, OpenError> {
    let has_workers = !config.orchestrator.workers.is_empty();
    let (keys, folder) = match mode {
        Mode::Serve { data, .. } => {
            let configured = config.orchestrator.keys.clone();
            let keys = match configured {
                None if has_workers => Some(kept_key(data)?),
                configured => configured,
            };
            (keys, Some(data.join(WORKER_FOLDER)))
        }
        Mode::Worker { .. } if config.worker.is_none() => {
            let message = "missing address; pass --listen HOST:PORT";
            return Err(OpenError::usage(message));
        }
        Mode::Worker { .. } => (None, None),
    };
    let worker = match &config.worker {
        Some(worker) => {
            let worker = WorkerConfig {
                hosts: hosts(config, mode),
                ..worker.clone()
            };
            Some(bind(&worker, folder, mode).await?)
        }
        None => None,
    };
    let workers = config.orchestrator.workers.keys().map(Name::as_str);
    let ready = match &worker {
        Some(worker) => vec![(NAME, worker.address.to_string())],
        None if has_workers => vec![(NAME, workers.collect::<Vec<_>>().join(","))],
        None => Vec::new(),
    };
    let active = OpenedRoles {
        orchestrator: Arc::clone(orchestrator),
        has_workers,
        keys,
        worker,
        logs: None,
    };
    Ok(OpenWire::new(active, ready))
}

/// Returns the names by which control planes may address the worker: those of this host, at whichever listener.
fn hosts(config: &ArcoConfig, mode: &Mode) -> Vec<String> {
    let (Mode::Serve { hosts, .. } | Mode::Worker { hosts, .. }) = mode;
    let own = config.orchestrator.host();
    hosts.iter().cloned().chain(own).collect()
}

async fn bind(
    config: &WorkerConfig,
    folder: Option<std::path::PathBuf>,
    mode: &Mode,
) -> Result<Bound, OpenError> {
    Bound::bind(config, folder).await.map_err(|error| {
        let message = format!(
            "cannot listen on {} for Arco control planes: {error}; use another address (port 0 picks a free one)",
            config.listen
        );
        match mode {
            Mode::Worker { .. } => OpenError::usage(message),
            Mode::Serve { .. } => OpenError::failed(message),
        }
    })
}

fn kept_key(data: &Path) -> Result<Keys, OpenError> {
    let path = data.join(KEY_FILE);
    Keys::kept_in(&path).map_err(|error| {
        OpenError::failed(format!(
            "cannot keep the key of task tokens in {}: {error}",
            path.display()
        ))
    })
}

impl Active for OpenedRoles {
    fn executors(&mut self, ports: &ExecutorPorts) -> Option<Arc<dyn Executors>> {
        self.logs = Some(Arc::clone(&ports.logs));
        let remote = || Arc::new(Remote(Arc::clone(&self.orchestrator))) as Arc<dyn Executors>;
        self.has_workers.then(remote)
    }

    fn run(self: Box<Self>, ports: Ports) -> BoxFuture<'static, Result<(), OpenError>> {
        Box::pin(async move {
            let Self {
                orchestrator,
                keys,
                worker,
                logs,
                ..
            } = *self;
            let dispatching = async {
                let Some(leases) = ports.leases.clone() else {
                    return;
                };
                if let Some(keys) = orchestrator.keys(keys, leases.shared_secret()) {
                    orchestrator.start(&ports, (leases, logs), Tokens::new(&keys));
                    orchestrator.run(ports.stopping.clone()).await;
                }
            };
            let working = async {
                if let Some(bound) = worker {
                    bound.serve(ports.clone()).await;
                }
            };
            tokio::join!(dispatching, working, ports.stopping.cancelled());
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::tests::read;
    use super::*;

    #[test]
    fn dispatches_may_name_the_host_of_the_public_url() {
        let config = read(&[("public_url", "https://jobs.example:8443")], &[]).unwrap();
        let modes = |hosts: Vec<String>| {
            [
                Mode::Serve {
                    data: "/d".into(),
                    hosts: hosts.clone(),
                },
                Mode::Worker { state: None, hosts },
            ]
        };
        for mode in modes(vec!["proxy.example".to_owned()]) {
            assert_eq!(hosts(&config, &mode), ["proxy.example", "jobs.example"]);
        }
    }
}
