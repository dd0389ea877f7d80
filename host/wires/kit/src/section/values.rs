//! The types of values: a value with its place, numbers and durations in a range, lists.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::ops::Deref;
use std::str::FromStr;

use host_core::name::Name;
use host_core::seconds;
use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error, IntoDeserializer, SeqAccess, Unexpected, Visitor};

use super::ConfigError;

/// A value with its place. The place is empty if the value is not set.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Pair<T>")]
pub struct At<T> {
    /// Where it is set.
    pub origin: String,
    /// The value, which may have a secret.
    pub value: T,
}

/// Tables whose names users choose.
pub type Tables<T> = BTreeMap<Name, At<T>>;

impl<T> fmt::Debug for At<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("At").field(&self.origin).finish()
    }
}

impl<T> Deref for At<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> At<T> {
    /// Makes the error for this value, which is not shown.
    pub fn hidden(&self, message: impl Into<String>) -> ConfigError {
        ConfigError::hidden(&self.origin, message)
    }

    /// Makes the error for the key `key` of this table.
    pub fn hidden_key(&self, key: &str, message: impl Into<String>) -> ConfigError {
        ConfigError::hidden(format!("{}.{key}", self.origin), message)
    }

    /// Returns whether it is set on the command line, which other users can read.
    pub fn is_flag(&self) -> bool {
        self.origin.starts_with("--")
    }
}

impl<T: fmt::Display> At<T> {
    /// Makes the error for this value.
    pub fn refuse(&self, wanted: impl Into<String>) -> ConfigError {
        ConfigError::value(&self.origin, &self.value, wanted)
    }
}

impl At<String> {
    /// Interprets the text.
    pub fn parse<T: FromStr>(&self, wanted: &str) -> Result<T, ConfigError> {
        let parsed = self.value.parse();
        parsed.map_err(|_| self.refuse(format!("expected {wanted}")))
    }
}

/// A place and a value, as serde reads them.
#[derive(Deserialize)]
struct Pair<T>(String, T);

impl<T> From<Pair<T>> for At<T> {
    fn from(pair: Pair<T>) -> Self {
        Self {
            origin: pair.0,
            value: pair.1,
        }
    }
}

/// A whole number in a range, with its default.
pub type Number<const LEAST: u64, const MOST: u64, const DEFAULT: u64 = 0> =
    InRange<LEAST, MOST, DEFAULT, 1>;

/// A duration in a range of seconds, with its default in seconds. It may have a fraction, and counts milliseconds.
pub type Seconds<const LEAST: u64, const MOST: u64, const DEFAULT: u64 = 0> =
    InRange<LEAST, MOST, DEFAULT, 1_000>;

/// A number in a range, as a whole number of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InRange<const LEAST: u64, const MOST: u64, const DEFAULT: u64, const PARTS: u64>(u64);

impl<const LEAST: u64, const MOST: u64, const DEFAULT: u64, const PARTS: u64>
    InRange<LEAST, MOST, DEFAULT, PARTS>
{
    /// Returns the number, of a duration the milliseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the number, which fits into 32 bits.
    pub fn narrow(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }

    /// Returns the number as a count.
    pub fn count(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    fn read(number: u64) -> Option<Self> {
        let is_in_range = (LEAST * PARTS..=MOST * PARTS).contains(&number);
        is_in_range.then_some(Self(number))
    }
}

impl<const LEAST: u64, const MOST: u64, const DEFAULT: u64, const PARTS: u64> fmt::Display
    for InRange<LEAST, MOST, DEFAULT, PARTS>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0 / PARTS).fmt(f)
    }
}

impl<const LEAST: u64, const MOST: u64, const DEFAULT: u64, const PARTS: u64> Default
    for InRange<LEAST, MOST, DEFAULT, PARTS>
{
    fn default() -> Self {
        Self(DEFAULT * PARTS)
    }
}

impl<const LEAST: u64, const MOST: u64, const DEFAULT: u64, const PARTS: u64> Fallback
    for InRange<LEAST, MOST, DEFAULT, PARTS>
{
    fn text() -> String {
        DEFAULT.to_string()
    }
}

