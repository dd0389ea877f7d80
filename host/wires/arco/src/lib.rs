//! Arco's worker contract over HTTP (ADR-023), in both roles.
//!
#![doc = include_str!("../SPEC.md")]

mod active;
mod checks;
mod convert;
mod messages;
mod orchestrator;
mod output;
mod refusals;
mod settings;
mod task_id;
mod token;
mod worker;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use host_http::route::{Group, RoutePorts};
use host_wire_kit::check::Check;
use host_wire_kit::section::{ConfigError, Section};
use host_wire_kit::{Configuration, Configured, Mode, OpenError, OpenWire, Wire};

use self::orchestrator::Role;
use self::settings::ArcoConfig;

const NAME: &str = "arco";

/// Arco's worker contract as a wire.
pub static ARCO: Wire = Wire {
    settings: &[
        settings::Keys::SETTINGS,
        settings::WorkerKeys::SETTINGS,
        settings::RemoteKeys::SETTINGS,
    ],
    refusals: refusals::CODES,
    specification: include_str!("../SPEC.md"),
    http: orchestrator::description,
    worker_role: Some(&settings::WORKER_ROLE),
    ..Wire::new(NAME, configure)
};

fn configure(section: &Section<'_>) -> Result<Configuration, ConfigError> {
    let config = ArcoConfig::read(section)?;
    let orchestrator = Arc::new(Role::new(&config.orchestrator));
    Ok(Configuration {
        executors: config.orchestrator.origins.clone(),
        default_executor: None,
        hosts: config.orchestrator.host().into_iter().collect(),
        wire: Box::new(ConfiguredArco {
            config,
            orchestrator,
        }),
    })
}

/// Arco with its section read.
struct ConfiguredArco {
    config: ArcoConfig,
    orchestrator: Arc<Role>,
}

impl fmt::Debug for ConfiguredArco {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt(f)
    }
}

impl Configured for ConfiguredArco {
    fn has_executor(&self, name: &str) -> bool {
        let mut names = self.config.orchestrator.workers.keys();
        names.any(|worker| worker.as_str() == name)
    }

    fn routes(&self, ports: &RoutePorts) -> Vec<Group> {
        self.orchestrator.routes(ports)
    }

    fn checks(&self) -> Vec<Check> {
        checks::all(&self.config)
    }

    fn open<'a>(&'a self, mode: &'a Mode) -> BoxFuture<'a, Result<OpenWire, OpenError>> {
        Box::pin(active::open(&self.config, &self.orchestrator, mode))
    }
}
