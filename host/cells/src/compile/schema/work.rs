//! Limits the work of checking params against a schema. With references, a small schema can require
//! an unbounded number of steps. This module counts the steps as a validator takes them; it does
//! not validate.

use serde_json::{Map, Value};

use super::automata::Automata;
use super::budget::Budget;

/// How deep the check may go. Nested parts of the schema and references both count.
const DEPTH_MAX: u32 = 512;

/// How many bytes of text a length or a format covers in one step.
const TEXT_BYTES: usize = 64;

/// How many states of an automaton a search visits in one step.
const STATES: usize = 16;

/// How many steps a division without a remainder takes, as numbers may be large.
const DIVISION: usize = 16;

/// How many schemas a validator may make of one. It makes two of each part below a schema with an
/// `unevaluated…` keyword, so nesting doubles their number.
const PARTS_MAX: u64 = 50_000;

/// Returns a reference in the schema that is not supported. Supported are `#` and `#/…` if they
/// name a part of the schema.
pub(super) fn unfollowed(schema: &Value) -> Option<String> {
    unfollowed_part(schema, schema, true)
}

fn unfollowed_part(root: &Value, part: &Value, is_root: bool) -> Option<String> {
    match part {
        Value::Array(items) => items
            .iter()
            .find_map(|item| unfollowed_part(root, item, false)),
        Value::Object(fields) => {
            fields
                .iter()
                .find_map(|(key, value)| match (key.as_str(), value) {
                    ("$ref", Value::String(to)) if resolve(root, to).is_none() => {
                        Some(format!("$ref to {to:?}, which is not a part of it (#/…)"))
                    }
                    ("$dynamicRef" | "$recursiveRef", Value::String(_)) => Some(key.clone()),
                    ("$id", Value::String(_)) if !is_root => Some("$id below its root".to_owned()),
                    _ => unfollowed_part(root, value, false),
                })
        }
        _ => None,
    }
}

/// Returns whether a validator of the schema stays small.
pub(super) fn is_small(schema: &Value) -> bool {
    let mut left = PARTS_MAX;
    count_parts(schema, 1, &mut left).is_some()
}

fn count_parts(part: &Value, copies: u64, left: &mut u64) -> Option<()> {
    *left = left.checked_sub(copies)?;
    match part {
        Value::Array(items) => items
            .iter()
            .try_for_each(|item| count_parts(item, copies, left)),
        Value::Object(fields) => {
            let copies = copies << u32::from(is_evaluated_again(fields));
            fields
                .values()
                .try_for_each(|value| count_parts(value, copies, left))
        }
        _ => Some(()),
    }
}

fn is_evaluated_again(schema: &Map<String, Value>) -> bool {
    schema.keys().any(|key| key.starts_with("unevaluated"))
}

/// Takes from `budget` the steps of checking `params` against `schema`. Returns whether there are
/// enough.
pub(super) fn fits(
    schema: &Value,
    automata: &Automata,
    params: &Value,
    budget: &mut Budget,
) -> bool {
    let mut work = Work {
        root: schema,
        automata,
        budget,
    };
    let fits = work.check(schema, params, DEPTH_MAX).is_some();
    if !fits {
        budget.refuse();
    }
    fits
}

struct Work<'a> {
    root: &'a Value,
    automata: &'a Automata,
    budget: &'a mut Budget,
}