impl<'de, const LEAST: u64, const MOST: u64, const DEFAULT: u64, const PARTS: u64> Deserialize<'de>
    for InRange<LEAST, MOST, DEFAULT, PARTS>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_f64(RangeVisitor(PhantomData))
    }
}

struct RangeVisitor<T>(PhantomData<T>);

impl<const LEAST: u64, const MOST: u64, const DEFAULT: u64, const PARTS: u64> Visitor<'_>
    for RangeVisitor<InRange<LEAST, MOST, DEFAULT, PARTS>>
{
    type Value = InRange<LEAST, MOST, DEFAULT, PARTS>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if PARTS == 1 { "" } else { " seconds" };
        write!(f, "{LEAST}–{MOST}{unit}")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        let read = number.checked_mul(PARTS).and_then(InRange::read);
        read.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Err(E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        let duration = seconds::Seconds::try_from(number)
            .ok()
            .filter(|_| PARTS == 1_000);
        let read = duration.and_then(|duration| InRange::read(duration.ms));
        read.ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
    }
}

/// At most `MOST` items: an array, or one text with commas. In a text, empty items count as absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T, const MOST: usize = 256>(pub Vec<T>);

impl<T, const MOST: usize> Default for List<T, MOST> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const MOST: usize> Deref for List<T, MOST> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<const MOST: usize> At<List<String, MOST>> {
    /// Interprets the items, which are `wanted`.
    pub fn parse<T: FromStr>(&self, wanted: &str) -> Result<Vec<T>, ConfigError> {
        let items = self.iter().map(|item| {
            let parsed = item.parse();
            parsed.map_err(|_| self.refuse_item(item, format!("expected {wanted}")))
        });
        items.collect()
    }

    /// Makes the error for an item.
    pub fn refuse_item(&self, item: &str, wanted: impl Into<String>) -> ConfigError {
        ConfigError::value(&self.origin, item, wanted)
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for List<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T, const MOST: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for Items<T, MOST> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of strings")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
                let items = text
                    .split(',')
                    .map(str::trim)
                    .filter(|item| !item.is_empty());
                items
                    .map(|item| T::deserialize(item.to_owned().into_deserializer()))
                    .collect()
            }

            fn visit_seq<A: SeqAccess<'de>>(self, array: A) -> Result<Vec<T>, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(array))
            }
        }
        let items = deserializer.deserialize_any(Items::<T, MOST>(PhantomData))?;
        if items.len() > MOST {
            return Err(D::Error::custom(format_args!(
                "expected at most {MOST} items"
            )));
        }
        Ok(Self(items))
    }
}

/// An address to listen on, or `off`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listen(pub Option<SocketAddr>);

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "off" {
            return Ok(Self(None));
        }
        let wanted = "an address with a port, like 127.0.0.1:7700, or `off`";
        let address = text.parse();
        let refuse = |_| D::Error::invalid_value(Unexpected::Str(&text), &wanted);
        address.map_err(refuse).map(Some).map(Self)
    }
}

impl At<Listen> {
    /// Returns a loopback address; `None` for `off`.
    pub fn loopback(&self) -> Result<Option<SocketAddr>, ConfigError> {
        let address = self.value.0;
        address
            .map(|address| loopback(&self.origin, address))
            .transpose()
    }
}

/// Refuses an address that others could reach.
pub fn loopback(origin: &str, address: SocketAddr) -> Result<SocketAddr, ConfigError> {
    if address.ip().is_loopback() {
        return Ok(address);
    }
    let message = format!(
        "{address} is not a loopback address: this listener has no TLS of its own, so it listens on 127.0.0.1 or [::1] \
         only; use a tunnel or a proxy that has it"
    );
    Err(ConfigError::hidden(origin, message))
}

/// The default of a key that has no words for it.
pub trait Fallback {
    /// Returns it as the documents show it.
    fn text() -> String;
}

impl<T> Fallback for Option<T> {
    fn text() -> String {
        "none".to_owned()
    }
}

impl<T, const MOST: usize> Fallback for List<T, MOST> {
    fn text() -> String {
        "none".to_owned()
    }
}

impl Fallback for bool {
    fn text() -> String {
        false.to_string()
    }
}

impl<T: Fallback> Fallback for At<T> {
    fn text() -> String {
        T::text()
    }
}
