//! The Delta CI runner protocol.
//!
#![doc = include_str!("../SPEC.md")]

mod active;
mod convert;
mod messages;
mod orchestrator;
mod refusals;
mod settings;
mod tags;
mod worker;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use host_core::name::Name;
use host_http::route::{Group, RoutePorts};
use host_wire_kit::section::{ConfigError, Section};
use host_wire_kit::{Configuration, Configured, Mode, OpenError, OpenWire, Wire};

use self::active::{Serving, Working};
use self::orchestrator::{Pools, api};
use self::settings::{DeltaConfig, WorkerSettings};
use self::worker::FileJob;

const NAME: &str = "delta";

/// The Delta CI runner protocol as a wire.
pub static DELTA: Wire = Wire {
    settings: &[
        settings::Keys::SETTINGS,
        settings::WorkerKeys::SETTINGS,
        settings::RunnerKeys::SETTINGS,
        settings::OrchestratorKeys::SETTINGS,
    ],
    refusals: refusals::CODES,
    specification: include_str!("../SPEC.md"),
    http: api::description,
    worker_role: Some(&settings::WORKER_ROLE),
    ..Wire::new(NAME, configure)
};

fn configure(section: &Section<'_>) -> Result<Configuration, ConfigError> {
    let keys: settings::Keys = section.table("protocol.delta")?;
    let config = DeltaConfig::read(section, &keys)?;
    let pools = config.pools.iter();
    let executors = pools.map(|pool| (pool.origin.clone(), pool.name.to_string()));
    Ok(Configuration {
        executors: executors.collect(),
        default_executor: None,
        hosts: Vec::new(),
        wire: Box::new(ConfiguredDelta {
            pools: Pools::new(config),
            worker: WorkerSettings::read(section, keys)?,
        }),
    })
}

/// Delta with its section read.
#[derive(Debug)]
struct ConfiguredDelta {
    pools: Arc<Pools>,
    worker: WorkerSettings,
}

impl Configured for ConfiguredDelta {
    /// A pool, or a lane of one, which a queue's route may name.
    fn has_executor(&self, name: &str) -> bool {
        let name = name.parse::<Name>().ok();
        let parts = name.and_then(|name| tags::parts(&name));
        parts.is_some_and(|(pool, _)| self.pools.config.pool(pool.as_str()).is_some())
    }

    fn routes(&self, ports: &RoutePorts) -> Vec<Group> {
        vec![api::routes(Arc::clone(&self.pools), ports.clone())]
    }

    fn open<'a>(&'a self, mode: &'a Mode) -> BoxFuture<'a, Result<OpenWire, OpenError>> {
        Box::pin(async move {
            Ok(match mode {
                Mode::Serve { data, .. } => Serving {
                    pools: Arc::clone(&self.pools),
                    peers: self.worker.peers.clone(),
                    folder: data.join(NAME),
                }
                .open(),
                Mode::Worker { .. } => self.worker()?.open(),
            })
        })
    }
}

impl ConfiguredDelta {
    /// Checks that all is there that `host worker` needs.
    fn worker(&self) -> Result<Working, OpenError> {
        let peer = self
            .worker
            .peer
            .clone()
            .ok_or_else(|| OpenError::usage("missing orchestrator; set --orchestrator URL"))?;
        let file = self.worker.file.as_ref().map(FileJob::open).transpose()?;
        if file.is_none() && peer.token.is_none() {
            let message = "missing token; name its variable with --token-env";
            return Err(OpenError::usage(message));
        }
        Ok(Working { peer, file })
    }
}
