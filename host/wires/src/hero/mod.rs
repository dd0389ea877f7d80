//! Hero over Redis: jobs as hashes, queues as lists; both roles as pure sessions.
#![doc = include_str!("SPEC.md")]

mod active;
mod checks;
pub mod client;
mod convert;
mod job;
mod log_files;
mod messages;
mod orchestrator;
mod refusals;
mod settings;
mod transport;
mod worker;

#[cfg(test)]
mod tests;

use futures_util::future::BoxFuture;
use host_console::command::Command as Noun;
use host_core::chain::ChainKind;
use host_http::route::{Description, Group, RoutePorts};

use self::active::{Idle, Serving, Working};
use self::client::api::{self, Source};
use self::client::commands;
use self::client::live::Client;
use self::settings::HeroConfig;
use crate::wire::check::Check;
use crate::wire::section::{ConfigError, Section};
use crate::wire::settings::{Setting, WorkerRole};
use crate::wire::{Active, Configured, Mode, OpenError, Wire};

pub use self::job::new::{NewJob, Task};
pub use self::messages::{Call, Command, Value, Via};
pub use self::orchestrator::{Execution, Orchestrator, OrchestratorAct};
pub use self::settings::worker::WorkerConfig;
pub use self::transport::driver::RedisSession;
pub use self::worker::{Answered, Worker, WorkerAct};

const NAME: &str = "hero";

/// Hero over Redis, in both roles.
#[derive(Clone, Copy, Debug)]
pub struct Hero;

impl Wire for Hero {
    fn name(&self) -> &'static str {
        NAME
    }

    fn settings(&self) -> &'static [Setting] {
        settings::SETTINGS
    }

    fn refusals(&self) -> &'static [(&'static str, &'static str)] {
        refusals::CODES
    }

    fn specification(&self) -> &'static str {
        include_str!("SPEC.md")
    }

    fn chain_handlers(&self) -> &'static [(&'static str, ChainKind)] {
        &[
            ("hero.heroscript", ChainKind::Steps),
            ("hero.rhai", ChainKind::Calls),
        ]
    }

    fn worker_role(&self) -> Option<&'static WorkerRole> {
        Some(&settings::WORKER_ROLE)
    }

    fn command(&self) -> Option<&'static dyn Noun> {
        Some(&commands::COMMAND)
    }

    fn http(&self) -> Description {
        api::description()
    }

    fn configure(&self, section: &Section<'_>) -> Result<Box<dyn Configured>, ConfigError> {
        Ok(Box::new(ConfiguredHero(HeroConfig::read(section)?)))
    }
}

/// Hero with its section read; `None` if no Redis is configured.
#[derive(Debug)]
struct ConfiguredHero(Option<HeroConfig>);

impl Configured for ConfiguredHero {
    fn has_executor(&self, name: &str) -> bool {
        self.0.is_some() && orchestrator::is_executor(name)
    }

    fn checks(&self) -> Vec<Check> {
        self.0.as_ref().map(checks::all).unwrap_or_default()
    }

    fn routes(&self, ports: &RoutePorts) -> Vec<Group> {
        let source = self.0.as_ref().map(|config| Source {
            client: Client::new(&config.url),
            log_dir: config.log_dir.clone(),
        });
        vec![api::routes(source, ports.clone())]
    }

    fn open<'a>(&'a self, mode: &'a Mode) -> BoxFuture<'a, Result<Box<dyn Active>, OpenError>> {
        Box::pin(async move {
            Ok(match (mode, &self.0) {
                (Mode::Serve { .. }, None) => Box::new(Idle) as Box<dyn Active>,
                (Mode::Serve { data }, Some(config)) => Box::new(Serving::open(config, data)?),
                (Mode::Worker { state }, config) => {
                    let config = for_worker(config.as_ref())?;
                    Box::new(Working::open(config, state.as_deref()).await?)
                }
            })
        })
    }
}

/// Checks that a Redis and at least one worker id are configured.
fn for_worker(config: Option<&HeroConfig>) -> Result<&HeroConfig, OpenError> {
    let config = config.ok_or_else(|| {
        OpenError::usage("no Redis is named; name it with --url or HOST_HERO_URL")
    })?;
    if config.worker_ids.is_empty() {
        let message = "no worker id is given; name it with --worker-id";
        return Err(OpenError::usage(message));
    }
    Ok(config)
}
