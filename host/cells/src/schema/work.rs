//! Limits the work of checking params against a schema. With references, a small schema can require
//! an unbounded number of steps. This module counts the steps as a validator takes them; it does
//! not validate.

use serde_json::{Map, Value};

/// How deep the check may go. Nested parts of the schema and references both count.
const DEPTH_MAX: u32 = 512;

/// How many bytes of text a pattern search covers in one step.
const PATTERN_BYTES: usize = 64;

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
                        Some(format!("$ref to {to:?}, which is no part of it (#/…)"))
                    }
                    ("$dynamicRef" | "$recursiveRef", Value::String(_)) => Some(key.clone()),
                    ("$id", Value::String(_)) if !is_root => Some("$id below its root".to_owned()),
                    _ => unfollowed_part(root, value, false),
                })
        }
        _ => None,
    }
}

/// Returns whether `params` can be checked against `schema` in at most `steps_max` steps.
pub(super) fn fits(schema: &Value, params: &Value, steps_max: u64) -> bool {
    let mut work = Work {
        root: schema,
        left: steps_max,
    };
    work.check(schema, params, DEPTH_MAX).is_some()
}

struct Work<'a> {
    root: &'a Value,
    left: u64,
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
        let again = schema.keys().any(|key| key.starts_with("unevaluated"));
        for _ in 0..=usize::from(again) {
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
            ("dependentSchemas" | "dependencies", Value::Object(parts), _) => parts
                .values()
                .try_for_each(|part| self.check(part, params, depth)),
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
            ("uniqueItems", _, Value::Array(items)) => self.spend(items.len()),
            ("pattern", _, Value::String(text)) => self.spend(text.len() / PATTERN_BYTES),
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
            ("patternProperties", Value::Object(parts)) => parts.values().try_for_each(|part| {
                fields
                    .values()
                    .try_for_each(|field| self.check(part, field, depth))
            }),
            ("additionalProperties" | "unevaluatedProperties" | "propertyNames", part) => fields
                .values()
                .try_for_each(|field| self.check(part, field, depth)),
            _ => Some(()),
        }
    }

    fn spend(&mut self, steps: usize) -> Option<()> {
        self.left = self.left.checked_sub(steps as u64)?;
        Some(())
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

/// Replaces each `%XX` by the byte it stands for.
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
