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
    ("unknown variant `", "unknown value `"),
    ("invalid type: map,", "invalid type: object,"),
    ("invalid type: sequence,", "invalid type: array,"),
];

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
    let Some((before, expected)) = text.rsplit_once("expected ") else {
        return text;
    };
    let known = EXPECTED
        .iter()
        .find(|(rust, _)| expected == *rust || rust.ends_with(' ') && expected.starts_with(rust));
    match known {
        Some((_, meaning)) => format!("{before}expected {meaning}"),
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
                "priority: invalid value: integer `300`, expected a whole number from 0 to 255",
            ),
            (
                "invalid type: string \"x\", expected f64",
                "invalid type: string \"x\", expected a number",
            ),
            (
                "invalid type: integer `1`, expected struct Entry at line 1 column 1",
                "invalid type: integer `1`, expected an object",
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
                "params: invalid type: array, expected an object",
            ),
            (
                "missing field `handler` at line 1 column 2",
                "missing field `handler`",
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
        ] {
            assert_eq!(syntax(message), expected);
        }
    }
}
