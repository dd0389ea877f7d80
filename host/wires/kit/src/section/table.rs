//! Tables of the file whose names users choose, read key by key.

use std::collections::BTreeMap;

use host_core::name::Name;
use host_core::seconds::{SECONDS_MAX, Seconds};
use toml::{Table, Value};

use super::{ConfigError, refused, wrong_type};

/// All tables below one key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tables(BTreeMap<Name, NamedTable>);

/// One table.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTable {
    origin: String,
    table: Table,
}

impl Tables {
    /// Adds a table.
    pub fn insert(&mut self, name: Name, table: NamedTable) {
        self.0.insert(name, table);
    }

    /// Returns all tables, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &NamedTable)> {
        self.0.iter()
    }
}

impl NamedTable {
    /// Makes a table of `origin`: the file and the key.
    pub const fn new(origin: String, table: Table) -> Self {
        Self { origin, table }
    }

    /// Returns where a key of it is set, or the table itself for an empty key.
    pub fn origin(&self, key: &str) -> String {
        if key.is_empty() {
            self.origin.clone()
        } else {
            format!("{}.{key}", self.origin)
        }
    }

    /// Returns a value.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.table.get(key)
    }

    /// Returns all values.
    pub const fn values(&self) -> &Table {
        &self.table
    }

    /// Makes the error for a value.
    pub fn refused(&self, key: &str, value: &Value, wanted: &str) -> ConfigError {
        refused(self.origin(key), &value.to_string(), wanted)
    }

    fn wrong_type(&self, key: &str, value: &Value, wanted: &str) -> ConfigError {
        wrong_type(self.origin(key), wanted, value)
    }

    fn no_number(&self, key: &str, value: &Value, wanted: &str) -> ConfigError {
        match value {
            Value::Integer(_) | Value::Float(_) => self.refused(key, value, wanted),
            _ => self.wrong_type(key, value, wanted),
        }
    }

    /// Returns a string.
    pub fn text(&self, key: &str) -> Result<Option<&str>, ConfigError> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong_type(key, other, "expected a string")),
        }
    }

    /// Returns a number from 1 to `most`.
    pub fn number(&self, key: &str, most: i64) -> Result<Option<usize>, ConfigError> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::Integer(number)) if (1..=most).contains(number) => {
                Ok(usize::try_from(*number).ok())
            }
            Some(other) => Err(self.no_number(key, other, &format!("expected 1–{most}"))),
        }
    }

    /// Returns a switch.
    pub fn switch(&self, key: &str) -> Result<Option<bool>, ConfigError> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::Boolean(is_on)) => Ok(Some(*is_on)),
            Some(other) => Err(self.wrong_type(key, other, "expected true or false")),
        }
    }

    /// Returns a duration of at least `least_ms`, written in seconds.
    pub fn seconds(&self, key: &str, least_ms: u64) -> Result<Option<Seconds>, ConfigError> {
        let Some(value) = self.table.get(key) else {
            return Ok(None);
        };
        let seconds: Option<Seconds> = value.clone().try_into().ok();
        let taken = seconds.filter(|seconds| seconds.ms >= least_ms);
        let wanted = || {
            let least = f64::from(Seconds { ms: least_ms });
            format!("expected {least}–{SECONDS_MAX} seconds")
        };
        taken
            .map(Some)
            .ok_or_else(|| self.no_number(key, value, &wanted()))
    }

    /// Returns an array of strings.
    pub fn strings(&self, key: &str, wanted: &str) -> Result<Option<Vec<String>>, ConfigError> {
        let Some(value) = self.table.get(key) else {
            return Ok(None);
        };
        let words = value.as_array().and_then(|words| {
            let words = words.iter().map(|word| Some(word.as_str()?.to_owned()));
            words.collect()
        });
        let words: Option<Vec<String>> = words;
        words
            .map(Some)
            .ok_or_else(|| self.wrong_type(key, value, wanted))
    }

    /// Returns a table of strings.
    pub fn pairs(&self, key: &str) -> Result<BTreeMap<String, String>, ConfigError> {
        let Some(value) = self.table.get(key) else {
            return Ok(BTreeMap::new());
        };
        let pairs = value.as_table().and_then(|table| {
            let pairs = table.iter();
            pairs
                .map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect()
        });
        pairs.ok_or_else(|| self.wrong_type(key, value, "expected a table of strings"))
    }
}
