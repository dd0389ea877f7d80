//! One value: taken from the first source that has it, and parsed as its key requires.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use host_core::seconds::Seconds;

use super::file::Stated;
use super::{ConfigError, SETTINGS};
use host_dispatch::writer::Environment;

pub(super) struct Values<'a> {
    flags: &'a BTreeMap<&'static str, String>,
    environment: &'a Environment,
    file: &'a BTreeMap<String, Stated>,
}

impl<'a> Values<'a> {
    pub(super) fn new(
        flags: &'a BTreeMap<&'static str, String>,
        environment: &'a Environment,
        file: &'a BTreeMap<String, Stated>,
    ) -> Self {
        Self {
            flags,
            environment,
            file,
        }
    }

    /// Returns the value of a key and where it is set. An empty variable counts as absent.
    pub(super) fn find(&self, key: &str) -> Option<(String, &'a str)> {
        if let Some(text) = self.flags.get(key) {
            return Some((format!("the flag for {key}"), text));
        }
        let env = SETTINGS.iter().find(|setting| setting.key == key)?.env;
        if let Some(text) = self.environment.get(env).filter(|text| !text.is_empty()) {
            return Some((env.to_owned(), text));
        }
        let stated = self.file.get(key)?;
        Some((stated.origin.clone(), &stated.text))
    }

    /// Returns a variable from the host's environment.
    pub(super) fn variable(&self, name: &str) -> Option<&'a str> {
        self.environment.get(name).map(String::as_str)
    }

    pub(super) fn path(&self, key: &str) -> Option<PathBuf> {
        self.find(key).map(|(_, text)| PathBuf::from(text))
    }

    pub(super) fn number(
        &self,
        key: &str,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, ConfigError> {
        let Some((origin, text)) = self.find(key) else {
            return Ok(None);
        };
        text.parse()
            .ok()
            .filter(|number| (least..=most).contains(number))
            .map(Some)
            .ok_or_else(|| refused(origin, text, format!("a number from {least} to {most} is")))
    }

    pub(super) fn seconds(&self, key: &str) -> Result<Option<Seconds>, ConfigError> {
        let Some((origin, text)) = self.find(key) else {
            return Ok(None);
        };
        let seconds = text.parse::<f64>().ok();
        seconds
            .and_then(|seconds| Seconds::try_from(seconds).ok())
            .map(Some)
            .ok_or_else(|| refused(origin, text, "a number of seconds is".to_owned()))
    }

    /// Returns a loopback address, or `None` for `off`. Without a value, uses `port`.
    pub(super) fn listen(&self, key: &str, port: u16) -> Result<Option<SocketAddr>, ConfigError> {
        let Some((origin, text)) = self.find(key) else {
            return Ok(Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
        };
        if text == "off" {
            return Ok(None);
        }
        let wanted = "an address with a port is, like 127.0.0.1:7700, or `off`";
        let address: SocketAddr = text
            .parse()
            .map_err(|_| refused(origin.clone(), text, wanted.to_owned()))?;
        if address.ip().is_loopback() {
            Ok(Some(address))
        } else {
            Err(ConfigError::NotLoopback { origin, address })
        }
    }
}

pub(super) fn refused(origin: String, text: &str, wanted: String) -> ConfigError {
    ConfigError::Value {
        origin,
        value: text.to_owned(),
        wanted,
    }
}
