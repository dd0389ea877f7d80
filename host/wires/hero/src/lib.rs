//! Hero over Redis: jobs as hashes, queues as lists; both roles as pure sessions.
#![doc = include_str!("../SPEC.md")]

mod active;
mod checks;
mod client;
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
use host_core::chain::ChainKind;
use host_http::route::{Group, RoutePorts};
use host_wire_kit::check::Check;
use host_wire_kit::section::{ConfigError, Section};
use host_wire_kit::{Configuration, Configured, Mode, OpenError, OpenWire, Wire};

use self::active::{Idle, Serving, Working};
use self::client::api::{self, Source};
use self::client::commands;
use self::client::live::Client;
use self::settings::HeroConfig;

const NAME: &str = "hero";

/// Hero over Redis, in both roles.
pub static HERO: Wire = Wire {
    settings: &[settings::Keys::SETTINGS],
    refusals: refusals::CODES,
    specification: include_str!("../SPEC.md"),
    chain_handlers: &[
        ("hero.heroscript", ChainKind::Steps),
        ("hero.rhai", ChainKind::Calls),
    ],
    http: api::description,
    worker_role: Some(&settings::WORKER_ROLE),
    command: Some(&commands::COMMAND),
    ..Wire::new(NAME, configure)
};

fn configure(section: &Section<'_>) -> Result<Configuration, ConfigError> {
    Ok(Configuration {
        executors: Vec::new(),
        default_executor: None,
        hosts: Vec::new(),
        wire: Box::new(ConfiguredHero(HeroConfig::read(section)?)),
    })
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

    fn open<'a>(&'a self, mode: &'a Mode) -> BoxFuture<'a, Result<OpenWire, OpenError>> {
        Box::pin(async move {
            Ok(match (mode, &self.0) {
                (Mode::Serve { .. }, None) => OpenWire::new(Idle, Vec::new()),
                (Mode::Serve { data, .. }, Some(config)) => {
                    let ready = vec![("hero", config.url.to_string())];
                    OpenWire::new(Serving::open(config, data)?, ready)
                }
                (Mode::Worker { state, .. }, config) => {
                    let config = for_worker(config.as_ref())?;
                    Working::open(config, state.as_deref()).await?
                }
            })
        })
    }
}

/// Checks that a Redis and at least one worker id are configured.
fn for_worker(config: Option<&HeroConfig>) -> Result<&HeroConfig, OpenError> {
    let config = config
        .ok_or_else(|| OpenError::usage("missing Redis address; set --url or HOST_HERO_URL"))?;
    if config.worker_ids.is_empty() {
        let message = "no worker id is given; name it with --worker-id";
        return Err(OpenError::usage(message));
    }
    Ok(config)
}
