//! Values between JSON and the text of PostgreSQL.

use std::io;

use fallible_iterator::FallibleIterator as _;
use postgres_protocol::message::backend::DataRowBody;
use serde_json::value::RawValue;

/// The most parameters of a statement.
const PARAMS_MAX: usize = 1_000;

/// The most dimensions of an array, as PostgreSQL has it.
const DIMENSIONS_MAX: usize = 6;

const BOOL: u32 = 16;
const JSON: [u32; 2] = [114, 3_802];

/// Types whose text is a number of JSON: of two, four and eight bytes, and object ids.
const INTEGERS: [u32; 4] = [21, 23, 20, 26];

/// Types whose text is a number of JSON unless it is not finite.
const FLOATS: [u32; 2] = [700, 701];

/// Types of arrays, and the types of their elements. Others arrive as text.
const ARRAYS: [(u32, u32); 14] = [
    (1_000, BOOL),
    (1_005, 21),
    (1_007, 23),
    (1_016, 20),
    (1_021, 700),
    (1_022, 701),
    (1_231, 1_700),
    (1_009, 25),
    (1_015, 1_043),
    (2_951, 2_950),
    (1_182, 1_082),
    (1_115, 1_114),
    (1_185, 1_184),
    (3_807, 3_802),
];

/// A parameter.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Param {
    Null,
    /// What the server reads as a value of the parameter's type.
    Text(String),
    /// An array, as JSON and as a literal of PostgreSQL, unless it has too many dimensions for one.
    Array {
        json: String,
        literal: Option<String>,
    },
}

impl Param {
    /// Returns whether the type decides what is sent.
    pub(super) const fn needs_type(&self) -> bool {
        matches!(self, Self::Array { .. })
    }

    /// Returns what is sent for a parameter of this type, if it is known.
    pub(super) fn text(&self, kind: Option<u32>) -> Option<&str> {
        match self {
            Self::Null => None,
            Self::Text(text) => Some(text),
            Self::Array {
                literal: Some(literal),
                ..
            } if !kind.is_some_and(|it| JSON.contains(&it)) => Some(literal),
            Self::Array { json, .. } => Some(json),
        }
    }
}

/// Reads an array of JSON.
pub(super) fn params(text: &str) -> Result<Vec<Param>, String> {
    let values: Vec<&RawValue> = serde_json::from_str(text)
        .map_err(|error| format!("the parameters must be an array of JSON: {error}"))?;
    if values.len() > PARAMS_MAX {
        let count = values.len();
        return Err(format!(
            "the statement has {count} parameters, more than {PARAMS_MAX}"
        ));
    }
    values.into_iter().map(|value| param(value.get())).collect()
}

fn param(json: &str) -> Result<Param, String> {
    match json.as_bytes().first() {
        Some(b'n') => Ok(Param::Null),
        Some(b'"') => text(json).map(Param::Text),
        Some(b'[') => {
            let mut literal = String::new();
            let fits = array(json, &mut literal, 1)?;
            Ok(Param::Array {
                json: json.to_owned(),
                literal: fits.then_some(literal),
            })
        }
        // A number or a boolean, as PostgreSQL writes them too, or an object for a column of JSON.
        _ => Ok(Param::Text(json.to_owned())),
    }
}

fn text(json: &str) -> Result<String, String> {
    let text: String = serde_json::from_str(json).map_err(|error| error.to_string())?;
    if text.contains('\0') {
        return Err("PostgreSQL has no text with a NUL character".to_owned());
    }
    Ok(text)
}

/// Writes an array as a literal of PostgreSQL. Returns false if it has too many dimensions. Each one is read again, so they are
/// bounded.
fn array(json: &str, literal: &mut String, dimension: usize) -> Result<bool, String> {
    if dimension > DIMENSIONS_MAX {
        return Ok(false);
    }
    let values: Vec<&RawValue> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    literal.push('{');
    for (place, value) in values.into_iter().enumerate() {
        if place > 0 {
            literal.push(',');
        }
        let value = value.get();
        match value.as_bytes().first() {
            Some(b'n') => literal.push_str("NULL"),
            Some(b'[') if !array(value, literal, dimension + 1)? => return Ok(false),
            Some(b'[') => {}
            Some(b'"') => quote(&text(value)?, literal),
            _ => quote(value, literal),
        }
    }
    literal.push('}');
    Ok(true)
}

fn quote(text: &str, literal: &mut String) {
    literal.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            literal.push('\\');
        }
        literal.push(character);
    }
    literal.push('"');
}

/// Appends a row as an array of JSON.
pub(super) fn row(body: &DataRowBody, types: &[u32], json: &mut String) -> io::Result<()> {
    json.push('[');
    let (mut ranges, mut place) = (body.ranges(), 0);
    while let Some(range) = ranges.next()? {
        if place > 0 {
            json.push(',');
        }
        match range {
            None => json.push_str("null"),
            Some(range) => {
                let text = str::from_utf8(&body.buffer()[range])
                    .map_err(|_| io::Error::other("a value is not UTF-8"))?;
                let kind = types.get(place).copied().unwrap_or_default();
                value(text, kind, json)?;
            }
        }
        place += 1;
    }
    json.push(']');
    Ok(())
}

