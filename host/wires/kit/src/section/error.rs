//! Why a configuration is not valid. Serde's errors become ours: without a place at first, which the value that
//! failed then adds.

use std::fmt::Display;
use std::path::PathBuf;

use serde::de::{self, Expected, Unexpected};
use thiserror::Error;

use super::document::Node;

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
    #[error("{place}: unknown key `{key}`{}", suggestion(*nearest))]
    UnknownKey {
        /// The file and the line.
        place: String,
        /// The key.
        key: String,
        /// The known key that it resembles.
        nearest: Option<&'static str>,
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
}

/// Suggests a known key that is near, if any.
fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |key| format!("; did you mean `{key}`?"))
}

impl ConfigError {
    /// Makes the error for a value that is not shown.
    pub fn hidden(origin: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Hidden {
            origin: origin.into(),
            message: message.into(),
        }
    }

    /// Makes the error for a value.
    pub fn value(origin: &str, value: impl Display, wanted: impl Into<String>) -> Self {
        Self::Value {
            origin: origin.to_owned(),
            value: value.to_string(),
            wanted: wanted.into(),
        }
    }

    /// Adds the place, unless a value further in has added its own.
    pub(super) fn at(mut self, node: &Node) -> Self {
        if let Self::Value { origin, .. } | Self::Hidden { origin, .. } = &mut self
            && origin.is_empty()
        {
            *origin = node.origin();
        }
        self
    }
}

/// Returns what a type expects, in the words of TOML instead of Rust.
pub(super) fn expectation(expected: &dyn Expected) -> String {
    match expected.to_string().as_str() {
        "path string" => "a string".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "an array".to_owned(),
        "a map" => "a table".to_owned(),
        other => other.to_owned(),
    }
}

impl de::Error for ConfigError {
    fn custom<T: Display>(message: T) -> Self {
        Self::hidden("", message.to_string())
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match unexpected {
            Unexpected::Bool(_) => "a boolean",
            Unexpected::Unsigned(_) | Unexpected::Signed(_) => "an integer",
            Unexpected::Float(_) => "a float",
            Unexpected::Seq => "an array",
            Unexpected::Map => "a table",
            _ => "a string",
        };
        Self::custom(format_args!(
            "expected {}, got {found}",
            expectation(expected)
        ))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let wanted = format!("expected {}", expectation(expected));
        let value: &dyn Display = match &unexpected {
            Unexpected::Str(text) => text,
            Unexpected::Unsigned(number) => number,
            Unexpected::Signed(number) => number,
            Unexpected::Float(number) => number,
            _ => return Self::custom(wanted),
        };
        Self::value("", value, wanted)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let quoted = expected.iter().map(|word| format!("`{word}`"));
        let words = quoted.collect::<Vec<_>>().join(" or ");
        Self::value("", variant, format!("expected {words}"))
    }

    fn unknown_field(field: &str, _: &'static [&'static str]) -> Self {
        Self::UnknownKey {
            place: String::new(),
            key: field.to_owned(),
            nearest: None,
        }
    }
}
