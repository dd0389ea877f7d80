//! The tables of the file whose names users choose: foreign runners by their name, and queues whose
//! jobs go to one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use host_core::name::Name;
use host_protocols::rrq::{self, Dialect, Launch, RunnerConfig, Source};
use toml::{Table, Value};

use super::ConfigError;
use super::file::{origin, unknown};
use super::value::{Values, refused};
use crate::runners::{LANE_PREFIX, RunnersConfig, is_lane};

/// One key of such a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NamedSetting {
    /// Its name in the file; `NAME` stands for one that users choose.
    pub(super) key: &'static str,
    /// What it is if the file does not say, for people.
    pub(super) default: &'static str,
    /// What it is for.
    pub(super) about: &'static str,
}

const QUEUES: &str = "queues";
const RUNNERS: &str = "protocol.rrq.runners";

/// The most processes of a pool.
const POOL_SIZE_MAX: i64 = 64;

/// The host's own variables that every runner is given: where programs, folders and words are found.
/// Others may be secrets, as the host's password for Redis is.
const INHERITED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "XDG_CACHE_HOME",
];

/// All keys of such tables.
pub(super) const SETTINGS: &[NamedSetting] = &[
    NamedSetting {
        key: "queues.NAME.runner",
        default: "none",
        about: "The pool of foreign runners, or the Hero worker (`hero-WORKER`), that is given all jobs of this queue, whatever their handler",
    },
    NamedSetting {
        key: "protocol.rrq.runners.NAME.cmd",
        default: "none",
        about: "The program that is a runner, and its arguments: an array. `--tcp-socket HOST:PORT` is added to them and stands in `RRQ_RUNNER_TCP_SOCKET` too",
    },
    NamedSetting {
        key: "protocol.rrq.runners.NAME.external",
        default: "none",
        about: "Instead of `cmd`: where a runner listens that somebody else starts, a loopback address and a port",
    },
    NamedSetting {
        key: "protocol.rrq.runners.NAME.pool_size",
        default: "1",
        about: "How many processes of `cmd` run, 1 to 64",
    },
    NamedSetting {
        key: "protocol.rrq.runners.NAME.max_in_flight",
        default: "10",
        about: "How many jobs one runner is given at once, 1 to 64; with 1, what a runner writes stands in the log of its job",
    },
    NamedSetting {
        key: "protocol.rrq.runners.NAME.tcp_port",
        default: "free ones",
        about: "The port of the first process; the others have the next ones",
    },
    NamedSetting {
        key: "protocol.rrq.runners.NAME.cwd",
        default: "the host's",
        about: "The folder in which `cmd` is started",
    },
    NamedSetting {
        key: "protocol.rrq.runners.NAME.env",
        default: "none",
        about: "Variables that are set for `cmd`: a table of strings. Of the host's own it is given no others than PATH, HOME, USER, LOGNAME, LANG, LC_ALL, LC_CTYPE, TZ, TMPDIR and XDG_CACHE_HOME",
    },
    NamedSetting {
        key: "protocol.rrq.runners.NAME.inherit_env",
        default: "none",
        about: "The names of more variables of the host that `cmd` is given: an array. What carries a secret need not stand in the file so",
    },
    NamedSetting {
        key: "protocol.rrq.runners.NAME.dialect",
        default: "current",
        about: "`current` (releases from 0.9.15: one connection with many requests) or `documented` (one connection per request, the address in the environment alone)",
    },
];

/// What a file says about runners.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pools: BTreeMap<Name, RunnerConfig>,
    /// The variables of the host that each pool is given beside [`INHERITED`].
    inherited: BTreeMap<Name, Vec<String>>,
    /// The runner of a queue, and where that stands.
    queues: BTreeMap<Name, (String, String)>,
}

