//! What a guest or a worker returned, but the host does not keep: text that is no document, or that readers cannot have.

use serde::de::IgnoredAny;

use super::{DEPTH_MAX, JsonText, shorten};

/// The length of an escape such as `\ud800`.
const ESCAPE_BYTES: usize = 6;

impl JsonText {
    /// Returns what is wrong with the text, as the end of a sentence about it. Numbers of any length and precision are right:
    /// they are passed on digit by digit. Most readers refuse a document with one that no double can be near.
    pub fn flaw(&self) -> Option<String> {
        if let Err(error) = serde_json::from_str::<IgnoredAny>(&self.0) {
            return Some(format!("is not valid JSON: {error}"));
        }
        if self.depth() > DEPTH_MAX {
            return Some(format!("is nested deeper than {DEPTH_MAX} levels"));
        }
        let is_beyond = |number: &&str| number.parse().is_ok_and(f64::is_infinite);
        if let Some(number) = self.numbers().find(is_beyond) {
            let number = shorten(number);
            return Some(format!(
                "has the number {number}, beyond the range of a double; return it as a string"
            ));
        }
        let lone = self.lone_surrogate()?;
        Some(format!(
            "has the lone surrogate {lone}, half of a character; return whole characters"
        ))
    }

    /// Returns the first escape of a surrogate without its other half. No text in UTF-8 can have it.
    fn lone_surrogate(&self) -> Option<&str> {
        let mut rest = self.0.as_str();
        while let Some(start) = rest.find('\\') {
            rest = &rest[start..];
            let length = match (unit(rest), rest.get(ESCAPE_BYTES..).and_then(unit)) {
                (None, _) => 2,
                (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 2 * ESCAPE_BYTES,
                (Some(0xd800..=0xdfff), _) => return rest.get(..ESCAPE_BYTES),
                (Some(_), _) => ESCAPE_BYTES,
            };
            rest = rest.get(length..).unwrap_or_default();
        }
        None
    }
}

/// Returns the unit of UTF-16 that a text begins with as an escape.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flaw(text: &str) -> Option<String> {
        JsonText(text.to_owned()).flaw()
    }

    #[test]
    fn halves_of_characters_are_named() {
        for (text, named) in [
            (r#""\ud800""#, Some(r"\ud800")),
            (r#"{"\udFFF": 1}"#, Some(r"\udFFF")),
            (r#"["\ud83d\ude00", "\ude00\ud83d"]"#, Some(r"\ude00")),
            (r#"["\ud83dx\ude00"]"#, Some(r"\ud83d")),
            (r#"["\ud83d\n\ude00"]"#, Some(r"\ud83d")),
            (r#"["\ud83d\\ude00"]"#, Some(r"\ud83d")),
            (r#"["\\ud800", "\u00e9", "\"", "é\uD83D\uDE00"]"#, None),
        ] {
            let expected = named.map(|named| {
                format!(
                    "has the lone surrogate {named}, half of a character; return whole characters"
                )
            });
            assert_eq!(flaw(text), expected, "{text}");
        }
    }

    #[test]
    fn numbers_have_a_flaw_if_they_are_beyond_a_double() {
        let long = format!("[{}, 0.{}]", "7".repeat(300), "7".repeat(400));
        for text in [&*long, "1e308", "-0", "1e-400", "12345678901234567.89"] {
            assert_eq!(flaw(text), None, "{text}");
        }
        for (text, starts) in [
            (
                "[1e400]",
                "has the number 1e400, beyond the range of a double",
            ),
            (
                &"7".repeat(400),
                "has the number 77777777777777777777777777777777…, beyond",
            ),
            ("-1e309", "has the number -1e309, beyond"),
            ("01", "is not valid JSON: "),
            ("[1,", "is not valid JSON: "),
            ("NaN", "is not valid JSON: "),
            (
                &format!("{}{}", "[".repeat(200), "]".repeat(200)),
                "is nested deeper",
            ),
        ] {
            let flaw = flaw(text).unwrap();
            assert!(flaw.starts_with(starts), "{text}: {flaw}");
        }
    }

    proptest! {
        #[test]
        fn a_text_has_a_flaw_if_it_cannot_be_read_as_text(escapes in "(\\\\(u[dD][89a-fA-F][0-9a-f]{2}|u00e9|n|\\\\)|[ux0-9]){0,8}") {
            let text = format!("\"{escapes}\"");
            prop_assert_eq!(flaw(&text).is_none(), serde_json::from_str::<String>(&text).is_ok(), "{}", text);
        }
    }
}
