//! `[protocol.rrq]`: the address for orchestrators, and the pools of foreign runners.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use host_core::name::Name;
use host_wire_kit::section::{At, Command, ConfigError, Number, Section, Tables, loopback};
use host_wire_kit::{inherited_variables, settings};

use super::config::{Dialect, Launch, PoolConfig, Source};
use super::serve::read_address;
use super::worker::{IN_FLIGHT_MAX, MARGIN_MS_MAX, MARGIN_MS_MIN, Rules};

/// The most processes of a pool.
const POOL_SIZE_MAX: u64 = 64;

settings! {
    pub(super) struct Keys "protocol.rrq." {
        /// Where RRQ orchestrators connect: a loopback address and a port (the usual one is 7701, 0 takes a free one), or `off`
        listen ["rrq-listen"] "ADDR": Option<At<String>> = "off",
        /// How long before a request's deadline its RRQ orchestrator gets `timeout`, in milliseconds. The margin is never less than 1 % of the request's time, and never more than 250. Raise it if processes on this machine have to wait for a core
        deadline_margin_ms "MS": Number<MARGIN_MS_MIN, MARGIN_MS_MAX, 20>,
        /// After how long a connection of an RRQ orchestrator without requests is closed, in seconds; after 10 seconds if more than 3,000 are open
        idle_seconds "SECONDS": Number<10, 604_800, 86_400>,
        /// Whether an RRQ orchestrator may cancel requests that another user of this machine has sent
        cancels_for_all: bool,
        /// The runner or other executor for handlers that no component has
        default_runner "NAME": Option<At<String>>,
        ..
        runners: Tables<Runner>,
    }

    pub(super) struct Runner "protocol.rrq.runners.NAME." {
        /// The command that starts a runner, an array: the program and its arguments. `--tcp-socket HOST:PORT` is
        /// appended, and `RRQ_RUNNER_TCP_SOCKET` is set to it
        cmd: Option<At<Command>>,
        /// Instead of `cmd`: the loopback address and port of a runner that you start yourself
        external: Option<At<String>>,
        /// How many processes of `cmd` run, 1 to 64
        pool_size: Option<Number<1, POOL_SIZE_MAX>> = "1",
        /// How many jobs one runner may have at a time, 1 to 64. With 1, the output of a runner goes to the log of its job
        max_in_flight: Number<1, { IN_FLIGHT_MAX as u64 }, 10>,
        /// The port of the first process; the others get the next ones
        tcp_port: Option<At<Number<1, { u16::MAX as u64 }>>> = "free ones",
        /// The folder in which `cmd` is started
        cwd: Option<PathBuf> = "the host's",
        #[doc = concat!(
            "Variables that are set for `cmd`: a table of strings. Of the host's own variables it gets only ",
            inherited_variables!(),
            " and those that `inherit_env` names",
        )]
        env: BTreeMap<String, String> = "none",
        /// The names of more variables of the host that `cmd` gets: an array. This keeps secrets out of the file
        inherit_env: Vec<String> = "none",
        /// `current` (releases from 0.9.15: one connection with many requests) or `documented` (one connection per request, the address only in the environment)
        dialect: Dialect = "current",
    }
}

/// The checked section.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RrqConfig {
    /// The address for orchestrators; `None` if the worker role is off.
    pub(super) listen: Option<SocketAddr>,
    pub(super) rules: Rules,
    /// The key that names the executor for handlers that no component has, and that name.
    pub(super) default_runner: Option<(String, String)>,
    /// All pools, by name.
    pub(super) pools: BTreeMap<Name, PoolConfig>,
    /// Where each pool is configured, and its name.
    pub(super) origins: Vec<(String, String)>,
}

