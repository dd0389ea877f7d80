//! Failures that have the same cause, as far as their messages tell: what differs from job to job is left out.

use sha2::{Digest as _, Sha256};

use super::Failure;
use crate::hex::hex;

/// The longest message that counts, in characters.
const MESSAGE_CHARS_MAX: usize = 200;

/// How many digits a fingerprint has.
pub(crate) const FINGERPRINT_DIGITS: usize = 12;

/// Returns the fingerprint of a failure of a handler: hexadecimal digits.
pub fn fingerprint(handler: &str, failure: &Failure) -> String {
    let user_kind = failure.user_kind.as_deref().unwrap_or_default();
    let message = pattern(&failure.message);
    let parts = [handler, failure.kind.as_str(), user_kind, &message];
    let digest = Sha256::digest(parts.join("\n"));
    let mut digits = hex(&digest);
    digits.truncate(FINGERPRINT_DIGITS);
    digits
}

/// Returns a message without what differs from job to job: numbers, ids and what is quoted.
pub fn pattern(message: &str) -> String {
    let cut: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
    let mut out = String::with_capacity(cut.len());
    let mut rest = cut.as_str();
    while let Some(first) = rest.chars().next() {
        let quoted = rest[first.len_utf8()..].find(first);
        if let ('"' | '`', Some(end)) = (first, quoted) {
            out.extend([first, '…', first]);
            rest = &rest[end + 2..];
            continue;
        }
        let is_of_word = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end.max(first.len_utf8()));
        rest = after;
        if is_id(word) {
            out.push('#');
        } else {
            numbers(word, &mut out);
        }
    }
    out
}

/// Returns whether a word is a number in hexadecimal digits, or an id.
fn is_id(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    word.len() >= 8 && digits > 0 && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

/// Adds a word, with one sign in place of each number.
fn numbers(word: &str, out: &mut String) {
    for c in word.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !out.ends_with('#') {
            out.push('#');
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::failure::{Failure, FailureKind};

    use super::{FINGERPRINT_DIGITS, fingerprint, pattern};

    #[test]
    fn what_differs_from_job_to_job_is_left_out() {
        for (message, expected) in [
            ("attempt 12 of 20 failed", "attempt # of # failed"),
            ("no order \"A-77\" in `eu`", "no order \"…\" in `…`"),
            (
                "job 01990f3c-1a2b-7000-8000-000000000001 is gone",
                "job # is gone",
            ),
            ("hash deadbeef0 differs", "hash # differs"),
            (
                "facade is not an id, nor is deadbeef",
                "facade is not an id, nor is deadbeef",
            ),
            ("it's Müller's 3", "it's Müller's #"),
            ("one \" quote", "one \" quote"),
            ("", ""),
        ] {
            assert_eq!(pattern(message), expected);
        }
        assert_eq!(pattern(&"é".repeat(10_000)).chars().count(), 200);
    }

    #[test]
    fn a_fingerprint_is_of_handler_kind_and_pattern() {
        let failure = |kind, message: &str| Failure::new(kind, message);
        let one = fingerprint("mail", &failure(FailureKind::UserError, "order 1"));
        assert_eq!(one.len(), FINGERPRINT_DIGITS);
        for (handler, kind, message, is_same) in [
            ("mail", FailureKind::UserError, "order 2", true),
            ("post", FailureKind::UserError, "order 1", false),
            ("mail", FailureKind::Trapped, "order 1", false),
            ("mail", FailureKind::UserError, "orders 1", false),
        ] {
            let other = fingerprint(handler, &failure(kind, message));
            assert_eq!(other == one, is_same, "{handler} {message}");
        }
    }
}
