//! The section `[protocol.sample]` of the configuration.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use host_core::name::Name;
use host_wire_kit::section::{ConfigError, NamedTable, Section, loopback, refused};
use host_wire_kit::{settings, table_settings};

settings! {
    pub(crate) SETTINGS:
    LISTEN = "protocol.sample.listen", Text("ADDR"), "off",
        "Where orchestrators connect: a loopback address and a port, or `off`";
}

table_settings! {
    pub(crate) TABLE_SETTINGS:
    "protocol.sample.runners.NAME.address", "none",
        "Where a worker listens: a loopback address and a port";
}

/// The section, read and checked.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Where orchestrators connect, in the worker role.
    pub(crate) listen: Option<SocketAddr>,
    /// The executors, in the orchestrator role.
    pub(crate) runners: BTreeMap<Name, Runner>,
}

/// A worker that executes jobs of this host.
#[derive(Clone, Debug)]
pub(crate) struct Runner {
    /// Where the configuration names it.
    origin: String,
    address: SocketAddr,
}

impl Config {
    pub(crate) fn read(section: &Section<'_>) -> Result<Self, ConfigError> {
        let mut runners = BTreeMap::new();
        for (name, table) in section.tables("protocol.sample.runners") {
            runners.insert(name.clone(), Runner::read(table)?);
        }
        let listen = section.listen(&LISTEN)?;
        Ok(Self { listen, runners })
    }

    /// Returns where each executor is configured, and its name.
    pub(crate) fn origins(&self) -> Vec<(String, String)> {
        let runners = self.runners.iter();
        runners
            .map(|(name, runner)| (runner.origin.clone(), name.to_string()))
            .collect()
    }

    pub(crate) fn addresses(&self) -> BTreeMap<Name, SocketAddr> {
        let runners = self.runners.iter();
        runners
            .map(|(name, runner)| (name.clone(), runner.address))
            .collect()
    }
}

impl Runner {
    fn read(table: &NamedTable) -> Result<Self, ConfigError> {
        let origin = table.origin("address");
        let text = table.text("address")?.unwrap_or_default();
        let Ok(address) = text.parse() else {
            return Err(refused(origin, text, "expected an address"));
        };
        Ok(Self {
            origin: table.origin(""),
            address: loopback(origin, address)?,
        })
    }
}
