//! Finds values in a document by their path or pointer, without building the document.

use std::borrow::Cow;

use super::JsonText;

impl JsonText {
    /// Returns the document with the characters that JSON escapes as they are meant, to be searched by people.
    pub fn unescaped(&self) -> Cow<'_, str> {
        if self.0.contains('\\') {
            Cow::Owned(String::from_utf16_lossy(&units(&self.0)))
        } else {
            Cow::Borrowed(&self.0)
        }
    }

    /// Returns whether the value at a path is `value`: a text, or a number or word as it is written. The path names
    /// keys of objects; of an array, each element counts.
    pub fn has(&self, path: &[&str], value: &str) -> bool {
        let mut found = false;
        walk(&self.0, Some(path), value, &mut found);
        found
    }

    /// Returns the text at a JSON pointer, or the number or word there as it is written. Returns `None` if the pointer
    /// leads nowhere, or to `null`, an array or an object.
    pub fn scalar_at(&self, pointer: &str) -> Option<String> {
        let at = self.from(pointer)?;
        if let Some(inside) = at.strip_prefix('"') {
            let written = within(inside, super::after_text(inside));
            return Some(String::from_utf16_lossy(&units(written)));
        }
        let word = at.get(..at.len() - skip(at).len())?;
        let is_scalar = !word.is_empty() && word != "null" && !at.starts_with(['{', '[']);
        is_scalar.then(|| word.to_owned())
    }

    /// Returns whether something other than `null` is at a JSON pointer.
    pub fn has_at(&self, pointer: &str) -> bool {
        self.from(pointer).is_some_and(|at| !at.starts_with("null"))
    }

    /// Returns the text from where a JSON pointer leads on.
    fn from(&self, pointer: &str) -> Option<&str> {
        let mut at = self.0.trim_start();
        for step in pointer.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            at = if let Some(inside) = at.strip_prefix('{') {
                member(inside, &step)?
            } else {
                element(at.strip_prefix('[')?, step.parse().ok()?)?
            };
        }
        Some(at)
    }
}

/// Returns what follows a value.
fn skip(text: &str) -> &str {
    walk(text, None, "", &mut false)
}

/// Returns an object from the value of a key on.
fn member<'a>(mut rest: &'a str, wanted: &str) -> Option<&'a str> {
    loop {
        rest = rest.trim_start().trim_start_matches(',').trim_start();
        let inside = rest.strip_prefix('"')?;
        let after = super::after_text(inside);
        let value = after.trim_start().strip_prefix(':')?.trim_start();
        if is_text(within(inside, after), wanted) {
            return Some(value);
        }
        rest = skip(value);
    }
}

/// Returns an array from an element on.
fn element(mut rest: &str, wanted: usize) -> Option<&str> {
    rest = rest.trim_start();
    for _ in 0..wanted {
        rest = skip(rest).trim_start().strip_prefix(',')?.trim_start();
    }
    (!rest.starts_with(']')).then_some(rest)
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
        let next = path
            .and_then(<[_]>::split_first)
            .filter(|(first, _)| is_text(key, first));
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
    value.encode_utf16().eq(units(written))
}

/// Returns a text as JSON writes it in UTF-16, in which JSON escapes characters.
fn units(written: &str) -> Vec<u16> {
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
    units
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::JsonText;

    #[test]
    fn scalars_are_found_by_their_pointer() {
        let text = r#" {"id" : 77, "to": {"a/b": "A \"\u00e9\ud83d\ude00", "ok":true, "~": [ 1, "x" ,[3], {"y":-1.50}]},
            "none": null, "":"empty" } "#;
        for (pointer, expected) in [
            ("/id", Some("77")),
            ("/to/a~1b", Some("A \"é😀")),
            ("/to/ok", Some("true")),
            ("/to/~0/0", Some("1")),
            ("/to/~0/1", Some("x")),
            ("/to/~0/2", None),
            ("/to/~0/2/0", Some("3")),
            ("/to/~0/3/y", Some("-1.50")),
            ("/to/~0/4", None),
            ("/to/~0/-", None),
            ("/", Some("empty")),
            ("/to", None),
            ("/none", None),
            ("/no", None),
            ("/id/0", None),
        ] {
            let found = JsonText(text.to_owned()).scalar_at(pointer);
            assert_eq!(found.as_deref(), expected, "{pointer}");
        }
        assert_eq!(JsonText("5".to_owned()).scalar_at("/0"), None);
        assert_eq!(JsonText("[]".to_owned()).scalar_at("/0"), None);
    }

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
