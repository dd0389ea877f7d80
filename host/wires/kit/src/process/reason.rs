//! Explains to users why something that the host starts is not up: how its process ended and its last output,
//! or why it could not be started or reached. The length is limited.

use super::Output;

/// The longest text kept of each of the two parts, in characters.
pub const REASON_CHARS_MAX: usize = 300;

#[derive(Debug, Default)]
pub struct Reason {
    text: Option<String>,
    /// The latest line of standard error since the reason last changed.
    last_words: Option<String>,
}

impl Reason {
    /// Returns the reason, if one is known.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Records a line. A line from this host becomes the reason, followed by the previous text.
    pub fn note(&mut self, output: Output, line: &str) {
        let line: String = line.chars().take(REASON_CHARS_MAX).collect();
        match output {
            Output::Stdout => {}
            Output::Stderr if line.trim().is_empty() => {}
            Output::Stderr => self.last_words = Some(line),
            Output::Host => {
                let words = self.last_words.take();
                let before = words.map(|words| format!("it wrote {words:?}"));
                let text = match before.or_else(|| self.text.take()) {
                    Some(before) if before != line => format!("{line}; before: {before}"),
                    _ => line,
                };
                // Each failure is put in front, so the oldest text is truncated.
                self.text = Some(text.chars().take(2 * REASON_CHARS_MAX).collect());
            }
        }
    }

    /// Replaces the reason.
    pub fn set(&mut self, text: &str) {
        self.text = Some(text.chars().take(2 * REASON_CHARS_MAX).collect());
    }

    /// Clears the reason because the process is up.
    pub fn clear(&mut self) {
        self.text = None;
    }
}