impl Tables {
    /// Takes a value in if its key is one of these tables; tells whether it is.
    pub(super) fn take(
        &mut self,
        path: &Path,
        key: &str,
        value: &Value,
    ) -> Result<bool, ConfigError> {
        let (RUNNERS | QUEUES, Value::Table(tables)) = (key, value) else {
            return Ok(false);
        };
        for (name, value) in tables {
            let key = format!("{key}.{name}");
            let Value::Table(table) = value else {
                return Err(unknown(path, key));
            };
            let parsed: Name = name.parse().map_err(|error| {
                refused(origin(path, &key), name, format!("a name is; {error}"))
            })?;
            let entry = Entry {
                path,
                key: &key,
                table,
            };
            if key.starts_with(QUEUES) {
                entry.only(QUEUES)?;
                if let Some(runner) = entry.text("runner")? {
                    let route = (entry.origin("runner"), runner.to_owned());
                    self.queues.insert(parsed, route);
                }
            } else {
                if name.contains('/') {
                    let wanted = "a name without `/` is: that stands before a runner's number";
                    return Err(refused(origin(path, &key), name, wanted.to_owned()));
                }
                if name.starts_with(LANE_PREFIX) {
                    let wanted = "a name without `hero-` in front is: those are Hero's workers";
                    return Err(refused(origin(path, &key), name, wanted.to_owned()));
                }
                let config = entry.runner(name)?;
                let inherited = entry.inherited()?;
                self.inherited.insert(parsed.clone(), inherited);
                self.pools.insert(parsed, config);
            }
        }
        Ok(true)
    }

    /// Checks that all runners that are named are there; Hero's workers are where its Redis is.
    pub(super) fn resolve(
        &self,
        values: &Values<'_>,
        with_hero: bool,
    ) -> Result<RunnersConfig, ConfigError> {
        let known = |(origin, runner): (String, &str)| {
            let name = runner.parse().ok();
            name.filter(|name| self.pools.contains_key(name) || with_hero && is_lane(runner))
                .ok_or_else(|| ConfigError::UnknownRunner {
                    origin,
                    runner: runner.to_owned(),
                })
        };
        let queues = self.queues.iter().map(|(queue, (origin, runner))| {
            let runner = known((origin.clone(), runner))?;
            Ok((queue.clone(), runner))
        });
        Ok(RunnersConfig {
            queues: queues.collect::<Result<_, _>>()?,
            default: values
                .find("protocol.rrq.default_runner")
                .map(known)
                .transpose()?,
            pools: self.with_inherited(values),
        })
    }

    /// Gives each pool that we start what it may have of the host's environment.
    fn with_inherited(&self, values: &Values<'_>) -> BTreeMap<Name, RunnerConfig> {
        let mut pools = self.pools.clone();
        for (name, config) in &mut pools {
            let Source::Launched(launch) = &mut config.source else {
                continue;
            };
            let more = self.inherited.get(name).into_iter().flatten();
            let names = INHERITED.iter().copied().chain(more.map(String::as_str));
            for variable in names {
                if let Some(value) = values.variable(variable) {
                    let set = launch.env.entry(variable.to_owned());
                    set.or_insert_with(|| value.to_owned());
                }
            }
        }
        pools
    }
}

/// One table.
struct Entry<'a> {
    path: &'a Path,
    key: &'a str,
    table: &'a Table,
}

impl<'a> Entry<'a> {
    fn origin(&self, name: &str) -> String {
        origin(self.path, &format!("{}.{name}", self.key))
    }

    fn refused(&self, name: &str, value: &Value, wanted: &str) -> ConfigError {
        refused(self.origin(name), &value.to_string(), wanted.to_owned())
    }

