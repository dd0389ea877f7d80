//! Which jobs a handler may enqueue, as a manifest grants it.

use serde::{Deserialize, Serialize};

use crate::name::Name;

/// Jobs that a handler may enqueue, as its manifest grants them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobsGrant {
    /// Patterns of handlers, as jobs name them: `import-*`, `python#*`.
    pub handlers: Vec<String>,
    /// Patterns of queues.
    #[serde(default = "default_queue")]
    pub queues: Vec<String>,
}

/// The most patterns of one grant.
pub const PATTERNS_MAX: usize = 64;

/// The longest pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 256;

fn default_queue() -> Vec<String> {
    vec![Name::default_queue().to_string()]
}

impl JobsGrant {
    /// Returns what is wrong with it: the key, its value, and what is expected.
    pub fn flaw(&self) -> Option<(&'static str, String, String)> {
        for (key, patterns) in [
            ("jobs.handlers", &self.handlers),
            ("jobs.queues", &self.queues),
        ] {
            if !(1..=PATTERNS_MAX).contains(&patterns.len()) {
                let value = format!("{} entries", patterns.len());
                return Some((key, value, format!("1–{PATTERNS_MAX}")));
            }
            let is_pattern = |it: &str| {
                let allowed = |it: u8| it.is_ascii_alphanumeric() || b"_.:/-#*".contains(&it);
                (1..=PATTERN_BYTES_MAX).contains(&it.len()) && it.bytes().all(allowed)
            };
            if let Some(other) = patterns.iter().find(|it| !is_pattern(it)) {
                let expected = "a name, in which `*` matches any characters but `/`".to_owned();
                return Some((key, format!("{other:?}"), expected));
            }
        }
        None
    }
}
