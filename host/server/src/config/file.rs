//! The configuration file: TOML, flattened to keys with dots, except for tables whose names users
//! choose. An unknown key is an error that suggests a similar known key.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::Path;

use host_cells::deploy::manifest::values::find_inexpressible;
use host_core::encoding;
use host_core::name::Name;
use host_wire_kit::section::{ConfigError, NamedTable, Stated, Tables, refused, wrong_type};
use host_wire_kit::settings::Kind;
use toml::{Table, Value};

use super::{settings, table_settings};

/// The largest file of the configuration, and of a secret or certificates that it names, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The placeholder in a key for a name that users choose.
const NAME: &str = ".NAME.";

/// What stands in a key for one of an array of tables.
const ITEM: &str = "[].";

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
    let text = encoding::text(bytes).map_err(|other| unreadable(other.to_string()))?;
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
            message: syntax(&error, text),
        })?;
    if let Some(found) = find_inexpressible(text) {
        return Err(ConfigError::File {
            path: path.to_owned(),
            message: format!("line {}: {}", found.line, found.message),
        });
    }
    let mut file = File::default();
    flatten(path, "", &table, &mut file)?;
    Ok(file)
}

/// Describes an error of TOML. The line itself may have a secret.
fn syntax(error: &toml::de::Error, text: &str) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.unwrap_or_default().matches('\n').count() + 1;
    // Its message about a number of more than 64 bits has words of the parser.
    let message = match error.message() {
        message if message.ends_with("expected any valid TOML value") => "a number is too large",
        message => message,
    };
    format!("line {line}: {message}")
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
        if let Value::Array(tables) = value
            && is_array_of_tables(&key)
        {
            let numbered = numbered(path, &key, tables)?;
            file.tables.insert(key, numbered);
            continue;
        }
        let setting = settings().find(|setting| setting.key == key);
        let text = match (setting, value) {
            (None, Value::Table(table)) if table.is_empty() && !is_section(&key) => {
                let (path, nearest) = (path.to_owned(), None);
                return Err(ConfigError::UnknownKey { path, key, nearest });
            }
            (None, Value::Table(table)) => {
                flatten(path, &format!("{key}."), table, file)?;
                String::new()
            }
            (None, _) => return Err(unknown(path, key)),
            (Some(setting), value) => text_of(setting.kind, value).ok_or_else(|| {
                let wanted = format!("expected {}", expected(setting.kind));
                wrong_type(origin(path, &key), &wanted, value)
            })?,
        };
        let origin = origin(path, &key);
        file.values.insert(key, Stated { origin, text });
    }
    Ok(())
}

/// Returns a value as text, if its type is that of the key.
fn text_of(kind: Kind, value: &Value) -> Option<String> {
    match (kind, value) {
        (Kind::Text(_) | Kind::List(_), Value::String(text)) => Some(text.clone()),
        (Kind::List(_), Value::Array(items)) => {
            let items = items
                .iter()
                .map(Value::as_str)
                .collect::<Option<Vec<_>>>()?;
            Some(items.join(","))
        }
        (Kind::Number(..) | Kind::Seconds(_), Value::Integer(_))
        | (Kind::Seconds(_), Value::Float(_))
        | (Kind::Switch, Value::Boolean(_)) => Some(value.to_string()),
        _ => None,
    }
}

fn expected(kind: Kind) -> String {
    match kind {
        Kind::Text(_) => "a string".to_owned(),
        Kind::List(_) => "an array of strings".to_owned(),
        Kind::Number(_, least, most) => format!("{least}–{most}"),
        Kind::Seconds(most) => format!("0–{most} seconds"),
        Kind::Switch => "true or false".to_owned(),
    }
}

/// Returns whether a known key is below `key`.
fn is_section(key: &str) -> bool {
    let below = |known: &str| {
        known
            .strip_prefix(key)
            .is_some_and(|it| it.starts_with('.'))
    };
    settings().any(|setting| below(setting.key)) || table_settings().any(|it| below(it.key))
}

/// Returns whether users choose the names of the tables below `key`.
fn is_above_names(key: &str) -> bool {
    table_settings().any(|setting| {
        let above = setting.key.split_once(NAME);
        above.is_some_and(|(above, _)| above == key)
    })
}

/// Returns whether `key` holds an array of tables.
fn is_array_of_tables(key: &str) -> bool {
    table_settings().any(|setting| setting.key.starts_with(&format!("{key}{ITEM}")))
}

/// Reads an array of tables and checks their keys. Each gets its number as a name.
fn numbered(path: &Path, key: &str, tables: &[Value]) -> Result<Tables, ConfigError> {
    let mut all = Tables::default();
    for (number, value) in (1_u32..).zip(tables) {
        let whole = origin(path, &format!("{key}[{number}]"));
        let Value::Table(table) = value else {
            return Err(wrong_type(whole, "expected a table", value));
        };
        for inner in table.keys() {
            let known = format!("{key}{ITEM}{inner}");
            if !table_settings().any(|setting| setting.key == known) {
                return Err(unknown(path, format!("{key}{ITEM}{inner}")));
            }
        }
        let name = number.to_string().parse();
        let name: Name = name.map_err(|_| wrong_type(whole.clone(), "expected fewer", value))?;
        all.insert(name, NamedTable::new(whole, table.clone()));
    }
    Ok(all)
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

/// Returns the known key that is near to `key`, as a whole or in its last part. The last part counts only in a table whose
/// name is near, too.
fn nearest(key: &str) -> Option<&'static str> {
    fn first(key: &str) -> &str {
        key.split('.').next().unwrap_or(key)
    }
    fn last(key: &str) -> &str {
        key.rsplit('.').next().unwrap_or(key)
    }
    let known = settings().map(|setting| setting.key);
    let named = table_settings().map(|setting| setting.key);
    known
        .chain(named)
        .map(|known| {
            let whole = strsim::damerau_levenshtein(known, key);
            let is_near = !key.contains('.')
                || strsim::damerau_levenshtein(first(known), first(key)) <= EDITS_MAX;
            let part = is_near.then(|| strsim::damerau_levenshtein(last(known), last(key)));
            (part.map_or(whole, |part| whole.min(part)), known)
        })
        .filter(|(edits, _)| *edits <= EDITS_MAX.min(last(key).chars().count() / 2))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, known)| known)
}
