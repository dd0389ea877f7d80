//! All values that are set, as one tree: those of the file, and over them those of variables and options. Each
//! value knows its place.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ConfigError;
use crate::settings::Setting;

/// A value on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stated {
    /// The option, with its dashes.
    pub origin: String,
    /// The value.
    pub text: String,
}

impl Stated {
    /// Returns the value of an option, which is named without its dashes.
    pub fn by_flag(flag: &str, text: impl Into<String>) -> Self {
        Self {
            origin: format!("--{flag}"),
            text: text.into(),
        }
    }
}

/// A value and its place.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Node {
    /// The file and the line, the variable or the option. Empty for a table that only variables and options fill.
    pub(super) place: String,
    pub(super) key: String,
    pub(super) value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// The text of a variable or an option, which the type of the key interprets.
    Text(String),
    String(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Array(Vec<Node>),
    Table(BTreeMap<String, Node>),
}

impl Default for Value {
    fn default() -> Self {
        Self::Table(BTreeMap::new())
    }
}

impl Node {
    /// Describes where it is set.
    pub(super) fn origin(&self) -> String {
        match &self.value {
            Value::Text(_) => self.place.clone(),
            _ if self.place.is_empty() => self.key.clone(),
            _ => format!("{}: {}", self.place, self.key),
        }
    }

    fn find(&self, key: &str) -> Option<&Self> {
        key.split('.')
            .try_fold(self, |node, name| match &node.value {
                Value::Table(entries) => entries.get(name),
                _ => None,
            })
    }

    /// Sets a value below this one. Leaves a value that should be a table as it is: reading it fails.
    fn set(&mut self, path: &[&str], place: &str, text: &str) {
        let (Value::Table(entries), Some((name, rest))) = (&mut self.value, path.split_first())
        else {
            return;
        };
        let key = below(&self.key, name);
        let entry = entries.entry((*name).to_owned()).or_insert_with(|| Self {
            key: key.clone(),
            ..Self::default()
        });
        if rest.is_empty() {
            *entry = Self {
                place: place.to_owned(),
                key,
                value: Value::Text(text.to_owned()),
            };
        } else {
            entry.set(rest, place, text);
        }
    }
}

fn below(key: &str, name: &str) -> String {
    if key.is_empty() {
        name.to_owned()
    } else {
        format!("{key}.{name}")
    }
}

/// All values that are set.
#[derive(Clone, Debug, Default)]
pub struct Document {
    root: Node,
    known: BTreeSet<&'static str>,
}

