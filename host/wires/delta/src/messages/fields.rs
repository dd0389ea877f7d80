//! Refuses what is wrong with a field of a message. Knows no message.

pub(crate) use host_wire_kit::fields::{Fields, Wrong};
use host_wire_kit::json;
pub(crate) use host_wire_kit::text::{cut, found};

use crate::refusals::{Code, WireRefusal};

impl From<Wrong> for WireRefusal {
    fn from(wrong: Wrong) -> Self {
        Self::new(Code::FieldType, wrong.to_string())
    }
}

/// Reads a whole document strictly.
pub(crate) fn read(text: &[u8]) -> Result<Fields<'_>, WireRefusal> {
    json::check(text)
        .map_err(|fault| WireRefusal::new(Code::Json, format!("the body, at {fault}")))?;
    // What was checked is UTF-8.
    Fields::of(std::str::from_utf8(text).unwrap_or_default()).map_err(|found| {
        let message = format!("the body is {found}, not an object");
        WireRefusal::new(Code::FieldType, message)
    })
}

/// Reads a text of at most `bytes_max` bytes that must be there.
pub(crate) fn text(
    fields: &Fields<'_>,
    name: &str,
    bytes_max: usize,
) -> Result<String, WireRefusal> {
    let found: Option<String> = fields.optional(name, "a string")?;
    let text = found.ok_or_else(|| wrong(name, "a string", "nothing"))?;
    within_bytes(name, text, bytes_max)
}

/// Refuses a text that is too long.
pub(crate) fn within_bytes(name: &str, text: String, most: usize) -> Result<String, WireRefusal> {
    if text.len() <= most {
        return Ok(text);
    }
    let message = format!("{name}: must be at most {most} bytes, got {}", text.len());
    Err(WireRefusal::new(Code::FieldRange, message))
}

pub(crate) fn wrong(name: &str, expected: &str, found: &str) -> WireRefusal {
    Wrong::kind(name, expected, found).into()
}
