//! Translates messages of serde and the standard library from Rust's terms into plain words, for documents
//! that people write.

use serde_json::error::Category;

/// The names of types after "expected", and what they accept.
const EXPECTED: [(&str, &str); 14] = [
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u64", "a whole number that is not negative"),
    ("usize", "a whole number that is not negative"),
    ("i64", "a whole number"),
    ("f32", "a number"),
    ("f64", "a number"),
    ("a sequence", "an array"),
    ("a map", "an object"),
    ("a borrowed string", "a string"),
    ("unit", "null"),
    ("struct ", "an object"),
    ("enum ", "one of the values that are allowed"),
];

/// Other messages, and their meaning.
const MEANINGS: [(&str, &str); 8] = [
    ("invalid digit found in string", "must be a whole number"),
    (
        "cannot parse integer from empty string",
        "must be a whole number, not empty",
    ),
    (
        "number too large to fit in target type",
        "the number is too large",
    ),
    (
        "number too small to fit in target type",
        "the number is too small",
    ),
    ("invalid float literal", "must be a number"),
    (
        "cannot parse float from empty string",
        "must be a number, not empty",
    ),
    (
        "provided string was not `true` or `false`",
        "must be true or false",
    ),
    ("unknown variant `", "unknown value `"),
];

/// What a value may be instead of what was expected, and its name for people. A value follows the names that end
/// in a space.
const GIVEN: [(&str, &str); 7] = [
    ("map", "an object"),
    ("sequence", "an array"),
    ("unit value", "null"),
    ("integer ", ""),
    ("floating point ", ""),
    ("boolean ", ""),
    ("string ", ""),
];

/// How much of a value an error repeats, in characters.
const GIVEN_CHARS_MAX: usize = 64;

/// Returns why JSON cannot be read as what it should be, in plain words.
pub fn of(error: &serde_json::Error) -> String {
    match error.classify() {
        Category::Data => plain(&error.to_string()),
        _ => syntax(&error.to_string()),
    }
}

/// Returns a message about a field in plain words, without the place in the text.
pub fn plain(message: &str) -> String {
    let mut text = without_place(message).to_owned();
    for (rust, meaning) in MEANINGS {
        text = text.replace(rust, meaning);
    }
    if let Some((place, _)) = text.split_once("UUID parsing failed: ") {
        return format!("{place}expected a whole id, such as 01990f3c-1a2b-7c3d-8e4f-5a6b7c8d9e0f");
    }
    let Some((before, expected)) = text.rsplit_once("expected ") else {
        return text;
    };
    let known = EXPECTED
        .iter()
        .find(|(rust, _)| expected == *rust || rust.ends_with(' ') && expected.starts_with(rust));
    let expected = known.map_or(expected, |(_, meaning)| *meaning);
    let mut values = ["invalid type: ", "invalid value: "].iter();
    match values.find_map(|kind| before.split_once(kind)) {
        Some((place, value)) => {
            let value = given(value.trim_end_matches(", "));
            format!("{place}expected {expected}, got {value}")
        }
        None => format!("{before}expected {expected}"),
    }
}

/// Returns what was given, in plain words: `5` for ``integer `5` ``.
fn given(value: &str) -> String {
    let known = GIVEN
        .iter()
        .find_map(|(rust, name)| match value.strip_prefix(rust) {
            Some("") => Some((*name).to_owned()),
            Some(text) if rust.ends_with(' ') => Some(text.trim_matches('`').to_owned()),
            _ => None,
        });
    let text = known.unwrap_or_else(|| value.to_owned());
    match text.char_indices().nth(GIVEN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Returns what is wrong with a text that is not JSON, and where, from the parser's message.
pub fn syntax(message: &str) -> String {
    let cause = without_place(message);
    let plain = match cause {
        "recursion limit exceeded" => "nested too deeply",
        "number out of range" => "number too large",
        "trailing characters" => "not valid JSON: more text after its end",
        "lone leading surrogate in hex escape" | "unexpected end of hex escape" => {
            "a lone surrogate, half of a character"
        }
        _ if cause.starts_with("duplicate key") => cause,
        _ if cause.starts_with("EOF ") => "not valid JSON: ends too early",
        _ => "not valid JSON",
    };
    let place = message[cause.len()..].replace(" column", ", column");
    format!("{plain}{place}")
}

/// Removes ` at line 1 column 2`.
fn without_place(message: &str) -> &str {
    match message.rsplit_once(" at line ") {
        Some((before, place)) if place.split(" column ").all(|n| n.parse::<u32>().is_ok()) => {
            before
        }
        _ => message,
    }
}

#[cfg(test)]
mod tests {
    use super::{plain, syntax};

    #[test]
    fn no_type_of_rust_is_named() {
        for (message, expected) in [
            (
                "priority: invalid value: integer `300`, expected u8 at line 1 column 31",
                "priority: expected a whole number from 0 to 255, got 300",
            ),
            (
                "invalid type: string \"x\", expected f64",
                "expected a number, got \"x\"",
            ),
            (
                "invalid type: integer `1`, expected struct Entry at line 1 column 1",
                "expected an object, got 1",
            ),
            (
                "limit: invalid digit found in string",
                "limit: must be a whole number",
            ),
            (
                "unknown variant `a`, expected `b` or `c`",
                "unknown value `a`, expected `b` or `c`",
            ),
            (
                "params: invalid type: sequence, expected a map",
                "params: expected an object, got an array",
            ),
            (
                "missing field `handler` at line 1 column 2",
                "missing field `handler`",
            ),
            (
                "force: invalid type: floating point `1.5`, expected a boolean",
                "force: expected a boolean, got 1.5",
            ),
            (
                "job: UUID parsing failed: invalid length: found 0",
                "job: expected a whole id, such as 01990f3c-1a2b-7c3d-8e4f-5a6b7c8d9e0f",
            ),
            ("found at line ends", "found at line ends"),
        ] {
            assert_eq!(plain(message), expected);
        }
    }

    #[test]
    fn no_word_of_a_parser_is_in_a_message() {
        for (message, expected) in [
            (
                "expected ident at line 1 column 2",
                "not valid JSON at line 1, column 2",
            ),
            (
                "EOF while parsing an object at line 1 column 1",
                "not valid JSON: ends too early at line 1, column 1",
            ),
            (
                "duplicate key `a b` at line 2 column 9",
                "duplicate key `a b` at line 2, column 9",
            ),
            ("recursion limit exceeded", "nested too deeply"),
            (
                "lone leading surrogate in hex escape at line 1 column 8",
                "a lone surrogate, half of a character at line 1, column 8",
            ),
        ] {
            assert_eq!(syntax(message), expected);
        }
    }
}
