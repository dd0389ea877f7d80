//! beads-workers over a Unix socket, in both of its dialects.
//!
#![doc = include_str!("SPEC.md")]

mod active;
mod executors;
mod frame;
mod leases;
mod orchestrator;
mod read;
mod refusal;
mod section;
mod socket;
mod wire;

use futures_util::future::BoxFuture;

use self::section::BeadsConfig;
use crate::wire::section::{ConfigError, Section};
use crate::wire::settings::Setting;
use crate::wire::{Active, Configured, OpenError, Place, Wire};

const WIRE: &str = "beads";

/// The name of the executor: what stands before `#`.
const EXECUTOR: &str = "beads";

/// The beads-workers protocol as a wire.
pub struct Beads;

impl Wire for Beads {
    fn name(&self) -> &'static str {
        WIRE
    }

    fn settings(&self) -> &'static [Setting] {
        section::SETTINGS
    }

    fn refusals(&self) -> &'static [(&'static str, &'static str)] {
        &refusal::CODES
    }

    fn specification(&self) -> &'static str {
        include_str!("SPEC.md")
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

    fn open<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<Box<dyn Active>, OpenError>> {
        Box::pin(async {
            let active = active::open(self, place)?;
            Ok(Box::new(active) as Box<dyn Active>)
        })
    }
}
