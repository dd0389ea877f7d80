//! A wire made for reading: lines over TCP, in both roles. It is the example of how a wire is made
//! and is compiled in tests only.
//!
#![doc = include_str!("SPEC.md")]

mod session;
mod shell;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use host_core::name::Name;
use tokio::net::TcpListener;

use self::shell::{Peer, serve};
use crate::wire::executors::{ExecutorHealth, Executors, WorkerHealth, WorkerState};
use crate::wire::section::{ConfigError, Section, loopback, refused};
use crate::wire::settings::{Setting, TableSetting};
use crate::wire::{Active, Configured, ExecutorPorts, Mode, OpenError, Ports, Wire};

const NAME: &str = "sample";
const LISTEN: &str = "protocol.sample.listen";

/// The sample as an entry of the list of wires.
pub(crate) struct Sample;

impl Wire for Sample {
    fn name(&self) -> &'static str {
        NAME
    }

    fn settings(&self) -> &'static [Setting] {
        &[Setting {
            key: LISTEN,
            env: "HOST_SAMPLE_LISTEN",
            flag: None,
            value_name: "ADDR",
            default: "off",
            about: "Where orchestrators connect: a loopback address and a port, or `off`",
        }]
    }

    fn table_settings(&self) -> &'static [TableSetting] {
        &[TableSetting {
            key: "protocol.sample.runners.NAME.address",
            default: "none",
            about: "Where a worker listens: a loopback address and a port",
        }]
    }

    fn refusals(&self) -> &'static [(&'static str, &'static str)] {
        &[(
            "E_LINE",
            "A line is no message, or its id is not one to use. Look at the peer's lines.",
        )]
    }

    fn specification(&self) -> &'static str {
        include_str!("SPEC.md")
    }

    fn configure(&self, section: &Section<'_>) -> Result<Box<dyn Configured>, ConfigError> {
        let mut runners = BTreeMap::new();
        for (name, table) in section.tables("protocol.sample.runners") {
            let (origin, text) = (
                table.origin("address"),
                table.text("address")?.unwrap_or(""),
            );
            let address = text.parse();
            let address =
                address.map_err(|_| refused(origin.clone(), text, "expected an address"))?;
            runners.insert(name.clone(), loopback(origin, address)?);
        }
        let listen = section.listen(LISTEN, None)?;
        Ok(Box::new(Config { listen, runners }))
    }
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

    fn executor_names(&self) -> Vec<(String, String)> {
        let runners = self.runners.keys();
        let named =
            runners.map(|name| (format!("protocol.sample.runners.{name}"), name.to_string()));
        named.collect()
    }

    fn open<'a>(&'a self, _: &'a Mode) -> BoxFuture<'a, Result<Box<dyn Active>, OpenError>> {
        Box::pin(async {
            let failed = |error| OpenError::failed(format!("cannot listen for sample: {error}"));
            let listener = match self.listen {
                Some(address) => Some(TcpListener::bind(address).await.map_err(failed)?),
                None => None,
            };
            let runners = self.runners.clone();
            Ok(Box::new(Opened { listener, runners }) as Box<dyn Active>)
        })
    }
}

struct Opened {
    listener: Option<TcpListener>,
    runners: BTreeMap<Name, SocketAddr>,
}

impl Active for Opened {
    fn ready(&self) -> Vec<(&'static str, String)> {
        let address = self.listener.as_ref().and_then(|it| it.local_addr().ok());
        vec![(NAME, address.map_or("off".to_owned(), |it| it.to_string()))]
    }

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
