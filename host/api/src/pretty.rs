//! Lays out JSON and counts for reading. Numbers in JSON and the order of its keys stay unchanged. No text in it can control
//! a terminal, or change the direction of what stands beside it.

use std::fmt::Write as _;

use serde_json::value::RawValue;

/// Returns whether a character could control a terminal or change the order of the text around it.
pub fn acts(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
        )
}

/// Returns valid JSON in which every character that [`acts`] is written as a `\u` escape. The meaning stays the same.
pub fn harmless(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if acts(c) && !c.is_ascii_whitespace() {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Writes a count in groups of three digits: `25,277`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Lays out valid JSON with two spaces per level, [`harmless`]. Text that is not JSON is returned unchanged.
pub fn json(json: &str) -> String {
    if serde_json::from_str::<&RawValue>(json).is_err() {
        return json.to_owned();
    }
    let json = harmless(json);
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut opened = false;
    for c in json.chars() {
        if in_string {
            out.push(c);
            (in_string, escaped) = (escaped || c != '"', !escaped && c == '\\');
            continue;
        }
        if c.is_ascii_whitespace() {
            continue;
        }
        if opened && !matches!(c, '}' | ']') {
            new_line(&mut out, depth);
        }
        match c {
            '{' | '[' => {
                depth += 1;
                out.push(c);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if !opened {
                    new_line(&mut out, depth);
                }
                out.push(c);
            }
            ',' => {
                out.push(c);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c => {
                in_string = c == '"';
                out.push(c);
            }
        }
        opened = matches!(c, '{' | '[');
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    (0..depth).for_each(|_| out.push_str("  "));
}

#[cfg(test)]
mod tests {
    use super::json as pretty;

    #[test]
    fn layout_keeps_numbers_keys_and_strings() {
        let json = r#"{"b":1.10,"a":[18446744073709551616,{}],"s":"a\"{,:}\\","e":[],"n":null}"#;
        assert_eq!(
            pretty(json),
            r#"{
  "b": 1.10,
  "a": [
    18446744073709551616,
    {}
  ],
  "s": "a\"{,:}\\",
  "e": [],
  "n": null
}"#
        );
    }

    #[test]
    fn layout_of_scalars_and_of_what_is_laid_out_changes_nothing() {
        for json in [
            "1",
            "\"x\"",
            "null",
            "[]",
            "{}",
            "{\n  \"a\": [\n    1\n  ]\n}",
        ] {
            assert_eq!(pretty(json), json);
        }
        assert_eq!(pretty(" [ ] "), "[]");
        assert_eq!(pretty("not json"), "not json");
        assert_eq!(pretty("\"\u{202e}x\u{9b}\""), r#""\u202ex\u009b""#);
    }
}
