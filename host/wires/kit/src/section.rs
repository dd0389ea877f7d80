//! A section of the configuration, read into a struct that `settings!` declares, with the files and variables that it
//! names. An option takes precedence over a variable, and a variable over the file. Errors name the place of a value.

mod declare;
mod document;
mod error;
mod program;
mod read;
mod secret;
#[cfg(any(test, feature = "testing"))]
mod sources;
mod values;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

pub use self::document::{Document, Stated};
pub use self::error::ConfigError;
pub use self::program::Command;
pub use self::secret::SecretText;
#[cfg(any(test, feature = "testing"))]
pub use self::sources::TestSources;
pub use self::values::{At, Fallback, List, Listen, Number, Seconds, Tables, loopback};

/// The sources of a section's values.
#[derive(Clone, Copy)]
pub struct Section<'a> {
    /// All values that are set.
    pub document: &'a Document,
    /// The host's environment.
    pub environment: &'a BTreeMap<String, String>,
    /// Reads a file that a value names.
    pub read: &'a dyn Fn(&Path) -> io::Result<Vec<u8>>,
}

impl<'a> Section<'a> {
    /// Reads the table `key`: `protocol.NAME`.
    pub fn table<T: DeserializeOwned + Default>(&self, key: &str) -> Result<T, ConfigError> {
        self.document.read(key)
    }

    /// Returns a variable of the host's environment.
    pub fn variable(&self, name: &str) -> Option<&'a str> {
        self.environment.get(name).map(String::as_str)
    }

    /// Reads the file that a key names.
    pub fn read_file(&self, path: &At<PathBuf>) -> Result<Vec<u8>, ConfigError> {
        (self.read)(path)
            .map_err(|error| path.hidden(format!("cannot read {}: {error}", path.display())))
    }
}

/// Returns what the type of a key expects, as messages say it: `1–256`.
pub fn expectation<T: DeserializeOwned>() -> String {
    let refused = Document::default().read_as::<T>();
    let error = refused.err().map(|error| error.to_string());
    let message = error.unwrap_or_default();
    let after = message
        .split_once("expected ")
        .map_or("", |(_, after)| after);
    after.split(", got").next().unwrap_or_default().to_owned()
}
