//! Limits the regular expressions of a schema: their number, their length and the size of the automata that
//! match them. Matching costs at most the states of the automaton for each byte.

use std::collections::HashMap;

use regex_automata::nfa::thompson::{Config, NFA, WhichCaptures};
use serde_json::Value;

/// The most regular expressions of one schema.
pub(super) const PATTERNS_MAX: usize = 64;

/// The longest regular expression, in bytes.
pub(super) const PATTERN_BYTES_MAX: usize = 1 << 10;

/// The largest automaton of one regular expression, in bytes.
const AUTOMATON_BYTES_MAX: usize = 256 << 10;

/// The largest automata of one schema together, in bytes.
const AUTOMATA_BYTES_MAX: usize = 1 << 20;

/// The largest compiled regular expression, in bytes. It holds what [`AUTOMATON_BYTES_MAX`] limits, and slots
/// for captures.
pub(super) const COMPILED_BYTES_MAX: usize = 2 * AUTOMATON_BYTES_MAX;

/// The largest cache of one regular expression while it matches, in bytes.
pub(super) const MATCHING_BYTES_MAX: usize = 64 << 10;

/// How many states each regular expression of a schema has.
#[derive(Debug, Default)]
pub(super) struct Automata {
    states: HashMap<String, usize>,
    bytes: usize,
}

impl Automata {
    /// Measures the regular expressions of a schema, or returns why it is refused.
    pub(super) fn build(schema: &Value) -> Result<Self, String> {
        let mut automata = Self::default();
        automata.collect(schema)?;
        Ok(automata)
    }

    /// Returns how many states matching this regular expression may visit for each byte.
    pub(super) fn states(&self, pattern: &str) -> usize {
        self.states.get(pattern).copied().unwrap_or(1)
    }

    fn collect(&mut self, part: &Value) -> Result<(), String> {
        match part {
            Value::Array(items) => items.iter().try_for_each(|item| self.collect(item)),
            Value::Object(fields) => fields.iter().try_for_each(|(key, value)| {
                match (key.as_str(), value) {
                    ("pattern", Value::String(pattern)) => self.add(pattern)?,
                    ("patternProperties", Value::Object(parts)) => {
                        parts.keys().try_for_each(|pattern| self.add(pattern))?;
                    }
                    _ => {}
                }
                self.collect(value)
            }),
            _ => Ok(()),
        }
    }

    fn add(&mut self, pattern: &str) -> Result<(), String> {
        if self.states.contains_key(pattern) {
            return Ok(());
        }
        if self.states.len() >= PATTERNS_MAX {
            return Err(format!(
                "it has more than {PATTERNS_MAX} regular expressions"
            ));
        }
        let bytes = pattern.len();
        if bytes > PATTERN_BYTES_MAX {
            return Err(format!(
                "a regular expression has {bytes} bytes, more than {PATTERN_BYTES_MAX}"
            ));
        }
        let nfa = automaton(pattern)?;
        self.bytes += nfa.memory_usage();
        if self.bytes > AUTOMATA_BYTES_MAX {
            return Err(format!(
                "its regular expressions need more than {AUTOMATA_BYTES_MAX} bytes together"
            ));
        }
        self.states.insert(pattern.to_owned(), nfa.states().len());
        Ok(())
    }
}

fn automaton(pattern: &str) -> Result<NFA, String> {
    let shown: String = pattern.chars().take(64).collect();
    let translated = jsonschema_regex::to_rust_regex(pattern)
        .map_err(|()| format!("{shown:?} is not a valid regular expression"))?;
    let limits = Config::new()
        .nfa_size_limit(Some(AUTOMATON_BYTES_MAX))
        .which_captures(WhichCaptures::None);
    NFA::compiler()
        .configure(limits)
        .build(&translated)
        .map_err(|error| match error.size_limit() {
            Some(limit) => {
                format!("matching the regular expression {shown:?} needs more than {limit} bytes")
            }
            None => format!("{shown:?} is not a valid regular expression: {error}"),
        })
}
