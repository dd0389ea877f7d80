//! JSON Schemas of params, compiled at deploy and checked at enqueue. Schemas come from the authors
//! of components and are not trusted: their size, depth and regular expressions are limited, and
//! they cannot read files or addresses.

mod work;

use host_core::json::JsonText;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// The largest schema, in bytes.
pub const SCHEMA_BYTES_MAX: usize = 64 << 10;

/// How deeply a schema may be nested.
pub const SCHEMA_DEPTH_MAX: usize = 32;

/// How many steps one check of params may take.
const STEPS_MAX: u64 = 5_000_000;

/// How many violations an error message lists.
const VIOLATIONS_NAMED: usize = 3;

#[derive(Debug)]
pub struct Schema {
    document: Value,
    validator: Validator,
}

impl Schema {
    /// Compiles a schema, or returns why it is refused.
    pub fn compile(text: &JsonText) -> Result<Self, String> {
        let bytes = text.as_str().len();
        if bytes > SCHEMA_BYTES_MAX {
            return Err(format!(
                "it has {bytes} bytes, at most {SCHEMA_BYTES_MAX} are taken"
            ));
        }
        let schema: Value = serde_json::from_str(text.as_str())
            .map_err(|error| format!("it is no JSON: {error}"))?;
        if depth(&schema) > SCHEMA_DEPTH_MAX {
            return Err(format!("it is nested deeper than {SCHEMA_DEPTH_MAX}"));
        }
        if let Some(part) = work::unfollowed(&schema) {
            return Err(format!("it has {part}"));
        }
        let validator = jsonschema::options()
            .with_pattern_options(PatternOptions::regex())
            .build(&schema)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            document: schema,
            validator,
        })
    }

    pub fn check_text(&self, params: &JsonText) -> Result<(), String> {
        serde_json::from_str(params.as_str())
            .map_err(|error| error.to_string())
            .and_then(|params| self.check(&params))
    }

    /// Checks params. The error lists the first violations with their places, but not the values.
    pub fn check(&self, params: &Value) -> Result<(), String> {
        if !work::fits(&self.document, params, STEPS_MAX) {
            return Err(format!(
                "checking them against the handler's schema takes more than {STEPS_MAX} steps"
            ));
        }
        let violations: Vec<String> = self
            .validator
            .iter_errors(params)
            .take(VIOLATIONS_NAMED)
            .map(|error| {
                let place = error.instance_path().to_string();
                let place = if place.is_empty() { "params" } else { &place };
                format!("{place}: {}", error.masked())
            })
            .collect();
        if violations.is_empty() {
            Ok(())
        } else {
            Err(violations.join("; "))
        }
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
