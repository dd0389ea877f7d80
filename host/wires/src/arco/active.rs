//! The open wire: the orchestrator and the worker in `host serve`, the worker alone in `host worker`.

use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::NAME;
use super::orchestrator::{Remote, Role};
use super::settings::{ArcoConfig, WorkerConfig};
use super::token::Tokens;
use super::token::key::Keys;
use super::worker::Bound;
use crate::wire::executors::Executors;
use crate::wire::{Active, ExecutorPorts, Mode, OpenError, Ports};

/// The file with the key that this host makes.
const KEY_FILE: &str = "arco.key";

/// The folder of our worker.
const WORKER_FOLDER: &str = "arco-worker";

struct Opened {
    orchestrator: Arc<Role>,
    /// `None` if no workers are configured for our jobs.
    tokens: Option<Tokens>,
    /// `None` if the worker role is off.
    worker: Option<Bound>,
}

/// Reads or makes the key, and binds the socket of the worker.
pub(super) async fn open(
    config: &ArcoConfig,
    orchestrator: &Arc<Role>,
    mode: &Mode,
) -> Result<Box<dyn Active>, OpenError> {
    let (tokens, folder) = match mode {
        Mode::Serve { data } => {
            let has_workers = !config.orchestrator.workers.is_empty();
            let keys = has_workers.then(|| keys(config, data)).transpose()?;
            (
                keys.as_ref().map(Tokens::new),
                Some(data.join(WORKER_FOLDER)),
            )
        }
        Mode::Worker { .. } if config.worker.is_none() => {
            let message = "missing address; pass --listen HOST:PORT";
            return Err(OpenError::usage(message));
        }
        Mode::Worker { .. } => (None, None),
    };
    let worker = match &config.worker {
        Some(worker) => Some(bind(worker, folder, mode).await?),
        None => None,
    };
    Ok(Box::new(Opened {
        orchestrator: Arc::clone(orchestrator),
        tokens,
        worker,
    }))
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

fn keys(config: &ArcoConfig, data: &Path) -> Result<Keys, OpenError> {
    if let Some(keys) = &config.orchestrator.keys {
        return Ok(keys.clone());
    }
    let path = data.join(KEY_FILE);
    Keys::kept_in(&path).map_err(|error| {
        OpenError::failed(format!(
            "cannot keep the key of task tokens in {}: {error}",
            path.display()
        ))
    })
}

impl Active for Opened {
    fn ready(&self) -> Vec<(&'static str, String)> {
        let worker = self.worker.iter();
        worker
            .map(|bound| (NAME, bound.address.to_string()))
            .collect()
    }

    fn executors(&mut self, _: &ExecutorPorts) -> Option<Arc<dyn Executors>> {
        self.tokens.as_ref()?;
        Some(Arc::new(Remote(Arc::clone(&self.orchestrator))))
    }

    fn run(self: Box<Self>, ports: Ports) -> BoxFuture<'static, Result<(), OpenError>> {
        Box::pin(async move {
            let Self {
                orchestrator,
                tokens,
                worker,
            } = *self;
            let dispatching = async {
                if let (Some(tokens), Some(leases)) = (tokens, ports.leases.clone()) {
                    orchestrator.start(&ports, leases, tokens);
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
