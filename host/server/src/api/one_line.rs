//! Texts of users that are shown on one line: names, labels and notes.

/// Checks such a text.
pub(super) fn check(field: &str, text: &str, chars_max: usize) -> Result<(), String> {
    let chars = text.chars().count();
    if chars == 0 || chars > chars_max {
        return Err(format!(
            "{field}: must have 1–{chars_max} characters, got {chars}"
        ));
    }
    if text.chars().any(char::is_control) {
        return Err(format!(
            "{field}: must be one line without control characters"
        ));
    }
    if text.trim().is_empty() {
        return Err(format!("{field}: must have more than blanks"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_line_that_can_be_seen() {
        for (text, flaw) in [
            ("v1.4.2", None),
            ("of May", None),
            ("ü123456789", None),
            ("", Some("1–10 characters, got 0")),
            ("ü1234567890", Some("1–10 characters, got 11")),
            ("a\nb", Some("control characters")),
            ("\u{1b}[2J", Some("control characters")),
            ("  ", Some("blanks")),
        ] {
            let checked = check("label", text, 10).err();
            let is_right = match (&checked, flaw) {
                (None, None) => true,
                (Some(found), Some(flaw)) => found.contains(flaw),
                _ => false,
            };
            assert!(is_right, "{text:?}: {checked:?}");
        }
    }
}
