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
    Ok(())
}
