//! A secret, and how its value is hidden in text.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Lines of a value that have at least so many bytes are hidden on their own too: logs are split into lines.
const LINE_BYTES_MIN: usize = 8;

/// How much longer than a value its name may be.
const GROWTH_MAX: usize = 4;

/// A secret and its value. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret {
    pub name: String,
    pub value: String,
}

impl Secret {
    /// Returns what stands in place of the value: its name, or less for a short value, so that a text grows fourfold at
    /// most.
    pub fn shown(&self) -> String {
        let named = format!("{{secret:{}}}", self.name);
        if named.len() <= GROWTH_MAX * self.value.len() {
            named
        } else {
            "***".to_owned()
        }
    }

    /// Replaces the value in a text. Returns whether it was there.
    pub fn mask(&self, text: &mut String) -> bool {
        let is_there = !self.value.is_empty() && text.contains(&self.value);
        if is_there {
            *text = text.replace(&self.value, &self.shown());
        }
        is_there
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Secret").field(&self.name).finish()
    }
}

/// Secrets, with all texts that are hidden, the longest first: one may contain another.
#[derive(Clone, Debug, Default)]
pub struct Revealed {
    secrets: Vec<Secret>,
    hidden: Vec<Secret>,
}

impl Revealed {
    pub const fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// Returns the value of a secret that was added.
    pub fn value(&self, name: &str) -> Option<&str> {
        let found = self.secrets.iter().find(|secret| secret.name == name);
        found.map(|secret| secret.value.as_str())
    }

    pub fn add(&mut self, secret: Secret) {
        let lines = secret
            .value
            .lines()
            .filter(|line| line.len() >= LINE_BYTES_MIN && *line != secret.value)
            .map(|line| Secret {
                name: secret.name.clone(),
                value: line.to_owned(),
            });
        self.hidden.extend(lines);
        self.hidden.push(secret.clone());
        self.hidden
            .sort_by_key(|hidden| std::cmp::Reverse(hidden.value.len()));
        self.secrets.push(secret);
    }

    /// Returns the texts that are hidden, the longest first, each as a secret of its own.
    pub fn hidden(&self) -> &[Secret] {
        &self.hidden
    }

    /// Hides the secrets in a text. Returns whether there was one.
    pub fn mask(&self, text: &mut String) -> bool {
        let hide = |found, hidden: &Secret| hidden.mask(text) || found;
        self.hidden.iter().fold(false, hide)
    }
}

/// What every token begins with, so that scanners of source code find leaked ones.
pub const TOKEN_PREFIX: &str = "hst_";

/// How many characters the id of a token has.
pub const TOKEN_ID_CHARS: usize = 12;

/// Hides what may be tokens in a text: all after their id.
pub fn hide_tokens(text: &str) -> String {
    let mut hidden = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(TOKEN_PREFIX) {
        let (before, token) = rest.split_at(at + TOKEN_PREFIX.len());
        hidden.push_str(before);
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = token.find(|c| !is_part(c)).unwrap_or(token.len());
        let (token, after) = token.split_at(end);
        match token.get(..TOKEN_ID_CHARS) {
            Some(id) if token.len() > TOKEN_ID_CHARS => {
                hidden.push_str(id);
                hidden.push_str("_***");
            }
            _ => hidden.push_str(token),
        }
        rest = after;
    }
    hidden + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revealed(secrets: &[(&str, &str)]) -> Revealed {
        let mut revealed = Revealed::default();
        for (name, value) in secrets {
            revealed.add(Secret {
                name: (*name).to_owned(),
                value: (*value).to_owned(),
            });
        }
        revealed
    }

    #[test]
    fn a_text_does_not_grow_without_bound() {
        let revealed = revealed(&[("a-long-name", "7")]);
        let mut text = "7".repeat(1_000);
        revealed.mask(&mut text);
        assert_eq!(text, "***".repeat(1_000));
    }

    #[test]
    fn values_are_hidden_the_longest_first_and_by_line() {
        let revealed = revealed(&[
            ("a", "abc"),
            ("long", "abcdef"),
            ("none", ""),
            ("key", "-----BEGIN-----\nc2VjcmV0\nend"),
        ]);
        for (text, masked) in [
            ("nothing of it", "nothing of it"),
            ("abcdef, abc", "{secret:long}, {secret:a}"),
            ("the line c2VjcmV0.", "the line {secret:key}."),
            ("end", "end"),
        ] {
            let mut text = text.to_owned();
            revealed.mask(&mut text);
            assert_eq!(text, masked);
        }
        assert_eq!(revealed.value("a"), Some("abc"));
        assert_eq!(revealed.value("other"), None);
        assert!(!format!("{revealed:?}").contains("abc"));
    }
}
