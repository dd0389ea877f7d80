//! The RRQ runner protocol, in both roles.
//!
#![doc = include_str!("../SPEC.md")]

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
use host_wire_kit::section::{ConfigError, Section};
use host_wire_kit::settings::{WorkerFlag, WorkerRole};
use host_wire_kit::{Configuration, Configured, Mode, OpenError, OpenWire, Wire};

use self::settings::RrqConfig;

const WIRE: &str = "rrq";

const WORKER_ROLE: WorkerRole = WorkerRole {
    about: "Act as a runner of an RRQ orchestrator: listen where it connects",
    after_help: "\
Examples:
  host worker rrq --tcp-socket 127.0.0.1:9000 --handlers ./handlers
  RRQ_RUNNER_TCP_SOCKET=127.0.0.1:9000 host worker rrq --data ./data

Prints `ready rrq=ADDR` once the handlers are loaded; earlier requests wait. SIGTERM, or
the end of the process that started this one, stops all guests: every request is answered and the
worker exits within 200 ms. Any number of workers may run beside each other and beside `host serve`.",
    doing: "work for RRQ orchestrators",
    flags: &[WorkerFlag {
        env: Some("RRQ_RUNNER_TCP_SOCKET"),
        ..WorkerFlag::new("tcp-socket", "protocol.rrq.listen")
            .about("Where the orchestrator connects: a loopback address and a port, HOST:PORT")
            .required()
    }],
    usual_refusals: &[],
};

/// The RRQ runner protocol as a wire.
pub static RRQ: Wire = Wire {
    settings: &[settings::Keys::SETTINGS, settings::Runner::SETTINGS],
    refusals: refusals::CODES,
    specification: include_str!("../SPEC.md"),
    worker_role: Some(&WORKER_ROLE),
    ..Wire::new(WIRE, configure)
};

fn configure(section: &Section<'_>) -> Result<Configuration, ConfigError> {
    let config = RrqConfig::read(section)?;
    Ok(Configuration {
        executors: config.origins.clone(),
        default_executor: config.default_runner.clone(),
        hosts: Vec::new(),
        wire: Box::new(config),
    })
}

impl Configured for RrqConfig {
    fn has_executor(&self, name: &str) -> bool {
        let name = name.parse::<Name>();
        name.is_ok_and(|name| self.pools.contains_key(&name))
    }

    fn open<'a>(&'a self, mode: &'a Mode) -> BoxFuture<'a, Result<OpenWire, OpenError>> {
        Box::pin(active::open(self, mode))
    }
}
