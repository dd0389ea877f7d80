//! The section `[protocol.sample]` of the configuration.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use host_core::name::Name;
use host_wire_kit::section::{At, ConfigError, Listen, Section, Tables};
use host_wire_kit::settings;

settings! {
    pub(crate) struct Keys "protocol.sample." {
        /// Where orchestrators connect: a loopback address and a port, or `off`
        listen "ADDR": At<Listen> = "off",
        ..
        runners: Tables<RunnerKeys>,
    }

    pub(crate) struct RunnerKeys "protocol.sample.runners.NAME." {
        /// Where a worker listens: a loopback address and a port
        address: Option<At<Listen>>,
    }
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
        let keys: Keys = section.table("protocol.sample")?;
        let runners = keys
            .runners
            .into_iter()
            .map(|(name, keys)| Ok((name, Runner::read(&keys)?)));
        Ok(Self {
            listen: keys.listen.loopback()?,
            runners: runners.collect::<Result<_, _>>()?,
        })
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
    fn read(keys: &At<RunnerKeys>) -> Result<Self, ConfigError> {
        let address = keys.address.as_ref().map(At::loopback).transpose()?;
        let missing = || keys.hidden_key("address", "expected an address");
        Ok(Self {
            origin: keys.origin.clone(),
            address: address.flatten().ok_or_else(missing)?,
        })
    }
}
