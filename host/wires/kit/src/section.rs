//! A section of the configuration. For each key, a flag takes precedence over a variable, and a variable over
//! the file. Errors name where the value is set.

mod program;
mod secret;
mod table;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use host_core::name::Name;
use host_core::seconds::Seconds;
use thiserror::Error;
use toml::Value;

use super::settings::{Kind, Setting};

pub use self::secret::SecretText;
pub use self::table::{NamedTable, Tables};

/// A value in a file or on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stated {
    /// The file and the key, or the flag.
    pub origin: String,
    /// The value; an array of strings is joined by commas.
    pub text: String,
}

impl Stated {
    /// Returns the value of a flag, which is named without its dashes.
    pub fn by_flag(flag: &str, text: impl Into<String>) -> Self {
        Self {
            origin: format!("--{flag}"),
            text: text.into(),
        }
    }
}

/// All sources of values.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// Flags, by key.
    pub flags: &'a BTreeMap<String, Stated>,
    /// The environment.
    pub environment: &'a BTreeMap<String, String>,
    /// The file's values, by key. A table has an entry too, with an empty text.
    pub values: &'a BTreeMap<String, Stated>,
    /// The file's tables whose names users choose, by the key above the name.
    pub tables: &'a BTreeMap<String, Tables>,
    /// Reads a file that a value names.
    pub read: &'a dyn Fn(&Path) -> io::Result<Vec<u8>>,
}

/// Why a configuration is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {message}", .path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// An unknown key.
    #[error("{}: unknown key `{key}`{}", .path.display(), suggestion(*nearest))]
    UnknownKey {
        /// In which file.
        path: PathBuf,
        /// The key.
        key: String,
        /// The known key that it resembles.
        nearest: Option<&'static str>,
    },
    /// A runner that is not configured.
    #[error("{origin}: no runner is named `{executor}`; it is not in this configuration")]
    UnknownExecutor {
        /// Where it is set.
        origin: String,
        /// Its name.
        executor: String,
    },
    /// An invalid value.
    #[error("{origin}: invalid value `{value}`: {wanted}")]
    Value {
        /// Where it is set.
        origin: String,
        /// The value.
        value: String,
        /// What was expected.
        wanted: String,
    },
    /// A missing value, or one that is not shown because it may contain a secret.
    #[error("{origin}: {message}")]
    Hidden {
        /// Where it is set.
        origin: String,
        /// What is wrong and what to do.
        message: String,
    },
    /// A file that a value names cannot be read.
    #[error("{key}: cannot read {}: {message}", .path.display())]
    Unreadable {
        /// Which key names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// A listener that others could reach, without what that needs.
    #[error(
        "{origin}: {address} is not a loopback address, so this listener needs TLS and client authentication; missing: {missing}"
    )]
    Exposed {
        /// Where it is set.
        origin: String,
        /// The address.
        address: SocketAddr,
        /// The keys that are missing.
        missing: String,
    },
    /// An address that others could reach.
    #[error(
        "{origin}: {address} is not a loopback address: this listener has no TLS of its own, so it listens on 127.0.0.1 or [::1] only; use a tunnel or a proxy that has it"
    )]
    NotLoopback {
        /// Where it is set.
        origin: String,
        /// The address.
        address: SocketAddr,
    },
}

/// The sources of a section's values.
#[derive(Clone, Copy)]
pub struct Section<'a> {
    sources: Sources<'a>,
}

impl<'a> Section<'a> {
    /// Reads from `sources`.
    pub const fn new(sources: Sources<'a>) -> Self {
        Self { sources }
    }

    /// Returns a value and where it is set. An empty variable counts as absent.
    pub fn find(&self, setting: &Setting) -> Option<(String, &'a str)> {
        let key = setting.key;
        if let Some(Stated { origin, text }) = self.sources.flags.get(key) {
            return Some((origin.clone(), text));
        }
        let env = setting.env();
        let variable = self.sources.environment.get(&env);
        if let Some(text) = variable.filter(|text| !text.is_empty()) {
            return Some((env, text));
        }
        let stated = self.sources.values.get(key)?;
        Some((stated.origin.clone(), &stated.text))
    }

