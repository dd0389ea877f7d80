//! The RRQ runner protocol, in both roles.
//!
#![doc = include_str!("SPEC.md")]

mod active;
mod config;
mod convert;
mod executors;
mod frame;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod ids;
mod messages;
mod orchestrator;
mod pool;
mod read;
mod refusals;
mod serve;
mod settings;
mod worker;

#[cfg(test)]
mod pair;

use futures_util::future::BoxFuture;
use host_core::name::Name;

use self::settings::RrqConfig;
use crate::wire::section::{ConfigError, Section};
use crate::wire::settings::{Setting, TableSetting, WorkerFlag, WorkerRole};
use crate::wire::{Active, Configured, Mode, OpenError, Wire};

const WIRE: &str = "rrq";

/// The RRQ runner protocol as a wire.
pub struct Rrq;

const WORKER_ROLE: WorkerRole = WorkerRole {
    about: "Be a runner of an RRQ orchestrator: listen where it connects",
    after_help: "\
Examples:
  host worker rrq --tcp-socket 127.0.0.1:9000 --handlers ./handlers
  RRQ_RUNNER_TCP_SOCKET=127.0.0.1:9000 host worker rrq --data ./data

Prints `ready rrq=ADDR` once the handlers are loaded; requests that come before wait. SIGTERM, or
the end of the process that started this one, stops all guests: every request is answered and the
worker exits within 200 ms. Any number of workers may run beside each other and a `host serve`.",
    doing: "work for RRQ orchestrators",
    flags: &[WorkerFlag {
        env: Some("RRQ_RUNNER_TCP_SOCKET"),
        ..WorkerFlag::new("tcp-socket", settings::LISTEN)
            .about("Where the orchestrator connects: a loopback address and a port, HOST:PORT")
            .required()
    }],
};

impl Wire for Rrq {
    fn name(&self) -> &'static str {
        WIRE
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
        Some(&WORKER_ROLE)
    }

    fn configure(&self, section: &Section<'_>) -> Result<Box<dyn Configured>, ConfigError> {
        let config = RrqConfig::read(section)?;
        Ok(Box::new(config))
    }
}

impl Configured for RrqConfig {
    fn has_executor(&self, name: &str) -> bool {
        let name = name.parse::<Name>();
        name.is_ok_and(|name| self.pools.contains_key(&name))
    }

    fn executor_names(&self) -> Vec<(String, String)> {
        self.origins.clone()
    }

    fn default_executor(&self) -> Option<(String, String)> {
        self.default_runner.clone()
    }

    fn open<'a>(&'a self, mode: &'a Mode) -> BoxFuture<'a, Result<Box<dyn Active>, OpenError>> {
        Box::pin(active::open(self, mode))
    }
}