impl RrqConfig {
    /// Reads the section.
    pub(super) fn read(section: &Section<'_>) -> Result<Self, ConfigError> {
        let keys: Keys = section.table("protocol.rrq")?;
        let runners = keys.runners.iter();
        let origins = runners.map(|(name, runner)| (runner.origin.clone(), name.to_string()));
        let origins_by_name = origins.collect();
        let pools = keys.runners.into_iter().map(|(name, runner)| {
            let pool = pool(section, &name, runner)?;
            Ok((name, pool))
        });
        Ok(Self {
            listen: listen(keys.listen.as_ref())?,
            rules: Rules {
                margin_ms_min: keys.deadline_margin_ms.get(),
                idle_ms: 1_000 * keys.idle_seconds.get(),
                cancels_for_all: keys.cancels_for_all,
            },
            default_runner: keys.default_runner.map(|name| (name.origin, name.value)),
            pools: pools.collect::<Result<_, _>>()?,
            origins: origins_by_name,
        })
    }
}

/// Interprets the address to listen on, in the notation of RRQ orchestrators.
fn listen(text: Option<&At<String>>) -> Result<Option<SocketAddr>, ConfigError> {
    let Some(text) = text.filter(|text| text.value != "off") else {
        return Ok(None);
    };
    let wanted = "expected HOST:PORT of this machine, like 127.0.0.1:7701, or `off`";
    let address = read_address(text).ok_or_else(|| text.refuse(wanted))?;
    loopback(&text.origin, address).map(Some)
}

fn pool(section: &Section<'_>, name: &Name, runner: At<Runner>) -> Result<PoolConfig, ConfigError> {
    if name.as_str().contains('/') {
        let wanted = "expected a name without `/`, which precedes a runner's number";
        return Err(ConfigError::value(&runner.origin, name, wanted));
    }
    Ok(PoolConfig {
        name: name.clone(),
        in_flight_max: runner.max_in_flight.count(),
        dialect: runner.dialect,
        source: source(section, runner)?,
    })
}

fn source(section: &Section<'_>, runner: At<Runner>) -> Result<Source, ConfigError> {
    match (&runner.cmd, &runner.external) {
        (None, Some(address)) => {
            let others = [
                ("pool_size", runner.pool_size.is_some()),
                ("tcp_port", runner.tcp_port.is_some()),
                ("cwd", runner.cwd.is_some()),
                ("env", !runner.env.is_empty()),
                ("inherit_env", !runner.inherit_env.is_empty()),
            ];
            if let Some((key, _)) = others.into_iter().find(|(_, is_set)| *is_set) {
                return Err(runner.hidden_key(key, "requires `cmd`, not `external`"));
            }
            external(address)
        }
        (Some(_), None) => launch(section, runner.value).map(Source::Launched),
        (None, None) => Err(runner.hidden("missing `cmd` or `external`")),
        (Some(cmd), Some(_)) => Err(cmd.hidden("`cmd` and `external` are mutually exclusive")),
    }
}

fn external(text: &At<String>) -> Result<Source, ConfigError> {
    let wanted = "expected an address with a port, like 127.0.0.1:7801";
    let address = read_address(text).ok_or_else(|| text.refuse(wanted))?;
    loopback(&text.origin, address).map(Source::External)
}

fn launch(section: &Section<'_>, runner: Runner) -> Result<Launch, ConfigError> {
    let pool_size = runner.pool_size.map_or(1, Number::count);
    Ok(Launch {
        env: section.program_env(&runner.env, &runner.inherit_env),
        command: runner.cmd.map_or_else(Vec::new, |cmd| cmd.value.0),
        tcp_port: match runner.tcp_port {
            Some(port) => Some(first_port(&port, pool_size)?),
            None => None,
        },
        pool_size,
        cwd: runner.cwd,
    })
}

/// Returns the port of the first of several processes, each of which has one.
fn first_port(
    port: &At<Number<1, { u16::MAX as u64 }>>,
    pool_size: usize,
) -> Result<u16, ConfigError> {
    let last = usize::from(u16::MAX) + 1 - pool_size;
    let first = u16::try_from(port.get())
        .ok()
        .filter(|first| usize::from(*first) <= last);
    first.ok_or_else(|| port.refuse(format!("expected 1–{last}")))
}