impl Document {
    /// Parses the text of a file.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = Lines {
            path,
            ends: newlines.map(|(at, _)| at).collect(),
        };
        let table = DeTable::parse(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            lines.refuse(start, error.message())
        })?;
        let root = Node {
            value: lines.table("", table.get_ref())?,
            ..Node::default()
        };
        Ok(Self {
            root,
            ..Self::default()
        })
    }

    /// Adds the values of variables and options. An empty variable counts as absent.
    #[must_use]
    pub fn with(
        mut self,
        settings: impl Iterator<Item = &'static Setting>,
        environment: &BTreeMap<String, String>,
        flags: &BTreeMap<String, Stated>,
    ) -> Self {
        for setting in settings {
            self.known.insert(setting.key);
            if setting.is_in_table() {
                continue;
            }
            let variable = setting.env();
            let text = environment.get(&variable).filter(|text| !text.is_empty());
            if let Some(text) = text {
                self.set(&setting.path(), &variable, text);
            }
            if let Some(stated) = flags.get(setting.key) {
                self.set(&setting.path(), &stated.origin, &stated.text);
            }
        }
        self
    }

    /// Sets the text of a key, which may be below names that contain dots.
    pub fn set(&mut self, path: &[&str], place: &str, text: &str) {
        self.root.set(path, place, text);
    }

    /// Returns whether a key is set.
    pub fn has(&self, key: &str) -> bool {
        self.root.find(key).is_some()
    }

    /// Returns whether the file has this table, even if it is empty.
    pub fn has_table(&self, key: &str) -> bool {
        self.root
            .find(key)
            .is_some_and(|node| !node.place.is_empty())
    }

    /// Reads the table `key`, or everything for an empty key.
    pub fn read<T: DeserializeOwned + Default>(&self, key: &str) -> Result<T, ConfigError> {
        let node = if key.is_empty() {
            Some(&self.root)
        } else {
            self.root.find(key)
        };
        let read = node
            .map(|node| node.read(PhantomData::<T>))
            .transpose()
            .map_err(|error| self.suggest(error));
        Ok(read?.unwrap_or_default())
    }

    /// Reads everything as one value.
    pub(super) fn read_as<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        self.root.read(PhantomData)
    }

    /// Adds the known key that an unknown one resembles.
    fn suggest(&self, mut error: ConfigError) -> ConfigError {
        if let ConfigError::UnknownKey { key, nearest, .. } = &mut error {
            *nearest = self.nearest(key);
        }
        error
    }

    /// Returns the known key that is near to `key`, as a whole or in its last part. The last part counts only in a table whose
    /// name is near, too.
    fn nearest(&self, key: &str) -> Option<&'static str> {
        fn first(key: &str) -> &str {
            key.split(['.', '[']).next().unwrap_or(key)
        }
        fn last(key: &str) -> &str {
            key.rsplit('.').next().unwrap_or(key)
        }
        let known = self.known.iter().map(|known| {
            let whole = strsim::damerau_levenshtein(known, key);
            let is_near = !key.contains('.')
                || strsim::damerau_levenshtein(first(known), first(key)) <= EDITS_MAX;
            let part = is_near.then(|| strsim::damerau_levenshtein(last(known), last(key)));
            let edits = part.map_or(whole, |part| whole.min(part));
            (edits, whole, *known)
        });
        known
            .filter(|(edits, ..)| *edits <= EDITS_MAX.min(last(key).chars().count() / 2))
            .min_by_key(|(edits, whole, _)| (*edits, *whole))
            .map(|(.., known)| known)
    }
}

/// The most edits between an unknown key and a suggested one.
const EDITS_MAX: usize = 3;

/// The lines of a file.
struct Lines<'a> {
    path: &'a Path,
    /// The places of the newlines.
    ends: Vec<usize>,
}

impl Lines<'_> {
    fn line(&self, start: usize) -> usize {
        self.ends.partition_point(|end| *end < start) + 1
    }

    /// Makes the error for text that is not TOML. The line itself may have a secret.
    fn refuse(&self, start: usize, message: &str) -> ConfigError {
        ConfigError::File {
            path: self.path.to_owned(),
            message: format!("line {}: {message}", self.line(start)),
        }
    }

    fn table(&self, key: &str, table: &DeTable<'_>) -> Result<Value, ConfigError> {
        let entries = table.iter().map(|(name, value)| {
            let start = name.span().start;
            let name = name.get_ref();
            let node = self.node(below(key, name), start, value)?;
            Ok((name.to_string(), node))
        });
        Ok(Value::Table(entries.collect::<Result<_, _>>()?))
    }

    fn node(
        &self,
        key: String,
        start: usize,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Node, ConfigError> {
        let too_large = |()| self.refuse(value.span().start, "a number is too large");
        let place = format!("{}:{}", self.path.display(), self.line(start));
        let value = match value.get_ref() {
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Integer(number) => {
                let number = i64::from_str_radix(number.as_str(), number.radix());
                Value::Integer(number.map_err(drop).map_err(too_large)?)
            }
            DeValue::Float(number) => {
                let number = number.as_str().parse();
                Value::Float(number.map_err(drop).map_err(too_large)?)
            }
            DeValue::Boolean(is_true) => Value::Boolean(*is_true),
            DeValue::Datetime(time) => Value::String(time.to_string()),
            DeValue::Array(items) => {
                let items = (1..).zip(items.iter()).map(|(number, item)| {
                    self.node(format!("{key}[{number}]"), item.span().start, item)
                });
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => self.table(&key, table)?,
        };
        Ok(Node { place, key, value })
    }
}
