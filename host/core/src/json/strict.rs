//! Reads a JSON document more strictly than parsers do.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// The most characters of a key that an error quotes.
const KEY_QUOTED_MAX: usize = 64;

/// What one reading of a document finds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// The document, if it was asked for.
    pub tree: Option<Value>,
    /// Whether a number in it was read as a double, so that it may be rounded.
    pub has_doubles: bool,
}

impl Document {
    /// Reads a whole document, and refuses an object that has the same key twice. The parser limits depth
    /// and numbers. Keeps the document if `with_tree`.
    pub fn read(text: &[u8], with_tree: bool) -> Result<Self, serde_json::Error> {
        let mut tree = with_tree.then_some(Value::Null);
        let mut has_doubles = false;
        let mut document = serde_json::Deserializer::from_slice(text);
        let reader = Reader {
            into: tree.as_mut(),
            has_doubles: &mut has_doubles,
        };
        reader.deserialize(&mut document)?;
        document.end()?;
        Ok(Self { tree, has_doubles })
    }
}

struct Reader<'a> {
    /// Gets the value, if it is kept.
    into: Option<&'a mut Value>,
    has_doubles: &'a mut bool,
}

impl Reader<'_> {
    fn put(self, value: impl Into<Value>) {
        if let Some(into) = self.into {
            *into = value.into();
        }
    }

    /// Returns the reader of an element. The element gets its value if this value is kept.
    fn of_element<'b>(&'b mut self, element: &'b mut Value) -> Reader<'b> {
        Reader {
            into: self.into.is_some().then_some(element),
            has_doubles: self.has_doubles,
        }
    }
}

#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.put(value);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.put(value);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.put(value);
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        *self.has_doubles = true;
        self.put(value);
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        if let Some(into) = self.into {
            *into = Value::from(value);
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        let mut elements = Vec::new();
        loop {
            let mut element = Value::Null;
            let reader = self.of_element(&mut element);
            if seq.next_element_seed(reader)?.is_none() {
                self.put(elements);
                return Ok(());
            }
            if self.into.is_some() {
                elements.push(element);
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut keys = BTreeSet::new();
        let mut members = Map::new();
        while let Some(key) = map.next_key::<Key<'de>>()? {
            let mut value = Value::Null;
            let name = self.into.is_some().then(|| key.0.clone().into_owned());
            if let Some(twice) = keys.replace(key) {
                let quoted: String = twice.0.chars().take(KEY_QUOTED_MAX).collect();
                return Err(A::Error::custom(format!(
                    "duplicate key `{}`",
                    quoted.escape_debug()
                )));
            }
            map.next_value_seed(self.of_element(&mut value))?;
            members.extend(name.map(|name| (name, value)));
        }
        self.put(members);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_kept_as_parsers_read_it() {
        for text in [
            r#"{"a":[1,-2,0.5,"x",null,true,{"b":{}}],"ü":[]}"#,
            "[]",
            "3",
        ] {
            let read = Document::read(text.as_bytes(), true).unwrap();
            assert_eq!(read.tree, Some(serde_json::from_str(text).unwrap()));
            let checked = Document::read(text.as_bytes(), false).unwrap();
            assert_eq!(checked.tree, None);
        }
    }

    #[test]
    fn doubles_are_noticed() {
        for (text, expected) in [
            ("[18446744073709551615,-9223372036854775808]", false),
            ("[18446744073709551616]", true),
            ("[[0.5]]", true),
            ("-0", true),
            (r#"{"a":-9223372036854775809}"#, true),
        ] {
            let read = Document::read(text.as_bytes(), false).unwrap();
            assert_eq!(read.has_doubles, expected, "{text}");
        }
    }
}
