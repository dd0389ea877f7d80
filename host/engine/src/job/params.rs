//! Compares params. The order of keys, escapes and white space do not matter; numbers are equal if their
//! digits are.

use std::collections::BTreeMap;

use host_core::json::JsonText;
use serde_json::value::RawValue;

/// Returns whether two documents are equal.
pub(crate) fn same(a: &JsonText, b: &JsonText) -> bool {
    a == b || same_texts(a.as_str(), b.as_str())
}

fn same_texts(a: &str, b: &str) -> bool {
    match (a.trim_start().as_bytes(), b.trim_start().as_bytes()) {
        ([b'{', ..], [b'{', ..]) => both(a, b, |a: &BTreeMap<String, &RawValue>, b| {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|((k, a), (l, b))| k == l && same_texts(a.get(), b.get()))
        }),
        ([b'[', ..], [b'[', ..]) => both(a, b, |a: &Vec<&RawValue>, b| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_texts(a.get(), b.get()))
        }),
        ([b'"', ..], [b'"', ..]) => both(a, b, |a: &String, b| a == b),
        _ => a.trim() == b.trim(),
    }
}

fn both<'a, T: serde::Deserialize<'a>>(
    a: &'a str,
    b: &'a str,
    same: impl Fn(&T, &T) -> bool,
) -> bool {
    let read = serde_json::from_str::<T>;
    matches!((read(a), read(b)), (Ok(a), Ok(b)) if same(&a, &b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_documents_say_counts() {
        for (a, b, expected) in [
            ("null", " null ", true),
            (r#"{"a":1,"b":[1, 2]}"#, r#"{ "b":[1,2], "a":1 }"#, true),
            (r#""\u00e9""#, r#""é""#, true),
            (r#"{"a":1}"#, r#"{"a":1,"b":null}"#, false),
            (r#"{"a":1}"#, r#"{"b":1}"#, false),
            ("[1,2]", "[2,1]", false),
            ("9007199254740993", "9007199254740992", false),
            ("[]", "{}", false),
            ("1", "\"1\"", false),
        ] {
            let text = |text: &str| JsonText(text.to_owned());
            assert_eq!(same(&text(a), &text(b)), expected, "{a} {b}");
        }
    }
}
