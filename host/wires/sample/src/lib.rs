//! A wire made for reading: lines over TCP, in both roles. It is the example of how a wire is made
//! and is compiled in tests only.
//!
#![doc = include_str!("../SPEC.md")]

mod session;
mod shell;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use host_core::name::Name;
use host_wire_kit::executors::{ExecutorHealth, Executors, WorkerHealth, WorkerState};
use host_wire_kit::section::{ConfigError, Section, loopback, refused};
use host_wire_kit::{
    Active, Configuration, Configured, ExecutorPorts, Mode, OpenError, OpenWire, Ports, Wire,
};
use host_wire_kit::{settings, table_settings};
use tokio::net::TcpListener;

use self::shell::{Peer, serve};

const NAME: &str = "sample";

settings! {
    SETTINGS:
    LISTEN = "protocol.sample.listen", Text("ADDR"), "off",
        "Where orchestrators connect: a loopback address and a port, or `off`";
}

table_settings! {
    TABLE_SETTINGS:
    "protocol.sample.runners.NAME.address", "none",
        "Where a worker listens: a loopback address and a port";
}

/// The sample as an entry of the list of wires.
pub static SAMPLE: Wire = Wire {
    settings: SETTINGS,
    table_settings: TABLE_SETTINGS,
    refusals: &[(
        "E_LINE",
        "A line is not a message, or its id cannot be used. Check the lines that the peer sends.",
    )],
    specification: include_str!("../SPEC.md"),
    ..Wire::new(NAME, configure)
};

fn configure(section: &Section<'_>) -> Result<Configuration, ConfigError> {
    let mut runners = BTreeMap::new();
    let mut executors = Vec::new();
    for (name, table) in section.tables("protocol.sample.runners") {
        let origin = table.origin("address");
        let text = table.text("address")?.unwrap_or("");
        let address = text.parse();
        let address = address.map_err(|_| refused(origin.clone(), text, "expected an address"))?;
        executors.push((table.origin(""), name.to_string()));
        runners.insert(name.clone(), loopback(origin, address)?);
    }
    let listen = section.listen(&LISTEN)?;
    Ok(Configuration {
        executors,
        default_executor: None,
        hosts: Vec::new(),
        wire: Box::new(Config { listen, runners }),
    })
}

#[derive(Clone, Debug)]
struct Config {
    listen: Option<SocketAddr>,
    runners: BTreeMap<Name, SocketAddr>,
}

impl Configured for Config {
    fn has_executor(&self, name: &str) -> bool {
        self.runners.keys().any(|runner| runner.as_str() == name)
    }

    fn open<'a>(&'a self, _: &'a Mode) -> BoxFuture<'a, Result<OpenWire, OpenError>> {
        Box::pin(async {
            let failed = |error| OpenError::failed(format!("cannot listen for sample: {error}"));
            let listener = match self.listen {
                Some(address) => Some(TcpListener::bind(address).await.map_err(failed)?),
                None => None,
            };
            let address = listener.as_ref().and_then(|it| it.local_addr().ok());
            let address = address.map_or("off".to_owned(), |it| it.to_string());
            let runners = self.runners.clone();
            Ok(OpenWire::new(
                Opened { listener, runners },
                vec![(NAME, address)],
            ))
        })
    }
}

struct Opened {
    listener: Option<TcpListener>,
    runners: BTreeMap<Name, SocketAddr>,
}

impl Active for Opened {
    fn executors(&mut self, ports: &ExecutorPorts) -> Option<Arc<dyn Executors>> {
        let runners = self.runners.iter();
        let dialled = runners.map(|(name, at)| (name.clone(), Peer::dial(name, *at, ports)));
        Some(Arc::new(Runners(dialled.collect())))
    }

    fn run(self: Box<Self>, ports: Ports) -> BoxFuture<'static, Result<(), OpenError>> {
        Box::pin(async move {
            match self.listener {
                Some(listener) => serve(listener, ports).await,
                None => ports.stopping.cancelled().await,
            }
            Ok(())
        })
    }
}

struct Runners(BTreeMap<Name, Peer>);

impl Executors for Runners {
    fn names(&self) -> Vec<Name> {
        self.0.keys().cloned().collect()
    }

    fn health(&self) -> Vec<ExecutorHealth> {
        let health = |(name, peer): (&Name, &Peer)| {
            let states = [WorkerState::Down, WorkerState::Up];
            let worker = WorkerHealth::new(name, 1, states[usize::from(peer.is_up())]);
            ExecutorHealth {
                name: name.clone(),
                wire: NAME,
                is_external: true,
                is_restartable: false,
                workers: vec![worker],
            }
        };
        self.0.iter().map(health).collect()
    }
}
