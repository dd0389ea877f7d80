//! Why something that we start is not up, in words for a person: how its process ended and what it
//! wrote last, or why it could not be started or reached. Bounded.

use super::Output;

/// The most of each of the two parts that are kept, in characters.
pub const REASON_CHARS_MAX: usize = 300;

/// The reason, as far as it is known.
#[derive(Debug, Default)]
pub struct Reason {
    text: Option<String>,
    /// The latest line of standard error since the last reason.
    last_words: Option<String>,
}

impl Reason {
    /// Returns the reason, if there is one.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Takes note of a line. One from this host becomes the reason, with what came before it.
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
                // Each end adds to it: the oldest part goes.
                self.text = Some(text.chars().take(2 * REASON_CHARS_MAX).collect());
            }
        }
    }

    /// Replaces the reason.
    pub fn set(&mut self, text: &str) {
        self.text = Some(text.chars().take(2 * REASON_CHARS_MAX).collect());
    }

    /// Forgets the reason: it is up.
    pub fn clear(&mut self) {
        self.text = None;
    }
}
