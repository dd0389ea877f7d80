//! `[protocol.rrq]`: the address for orchestrators, and the pools of foreign runners.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use host_core::name::Name;
use host_wire_kit::section::{ConfigError, NamedTable, Section, loopback, refused};
use host_wire_kit::{inherited_variables, settings, table_settings};
use toml::Value;

use super::config::{Dialect, Launch, PoolConfig, Source};
use super::serve::read_address;
use super::worker::{IN_FLIGHT_MAX, MARGIN_MS_MAX, MARGIN_MS_MIN, Rules};

const RUNNERS: &str = "protocol.rrq.runners";

/// The most processes of a pool.
const POOL_SIZE_MAX: i64 = 64;

/// How many concurrent requests a runner gets by default.
const IN_FLIGHT: usize = 10;

settings! {
    pub(super) SETTINGS:
    LISTEN = "protocol.rrq.listen" ["rrq-listen"], Text("ADDR"), "off",
        "Where RRQ orchestrators connect: a loopback address and a port (the usual one is 7701, 0 takes a free one), or `off`";
    DEADLINE_MARGIN = "protocol.rrq.deadline_margin_ms", Number("MS", MARGIN_MS_MIN, MARGIN_MS_MAX), "20",
        "How long before a request's deadline its RRQ orchestrator gets `timeout`, in milliseconds. The margin is never less than 1 % of the request's time, and never more than 250. Raise it if processes on this machine have to wait for a core";
    IDLE_SECONDS = "protocol.rrq.idle_seconds", Number("SECONDS", 10, 604_800), "86400",
        "After how long a connection of an RRQ orchestrator without requests is closed, in seconds; after 10 seconds if more than 3,000 are open";
    CANCELS_FOR_ALL = "protocol.rrq.cancels_for_all", Switch, "false",
        "Whether an RRQ orchestrator may cancel requests that another user of this machine has sent";
    DEFAULT_RUNNER = "protocol.rrq.default_runner", Text("NAME"), "none",
        "The runner or other executor for handlers that no component has";
}

table_settings! {
    pub(super) TABLE_SETTINGS:
    "protocol.rrq.runners.NAME.cmd", "none",
        "The command that starts a runner, an array: the program and its arguments. `--tcp-socket HOST:PORT` is \
         appended, and `RRQ_RUNNER_TCP_SOCKET` is set to it";
    "protocol.rrq.runners.NAME.external", "none",
        "Instead of `cmd`: the loopback address and port of a runner that you start yourself";
    "protocol.rrq.runners.NAME.pool_size", "1",
        "How many processes of `cmd` run, 1 to 64";
    "protocol.rrq.runners.NAME.max_in_flight", "10",
        "How many jobs one runner is given at once, 1 to 64. With 1, the output of a runner goes to the log of its job";
    "protocol.rrq.runners.NAME.tcp_port", "free ones",
        "The port of the first process; the others get the next ones";
    "protocol.rrq.runners.NAME.cwd", "the host's",
        "The folder in which `cmd` is started";
    "protocol.rrq.runners.NAME.env", "none",
        concat!(
            "Variables that are set for `cmd`: a table of strings. Of the host's own variables it gets only ",
            inherited_variables!(),
            " and those that `inherit_env` names",
        );
    "protocol.rrq.runners.NAME.inherit_env", "none",
        "The names of more variables of the host that `cmd` gets: an array. This keeps secrets out of the file";
    "protocol.rrq.runners.NAME.dialect", "current",
        "`current` (releases from 0.9.15: one connection with many requests) or `documented` (one connection per request, the address only in the environment)";
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
        let default = section.find(&DEFAULT_RUNNER);
        let pools = section.tables(RUNNERS).map(|(name, table)| {
            let pool = pool(section, name, table)?;
            Ok((name.clone(), pool))
        });
        Ok(Self {
            listen: listen(section)?,
            rules: Rules {
                margin_ms_min: section.number(&DEADLINE_MARGIN)?,
                idle_ms: 1_000 * section.number(&IDLE_SECONDS)?,
                cancels_for_all: section.switch(&CANCELS_FOR_ALL)?,
            },
            default_runner: default.map(|(origin, name)| (origin, name.to_owned())),
            pools: pools.collect::<Result<_, _>>()?,
            origins: section
                .tables(RUNNERS)
                .map(|(name, table)| (table.origin(""), name.to_string()))
                .collect(),
        })
    }
}

