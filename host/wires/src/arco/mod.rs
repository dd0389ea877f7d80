//! Arco's worker contract over HTTP (ADR-023), in both roles.
//!
#![doc = include_str!("SPEC.md")]

mod active;
mod checks;
mod convert;
mod messages;
mod orchestrator;
mod private_file;
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
use host_http::route::{Description, Group, RoutePorts};

use self::orchestrator::Role;
use self::settings::ArcoConfig;
use crate::wire::check::Check;
use crate::wire::section::{ConfigError, Section};
use crate::wire::settings::{Setting, TableSetting, WorkerRole};
use crate::wire::{Active, Configured, Mode, OpenError, Wire};

pub use self::token::SignedToken;

const NAME: &str = "arco";

/// Arco's worker contract as a wire.
#[derive(Clone, Copy, Debug)]
pub struct Arco;

impl Wire for Arco {
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
        orchestrator::description()
    }

    fn configure(&self, section: &Section<'_>) -> Result<Box<dyn Configured>, ConfigError> {
        let config = ArcoConfig::read(section)?;
        let orchestrator = Arc::new(Role::new(&config.orchestrator));
        Ok(Box::new(ConfiguredArco {
            config,
            orchestrator,
        }))
    }
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

    fn executor_names(&self) -> Vec<(String, String)> {
        self.config.orchestrator.origins.clone()
    }

    fn routes(&self, ports: &RoutePorts) -> Vec<Group> {
        self.orchestrator.routes(ports)
    }

    fn checks(&self) -> Vec<Check> {
        checks::all(&self.config)
    }

    fn open<'a>(&'a self, mode: &'a Mode) -> BoxFuture<'a, Result<Box<dyn Active>, OpenError>> {
        Box::pin(active::open(&self.config, &self.orchestrator, mode))
    }
}
