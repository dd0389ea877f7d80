//! The configuration file: TOML, flattened to keys with dots. A key that there is not is an error
//! that names the nearest one.

use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};

use super::{ConfigError, SETTINGS};

/// A value as it stands in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stated {
    pub(super) origin: String,
    pub(super) text: String,
}

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, Stated>, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError::File {
        path: path.to_owned(),
        message: error.to_string(),
    })?;
    parse(path, &text)
}

/// Reads the text of a file.
pub(super) fn parse(path: &Path, text: &str) -> Result<BTreeMap<String, Stated>, ConfigError> {
    let table: Table =
        toml::from_str(text).map_err(|error: toml::de::Error| ConfigError::File {
            path: path.to_owned(),
            message: error.to_string(),
        })?;
    let mut values = BTreeMap::new();
    flatten(path, "", &table, &mut values)?;
    Ok(values)
}

fn flatten(
    path: &Path,
    prefix: &str,
    table: &Table,
    values: &mut BTreeMap<String, Stated>,
) -> Result<(), ConfigError> {
    for (name, value) in table {
        let key = format!("{prefix}{name}");
        let known = SETTINGS.iter().any(|setting| setting.key == key);
        let text = match value {
            Value::Table(table) if !known => {
                flatten(path, &format!("{key}."), table, values)?;
                continue;
            }
            _ if !known => {
                return Err(ConfigError::UnknownKey {
                    path: path.to_owned(),
                    nearest: nearest(&key),
                    key,
                });
            }
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let origin = format!("{}: {key}", path.display());
        values.insert(key, Stated { origin, text });
    }
    Ok(())
}

/// Returns the known key that is most like `key`, or has its last part.
fn nearest(key: &str) -> &'static str {
    let last = |key: &'static str| key.rsplit('.').next().unwrap_or(key);
    SETTINGS
        .iter()
        .map(|setting| setting.key)
        .min_by_key(|known| {
            strsim::damerau_levenshtein(known, key)
                .min(strsim::damerau_levenshtein(last(known), key))
        })
        .unwrap_or("data")
}
