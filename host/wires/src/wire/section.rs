//! A wire's section of the configuration: flag before variable before file, for each key alone,
//! read as what the key takes. Errors name where the value stands.

mod program;
mod secret;
mod table;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use host_core::name::Name;
use host_core::seconds::Seconds;
use thiserror::Error;

use super::settings::Setting;

pub(crate) use self::program::inherited_variables;
pub use self::secret::SecretText;
pub use self::table::{NamedTable, Tables};

/// A value as it stands in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stated {
    /// Where: the file and the key.
    pub origin: String,
    /// The value; an array of strings has commas between them.
    pub text: String,
}

/// All sources of values.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// Flags, by key.
    pub flags: &'a BTreeMap<String, String>,
    /// The environment.
    pub environment: &'a BTreeMap<String, String>,
    /// The file's values, by key. A table itself stands there too, with an empty text.
    pub values: &'a BTreeMap<String, Stated>,
    /// The file's tables whose names users choose, by the key above the name.
    pub tables: &'a BTreeMap<String, Tables>,
    /// Reads a file that a value names.
    pub read: &'a dyn Fn(&Path) -> io::Result<Vec<u8>>,
}

/// Why a host cannot be configured like this.
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
        /// Where it stands.
        origin: String,
        /// Its name.
        executor: String,
    },
    /// An invalid value.
    #[error("{origin}: invalid value `{value}`: {wanted}")]
    Value {
        /// Where it stands.
        origin: String,
        /// The value.
        value: String,
        /// What was expected.
        wanted: String,
    },
    /// A value that may hold a secret and is not shown, or one that is missing.
    #[error("{origin}: {message}")]
    Hidden {
        /// Where it stands.
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
    /// An address that others could reach.
    #[error(
        "{origin}: {address} is not a loopback address: this version has neither TLS nor tokens and listens on 127.0.0.1 or [::1] only; put a proxy that has both in front of it"
    )]
    NotLoopback {
        /// Where it stands.
        origin: String,
        /// The address.
        address: SocketAddr,
    },
}

/// One section: the sources, and the keys that may be asked for.
#[derive(Clone, Copy)]
pub struct Section<'a> {
    settings: &'a [Setting],
    sources: Sources<'a>,
}

impl<'a> Section<'a> {
    /// Looks for `settings` in `sources`.
    pub const fn new(settings: &'a [Setting], sources: Sources<'a>) -> Self {
        Self { settings, sources }
    }

    /// Returns where a key's value stands, and the value. An empty variable counts as absent.
    pub fn find(&self, key: &str) -> Option<(String, &'a str)> {
        if let Some(text) = self.sources.flags.get(key) {
            return Some((format!("the flag for {key}"), text));
        }
        let env = self.settings.iter().find(|setting| setting.key == key)?.env;
        let variable = self.sources.environment.get(env);
        if let Some(text) = variable.filter(|text| !text.is_empty()) {
            return Some((env.to_owned(), text));
        }
        let stated = self.sources.values.get(key)?;
        Some((stated.origin.clone(), &stated.text))
    }

    /// Returns whether a key's value stands in the command line, which other users can read.
    pub fn is_flag(&self, key: &str) -> bool {
        self.sources.flags.contains_key(key)
    }

    /// Returns whether the file has this table, even if no key stands in it.
    pub fn has_table(&self, key: &str) -> bool {
        self.sources.values.contains_key(key)
    }

    /// Returns a variable of the host's environment.
    pub fn variable(&self, name: &str) -> Option<&'a str> {
        self.sources.environment.get(name).map(String::as_str)
    }

    /// Reads the file that `key` names.
    pub fn read_file(&self, key: &'static str, path: &Path) -> Result<Vec<u8>, ConfigError> {
        (self.sources.read)(path).map_err(|error| ConfigError::Unreadable {
            key,
            path: path.to_owned(),
            message: error.to_string(),
        })
    }

    /// Returns the tables below `key` whose names users choose.
    pub fn tables(&self, key: &str) -> impl Iterator<Item = (&'a Name, &'a NamedTable)> + use<'a> {
        self.sources
            .tables
            .get(key)
            .into_iter()
            .flat_map(Tables::iter)
    }

    /// Returns a path; empty counts as absent.
    pub fn path(&self, key: &str) -> Option<PathBuf> {
        let (_, text) = self.find(key).filter(|(_, text)| !text.is_empty())?;
        Some(PathBuf::from(text))
    }

    /// Returns a number between `least` and `most`.
    pub fn number(&self, key: &str, least: u64, most: u64) -> Result<Option<u64>, ConfigError> {
        let Some((origin, text)) = self.find(key) else {
            return Ok(None);
        };
        text.parse()
            .ok()
            .filter(|number| (least..=most).contains(number))
            .map(Some)
            .ok_or_else(|| refused(origin, text, format!("expected {least}–{most}")))
    }

    /// Returns whether a switch is on. It is off where nothing is said.
    pub fn switch(&self, key: &str) -> Result<bool, ConfigError> {
        match self.find(key) {
            None | Some((_, "false")) => Ok(false),
            Some((_, "true")) => Ok(true),
            Some((origin, text)) => Err(refused(origin, text, "expected true or false")),
        }
    }

    /// Returns a text and where it stands: `stated`, or what is in the file that the key `file` names.
    pub fn or_in_file(
        &self,
        stated: Option<(String, &str)>,
        file: &'static str,
    ) -> Result<Option<(String, String)>, ConfigError> {
        let found = self.secret(Some(file), None)?;
        match (stated, found) {
            (Some((origin, _)), Some(_)) => Err(ConfigError::Hidden {
                origin,
                message: format!("conflicts with {file}; keep one of them"),
            }),
            (Some((origin, text)), None) => Ok(Some((origin, text.to_owned()))),
            (None, Some(found)) => {
                let text = found.text()?.trim().to_owned();
                Ok(Some((found.origin().to_owned(), text)))
            }
            (None, None) => Ok(None),
        }
    }

    /// Returns a duration.
    pub fn seconds(&self, key: &str) -> Result<Option<Seconds>, ConfigError> {
        let Some((origin, text)) = self.find(key) else {
            return Ok(None);
        };
        let seconds = text.parse::<f64>().ok();
        seconds
            .and_then(|seconds| Seconds::try_from(seconds).ok())
            .map(Some)
            .ok_or_else(|| refused(origin, text, "expected a number of seconds"))
    }

    /// Returns a loopback address, `None` for `off`; without a value, `default`.
    pub fn listen(
        &self,
        key: &str,
        default: Option<SocketAddr>,
    ) -> Result<Option<SocketAddr>, ConfigError> {
        let Some((origin, text)) = self.find(key) else {
            return Ok(default);
        };
        if text == "off" {
            return Ok(None);
        }
        let wanted = "expected an address with a port, like 127.0.0.1:7700, or `off`";
        let address = text
            .parse()
            .map_err(|_| refused(origin.clone(), text, wanted))?;
        loopback(origin, address).map(Some)
    }
}

/// Suggests a known key, if there is one.
fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |key| format!("; did you mean `{key}`?"))
}

/// Makes the refusal of a value.
pub fn refused(origin: String, value: &str, wanted: impl Into<String>) -> ConfigError {
    ConfigError::Value {
        origin,
        value: value.to_owned(),
        wanted: wanted.into(),
    }
}

/// Refuses an address that others could reach.
pub fn loopback(origin: String, address: SocketAddr) -> Result<SocketAddr, ConfigError> {
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err(ConfigError::NotLoopback { origin, address })
    }
}