/// Appends a value as JSON.
fn value(text: &str, kind: u32, json: &mut String) -> io::Result<()> {
    let element = ARRAYS.iter().find(|(array, _)| *array == kind);
    if let Some((_, element)) = element {
        // It may say where its indices begin: `[0:2]={…}`.
        let start = text.find('{').unwrap_or_default();
        let rest = elements(&text[start..], *element, json, 0)?;
        return if rest.is_empty() {
            Ok(())
        } else {
            Err(malformed())
        };
    }
    let is_finite = text.ends_with(|it: char| it.is_ascii_digit());
    match kind {
        BOOL => json.push_str(if text == "t" { "true" } else { "false" }),
        kind if INTEGERS.contains(&kind) || JSON.contains(&kind) => json.push_str(text),
        kind if FLOATS.contains(&kind) && is_finite => json.push_str(text),
        _ => json.push_str(&serde_json::to_string(text)?),
    }
    Ok(())
}

fn malformed() -> io::Error {
    io::Error::other("the server sent a malformed array")
}

/// Appends the elements of an array literal as JSON. Returns what is behind it.
fn elements<'a>(text: &'a str, kind: u32, json: &mut String, depth: usize) -> io::Result<&'a str> {
    if depth == DIMENSIONS_MAX {
        return Err(malformed());
    }
    let mut rest = text.strip_prefix('{').ok_or_else(malformed)?;
    json.push('[');
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            json.push(']');
            return Ok(after);
        }
        if let Some(after) = rest.strip_prefix(',') {
            json.push(',');
            rest = after;
        } else if rest.starts_with('{') {
            rest = elements(rest, kind, json, depth + 1)?;
        } else if let Some(quoted) = rest.strip_prefix('"') {
            let (mut text, mut is_escaped, mut end) = (String::new(), false, None);
            for (place, character) in quoted.char_indices() {
                match character {
                    '\\' if !is_escaped => is_escaped = true,
                    '"' if !is_escaped => {
                        end = Some(place + 1);
                        break;
                    }
                    _ => {
                        is_escaped = false;
                        text.push(character);
                    }
                }
            }
            value(&text, kind, json)?;
            rest = &quoted[end.ok_or_else(malformed)?..];
        } else {
            let end = rest.find([',', '}']).ok_or_else(malformed)?;
            let (word, after) = rest.split_at(end);
            match word {
                "" => return Err(malformed()),
                "NULL" => json.push_str("null"),
                _ => value(word, kind, json)?,
            }
            rest = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_json(text: &str, kind: u32) -> String {
        let mut json = String::new();
        value(text, kind, &mut json).unwrap();
        json
    }

    #[test]
    fn values_arrive_as_json_of_their_type() {
        for (text, kind, json) in [
            ("t", BOOL, "true"),
            ("-9223372036854775808", 20, "-9223372036854775808"),
            ("1.10", 1_700, "\"1.10\""),
            ("1e+20", 701, "1e+20"),
            ("NaN", 701, "\"NaN\""),
            ("-Infinity", 700, "\"-Infinity\""),
            ("{\"a\": 1.10}", 3_802, "{\"a\": 1.10}"),
            ("say \"a\"\n", 25, "\"say \\\"a\\\"\\n\""),
            (
                "2026-01-02 03:04:05.678901+00",
                1_184,
                "\"2026-01-02 03:04:05.678901+00\"",
            ),
            ("{1,NULL,3}", 1_007, "[1,null,3]"),
            ("[0:1]={1,2}", 1_007, "[1,2]"),
            ("{}", 1_009, "[]"),
            (
                "{{a,b},{\"c,}\",\"\\\"\\\\\"}}",
                1_009,
                "[[\"a\",\"b\"],[\"c,}\",\"\\\"\\\\\"]]",
            ),
            ("{\"NULL\",NULL}", 1_009, "[\"NULL\",null]"),
            ("{\"{\\\"a\\\": 1}\"}", 3_807, "[{\"a\": 1}]"),
        ] {
            assert_eq!(to_json(text, kind), json, "{text}");
        }
        for text in ["{", "{a", "{\"a}", "a", "{a}b", "{,"] {
            assert!(value(text, 1_009, &mut String::new()).is_err(), "{text}");
        }
    }

    /// PostgreSQL has arrays of six dimensions. What is deeper can only be JSON, and costs no more to read.
    #[test]
    fn nested_lists_cost_what_their_length_costs() {
        let nested = |depth: usize| format!("[{}{}]", "[".repeat(depth), "]".repeat(depth));
        let only = |text: &str| params(text).unwrap().pop().unwrap();
        assert_eq!(only(&nested(6)).text(None), Some("{{{{{{}}}}}}"));
        let deep = "[".repeat(7) + &"]".repeat(7);
        assert_eq!(only(&nested(7)).text(None), Some(&*deep));
        let deepest = only(&nested(1 << 20));
        assert_eq!(deepest.text(Some(3_802)).map(str::len), Some(2 << 20));
    }

    #[test]
    fn parameters_are_sent_as_text_that_the_server_reads() {
        let all = params(
            r#"[null, true, 12345678901234567890.10, "a\u0041", {"a": [1]}, [1, "b\"\\", null, [2]]]"#,
        );
        let all = all.unwrap();
        let texts: Vec<_> = all.iter().map(|it| it.text(None)).collect();
        assert_eq!(
            texts,
            [
                None,
                Some("true"),
                Some("12345678901234567890.10"),
                Some("aA"),
                Some("{\"a\": [1]}"),
                Some("{\"1\",\"b\\\"\\\\\",NULL,{\"2\"}}"),
            ]
        );
        assert_eq!(all[5].text(Some(3_802)), Some(r#"[1, "b\"\\", null, [2]]"#));
        for text in ["", "{}", "[1", r#"["\u0000"]"#] {
            assert!(params(text).is_err(), "{text}");
        }
    }
}
