//! The configuration file: TOML, flattened to keys with dots, except for tables whose names users
//! choose. An unknown key is an error that suggests a similar known key.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::Path;

use host_core::name::Name;
use host_wires::wire::section::{ConfigError, NamedTable, Stated, Tables, refused};
use toml::{Table, Value};

use super::{settings, table_settings};

/// The largest file of the configuration, and of a secret or certificates that it names, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The placeholder in a key for a name that users choose.
const NAME: &str = ".NAME.";

/// The contents of a file.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) values: BTreeMap<String, Stated>,
    /// Tables whose names users choose, by the key above the name.
    pub(super) tables: BTreeMap<String, Tables>,
}

pub(super) fn read(path: &Path) -> Result<File, ConfigError> {
    let unreadable = |message: String| ConfigError::File {
        path: path.to_owned(),
        message,
    };
    let bytes = bytes(path).map_err(|error| unreadable(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable("not valid UTF-8".to_owned()))?;
    parse(path, &text)
}

/// Reads the file `path` up to a limit, because it may be an endless device.
pub(super) fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let message = format!("larger than {} MiB", FILE_BYTES_MAX >> 20);
        return Err(io::Error::other(message));
    }
    Ok(bytes)
}

/// Parses the text of a file.
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
        if let Value::Table(tables) = value
            && is_above_names(&key)
        {
            let named = named(path, &key, tables)?;
            file.tables.insert(key, named);
            continue;
        }
        let known = settings().any(|setting| setting.key == key);
        let text = match value {
            Value::Table(table) if !known => {
                flatten(path, &format!("{key}."), table, file)?;
                let (origin, text) = (origin(path, &key), String::new());
                file.values.insert(key, Stated { origin, text });
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

/// Returns whether users choose the names of the tables below `key`.
fn is_above_names(key: &str) -> bool {
    table_settings().any(|setting| {
        let above = setting.key.split_once(NAME);
        above.is_some_and(|(above, _)| above == key)
    })
}

/// Reads the tables below `key` and checks their keys.
fn named(path: &Path, key: &str, tables: &Table) -> Result<Tables, ConfigError> {
    let mut all = Tables::default();
    for (name, value) in tables {
        let whole = format!("{key}.{name}");
        let Value::Table(table) = value else {
            return Err(unknown(path, whole));
        };
        let parsed: Name = name.parse().map_err(|error| {
            refused(
                origin(path, &whole),
                name,
                format!("expected a name; {error}"),
            )
        })?;
        for inner in table.keys() {
            let known = format!("{key}{NAME}{inner}");
            if !table_settings().any(|setting| setting.key == known) {
                return Err(unknown(path, format!("{whole}.{inner}")));
            }
        }
        all.insert(parsed, NamedTable::new(origin(path, &whole), table.clone()));
    }
    Ok(all)
}

/// Describes where a key is set.
fn origin(path: &Path, key: &str) -> String {
    format!("{}: {key}", path.display())
}

/// Makes the error for an unknown key.
fn unknown(path: &Path, key: String) -> ConfigError {
    ConfigError::UnknownKey {
        path: path.to_owned(),
        nearest: nearest(&key),
        key,
    }
}

/// The most edits between an unknown key and a suggested one.
const EDITS_MAX: usize = 3;

/// Returns the known key that is near to `key`, as a whole or in its last part.
fn nearest(key: &str) -> Option<&'static str> {
    fn last(key: &str) -> &str {
        key.rsplit('.').next().unwrap_or(key)
    }
    let known = settings().map(|setting| setting.key);
    let named = table_settings().map(|setting| setting.key);
    known
        .chain(named)
        .map(|known| {
            let whole = strsim::damerau_levenshtein(known, key);
            let edits = whole.min(strsim::damerau_levenshtein(last(known), last(key)));
            (edits, known)
        })
        .filter(|(edits, _)| *edits <= EDITS_MAX.min(last(key).chars().count() / 2))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, known)| known)
}