    /// Returns a value and where it is set, unless it is empty.
    pub fn find_text(&self, setting: &Setting) -> Option<(String, &'a str)> {
        self.find(setting).filter(|(_, text)| !text.is_empty())
    }

    /// Makes the error for the value of a key.
    pub fn refuse(&self, setting: &Setting, wanted: impl Into<String>) -> ConfigError {
        let (origin, text) = self.find(setting).unwrap_or_default();
        refused(origin, text, wanted)
    }

    /// Returns whether a value is set on the command line, which other users can read.
    pub fn is_flag(&self, setting: &Setting) -> bool {
        self.sources.flags.contains_key(setting.key)
    }

    /// Returns whether the file has this table, even if it is empty.
    pub fn has_table(&self, key: &str) -> bool {
        self.sources.values.contains_key(key)
    }

    /// Returns a variable of the host's environment.
    pub fn variable(&self, name: &str) -> Option<&'a str> {
        self.sources.environment.get(name).map(String::as_str)
    }

    /// Reads the file `path`, which `setting` names.
    pub fn read_file(&self, setting: &Setting, path: &Path) -> Result<Vec<u8>, ConfigError> {
        (self.sources.read)(path).map_err(|error| ConfigError::Unreadable {
            key: setting.key,
            path: path.to_owned(),
            message: error.to_string(),
        })
    }

    /// Returns the tables below `key`, whose names users choose.
    pub fn tables(&self, key: &str) -> impl Iterator<Item = (&'a Name, &'a NamedTable)> + use<'a> {
        self.sources
            .tables
            .get(key)
            .into_iter()
            .flat_map(Tables::iter)
    }

    /// Returns a path; empty counts as absent.
    pub fn path(&self, setting: &Setting) -> Option<PathBuf> {
        self.find_text(setting).map(|(_, text)| PathBuf::from(text))
    }

    /// Returns the items of a list; empty ones count as absent.
    pub fn list(&self, setting: &Setting) -> Vec<&'a str> {
        let text = self.find(setting).map_or("", |(_, text)| text);
        let items = text.split(',').map(str::trim);
        items.filter(|item| !item.is_empty()).collect()
    }

    /// Returns the items of a list, at most `most`, each of which has the form that `wanted` describes.
    pub fn parsed<T: FromStr>(
        &self,
        setting: &Setting,
        most: usize,
        wanted: &str,
    ) -> Result<Vec<T>, ConfigError> {
        let items = self.list(setting);
        if items.len() > most {
            return Err(self.refuse(setting, format!("expected at most {most} items")));
        }
        let items = items.into_iter().map(str::parse);
        items
            .collect::<Result<_, _>>()
            .map_err(|_| self.refuse(setting, format!("expected {wanted}")))
    }

    /// Returns a number in the range of the key, or its default.
    pub fn number(&self, setting: &Setting) -> Result<u64, ConfigError> {
        let number = self.number_if_set(setting)?;
        Ok(number.unwrap_or_else(|| setting.default.parse().unwrap_or_default()))
    }

    /// Returns such a number as a count.
    pub fn count(&self, setting: &Setting) -> Result<usize, ConfigError> {
        self.number(setting)
            .map(|number| usize::try_from(number).unwrap_or(usize::MAX))
    }

    /// Checks the value of a key against its kind, as far as that is known without its meaning.
    pub fn check(&self, setting: &Setting) -> Result<(), ConfigError> {
        match setting.kind {
            Kind::Text(_) | Kind::List(_) => Ok(()),
            Kind::Number(..) => self.number_if_set(setting).map(drop),
            Kind::Seconds(_) => self.milliseconds(setting).map(drop),
            Kind::Switch => self.switch(setting).map(drop),
        }
    }

    /// Returns a number in the range of the key, if one is set.
    pub fn number_if_set(&self, setting: &Setting) -> Result<Option<u64>, ConfigError> {
        let Some((origin, text)) = self.find(setting) else {
            return Ok(None);
        };
        let range = setting.range();
        let number = text.parse().ok().filter(|number| range.contains(number));
        let wanted = || format!("expected {}–{}", range.start(), range.end());
        let number = number.ok_or_else(|| no_number(origin, text, wanted()));
        number.map(Some)
    }

    /// Returns a duration in milliseconds, or the default of the key.
    pub fn milliseconds(&self, setting: &Setting) -> Result<u64, ConfigError> {
        let (origin, text) = self
            .find(setting)
            .unwrap_or_else(|| (String::new(), setting.default));
        let range = setting.range();
        let seconds = text.parse::<f64>().ok();
        let duration = seconds.and_then(|seconds| Seconds::try_from(seconds).ok());
        duration
            .map(|duration| duration.ms)
            .filter(|ms| *ms <= range.end().saturating_mul(1_000))
            .ok_or_else(|| no_number(origin, text, format!("expected 0–{} seconds", range.end())))
    }

    /// Returns whether a switch is on.
    pub fn switch(&self, setting: &Setting) -> Result<bool, ConfigError> {
        match self.find(setting) {
            None => Ok(setting.default == "true"),
            Some((_, "false")) => Ok(false),
            Some((_, "true")) => Ok(true),
            Some((origin, _)) => Err(ConfigError::Hidden {
                origin,
                message: "expected true or false".to_owned(),
            }),
        }
    }

    /// Returns the text of `setting`, or of the file that `file` names, and where it is set.
    pub fn text_or_file(
        &self,
        setting: &Setting,
        file: &Setting,
    ) -> Result<Option<(String, String)>, ConfigError> {
        match (self.find_text(setting), self.secret(Some(file), None)?) {
            (Some((origin, _)), Some(_)) => Err(ConfigError::Hidden {
                origin,
                message: format!("conflicts with {}; keep one of them", file.key),
            }),
            (Some((origin, text)), None) => Ok(Some((origin, text.to_owned()))),
            (None, Some(found)) => {
                let text = found.text()?.trim().to_owned();
                Ok(Some((found.origin().to_owned(), text)))
            }
            (None, None) => Ok(None),
        }
    }

    /// Returns a loopback address, or the default of the key; `None` for `off`.
    pub fn listen(&self, setting: &Setting) -> Result<Option<SocketAddr>, ConfigError> {
        let found = self.address(setting)?;
        let checked = found.map(|(origin, address)| loopback(origin, address));
        checked.transpose()
    }

    /// Returns an address and where it is set, or the default of the key; `None` for `off`.
    pub fn address(&self, setting: &Setting) -> Result<Option<(String, SocketAddr)>, ConfigError> {
        let (origin, text) = self
            .find(setting)
            .unwrap_or_else(|| (String::new(), setting.default));
        if text == "off" {
            return Ok(None);
        }
        let wanted = "expected an address with a port, like 127.0.0.1:7700, or `off`";
        match text.parse() {
            Ok(address) => Ok(Some((origin, address))),
            Err(_) => Err(refused(origin, text, wanted)),
        }
    }
}