/// Reads the address to listen on, in the notation of RRQ orchestrators.
fn listen(section: &Section<'_>) -> Result<Option<SocketAddr>, ConfigError> {
    let Some((origin, text)) = section.find(&LISTEN).filter(|(_, text)| *text != "off") else {
        return Ok(None);
    };
    match read_address(text) {
        Some(address) => loopback(origin, address).map(Some),
        None => Err(refused(
            origin,
            text,
            "expected HOST:PORT of this machine, like 127.0.0.1:7701, or `off`",
        )),
    }
}

fn pool(section: &Section<'_>, name: &Name, table: &NamedTable) -> Result<PoolConfig, ConfigError> {
    if name.as_str().contains('/') {
        let wanted = "expected a name without `/`, which precedes a runner's number";
        return Err(refused(table.origin(""), name.as_str(), wanted));
    }
    let most = i64::try_from(IN_FLIGHT_MAX).unwrap_or(1);
    let in_flight = table.number("max_in_flight", most)?;
    Ok(PoolConfig {
        name: name.clone(),
        source: source(section, table)?,
        in_flight_max: in_flight.unwrap_or(IN_FLIGHT),
        dialect: match table.text("dialect")? {
            None | Some("current") => Dialect::Current,
            Some("documented") => Dialect::Documented,
            Some(other) => {
                let wanted = "expected `current` or `documented`";
                return Err(refused(table.origin("dialect"), other, wanted));
            }
        },
    })
}

fn source(section: &Section<'_>, table: &NamedTable) -> Result<Source, ConfigError> {
    match (table.get("cmd"), table.text("external")?) {
        (None, Some(address)) => {
            for key in ["pool_size", "tcp_port", "cwd", "env", "inherit_env"] {
                if let Some(value) = table.get(key) {
                    let wanted = "requires `cmd`, not `external`";
                    return Err(table.refused(key, value, wanted));
                }
            }
            external(table, address)
        }
        (Some(cmd), None) => launch(section, table, cmd).map(Source::Launched),
        (None, None) => Err(ConfigError::Hidden {
            origin: table.origin(""),
            message: "missing `cmd` or `external`".to_owned(),
        }),
        (Some(cmd), Some(_)) => {
            Err(table.refused("cmd", cmd, "`cmd` and `external` are mutually exclusive"))
        }
    }
}

fn external(table: &NamedTable, text: &str) -> Result<Source, ConfigError> {
    let origin = table.origin("external");
    let Some(address) = read_address(text) else {
        let wanted = "expected an address with a port, like 127.0.0.1:7801";
        return Err(refused(origin, text, wanted));
    };
    loopback(origin, address).map(Source::External)
}

fn launch(section: &Section<'_>, table: &NamedTable, cmd: &Value) -> Result<Launch, ConfigError> {
    let pool_size = table.number("pool_size", POOL_SIZE_MAX)?.unwrap_or(1);
    let last_port = i64::from(u16::MAX) + 1 - i64::try_from(pool_size).unwrap_or(1);
    let tcp_port = table.number("tcp_port", last_port)?;
    let wanted = "expected an array of strings, the program first";
    let command = table.strings("cmd", wanted)?;
    let command = command.filter(|command| !command.is_empty());
    Ok(Launch {
        command: command.ok_or_else(|| table.refused("cmd", cmd, wanted))?,
        pool_size,
        tcp_port: tcp_port.and_then(|port| u16::try_from(port).ok()),
        cwd: table.text("cwd")?.map(PathBuf::from),
        env: section.program_env(table)?,
    })
}
