//! Hero as a wire: its name, its configuration and its executors. `active` has what runs once it is
//! open.

use futures_util::future::BoxFuture;
use host_console::command::Command;
use host_core::chain::ChainKind;
use host_http::route::{Description, Group, RoutePorts};

use super::active::{Idle, Serving, Working};
use super::api::{self, Source};
use super::client::live::Client;
use super::settings::HeroConfig;
use super::settings::{SETTINGS, WORKER_ROLE};
use super::{NAME, checks, commands, lanes, refusals};
use crate::wire::check::Check;
use crate::wire::section::{ConfigError, Section};
use crate::wire::settings::{Setting, WorkerRole};
use crate::wire::{Active, Configured, Mode, OpenError, Wire};

/// Hero over Redis, in both roles.
#[derive(Clone, Copy, Debug)]
pub struct Hero;

impl Wire for Hero {
    fn name(&self) -> &'static str {
        NAME
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
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
        Some(&WORKER_ROLE)
    }

    fn command(&self) -> Option<&'static dyn Command> {
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
        self.0.is_some() && lanes::is_lane(name)
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
