//! Texts from peers for users: truncated, or described without quoting them.

use std::borrow::Cow;

/// The mark of a truncated text.
const MARK: &str = "… [cut]";

/// Describes a JSON value without quoting it.
pub fn found(json: &str) -> String {
    let json = json.trim_ascii();
    match json.as_bytes().first() {
        Some(b'"') => format!("a string of {} bytes", json.len().saturating_sub(2)),
        Some(b'{') => "an object".to_owned(),
        Some(b'[') => "an array".to_owned(),
        Some(b't' | b'f') => "a boolean".to_owned(),
        Some(b'n') => "null".to_owned(),
        _ => "a number".to_owned(),
    }
}

/// Names the protocol of a peer whose stream begins like this, if it is one that often reaches a wrong port.
pub fn looks_like(start: &[u8]) -> Option<&'static str> {
    match start {
        [b'*' | b'$', b'0'..=b'9', ..] => Some("Redis"),
        [0x16, 3, ..] => Some("TLS"),
        _ => match start.get(..4)? {
            b"GET " | b"POST" | b"PUT " | b"HEAD" | b"OPTI" | b"DELE" | b"PATC" | b"PRI " => {
                Some("HTTP")
            }
            b"SSH-" => Some("SSH"),
            _ => None,
        },
    }
}

/// Truncates a text to `bytes_max` bytes, at a character boundary. Returns whether it was longer.
pub fn cut(text: &mut String, bytes_max: usize) -> bool {
    let is_longer = text.len() > bytes_max;
    if is_longer {
        text.truncate(text.floor_char_boundary(bytes_max));
    }
    is_longer
}

/// Truncates a text to at most `bytes_max` bytes, with a mark at its end.
pub fn cut_marked(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(bytes_max.saturating_sub(MARK.len()));
    Cow::Owned(format!("{}{MARK}", &text[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_described_and_not_quoted() {
        for (json, expected) in [
            (r#""hush""#, "a string of 4 bytes"),
            (r#" {"hush":1}"#, "an object"),
            ("[1]", "an array"),
            ("true", "a boolean"),
            ("false", "a boolean"),
            ("null", "null"),
            ("-1e3", "a number"),
        ] {
            assert_eq!(found(json), expected, "{json}");
        }
    }

    #[test]
    fn a_text_is_cut_at_a_character() {
        let long = "ä".repeat(50);
        let mut text = long.clone();
        assert!(!cut(&mut text, 100) && cut(&mut text, 7));
        assert_eq!(text, "äää");
        assert_eq!(cut_marked(&long, 100), long);
        let marked = cut_marked(&long, 40);
        assert!(
            marked.len() <= 40 && marked.ends_with("ä… [cut]"),
            "{marked}"
        );
    }
}