    /// Refuses a table that has keys which are not in [`SETTINGS`].
    fn only(&self, under: &str) -> Result<(), ConfigError> {
        for name in self.table.keys() {
            let known = format!("{under}.NAME.{name}");
            if !SETTINGS.iter().any(|setting| setting.key == known) {
                return Err(unknown(self.path, format!("{}.{name}", self.key)));
            }
        }
        Ok(())
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>, ConfigError> {
        match self.table.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.refused(name, other, "a string is")),
        }
    }

    fn number(&self, name: &str, most: i64) -> Result<Option<usize>, ConfigError> {
        match self.table.get(name) {
            None => Ok(None),
            Some(Value::Integer(number)) if (1..=most).contains(number) => {
                Ok(usize::try_from(*number).ok())
            }
            Some(other) => Err(self.refused(name, other, &format!("a number from 1 to {most} is"))),
        }
    }

    fn runner(&self, name: &str) -> Result<RunnerConfig, ConfigError> {
        self.only(RUNNERS)?;
        let most = i64::try_from(rrq::IN_FLIGHT_MAX).unwrap_or(1);
        let in_flight = self.number("max_in_flight", most)?;
        Ok(RunnerConfig {
            name: name.to_owned(),
            source: self.source()?,
            in_flight_max: in_flight.unwrap_or(10),
            dialect: match self.text("dialect")? {
                None | Some("current") => Dialect::Current,
                Some("documented") => Dialect::Documented,
                Some(other) => {
                    let wanted = "`current` or `documented` is".to_owned();
                    return Err(refused(self.origin("dialect"), other, wanted));
                }
            },
        })
    }

    fn source(&self) -> Result<Source, ConfigError> {
        match (self.table.get("cmd"), self.text("external")?) {
            (None, Some(address)) => {
                for name in ["pool_size", "tcp_port", "cwd", "env", "inherit_env"] {
                    if let Some(value) = self.table.get(name) {
                        let wanted = "it goes with `cmd`, not with `external`";
                        return Err(self.refused(name, value, wanted));
                    }
                }
                self.external(address)
            }
            (Some(cmd), None) => self.launch(cmd),
            (None, None) => {
                let wanted = "a runner has a `cmd` or is `external`".to_owned();
                Err(refused(origin(self.path, self.key), "", wanted))
            }
            (Some(cmd), Some(_)) => {
                Err(self.refused("cmd", cmd, "`cmd` and `external` exclude each other"))
            }
        }
    }

    fn external(&self, text: &str) -> Result<Source, ConfigError> {
        let origin = self.origin("external");
        let address = rrq::read_address(text).map_err(|_| {
            let wanted = "an address with a port is, like 127.0.0.1:7801".to_owned();
            refused(origin.clone(), text, wanted)
        })?;
        if !address.ip().is_loopback() {
            return Err(ConfigError::NotLoopback { origin, address });
        }
        Ok(Source::External(address))
    }

    fn launch(&self, cmd: &Value) -> Result<Source, ConfigError> {
        let pool_size = self.number("pool_size", POOL_SIZE_MAX)?.unwrap_or(1);
        let last_port = i64::from(u16::MAX) + 1 - i64::try_from(pool_size).unwrap_or(1);
        let tcp_port = self.number("tcp_port", last_port)?;
        let wanted = "an array of strings is, the program first";
        let command = strings(cmd).filter(|command| !command.is_empty());
        Ok(Source::Launched(Launch {
            command: command.ok_or_else(|| self.refused("cmd", cmd, wanted))?,
            pool_size,
            tcp_port: tcp_port.and_then(|port| u16::try_from(port).ok()),
            cwd: self.text("cwd")?.map(PathBuf::from),
            env: self.env()?,
        }))
    }

    fn inherited(&self) -> Result<Vec<String>, ConfigError> {
        let Some(value) = self.table.get("inherit_env") else {
            return Ok(Vec::new());
        };
        let wanted = "an array of names of variables is";
        strings(value).ok_or_else(|| self.refused("inherit_env", value, wanted))
    }

    fn env(&self) -> Result<BTreeMap<String, String>, ConfigError> {
        let Some(value) = self.table.get("env") else {
            return Ok(BTreeMap::new());
        };
        let variables = value.as_table().and_then(|table| {
            let variables = table.iter();
            variables
                .map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect()
        });
        variables.ok_or_else(|| self.refused("env", value, "a table of strings is"))
    }
}

fn strings(value: &Value) -> Option<Vec<String>> {
    let words = value.as_array()?.iter();
    words.map(|word| Some(word.as_str()?.to_owned())).collect()
}
