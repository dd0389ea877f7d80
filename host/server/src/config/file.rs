//! The configuration file: TOML, flattened to keys with dots, but for the tables whose names users
//! choose. A key that there is not is an error that names the nearest one.

use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};

use super::runners::{self, Tables};
use super::{ConfigError, SETTINGS};

/// A value as it stands in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stated {
    pub(super) origin: String,
    pub(super) text: String,
}

/// What stands in a file.
#[derive(Debug, Default)]
pub(super) struct File {
    /// Values by the keys of [`SETTINGS`].
    pub(super) values: BTreeMap<String, Stated>,
    /// The tables about foreign runners.
    pub(super) runners: Tables,
}

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<File, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError::File {
        path: path.to_owned(),
        message: error.to_string(),
    })?;
    parse(path, &text)
}

/// Reads the text of a file.
pub(super) fn parse(path: &Path, text: &str) -> Result<File, ConfigError> {
    let table: Table =
        toml::from_str(text).map_err(|error: toml::de::Error| ConfigError::File {
            path: path.to_owned(),
            message: error.to_string(),
        })?;
    let mut file = File::default();
    flatten(path, "", &table, &mut file)?;
    Ok(file)
}

fn flatten(path: &Path, prefix: &str, table: &Table, file: &mut File) -> Result<(), ConfigError> {
    for (name, value) in table {
        let key = format!("{prefix}{name}");
        if file.runners.take(path, &key, value)? {
            continue;
        }
        let known = SETTINGS.iter().any(|setting| setting.key == key);
        let text = match value {
            Value::Table(table) if !known => {
                flatten(path, &format!("{key}."), table, file)?;
                continue;
            }
            _ if !known => return Err(unknown(path, key)),
            Value::String(text) => text.clone(),
            Value::Array(items) if items.iter().all(Value::is_str) => {
                let items = items.iter().filter_map(Value::as_str);
                items.collect::<Vec<_>>().join(",")
            }
            other => other.to_string(),
        };
        let origin = origin(path, &key);
        file.values.insert(key, Stated { origin, text });
    }
    Ok(())
}

/// Says where a key stands.
pub(super) fn origin(path: &Path, key: &str) -> String {
    format!("{}: {key}", path.display())
}

/// Makes the refusal of a key that there is not.
pub(super) fn unknown(path: &Path, key: String) -> ConfigError {
    ConfigError::UnknownKey {
        path: path.to_owned(),
        nearest: nearest(&key),
        key,
    }
}

/// Returns the known key that is most like `key`, or has a last part that is most like its own.
fn nearest(key: &str) -> &'static str {
    fn last(key: &str) -> &str {
        key.rsplit('.').next().unwrap_or(key)
    }
    let known = SETTINGS.iter().map(|setting| setting.key);
    let named = runners::SETTINGS.iter().map(|setting| setting.key);
    known
        .chain(named)
        .min_by_key(|known| {
            strsim::damerau_levenshtein(known, key)
                .min(strsim::damerau_levenshtein(last(known), last(key)))
        })
        .unwrap_or("data")
}
