//! Reads the fields of a JSON object by name. An error describes a wrong value by its type and length,
//! never by its content. Knows no message and no code of a wire.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::text::found;

/// The fields of one object, unparsed. The document must have passed [`super::json::check`].
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Fields<'a>(#[serde(borrow)] BTreeMap<Key<'a>, &'a RawValue>);

#[derive(Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl Borrow<str> for Key<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'a> Fields<'a> {
    /// Reads an object. The error describes what the text is instead.
    pub fn of(text: &'a str) -> Result<Self, String> {
        parse(text)
    }

    /// Returns a field, even if it is `null`.
    pub fn present(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(name).copied()
    }

    /// Returns a field; `None` if it is absent or `null`.
    pub fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.present(name).filter(|raw| raw.get() != "null")
    }

    /// Reads a field that may be absent or `null`.
    pub fn optional<T: Deserialize<'a>>(
        &self,
        name: &str,
        expected: &str,
    ) -> Result<Option<T>, Wrong> {
        let read = |raw: &'a RawValue| {
            parse(raw.get()).map_err(|found| Wrong::kind(name, expected, found))
        };
        self.raw(name).map(read).transpose()
    }

    /// Reads a field that must be there and not `null`.
    pub fn required<T: Deserialize<'a>>(&self, name: &str, expected: &str) -> Result<T, Wrong> {
        let raw = self.present(name);
        raw.ok_or_else(|| "nothing".to_owned())
            .and_then(|raw| parse(raw.get()))
            .map_err(|found| Wrong::kind(name, expected, found))
    }

    /// Reads a field that only informs: `None` if it is absent, `null` or wrong.
    pub fn lenient<T: Deserialize<'a>>(&self, name: &str) -> Option<T> {
        parse(self.raw(name)?.get()).ok()
    }
}

fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|_| found(json))
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is missing or has another type.
    Type,
    /// It is outside its range.
    Range,
    /// It contradicts another field.
    Mismatch,
}

/// A field with a wrong value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub fault: Fault,
    pub field: String,
    pub expected: String,
    /// Describes the value without quoting it.
    pub found: String,
}

impl Wrong {
    /// Makes the error for a field that is missing or has another type.
    pub fn kind(field: &str, expected: &str, found: impl Into<String>) -> Self {
        Self {
            fault: Fault::Type,
            field: field.to_owned(),
            expected: expected.to_owned(),
            found: found.into(),
        }
    }

    /// Names the object that the field is in.
    #[must_use]
    pub fn within(self, parent: impl fmt::Display) -> Self {
        Self {
            field: format!("{parent}.{}", self.field),
            ..self
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            expected,
            found,
            ..
        } = self;
        write!(f, "{field}: expected {expected}, found {found}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_by_name_and_errors_quote_nothing() {
        let text = r#"{"a":1,"n\u0061me":"hush","null":null,"in":{"x":[]}}"#;
        let fields = Fields::of(text).unwrap();
        assert_eq!(fields.required("a", "a number"), Ok(1));
        assert_eq!(fields.lenient("name"), Some("hush".to_owned()));
        assert_eq!(fields.lenient::<u32>("name"), None);
        assert_eq!(fields.optional::<u32>("null", "a number"), Ok(None));
        assert!(fields.present("null").is_some() && fields.raw("null").is_none());
        let inner: Fields<'_> = fields.required("in", "an object").unwrap();
        let error = inner.required::<String>("x", "a string").unwrap_err();
        let errors = [
            error.within("in").to_string(),
            fields
                .required::<u32>("name", "1–9")
                .unwrap_err()
                .to_string(),
            fields
                .required::<u32>("null", "1–9")
                .unwrap_err()
                .to_string(),
            fields
                .required::<u32>("none", "1–9")
                .unwrap_err()
                .to_string(),
        ];
        let expected = [
            "in.x: expected a string, found an array",
            "name: expected 1–9, found a string of 4 bytes",
            "null: expected 1–9, found null",
            "none: expected 1–9, found nothing",
        ];
        assert_eq!(errors, expected);
        assert_eq!(Fields::of("[1]").unwrap_err(), "an array");
    }
}
