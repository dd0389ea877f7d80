//! The manifest that goes with a component: the text of its file, changed where options
//! override it. Only the host checks keys and values.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use host_cells::deploy::manifest::values::find_inexpressible;
use host_console::error::{CliError, Exit};
use host_console::{human, input, plain};
use host_core::handler::DirGrant;
use host_core::name::Name;
use host_core::seconds::Seconds;
use toml::{Table, Value};

/// The options that override the `[defaults]` of a manifest.
#[derive(Debug, Default, Args)]
pub(crate) struct Overrides {
    /// Let an attempt use this much memory
    #[arg(long, value_name = "MIB", value_parser = human::whole::<i64>(1, i64::MAX.unsigned_abs()))]
    memory_mib: Option<i64>,
    /// Let an attempt take at most this long
    #[arg(long, value_name = "DURATION", value_parser = human::parse_duration)]
    timeout: Option<Seconds>,
    /// Let an attempt use this much CPU, in units of fuel
    #[arg(long, value_name = "UNITS", value_parser = human::whole::<i64>(1, i64::MAX.unsigned_abs()))]
    fuel: Option<i64>,
    /// Let handlers see this environment variable of the host (repeatable)
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    /// Let handlers read the host's directory HOST as GUEST (repeatable)
    #[arg(long = "read-dir", value_name = "HOST:GUEST", value_parser = parse_dir)]
    read_dirs: Vec<DirGrant>,
}

impl Overrides {
    /// Returns the directories and the variables that the options grant.
    pub(crate) fn grants(&self) -> (Vec<String>, Vec<String>) {
        let dirs = self.read_dirs.iter().map(|dir| dir.host.clone());
        (dirs.collect(), self.env.clone())
    }
}

/// A manifest as it was read and as options changed it.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    /// Where it came from.
    source: Option<Source>,
    /// Its keys, with the changes.
    table: Table,
    changed: bool,
}

#[derive(Debug)]
struct Source {
    path: PathBuf,
    text: String,
}

impl Manifest {
    /// Reads the manifest `given`, or the one beside `component` if there is one.
    pub(crate) fn read(component: &Path, given: Option<&Path>) -> Result<Self, CliError> {
        let path = match given {
            Some(path) => path.to_owned(),
            None => component.with_extension("toml"),
        };
        let shown = path.display().to_string();
        let doing = format!("read the manifest {}", plain::line(&shown));
        let text = match input::file(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound && given.is_none() => {
                return Ok(Self::default());
            }
            Err(error) => {
                return Err(CliError::new(Exit::Usage, doing, error)
                    .next("--manifest takes a readable TOML file"));
            }
        };
        let table = text.parse().map_err(|error: toml::de::Error| {
            let error = error.to_string();
            CliError::new(Exit::Usage, &doing, plain::block(error.trim_end()))
                .next("correct the file, or name another one with --manifest")
        })?;
        if let Some(found) = find_inexpressible(&text) {
            let cause = format!("line {}: {}", found.line, found.message);
            return Err(CliError::new(Exit::Usage, doing, cause)
                .next("correct the file, or name another one with --manifest"));
        }
        Ok(Self {
            source: Some(Source { path, text }),
            table,
            changed: false,
        })
    }

