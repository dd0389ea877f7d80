//! JSON Schemas of params, compiled at deploy and checked at enqueue. Schemas come from the authors
//! of components and are not trusted: their size, depth and regular expressions are limited, and
//! they cannot read files or addresses.

mod automata;
mod budget;
mod work;

use host_core::json::JsonText;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use self::automata::Automata;

pub use self::budget::{Budget, BudgetGuard, STEPS_MAX};

/// The largest schema, in bytes.
pub const SCHEMA_BYTES_MAX: usize = 64 << 10;

/// How deeply a schema may be nested.
pub const SCHEMA_DEPTH_MAX: usize = 32;

/// How many violations an error message lists.
const VIOLATIONS_NAMED: usize = 3;

/// The most steps of a check whose violations are listed. The validator collects all violations, up to some
/// hundred bytes for each step.
const STEPS_LISTED: u64 = 10_000;

#[derive(Debug)]
pub struct Schema {
    document: Value,
    automata: Automata,
    validator: Validator,
}

impl Schema {
    /// Compiles a schema, or returns why it is refused.
    pub fn compile(text: &JsonText) -> Result<Self, String> {
        let bytes = text.as_str().len();
        if bytes > SCHEMA_BYTES_MAX {
            return Err(format!(
                "it has {bytes} bytes, more than {SCHEMA_BYTES_MAX}"
            ));
        }
        let schema: Value = serde_json::from_str(text.as_str())
            .map_err(|error| format!("not valid JSON: {error}"))?;
        if depth(&schema) > SCHEMA_DEPTH_MAX {
            return Err(format!("nested deeper than {SCHEMA_DEPTH_MAX} levels"));
        }
        if let Some(part) = work::unfollowed(&schema) {
            return Err(format!("unsupported: {part}"));
        }
        if !work::is_small(&schema) {
            return Err(
                "nests too much below unevaluatedProperties or unevaluatedItems".to_owned(),
            );
        }
        let automata = Automata::build(&schema)?;
        let patterns = PatternOptions::regex()
            .size_limit(automata::COMPILED_BYTES_MAX)
            .dfa_size_limit(automata::MATCHING_BYTES_MAX);
        let validator = jsonschema::options()
            .with_pattern_options(patterns)
            .build(&schema)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            document: schema,
            automata,
            validator,
        })
    }

    pub fn check_text(&self, params: &JsonText, budget: &mut Budget) -> Result<(), String> {
        serde_json::from_str(params.as_str())
            .map_err(|error| error.to_string())
            .and_then(|params| self.check(&params, budget))
    }

    /// Checks params within a budget. The error lists the first violations of small params with their
    /// places, but not the values.
    pub fn check(&self, params: &Value, budget: &mut Budget) -> Result<(), String> {
        let before = budget.left();
        if !work::fits(&self.document, &self.automata, params, budget) {
            return Err(format!(
                "checking them against the handler's schema takes more than {STEPS_MAX} steps"
            ));
        }
        if self.validator.is_valid(params) {
            return Ok(());
        }
        if before - budget.left() > STEPS_LISTED {
            return Err(
                "they do not match the handler's schema; violations of params this large are not listed"
                    .to_owned(),
            );
        }
        Err(self.violations(params))
    }

    fn violations(&self, params: &Value) -> String {
        let violations: Vec<String> = self
            .validator
            .iter_errors(params)
            .take(VIOLATIONS_NAMED)
            .map(|error| {
                let pointer = error.instance_path().to_string();
                let place = if pointer.is_empty() {
                    "params"
                } else {
                    &pointer
                };
                format!("{place}: {}", error.masked())
            })
            .collect();
        violations.join("; ")
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