/// Suggests a known key that is near, if any.
fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |key| format!("; did you mean `{key}`?"))
}

/// Makes the error for a value.
pub fn refused(origin: String, value: &str, wanted: impl Into<String>) -> ConfigError {
    ConfigError::Value {
        origin,
        value: value.to_owned(),
        wanted: wanted.into(),
    }
}

/// Makes the error for a number. A value that is none may be a secret in the wrong place, and is not shown.
fn no_number(origin: String, text: &str, wanted: String) -> ConfigError {
    if text.parse::<f64>().is_ok() {
        return refused(origin, text, wanted);
    }
    ConfigError::Hidden {
        origin,
        message: wanted,
    }
}

/// Makes the error for a value of the wrong type. It may be a secret in the wrong place, and is not shown.
pub fn wrong_type(origin: String, wanted: &str, value: &Value) -> ConfigError {
    let article = match value {
        Value::Integer(_) | Value::Array(_) => "an",
        _ => "a",
    };
    ConfigError::Hidden {
        origin,
        message: format!("{wanted}, got {article} {}", value.type_str()),
    }
}

/// Makes the error for an address that others could reach.
pub fn loopback(origin: String, address: SocketAddr) -> Result<SocketAddr, ConfigError> {
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err(ConfigError::NotLoopback { origin, address })
    }
}
