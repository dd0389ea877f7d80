//! JSON as text: the host passes params, results and details on unparsed.

mod find;
mod flaw;
mod pairs;
pub mod strict;
pub mod words;

use std::borrow::Cow;
use std::{fmt, iter};

use serde::{Deserialize, Serialize};

pub use self::pairs::Pairs;

/// The deepest nesting of arrays and objects. Most languages' parsers accept this depth.
pub const DEPTH_MAX: usize = 127;

/// One JSON document as UTF-8 text. The caller must check that the text parses.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonText(pub String);

impl JsonText {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns how deep arrays and objects are nested; 0 if the document is neither.
    pub fn depth(&self) -> usize {
        let (mut depth, mut deepest) = (0_usize, 0);
        let (mut quoted, mut escaped) = (false, false);
        for byte in self.0.bytes() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                _ if quoted => {}
                b'[' | b'{' => {
                    depth += 1;
                    deepest = deepest.max(depth);
                }
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        deepest
    }

    /// Returns the first number that readers would round: an integer that has more than 64 bits, a decimal that is not what
    /// a double prints with up to 17 digits, or a negative zero. Takes time in proportion to the text.
    pub fn rounded_number(&self) -> Option<&str> {
        self.numbers().find(|number| !is_exact(number))
    }

    /// Returns the numbers as they are written.
    fn numbers(&self) -> impl Iterator<Item = &str> {
        let mut rest = self.0.as_str();
        iter::from_fn(move || {
            loop {
                let start = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit())?;
                rest = &rest[start..];
                if let Some(text) = rest.strip_prefix('"') {
                    rest = after_text(text);
                    continue;
                }
                let is_of_number = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
                let end = rest.find(|c| !is_of_number(c)).unwrap_or(rest.len());
                let (number, after) = rest.split_at(end);
                rest = after;
                return Some(number);
            }
        })
    }

    /// Checks that no handler would round a number of its params. The error is a sentence.
    pub fn check_exact(&self) -> Result<(), String> {
        match self.rounded_number() {
            Some(number) if is_negative_zero(number) => Err(format!(
                "handlers would lose the sign of {}; write it as a string",
                shorten(number)
            )),
            Some(number) => Err(format!(
                "handlers would round {}, which neither a 64-bit integer nor a double holds; write it as a string",
                shorten(number)
            )),
            None => Ok(()),
        }
    }

    /// Returns a string as a document.
    pub fn string(text: &str) -> Self {
        Self(serde_json::Value::from(text).to_string())
    }

    /// Returns the document as a value, or as a string if it is not JSON.
    pub fn to_value(&self) -> serde_json::Value {
        serde_json::from_str(&self.0).unwrap_or_else(|_| self.as_str().into())
    }

    /// Returns the document as people read it: a string without its quotes.
    pub fn plain(&self) -> Cow<'_, str> {
        match serde_json::from_str::<String>(&self.0) {
            Ok(text) => text.into(),
            Err(_) => self.as_str().into(),
        }
    }

    /// Returns the document `null`.
    pub fn null() -> Self {
        Self("null".to_owned())
    }
}

/// How much of a number a sentence shows, in bytes.
const NUMBER_BYTES_SHOWN: usize = 32;

/// Returns a number as a sentence shows it.
pub fn shorten(number: &str) -> Cow<'_, str> {
    match number.get(..NUMBER_BYTES_SHOWN) {
        Some(start) if start.len() < number.len() => format!("{start}…").into(),
        _ => number.into(),
    }
}

/// The most significant digits that programs print of a double, so that reading them gives the same double.
const DOUBLE_DIGITS: usize = 17;