impl Work<'_> {
    /// Counts the steps of one part of the schema for one part of the params. `None` if there are
    /// too many.
    fn check(&mut self, schema: &Value, params: &Value, depth: u32) -> Option<()> {
        self.spend(1)?;
        let depth = depth.checked_sub(1)?;
        let Value::Object(schema) = schema else {
            return Some(());
        };
        // To find what is unevaluated, a validator evaluates all other keywords once more.
        for _ in 0..=usize::from(is_evaluated_again(schema)) {
            for (key, value) in schema {
                self.keyword(key, value, params, depth)?;
            }
        }
        Some(())
    }

    fn keyword(&mut self, key: &str, value: &Value, params: &Value, depth: u32) -> Option<()> {
        match (key, value, params) {
            ("$ref", Value::String(to), _) => {
                let part = resolve(self.root, to)?;
                self.check(part, params, depth)
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts), _) => parts
                .iter()
                .try_for_each(|part| self.check(part, params, depth)),
            ("not" | "if" | "then" | "else", part, _) => self.check(part, params, depth),
            (
                "dependentSchemas" | "dependencies" | "dependentRequired",
                Value::Object(parts),
                _,
            ) => parts.values().try_for_each(|part| {
                self.spend(part.as_array().map_or(0, Vec::len))?;
                self.check(part, params, depth)
            }),
            ("required", Value::Array(names), Value::Object(_)) => self.spend(names.len()),
            ("prefixItems" | "items", Value::Array(parts), Value::Array(items)) => parts
                .iter()
                .zip(items)
                .try_for_each(|(part, item)| self.check(part, item, depth)),
            (
                "items" | "additionalItems" | "unevaluatedItems" | "contains",
                part,
                Value::Array(items),
            ) => items
                .iter()
                .try_for_each(|item| self.check(part, item, depth)),
            ("uniqueItems", _, Value::Array(items)) => {
                items.iter().try_for_each(|item| self.compare(item))
            }
            ("enum", Value::Array(values), _) => {
                values.iter().try_for_each(|value| self.compare(value))
            }
            ("const", value, _) => self.compare(value),
            ("pattern", Value::String(pattern), Value::String(text)) => self.search(pattern, text),
            ("minLength" | "maxLength" | "format", _, Value::String(text)) => {
                self.spend(text.len() / TEXT_BYTES)
            }
            // They are decoded and parsed.
            ("contentEncoding" | "contentMediaType", _, Value::String(text)) => {
                self.spend(text.len() * 4 / TEXT_BYTES)
            }
            ("multipleOf", _, Value::Number(_)) => self.spend(DIVISION),
            (_, _, Value::Object(fields)) => self.object(key, value, fields, depth),
            _ => Some(()),
        }
    }

    /// Counts the steps of a keyword that applies to the fields of an object.
    fn object(
        &mut self,
        key: &str,
        value: &Value,
        fields: &Map<String, Value>,
        depth: u32,
    ) -> Option<()> {
        match (key, value) {
            ("properties", Value::Object(parts)) => parts.iter().try_for_each(|(name, part)| {
                self.spend(1)?;
                let field = fields.get(name);
                field.map_or(Some(()), |field| self.check(part, field, depth))
            }),
            ("patternProperties", Value::Object(parts)) => {
                parts.iter().try_for_each(|(pattern, part)| {
                    fields.iter().try_for_each(|(name, field)| {
                        // Once to find the fields of this part, once to find the additional ones.
                        self.search(pattern, name)?;
                        self.search(pattern, name)?;
                        self.check(part, field, depth)
                    })
                })
            }
            ("additionalProperties" | "unevaluatedProperties", part) => fields
                .values()
                .try_for_each(|field| self.check(part, field, depth)),
            ("propertyNames", part) => fields
                .keys()
                .try_for_each(|name| self.check(part, &Value::String(name.clone()), depth)),
            _ => Some(()),
        }
    }

    fn search(&mut self, pattern: &str, text: &str) -> Option<()> {
        let visits = self.automata.states(pattern).saturating_mul(text.len());
        self.spend(visits / STATES + 1)
    }

    /// Counts the steps of comparing or hashing a value.
    fn compare(&mut self, value: &Value) -> Option<()> {
        match value {
            Value::Array(items) => {
                self.spend(1)?;
                items.iter().try_for_each(|item| self.compare(item))
            }
            Value::Object(fields) => {
                self.spend(1)?;
                fields.values().try_for_each(|field| self.compare(field))
            }
            Value::String(text) => self.spend(text.len() / TEXT_BYTES + 1),
            _ => self.spend(1),
        }
    }

    fn spend(&mut self, steps: usize) -> Option<()> {
        self.budget.take(steps as u64)
    }
}

/// Returns the part of the schema that `#` or `#/…` refers to.
fn resolve<'a>(root: &'a Value, to: &str) -> Option<&'a Value> {
    let pointer = to.strip_prefix('#')?;
    if pointer.contains('%') {
        return root.pointer(&unescaped(pointer)?);
    }
    root.pointer(pointer)
}

/// Replaces each `%XX` by the byte that it encodes.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut pieces = text.split('%');
    bytes.extend_from_slice(pieces.next()?.as_bytes());
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}
