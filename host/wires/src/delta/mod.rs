//! The Delta CI runner protocol.
//!
#![doc = include_str!("SPEC.md")]

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
use host_http::route::{Description, Group, RoutePorts};

use self::active::{Serving, Working};
use self::orchestrator::{Pools, api};
use self::settings::{DeltaConfig, WorkerSettings};
use self::worker::FileJob;
use crate::wire::section::{ConfigError, Section};
use crate::wire::settings::{Setting, TableSetting, WorkerRole};
use crate::wire::{Active, Configured, Mode, OpenError, Wire};

const NAME: &str = "delta";

/// The Delta CI runner protocol as a wire.
pub struct Delta;

impl Wire for Delta {
    fn name(&self) -> &'static str {
        NAME
    }

    fn settings(&self) -> &'static [Setting] {
        settings::SETTINGS
    }

    fn table_settings(&self) -> &'static [TableSetting] {
        settings::TABLE_SETTINGS
    }

    fn refusals(&self) -> &'static [(&'static str, &'static str)] {
        refusals::CODES
    }

    fn specification(&self) -> &'static str {
        include_str!("SPEC.md")
    }

    fn worker_role(&self) -> Option<&'static WorkerRole> {
        Some(&settings::WORKER_ROLE)
    }

    fn http(&self) -> Description {
        api::description()
    }

    fn configure(&self, section: &Section<'_>) -> Result<Box<dyn Configured>, ConfigError> {
        Ok(Box::new(ConfiguredDelta {
            pools: Pools::new(DeltaConfig::read(section)?),
            worker: WorkerSettings::read(section)?,
        }))
    }
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

    fn executor_names(&self) -> Vec<(String, String)> {
        let pools = self.pools.config.pools.iter();
        pools
            .map(|pool| (pool.origin.clone(), pool.name.to_string()))
            .collect()
    }

    fn routes(&self, ports: &RoutePorts) -> Vec<Group> {
        vec![api::routes(Arc::clone(&self.pools), ports.clone())]
    }

    fn open<'a>(&'a self, mode: &'a Mode) -> BoxFuture<'a, Result<Box<dyn Active>, OpenError>> {
        Box::pin(async move {
            Ok(match mode {
                Mode::Serve { data } => Box::new(Serving {
                    pools: Arc::clone(&self.pools),
                    peers: self.worker.peers.clone(),
                    folder: data.join(NAME),
                }) as Box<dyn Active>,
                Mode::Worker { .. } => Box::new(self.worker()?),
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