    /// Returns the file it was read from.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.source.as_ref().map(|source| source.path.as_path())
    }

    /// Returns the component's name, if it has one.
    pub(crate) fn name(&self) -> Result<Option<Name>, CliError> {
        let Some(name) = self.table.get("name") else {
            return Ok(None);
        };
        let name = name
            .as_str()
            .ok_or_else(|| self.wrong("name", "it is not a string"))?
            .parse()
            .map_err(|error| self.wrong("name", error))?;
        Ok(Some(name))
    }

    /// Replaces its name with `name`, if both are there.
    pub(crate) fn set_name(&mut self, name: Option<&Name>) {
        if let (Some(name), Some(stated)) = (name, self.table.get_mut("name")) {
            *stated = Value::String(name.to_string());
            self.changed = true;
        }
    }

    /// Writes the options into its `[defaults]`. Returns a sentence for each handler whose own
    /// setting overrides an option.
    pub(crate) fn set_defaults(&mut self, overrides: &Overrides) -> Result<Vec<String>, CliError> {
        let settings = overrides.settings();
        if settings.is_empty() {
            return Ok(Vec::new());
        }
        let mut unreached = Vec::new();
        for (handler, section) in self.handlers() {
            let own = settings.iter().filter(|set| section.contains_key(set.key));
            unreached.extend(own.map(|Setting { option, key, .. }| {
                let handler = plain::line(handler);
                format!("{option} does not apply to {handler}: the manifest sets {key} for it")
            }));
        }
        let defaults = self
            .table
            .entry("defaults")
            .or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(defaults) = defaults else {
            return Err(self.wrong("defaults", "it is not a table"));
        };
        for Setting { key, value, .. } in settings {
            defaults.insert(key.to_owned(), value);
        }
        self.changed = true;
        Ok(unreached)
    }

    /// Returns its text, `None` if there is neither a file nor an option.
    pub(crate) fn text(self, doing: &str) -> Result<Option<String>, CliError> {
        if !self.changed {
            return Ok(self.source.map(|source| source.text));
        }
        toml::to_string(&self.table)
            .map(Some)
            .map_err(|error| CliError::new(Exit::Failed, doing, error))
    }

    fn handlers(&self) -> impl Iterator<Item = (&str, &Table)> {
        let handlers = self.table.get("handlers").and_then(Value::as_table);
        handlers
            .into_iter()
            .flatten()
            .filter_map(|(name, section)| Some((name.as_str(), section.as_table()?)))
    }

    fn wrong(&self, key: &str, cause: impl std::fmt::Display) -> CliError {
        let path = self.path().unwrap_or(Path::new("")).display().to_string();
        let doing = format!("use {key} of the manifest {}", plain::line(&path));
        CliError::new(Exit::Usage, doing, cause).next("correct the file")
    }
}

/// One option as a key of the manifest.
struct Setting {
    option: &'static str,
    key: &'static str,
    value: Value,
}

impl Overrides {
    fn settings(&self) -> Vec<Setting> {
        let env = self.env.iter().cloned().map(Value::String).collect();
        let read_dirs = self.read_dirs.iter().map(|dir| {
            let mut table = Table::new();
            table.insert("host".to_owned(), Value::String(dir.host.clone()));
            table.insert("guest".to_owned(), Value::String(dir.guest.clone()));
            Value::Table(table)
        });
        let list = |values: Vec<Value>| (!values.is_empty()).then_some(Value::Array(values));
        let timeout = self.timeout.map(|timeout| Value::Float(timeout.into()));
        [
            (
                "--memory-mib",
                "memory_mib",
                self.memory_mib.map(Value::Integer),
            ),
            ("--timeout", "timeout_seconds", timeout),
            ("--fuel", "fuel", self.fuel.map(Value::Integer)),
            ("--env", "env", list(env)),
            ("--read-dir", "read_dirs", list(read_dirs.collect())),
        ]
        .into_iter()
        .filter_map(|(option, key, value)| {
            let value = value?;
            Some(Setting { option, key, value })
        })
        .collect()
    }
}

/// Reads `HOST:GUEST`; a relative directory of this machine becomes an absolute one.
fn parse_dir(text: &str) -> Result<DirGrant, String> {
    let form = "write HOST:GUEST, such as /srv/reports:/reports";
    let (host, guest) = text.rsplit_once(':').ok_or(form)?;
    if host.is_empty() || !guest.starts_with('/') {
        return Err(form.to_owned());
    }
    let host = std::path::absolute(host)
        .map_err(|error| error.to_string())?
        .into_os_string()
        .into_string();
    Ok(DirGrant {
        host: host.map_err(|_| "the absolute path of the directory must be UTF-8")?,
        guest: guest.to_owned(),
    })
}

#[cfg(test)]
mod tests;
