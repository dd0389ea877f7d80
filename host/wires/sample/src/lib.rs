//! A wire made for reading: lines over TCP, in both roles. It begins here; `config` reads its section, `codec` its
//! lines, and each role has a file. No host has it; its tests run it as a host would.
//!
#![doc = include_str!("../SPEC.md")]

mod codec;
mod config;
mod orchestrator;
mod worker;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use host_core::name::Name;
use host_wire_kit::executors::Executors;
use host_wire_kit::section::{ConfigError, Section};
use host_wire_kit::{
    Active, Configuration, Configured, ExecutorPorts, Mode, OpenError, OpenWire, Ports, Wire,
};
use tokio::net::TcpListener;

use self::config::Config;
use self::orchestrator::Runners;

const NAME: &str = "sample";

/// The sample as a wire.
pub static SAMPLE: Wire = Wire {
    settings: &[config::Keys::SETTINGS, config::RunnerKeys::SETTINGS],
    refusals: CODES,
    specification: include_str!("../SPEC.md"),
    ..Wire::new(NAME, configure)
};

host_wire_kit::codes! {
    Line = "E_LINE",
        "A line is not a message, or its id cannot be used. Check the lines that the peer sends.";
}

fn configure(section: &Section<'_>) -> Result<Configuration, ConfigError> {
    let config = Config::read(section)?;
    Ok(Configuration {
        executors: config.origins(),
        default_executor: None,
        hosts: Vec::new(),
        wire: Box::new(config),
    })
}

impl Configured for Config {
    fn has_executor(&self, name: &str) -> bool {
        self.runners.keys().any(|runner| runner.as_str() == name)
    }

    fn open<'a>(&'a self, _: &'a Mode) -> BoxFuture<'a, Result<OpenWire, OpenError>> {
        Box::pin(async {
            let listener = match self.listen {
                Some(address) => Some(worker::bind(address).await?),
                None => None,
            };
            let address = listener.as_ref().and_then(|it| it.local_addr().ok());
            let ready = address.map_or("off".to_owned(), |address| address.to_string());
            let sample = OpenSample {
                listener,
                runners: self.addresses(),
            };
            Ok(OpenWire::new(sample, vec![(NAME, ready)]))
        })
    }
}

/// The sample once the host has opened it: it listens, and serves when the host runs it.
struct OpenSample {
    listener: Option<TcpListener>,
    runners: BTreeMap<Name, SocketAddr>,
}

impl Active for OpenSample {
    fn executors(&mut self, ports: &ExecutorPorts) -> Option<Arc<dyn Executors>> {
        Some(Arc::new(Runners::connect(&self.runners, ports)))
    }

    fn run(self: Box<Self>, ports: Ports) -> BoxFuture<'static, Result<(), OpenError>> {
        Box::pin(async move {
            match self.listener {
                Some(listener) => worker::serve(listener, ports).await,
                None => ports.stopping.cancelled().await,
            }
            Ok(())
        })
    }
}
