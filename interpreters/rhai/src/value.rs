//! Converts values of scripts to JSON and back.

use rhai::{Array, Blob, Dynamic, EvalAltResult, FLOAT, Map, Position};
use serde_json::{Number, Value};

/// How deep the arrays and maps of a result may be nested. The host has the same limit.
const DEPTH_MAX: usize = 127;

/// Converts a value to JSON. The error names the part that has no JSON form.
pub(crate) fn to_json(value: &Dynamic) -> Result<Value, String> {
    convert(value, DEPTH_MAX).map_err(|what| {
        format!(
            "cannot be converted to JSON: {what}; use only numbers, strings, booleans, arrays and maps"
        )
    })
}

/// Converts an argument of a function to JSON, or throws.
pub(crate) fn argument(value: &Dynamic) -> Result<Value, Box<EvalAltResult>> {
    to_json(value).map_err(|error| thrown(format!("an argument {error}")).into())
}

/// Makes what a script catches.
pub(crate) fn thrown(value: impl Into<Dynamic>) -> EvalAltResult {
    EvalAltResult::ErrorRuntime(value.into(), Position::NONE)
}

/// Converts JSON to a value. A number that is not a 64-bit integer becomes a float.
pub(crate) fn from_json(value: &Value) -> Dynamic {
    match value {
        Value::Null => Dynamic::UNIT,
        Value::Bool(truth) => (*truth).into(),
        Value::Number(number) => match number.as_i64() {
            Some(number) => number.into(),
            None => number.as_f64().unwrap_or_default().into(),
        },
        Value::String(text) => text.clone().into(),
        Value::Array(items) => items.iter().map(from_json).collect::<Array>().into(),
        Value::Object(entries) => {
            let entries = entries
                .iter()
                .map(|(name, item)| (name.into(), from_json(item)));
            entries.collect::<Map>().into()
        }
    }
}

fn convert(value: &Dynamic, levels: usize) -> Result<Value, String> {
    if value.is_unit() {
        return Ok(Value::Null);
    }
    if let Ok(truth) = value.as_bool() {
        return Ok(Value::Bool(truth));
    }
    if let Ok(number) = value.as_int() {
        return Ok(Value::from(number));
    }
    if let Ok(number) = value.as_float() {
        return float(number);
    }
    if let Ok(character) = value.as_char() {
        return Ok(Value::String(character.to_string()));
    }
    if let Ok(text) = value.as_immutable_string_ref() {
        return Ok(Value::String(text.to_string()));
    }
    let inner = levels
        .checked_sub(1)
        .ok_or_else(|| format!("it is nested deeper than {DEPTH_MAX} levels"));
    if let Some(array) = value.read_lock::<Array>() {
        let inner = inner?;
        return array.iter().map(|item| convert(item, inner)).collect();
    }
    if let Some(map) = value.read_lock::<Map>() {
        let inner = inner?;
        let entries = map
            .iter()
            .map(|(name, item)| Ok((name.to_string(), convert(item, inner)?)));
        return entries.collect::<Result<_, String>>().map(Value::Object);
    }
    if let Some(bytes) = value.read_lock::<Blob>() {
        return Ok(bytes.iter().copied().collect());
    }
    Err(format!("it contains a value of type {}", value.type_name()))
}

fn float(number: FLOAT) -> Result<Value, String> {
    Number::from_f64(number)
        .map(Value::Number)
        .ok_or_else(|| format!("it contains {number}, which JSON cannot represent"))
}
