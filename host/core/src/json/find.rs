//! Finds a value in a document by its path, without building the document.

use super::JsonText;

impl JsonText {
    /// Returns whether the value at a path is `value`: a text, or a number or word as it is written. The path names
    /// keys of objects; of an array, each element counts.
    pub fn has(&self, path: &[&str], value: &str) -> bool {
        let mut found = false;
        walk(&self.0, Some(path), value, &mut found);
        found
    }
}

/// Reads one value and returns what follows it. Without a path, it is only skipped.
fn walk<'a>(text: &'a str, path: Option<&[&str]>, value: &str, found: &mut bool) -> &'a str {
    let text = text.trim_start();
    let is_here = path.is_some_and(<[_]>::is_empty);
    if let Some(inside) = text.strip_prefix('{') {
        return members(inside, path, value, found);
    }
    if let Some(mut rest) = text.strip_prefix('[') {
        loop {
            rest = rest.trim_start().trim_start_matches(',').trim_start();
            if rest.is_empty() || rest.starts_with(']') {
                return rest.get(1..).unwrap_or_default();
            }
            rest = walk(rest, path, value, found);
        }
    }
    if let Some(inside) = text.strip_prefix('"') {
        let rest = super::after_text(inside);
        *found |= is_here && is_text(within(inside, rest), value);
        return rest;
    }
    let ends = |c: char| c.is_ascii_whitespace() || ",]}:".contains(c);
    let (word, rest) = text.split_at(text.find(ends).unwrap_or(text.len()));
    *found |= is_here && word == value;
    // What is no value is passed over, so that every text ends.
    if word.is_empty() {
        rest.get(1..).unwrap_or_default()
    } else {
        rest
    }
}

/// Reads the members of an object.
fn members<'a>(mut rest: &'a str, path: Option<&[&str]>, value: &str, found: &mut bool) -> &'a str {
    loop {
        rest = rest.trim_start().trim_start_matches(',').trim_start();
        let Some(inside) = rest.strip_prefix('"') else {
            return rest.get(1..).unwrap_or_default();
        };
        let after = super::after_text(inside);
        let key = within(inside, after);
        let next = path.and_then(<[_]>::split_first);
        let next = next.filter(|(first, _)| is_text(key, first));
        let after = after.trim_start().trim_start_matches(':');
        rest = walk(after, next.map(|(_, rest)| rest), value, found);
    }
}

/// Returns a text without what follows its quote.
fn within<'a>(inside: &'a str, rest: &str) -> &'a str {
    let end = inside.len().saturating_sub(rest.len() + 1);
    inside.get(..end).unwrap_or_default()
}

/// Returns whether a text as JSON writes it is this one.
fn is_text(written: &str, value: &str) -> bool {
    if !written.contains('\\') {
        return written == value;
    }
    let (mut units, mut chars) = (Vec::new(), written.chars());
    while let Some(c) = chars.next() {
        let escaped = if c == '\\' { chars.next() } else { None };
        let meant = match escaped {
            None => c,
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                units.extend(u16::from_str_radix(&digits, 16).ok());
                continue;
            }
            Some(other) => other,
        };
        units.extend_from_slice(meant.encode_utf16(&mut [0; 2]));
    }
    value.encode_utf16().eq(units)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::JsonText;

    #[test]
    fn values_are_found_by_their_path() {
        let text = r#" {"order": 77, "to": {"name": "A \"B\" \u00e9\ud83d\ude00", "ok": true}, "n": 1.50,
            "tags": ["red", {"x": null}, [3]], "order2": "77", "deep": {"order": 78}} "#;
        for (path, value, expected) in [
            ("order", "77", true),
            ("order", "7", false),
            ("order2", "77", true),
            ("to.name", "A \"B\" é😀", true),
            ("to.ok", "true", true),
            ("n", "1.50", true),
            ("n", "1.5", false),
            ("tags", "red", true),
            ("tags", "3", true),
            ("tags.x", "null", true),
            ("deep.order", "78", true),
            ("order", "78", false),
            ("to", "", false),
            ("x", "null", false),
        ] {
            let path: Vec<&str> = path.split('.').collect();
            let found = JsonText(text.to_owned()).has(&path, value);
            assert_eq!(found, expected, "{path:?} {value}");
        }
        assert!(JsonText("5".to_owned()).has(&[], "5"));
    }

    proptest! {
        #[test]
        fn any_text_ends(text in "[\\[\\]{}\",:\\\\a1 ]{0,60}") {
            JsonText(text).has(&["a", "1"], "a");
        }
    }
}
