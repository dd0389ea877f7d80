//! How serde reads the tree: by the type that is wanted, since a variable is a text where the file has a number, a
//! switch or an array.

use std::collections::btree_map;
use std::slice;

use serde::de::value::StrDeserializer;
use serde::de::{
    Deserialize as _, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess,
    SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::ConfigError;
use super::document::{Node, Value};
use super::error::expectation;

impl Node {
    /// Reads the value. An error without a place gets that of the value.
    pub(super) fn read<'de, S: DeserializeSeed<'de>>(
        &'de self,
        seed: S,
    ) -> Result<S::Value, ConfigError> {
        seed.deserialize(self).map_err(|error| error.at(self))
    }

    fn visit<'de, V: Visitor<'de>>(&'de self, visitor: V) -> Result<V::Value, ConfigError> {
        match &self.value {
            Value::Text(text) | Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Integer(number) => match u64::try_from(*number) {
                Ok(number) => visitor.visit_u64(number),
                Err(_) => visitor.visit_i64(*number),
            },
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Boolean(is_true) => visitor.visit_bool(*is_true),
            Value::Array(items) => visitor.visit_seq(Items(items.iter())),
            Value::Table(entries) => visitor.visit_map(Entries {
                entries: entries.iter(),
                value: None,
            }),
        }
    }

    /// A text that is not even a number may be a secret in the wrong place, and is not shown.
    fn visit_number<'de, V: Visitor<'de>>(&'de self, visitor: V) -> Result<V::Value, ConfigError> {
        let Value::Text(text) = &self.value else {
            return self.visit(visitor);
        };
        match (text.parse(), text.parse()) {
            (Ok(number), _) => visitor.visit_u64(number),
            (_, Ok(number)) => visitor.visit_f64(number),
            _ => {
                let wanted = expectation(&visitor);
                Err(ConfigError::custom(format_args!("expected {wanted}")))
            }
        }
    }

    /// Returns the first value in a table, or the table itself if it is empty.
    fn first_leaf(&self) -> &Self {
        match &self.value {
            Value::Table(entries) => entries.values().next().map_or(self, Self::first_leaf),
            _ => self,
        }
    }

    /// Makes the error for a key that its table does not have.
    fn unknown(&self) -> ConfigError {
        let leaf = self.first_leaf();
        if let Value::Table(_) = leaf.value {
            return ConfigError::hidden(&leaf.place, format!("unknown key `{}`", leaf.key));
        }
        ConfigError::UnknownKey {
            place: leaf.place.clone(),
            key: leaf.key.clone(),
            nearest: None,
        }
    }
}

macro_rules! numbers {
    ($($name:ident)+) => {$(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
            self.visit_number(visitor)
        }
    )+};
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = ConfigError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        self.visit(visitor)
    }

    numbers!(deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_f64);

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        match &self.value {
            Value::Text(text) => match text.as_str() {
                "true" => visitor.visit_bool(true),
                "false" => visitor.visit_bool(false),
                _ => Err(ConfigError::custom("expected true or false")),
            },
            _ => self.visit(visitor),
        }
    }

    /// An empty text counts as absent.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        match &self.value {
            Value::Text(text) | Value::String(text) if text.is_empty() => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ConfigError> {
        visitor.visit_newtype_struct(self)
    }

    /// A tuple is a value with its place.
    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, ConfigError> {
        visitor.visit_seq(PairAccess {
            node: self,
            has_origin: false,
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ConfigError> {
        let word = <&str>::deserialize(self)?;
        visitor.visit_enum(word.into_deserializer())
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u128 f32 char str string bytes byte_buf unit unit_struct seq tuple map struct
        identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, ConfigError> for &'de Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// The items of an array.
struct Items<'de>(slice::Iter<'de, Node>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = ConfigError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ConfigError> {
        let item = self.0.next().map(|item| item.read(seed));
        item.transpose()
    }
}

/// The entries of a table.
struct Entries<'de> {
    entries: btree_map::Iter<'de, String, Node>,
    value: Option<&'de Node>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = ConfigError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ConfigError> {
        let Some((name, node)) = self.entries.next() else {
            return Ok(None);
        };
        self.value = Some(node);
        let name_reader: StrDeserializer<'_, ConfigError> = name.as_str().into_deserializer();
        let key = seed.deserialize(name_reader).map_err(|error| match error {
            ConfigError::UnknownKey { .. } => node.unknown(),
            error => {
                let error = error.to_string();
                let why = error.trim_start_matches(": ");
                ConfigError::value(&node.origin(), name, format!("expected a name; {why}"))
            }
        });
        key.map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, ConfigError> {
        let value = self.value.take();
        let missing = || ConfigError::custom("a key has no value");
        value.ok_or_else(missing)?.read(seed)
    }
}

/// The two parts of a value with its place.
struct PairAccess<'de> {
    node: &'de Node,
    has_origin: bool,
}

impl<'de> SeqAccess<'de> for PairAccess<'de> {
    type Error = ConfigError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ConfigError> {
        if self.has_origin {
            return self.node.read(seed).map(Some);
        }
        self.has_origin = true;
        seed.deserialize(self.node.origin().into_deserializer())
            .map(Some)
    }
}