/// Returns whether a number has the same value as an integer of 64 bits or as a double with the same number of digits.
pub fn is_exact(number: &str) -> bool {
    if !number.contains(['.', 'e', 'E']) {
        return number != "-0" && (number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok());
    }
    let (Some(read), Ok(double)) = (Decimal::read(number), number.parse::<f64>()) else {
        return false;
    };
    if read.digits.is_empty() {
        return !number.starts_with('-');
    }
    let digits = read.digits.len();
    digits <= DOUBLE_DIGITS && Decimal::read(&format!("{double:.*e}", digits - 1)) == Some(read)
}

fn is_negative_zero(number: &str) -> bool {
    let value = number.strip_prefix('-').and_then(Decimal::read);
    value.is_some_and(|it| it.digits.is_empty())
}

/// The value of a number apart from its sign: `0.DIGITS` times ten to the power of `exponent`, without zeros at either end
/// of the digits.
#[derive(PartialEq, Eq)]
struct Decimal {
    digits: String,
    exponent: i64,
}

impl Decimal {
    fn read(number: &str) -> Option<Self> {
        let number = number.trim_start_matches('-');
        let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let digits = all.trim_start_matches('0');
        let zeros = all.len() - digits.len();
        let point = i64::try_from(whole.len()).ok()? - i64::try_from(zeros).ok()?;
        Some(Self {
            digits: digits.trim_end_matches('0').to_owned(),
            exponent: exponent.parse::<i64>().ok()?.checked_add(point)?,
        })
    }
}

/// Returns what follows the quote that ends a text.
fn after_text(text: &str) -> &str {
    let mut escaped = false;
    let end = text.bytes().position(|byte| match byte {
        _ if escaped => {
            escaped = false;
            false
        }
        b'\\' => {
            escaped = true;
            false
        }
        byte => byte == b'"',
    });
    end.map_or("", |end| &text[end + 1..])
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonText({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::JsonText;

    #[test]
    fn integers_wider_than_64_bits_are_found() {
        #[rustfmt::skip]
        let table = [
            ("18446744073709551615", None),
            ("-9223372036854775808", None),
            ("18446744073709551616", Some("18446744073709551616")),
            (r#"{"a":[1,-9223372036854775809]}"#, Some("-9223372036854775809")),
            (r#"{"99999999999999999999":"\"99999999999999999999"}"#, None),
            ("[1e30, 0.1, 0.10000000000000001, 1.10, 1E5, 0.0, 5e-324, 123456.75e3]", None),
            ("[99999999999999999999.5]", Some("99999999999999999999.5")),
            ("[1, 12345678901234567.89]", Some("12345678901234567.89")),
            ("9007199254740993.5", Some("9007199254740993.5")),
            ("1e-400", Some("1e-400")),
            ("[0, -0]", Some("-0")),
            ("-0.0e3", Some("-0.0e3")),
            ("1e-99999999999999999999", Some("1e-99999999999999999999")),
        ];
        for (text, rounded) in table {
            assert_eq!(
                JsonText(text.to_owned()).rounded_number(),
                rounded,
                "{text}"
            );
        }
    }

    #[test]
    fn a_refusal_says_what_would_become_of_a_number() {
        for (text, expected) in [
            (
                "-0.0e3",
                Err("handlers would lose the sign of -0.0e3; write it as a string"),
            ),
            (
                "-1e-400",
                Err(
                    "handlers would round -1e-400, which neither a 64-bit integer nor a double holds; write it as a string",
                ),
            ),
            ("0", Ok(())),
        ] {
            let checked = JsonText(text.to_owned()).check_exact();
            assert_eq!(checked, expected.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn depth_counts_what_is_nested_outside_of_texts() {
        #[rustfmt::skip]
        let table = [
            ("1", 0),
            ("[]", 1),
            ("[[1],{\"a\":[{}]}]", 4),
            ("\"[[[\"", 0),
            ("{\"[\\\"[\":1}", 1),
            ("{\"\\\\\":[1]}", 2),
        ];
        for (text, depth) in table {
            assert_eq!(JsonText(text.to_owned()).depth(), depth, "{text}");
        }
    }
}
