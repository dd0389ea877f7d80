//! The Delta CI runner protocol.
//!
#![doc = include_str!("SPEC.md")]

mod active;
mod api;
mod book;
mod convert;
mod executors;
mod fields;
mod lease_id;
mod log_chunks;
mod orchestrator;
mod read;
mod refusal;
mod section;
mod settings;
mod tags;
mod tokens;
mod wire;

#[cfg(test)]
mod model;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use host_core::name::Name;
use host_http::route::{Description, Group, RoutePorts};

use self::active::Serving;
use self::orchestrator::Orchestrator;
use self::section::DeltaConfig;
use crate::wire::section::{ConfigError, Section};
use crate::wire::settings::{Setting, TableSetting};
use crate::wire::{Active, Configured, OpenError, Place, Wire};

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
        &refusal::CODES
    }

    fn specification(&self) -> &'static str {
        include_str!("SPEC.md")
    }

    fn http(&self) -> Description {
        api::description()
    }

    fn configure(&self, section: &Section<'_>) -> Result<Box<dyn Configured>, ConfigError> {
        let config = DeltaConfig::read(section)?;
        Ok(Box::new(ConfiguredDelta(Orchestrator::new(config))))
    }
}

/// Delta with its section read.
#[derive(Debug)]
struct ConfiguredDelta(Arc<Orchestrator>);

impl Configured for ConfiguredDelta {
    /// A pool, or a lane of one, which a queue's route may name.
    fn has_executor(&self, name: &str) -> bool {
        let name = name.parse::<Name>().ok();
        let parts = name.and_then(|name| tags::parts(&name));
        parts.is_some_and(|(pool, _)| self.0.pool(pool.as_str()).is_some())
    }

    fn executor_names(&self) -> Vec<(String, String)> {
        let pools = self.0.config.pools.iter();
        pools
            .map(|pool| (pool.origin.clone(), pool.name.to_string()))
            .collect()
    }

    fn routes(&self, ports: &RoutePorts) -> Vec<Group> {
        vec![api::routes(Arc::clone(&self.0), ports.clone())]
    }

    fn open<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<Box<dyn Active>, OpenError>> {
        Box::pin(async move {
            if let Place::Worker { .. } = place {
                let message = "a worker of this wire needs an orchestrator";
                return Err(OpenError::usage(message));
            }
            let orchestrator = Arc::clone(&self.0);
            Ok(Box::new(Serving { orchestrator }) as Box<dyn Active>)
        })
    }
}
