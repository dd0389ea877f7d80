//! Values that TOML has but JSON does not, or not exactly: they would change on their way into the host.

use std::ops::Range;

use host_core::json::is_exact;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value that cannot be passed on as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inexpressible {
    /// Its line, counted from 1.
    pub line: usize,
    /// What is wrong with it, and what to write instead.
    pub message: String,
}

/// Returns the first value of a document that JSON cannot express exactly. What is not TOML has none.
pub fn find_inexpressible(text: &str) -> Option<Inexpressible> {
    let document = DeTable::parse(text).ok()?;
    let (span, message) = in_table(document.get_ref())?;
    let before = text.get(..span.start).unwrap_or_default();
    Some(Inexpressible {
        line: before.matches('\n').count() + 1,
        message,
    })
}

fn in_table(table: &DeTable<'_>) -> Option<(Range<usize>, String)> {
    table.values().find_map(in_value)
}

fn in_value(value: &Spanned<DeValue<'_>>) -> Option<(Range<usize>, String)> {
    let message = match value.get_ref() {
        DeValue::Table(table) => return in_table(table),
        DeValue::Array(items) => return items.iter().find_map(in_value),
        DeValue::Datetime(date) => format!("{date} is a date; write it as a string, in quotes"),
        DeValue::Float(number)
            if matches!(
                number.as_str().trim_start_matches(['+', '-']),
                "nan" | "inf"
            ) =>
        {
            format!("{number} is not a JSON number; write it as a string")
        }
        DeValue::Float(number) if !is_exact(number.as_str().trim_start_matches('+')) => {
            format!("{number} would be rounded, because no double holds it; write it as a string")
        }
        _ => return None,
    };
    Some((value.span(), message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_would_change_are_found_with_their_line() {
        for (value, expected) in [
            ("1.5", None),
            ("+1.5e3", None),
            ("1_000.25", None),
            ("0x10", None),
            ("-0", None),
            ("\"1e-400\"", None),
            ("1e-400", Some("1e-400 would be rounded")),
            (
                "12345678901234567.89",
                Some("12345678901234567.89 would be rounded"),
            ),
            ("-0.0", Some("-0.0 would be rounded")),
            ("-inf", Some("-inf is not a JSON number")),
            ("nan", Some("nan is not a JSON number")),
            (
                "2026-01-01T00:00:00Z",
                Some("2026-01-01T00:00:00Z is a date"),
            ),
        ] {
            for text in [
                format!("[a.b]\n\nx = {value}"),
                format!("[[a]]\n\nx = [1, {{ y = {value} }}]"),
            ] {
                let found = find_inexpressible(&text);
                assert_eq!(found.is_some(), expected.is_some(), "{text}: {found:?}");
                if let (Some(found), Some(expected)) = (found, expected) {
                    assert_eq!(found.line, 3, "{text}");
                    assert!(found.message.starts_with(expected), "{found:?}");
                }
            }
        }
        assert_eq!(find_inexpressible("x = "), None);
    }
}
