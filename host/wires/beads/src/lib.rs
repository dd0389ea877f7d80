//! beads-workers over a Unix socket, in both of its dialects.
//!
#![doc = include_str!("../SPEC.md")]

mod active;
mod connect;
mod convert;
mod executors;
mod frame;
mod leases;
mod messages;
mod orchestrator;
#[cfg(test)]
mod pair;
mod program;
mod read;
mod refusals;
mod settings;
mod socket;
mod worker;

use futures_util::future::BoxFuture;
use host_wire_kit::section::{ConfigError, Section};
use host_wire_kit::settings::WorkerRole;
use host_wire_kit::{Configuration, Configured, Mode, OpenError, OpenWire, Wire};

use self::settings::BeadsConfig;

const WIRE: &str = "beads";

/// The name of the executor, before `#`.
const EXECUTOR: &str = "beads";

const WORKER_ROLE: WorkerRole = WorkerRole {
    about: "Act as the workers of a beads orchestrator: connect to its socket and execute its tasks",
    after_help: "\
Examples:
  host worker beads --socket /tmp/beads-workers-4711.sock --handler tidy --handlers ./handlers
  host worker beads --socket b.sock --handler tidy --data ./data --concurrency 4 --bd /usr/bin/bd

Prints `ready beads=PATH` once the handlers are loaded, and then connects: one try, and three more after
1, 2 and 4 s. If nobody listens by then, it exits with 1. A worker whose connection ends stops its guest
and connects again. SHUTDOWN and SIGTERM stop all guests, within a second, and it exits with 0.",
    doing: "work for beads orchestrators",
    flags: settings::FLAGS,
    usual_refusals: &[],
};

/// The beads-workers protocol as a wire.
pub static BEADS: Wire = Wire {
    settings: &[settings::Keys::SETTINGS, settings::WorkerKeys::SETTINGS],
    refusals: refusals::CODES,
    specification: include_str!("../SPEC.md"),
    worker_role: Some(&WORKER_ROLE),
    ..Wire::new(WIRE, configure)
};

fn configure(section: &Section<'_>) -> Result<Configuration, ConfigError> {
    let config = BeadsConfig::read(section)?;
    let named = || ("protocol.beads".to_owned(), EXECUTOR.to_owned());
    Ok(Configuration {
        executors: config.orchestrator.iter().map(|_| named()).collect(),
        default_executor: None,
        hosts: Vec::new(),
        wire: Box::new(config),
    })
}

impl Configured for BeadsConfig {
    fn has_executor(&self, name: &str) -> bool {
        self.orchestrator.is_some() && name == EXECUTOR
    }

    fn open<'a>(&'a self, mode: &'a Mode) -> BoxFuture<'a, Result<OpenWire, OpenError>> {
        Box::pin(async { active::open(self, mode) })
    }
}
