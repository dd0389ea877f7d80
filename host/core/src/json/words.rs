//! Says in plain words what serde and the standard library say in those of Rust, for all documents that
//! people write.

/// The names of types after "expected", and what they take.
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

/// Other messages, and what they mean.
const MEANINGS: [(&str, &str); 8] = [
    ("invalid digit found in string", "it is a whole number"),
    (
        "cannot parse integer from empty string",
        "it is a whole number, not empty",
    ),
    (
        "number too large to fit in target type",
        "the number is too large",
    ),
    (
        "number too small to fit in target type",
        "the number is too small",
    ),
    ("invalid float literal", "it is a number"),
    ("unknown variant `", "unknown value `"),
    ("invalid type: map,", "invalid type: object,"),
    ("invalid type: sequence,", "invalid type: array,"),
];

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

/// Cuts ` at line 1 column 2` off.
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
    use super::plain;

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
                "limit: it is a whole number",
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
}
