//! beads-workers over a Unix socket, in both of its dialects.
//!
#![doc = include_str!("SPEC.md")]

mod active;
mod connect;
mod convert;
mod executors;
mod frame;
mod leases;
mod messages;
mod orchestrator;
mod program;
mod read;
mod refusals;
mod settings;
mod socket;
mod worker;

use futures_util::future::BoxFuture;

use self::settings::BeadsConfig;
use crate::wire::section::{ConfigError, Section};
use crate::wire::settings::{Setting, WorkerRole};
use crate::wire::{Active, Configured, Mode, OpenError, Wire};

const WIRE: &str = "beads";

/// The name of the executor, before `#`.
const EXECUTOR: &str = "beads";

const WORKER_ROLE: WorkerRole = WorkerRole {
    about: "Be the workers of a beads orchestrator: connect to its socket and execute its tasks",
    after_help: "\
Examples:
  host worker beads --socket /tmp/beads-workers-4711.sock --handler tidy --handlers ./handlers
  host worker beads --socket b.sock --handler tidy --data ./data --concurrency 4 --bd /usr/bin/bd

Prints `ready beads=PATH` once the handlers are loaded, and then connects: one try, and three more after
1, 2 and 4 s. If nobody listens by then, it exits with 1. A worker whose connection ends stops its guest
and connects again. SHUTDOWN and SIGTERM stop all guests, within a second, and it exits with 0.",
    doing: "work for beads orchestrators",
    flags: settings::FLAGS,
};

/// The beads-workers protocol as a wire.
pub struct Beads;

impl Wire for Beads {
    fn name(&self) -> &'static str {
        WIRE
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

    fn worker_role(&self) -> Option<&'static WorkerRole> {
        Some(&WORKER_ROLE)
    }

    fn configure(&self, section: &Section<'_>) -> Result<Box<dyn Configured>, ConfigError> {
        Ok(Box::new(BeadsConfig::read(section)?))
    }
}

impl Configured for BeadsConfig {
    fn has_executor(&self, name: &str) -> bool {
        self.orchestrator.is_some() && name == EXECUTOR
    }

    fn executor_names(&self) -> Vec<(String, String)> {
        let named = ("protocol.beads".to_owned(), EXECUTOR.to_owned());
        self.orchestrator.iter().map(|_| named.clone()).collect()
    }

    fn open<'a>(&'a self, mode: &'a Mode) -> BoxFuture<'a, Result<Box<dyn Active>, OpenError>> {
        Box::pin(async {
            let active = active::open(self, mode)?;
            Ok(Box::new(active) as Box<dyn Active>)
        })
    }
}
