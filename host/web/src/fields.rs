//! A form made of the schema of params, if that is simple: an object of texts, numbers, words and choices. What is
//! typed becomes JSON as it was typed, digit by digit.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::format::cut;

/// How many fields a form has at most.
const FIELDS_MAX: usize = 20;

/// The longest schema that is simple, in bytes on a page.
const SCHEMA_BYTES_MAX: usize = 8 << 10;

/// The prefix of a field's name in a form.
pub(crate) const FIELD: &str = "field.";

/// One field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
    /// The initial values of the form.
    pub(crate) value: String,
}

/// The values of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Number,
    /// One of these texts.
    Choice(Vec<String>),
    Flag,
}

impl Field {
    /// Returns what may be chosen, if that is a closed list.
    pub(crate) fn choices(&self) -> Option<Vec<&str>> {
        match &self.kind {
            Kind::Choice(texts) => Some(texts.iter().map(String::as_str).collect()),
            Kind::Flag => Some(vec!["true", "false"]),
            Kind::Text | Kind::Number => None,
        }
    }
}

/// Returns the fields of a schema, or nothing if it is not that simple.
pub(crate) fn parse(schema: &str) -> Option<Vec<Field>> {
    if cut(schema, SCHEMA_BYTES_MAX).1 {
        return None;
    }
    let schema: Value = serde_json::from_str(schema).ok()?;
    let properties = schema.get("properties")?.as_object()?;
    let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
    if !is_object || properties.is_empty() || properties.len() > FIELDS_MAX {
        return None;
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map_or_else(Vec::new, |names| {
            names.iter().filter_map(Value::as_str).collect()
        });
    let field = |(name, property): (&String, &Value)| {
        let about = property.get("description").and_then(Value::as_str);
        Some(Field {
            name: name.clone(),
            about: about.unwrap_or_default().to_owned(),
            kind: kind(&schema, property, 0)?,
            required: required.contains(&name.as_str()),
            value: String::new(),
        })
    };
    properties.iter().map(field).collect()
}

/// Returns what a property takes. One that may be null may be left empty.
fn kind(schema: &Value, property: &Value, depth: u32) -> Option<Kind> {
    const DEPTH_MAX: u32 = 4;
    if depth > DEPTH_MAX {
        return None;
    }
    if let Some(path) = property.get("$ref").and_then(Value::as_str) {
        return kind(schema, schema.pointer(path.strip_prefix('#')?)?, depth + 1);
    }
    for key in ["anyOf", "allOf", "oneOf"] {
        if let Some(all) = property.get(key).and_then(Value::as_array) {
            let mut rest = all
                .iter()
                .filter(|it| it.get("type") != Some(&Value::from("null")));
            let (only, None) = (rest.next()?, rest.next()) else {
                return None;
            };
            return kind(schema, only, depth + 1);
        }
    }
    if let Some(texts) = property.get("enum").and_then(Value::as_array) {
        let texts = texts.iter().map(|it| it.as_str().map(str::to_owned));
        return texts.collect::<Option<_>>().map(Kind::Choice);
    }
    let types = property.get("type")?;
    let word = types.as_str().or_else(|| {
        let mut words = types.as_array()?.iter().filter_map(Value::as_str);
        words.find(|word| *word != "null")
    });
    match word? {
        "string" => Some(Kind::Text),
        "integer" | "number" => Some(Kind::Number),
        "boolean" => Some(Kind::Flag),
        _ => None,
    }
}

/// Lets a form begin with params. Returns whether its fields can show all of them.
pub(crate) fn begin(fields: &mut [Field], params: &str) -> bool {
    let Ok(mut values) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(params) else {
        return false;
    };
    for field in fields.iter_mut() {
        let Some(raw) = values.remove(&field.name) else {
            continue;
        };
        let text = raw.get();
        field.value = match (&field.kind, text) {
            (_, "null") if !field.required => String::new(),
            (Kind::Text | Kind::Choice(_), _) => match serde_json::from_str(text) {
                Ok(text) => text,
                Err(_) => return false,
            },
            (Kind::Number | Kind::Flag, _) if !text.starts_with(['"', '[', '{', 'n']) => {
                text.to_owned()
            }
            _ => return false,
        };
    }
    values.is_empty()
}

/// Lets a form begin with what was typed before. Returns whether anything was.
pub(crate) fn refill(fields: &mut [Field], typed: &[(String, String)]) -> bool {
    let mut is_typed = false;
    for field in fields {
        let key = format!("{FIELD}{}", field.name);
        if let Some((_, value)) = typed.iter().find(|(name, _)| *name == key) {
            field.value.clone_from(value);
            is_typed = true;
        }
    }
    is_typed
}

/// Makes the params of what was typed. The error says which field is wrong.
pub(crate) fn params(fields: &[Field], typed: &[(String, String)]) -> Result<String, String> {
    let mut members = Map::new();
    let mut numbers = BTreeMap::new();
    for field in fields {
        let name = field.name.as_str();
        let key = format!("{FIELD}{name}");
        let input = typed.iter().find(|(typed, _)| *typed == key);
        let text = input.map_or("", |(_, input)| input.as_str());
        let value = match field.kind {
            _ if text.is_empty() && !field.required => continue,
            Kind::Text | Kind::Choice(_) => Value::from(text),
            Kind::Flag => Value::from(text == "true"),
            Kind::Number => {
                let json = RawValue::from_string(text.trim().to_owned())
                    .ok()
                    .filter(|it| {
                        it.get()
                            .starts_with(|c: char| c == '-' || c.is_ascii_digit())
                    });
                let number =
                    json.ok_or_else(|| format!("{name}: must be a number, got {text:?}"))?;
                numbers.insert(name, number);
                continue;
            }
        };
        members.insert(name.to_owned(), value);
    }
    let mut all: Vec<String> = Vec::new();
    let quoted = |name: &str| Value::from(name).to_string();
    all.extend(
        members
            .iter()
            .map(|(name, value)| format!("{}:{value}", quoted(name))),
    );
    all.extend(
        numbers
            .iter()
            .map(|(name, number)| format!("{}:{}", quoted(name), number.get())),
    );
    Ok(format!("{{{}}}", all.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r##"{"type": "object", "required": ["n"], "properties": {
        "n": {"type": "integer", "description": "How many."},
        "note": {"type": ["string", "null"]},
        "who": {"anyOf": [{"$ref": "#/$defs/Who"}, {"type": "null"}]},
        "sure": {"type": "boolean"}
    }, "$defs": {"Who": {"enum": ["a", "b"]}}}"##;

    #[test]
    fn a_simple_schema_becomes_fields_and_what_is_typed_becomes_params() {
        let mut fields = parse(SCHEMA).unwrap();
        let kinds: Vec<_> = fields
            .iter()
            .map(|it| (it.name.as_str(), it.required))
            .collect();
        assert_eq!(
            kinds,
            [
                ("n", true),
                ("note", false),
                ("sure", false),
                ("who", false)
            ]
        );
        assert_eq!(fields[3].choices(), Some(vec!["a", "b"]));
        let typed = |pairs: &[(&str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(name, value)| (format!("{FIELD}{name}"), (*value).to_owned()));
            pairs.collect::<Vec<_>>()
        };
        let made = params(
            &fields,
            &typed(&[("n", "9007199254740993"), ("note", "\"x\""), ("sure", "")]),
        );
        assert_eq!(made.unwrap(), r#"{"note":"\"x\"","n":9007199254740993}"#);
        let made = params(
            &fields,
            &typed(&[("n", "1.10"), ("sure", "false"), ("who", "b")]),
        );
        assert_eq!(made.unwrap(), r#"{"sure":false,"who":"b","n":1.10}"#);
        for wrong in ["", "x", "\"1\"", "1,2", "{}"] {
            let error = params(&fields, &typed(&[("n", wrong)])).unwrap_err();
            assert!(error.starts_with("n: must be a number"), "{error}");
        }
        assert!(begin(
            &mut fields,
            r#"{"n": 1.50, "note": "a\nb", "who": null}"#
        ));
        let values: Vec<_> = fields.iter().map(|it| it.value.as_str()).collect();
        assert_eq!(values, ["1.50", "a\nb", "", ""]);
        for other in [
            "[]",
            "null",
            r#"{"n": "1"}"#,
            r#"{"n": 1, "more": 2}"#,
            r#"{"note": {}}"#,
        ] {
            assert!(!begin(&mut fields, other), "{other}");
        }
    }

    #[test]
    fn other_schemas_have_no_fields() {
        for schema in [
            "true",
            r#"{"type": "object"}"#,
            r#"{"type": "array", "properties": {"a": {"type": "string"}}}"#,
            r#"{"type": "object", "properties": {"a": {"type": "array"}}}"#,
            r#"{"type": "object", "properties": {"a": {"enum": [1]}}}"#,
            r##"{"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}"##,
            r#"{"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}"#,
        ] {
            assert_eq!(parse(schema), None, "{schema}");
        }
    }
}
