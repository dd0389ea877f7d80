//! Schemas that are accepted, and hostile ones that would keep the host busy.

use serde_json::{Map, json};

use super::*;

fn compiled(schema: &Value) -> Result<Schema, String> {
    Schema::compile(&JsonText(schema.to_string()))
}

#[test]
fn references_to_parts_of_a_schema_are_followed() {
    let tree = compiled(&json!({
        "$defs": { "a tree": {
            "type": "object",
            "properties": {
                "left": { "$ref": "#/$defs/a%20tree" },
                "right": { "$ref": "#/$defs/a%20tree" },
            },
            "required": ["name"],
        }},
        "$ref": "#/$defs/a%20tree",
    }))
    .unwrap();
    let mut params = json!({ "name": "leaf" });
    for _ in 0..12 {
        params = json!({ "name": "inner", "left": params, "right": params });
    }
    assert_eq!(tree.check(&params, &mut Budget::default()), Ok(()));
    let unnamed = json!({ "name": "a", "left": {} });
    let refused = tree.check(&unnamed, &mut Budget::default()).unwrap_err();
    assert!(refused.starts_with("/left: "), "{refused}");
}

#[test]
fn what_cannot_be_followed_is_refused() {
    for (schema, message) in [
        (json!({ "$ref": "#/$defs/none" }), "not a part of it"),
        (
            json!({ "$ref": "https://example.com/schema" }),
            "not a part of it",
        ),
        (
            json!({ "items": { "$ref": "file:///etc/passwd" } }),
            "not a part of it",
        ),
        (json!({ "$dynamicRef": "#" }), "$dynamicRef"),
        (json!({ "items": { "$id": "other" } }), "$id"),
    ] {
        let refused = compiled(&schema).unwrap_err();
        assert!(refused.contains(message), "{schema}: {refused}");
    }
}

/// Without a limit, checking any of these would never finish.
#[test]
fn schemas_that_never_end_are_not_begun() {
    let chain = |link: &dyn Fn(Value) -> Value| {
        let mut parts = Map::new();
        for n in 0..60 {
            let next = json!({ "$ref": format!("#/$defs/{}", n + 1) });
            parts.insert(n.to_string(), link(next));
        }
        parts.insert("60".to_owned(), json!({ "type": "object" }));
        json!({ "$defs": parts, "$ref": "#/$defs/0" })
    };
    let mut deep = json!({});
    for _ in 0..100 {
        deep = json!({ "next": deep });
    }
    let same = json!({ "properties": { "next": { "$ref": "#" } } });
    for schema in [
        chain(&|next| json!({ "allOf": [next, next] })),
        chain(&|next| json!({ "$ref": next["$ref"], "unevaluatedProperties": true })),
        json!({ "oneOf": [same, same] }),
        json!({ "$ref": "#" }),
    ] {
        let checked = compiled(&schema).unwrap();
        let refused = checked.check(&deep, &mut Budget::new(50_000)).unwrap_err();
        assert!(refused.contains("steps"), "{refused}");
    }
}

/// The automaton of the first would have 100,000 states for 40 bytes of text.
#[test]
fn regular_expressions_that_are_too_large_are_refused() {
    let many = |count: usize| {
        let parts = (0..count).map(|n| json!({ "pattern": format!("^{n}") }));
        json!({ "allOf": parts.collect::<Vec<_>>() })
    };
    let named = json!({ "patternProperties": { "(x{1,100}){1,100}": {} } });
    for (schema, message) in [
        (
            json!({ "pattern": "(a{1,100}){1,100}b{1,5000}\\w{500}" }),
            "needs more than",
        ),
        (
            json!({ "items": { "pattern": "\\p{L}{100}" } }),
            "needs more than",
        ),
        (named, "needs more than"),
        (json!({ "pattern": "a".repeat(2_000) }), "2000 bytes"),
        (many(1_400), "more than 64 regular expressions"),
    ] {
        let refused = compiled(&schema).unwrap_err();
        assert!(refused.contains(message), "{schema}: {refused}");
    }
    let email = json!({ "pattern": "^[\\w.+-]+@[\\w-]+(\\.[\\w-]+)+$" });
    assert!(compiled(&email).is_ok());
    assert!(compiled(&many(64)).is_ok());
}

#[test]
fn schemas_that_are_nested_too_deeply_are_refused() {
    let nested = |levels: usize| {
        let mut schema = json!({});
        for _ in 1..levels {
            schema = json!({ "not": schema });
        }
        compiled(&schema)
    };
    let refused = nested(SCHEMA_DEPTH_MAX + 1).unwrap_err();
    assert!(refused.contains("nested deeper than 32"), "{refused}");
    assert!(nested(SCHEMA_DEPTH_MAX).is_ok());
    let large = json!({ "description": "x".repeat(SCHEMA_BYTES_MAX) });
    let refused = compiled(&large).unwrap_err();
    assert!(refused.contains("bytes, more than"), "{refused}");
}

/// A validator of each would have more than a million parts.
#[test]
fn schemas_that_double_at_each_level_are_refused() {
    let nested = |keyword: &str, levels: usize| {
        let mut schema = json!({ "type": "object" });
        for _ in 0..levels {
            schema = json!({ "allOf": [schema], keyword: false });
        }
        schema
    };
    for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
        let refused = compiled(&nested(keyword, 14)).unwrap_err();
        assert!(refused.contains("unevaluated"), "{refused}");
        assert!(compiled(&nested(keyword, 4)).is_ok());
    }
}

/// Matching costs the states of the automaton for each byte, wherever the pattern stands.
#[test]
fn matching_is_charged_by_the_size_of_the_automaton() {
    let large = "(a{1,9}){1,50}b";
    let text = "a".repeat(400_000);
    let field = json!({ text.as_str(): 1 });
    for (schema, params) in [
        (json!({ "pattern": large }), json!(text)),
        (json!({ "patternProperties": { large: {} } }), field.clone()),
        (json!({ "propertyNames": { "pattern": large } }), field),
    ] {
        let refused = compiled(&schema)
            .unwrap()
            .check(&params, &mut Budget::default())
            .unwrap_err();
        assert!(refused.contains("steps"), "{schema}: {refused}");
    }
    let small = compiled(&json!({ "pattern": "^[A-Za-z0-9+/=]*$" })).unwrap();
    let mut budget = Budget::default();
    assert_eq!(small.check(&json!(text), &mut budget), Ok(()));
    assert!(!budget.is_spent());
}

#[test]
fn a_check_ends_if_nobody_waits_for_it() {
    let schema = compiled(&json!({ "items": { "type": "integer" } })).unwrap();
    let params = json!(vec![1; 100_000]);
    let (mut budget, waiting) = Budget::ending(STEPS_MAX);
    assert_eq!(schema.check(&params, &mut budget), Ok(()));
    assert!(!budget.is_spent());
    drop(waiting);
    assert!(schema.check(&params, &mut budget).is_err());
    assert!(budget.is_spent());
}

/// Many small checks cost as much as a large one.
#[test]
fn checks_that_share_a_budget_are_bounded_together() {
    let schema = compiled(&json!({ "items": { "type": "integer" } })).unwrap();
    let params = Value::Array(vec![json!(1); 1_000]);
    let mut budget = Budget::new(10_000);
    let checked = (0..100)
        .take_while(|_| schema.check(&params, &mut budget).is_ok())
        .count();
    assert!((1..10).contains(&checked), "{checked}");
    assert!(budget.is_spent());
}

/// These cost a validator much for each part of the schema.
#[test]
fn long_lists_of_names_and_contents_are_charged() {
    let names: Vec<String> = (0..1_000).map(|n| n.to_string()).collect();
    let all: Map<String, Value> = names.iter().map(|name| (name.clone(), json!(0))).collect();
    let objects = Value::Array(vec![Value::Object(all); 10]);
    let many = |keyword: Value| {
        let part = json!({ "$ref": "#/$defs/part" });
        json!({ "$defs": { "part": keyword }, "items": { "allOf": vec![part; 100] } })
    };
    let content = json!({ "contentEncoding": "base64", "contentMediaType": "application/json" });
    let draft_7 = "http://json-schema.org/draft-07/schema#";
    for (schema, params) in [
        (many(json!({ "required": names })), &objects),
        (
            many(json!({ "dependentRequired": { "1": names } })),
            &objects,
        ),
        (many(json!({ "dependencies": { "1": names } })), &objects),
        (
            json!({ "$schema": draft_7, "items": { "allOf": vec![content; 100] } }),
            &json!(["WzFd".repeat(20_000)]),
        ),
        (
            many(json!({ "multipleOf": 0.1 })),
            &json!(vec![1e300; 1_000]),
        ),
    ] {
        let schema = compiled(&schema).unwrap();
        let refused = schema.check(params, &mut Budget::new(100_000)).unwrap_err();
        assert!(refused.contains("steps"), "{refused}");
    }
}

/// A list of all violations would have two million entries here.
#[test]
fn violations_are_named_only_where_that_is_cheap() {
    let names: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    let lacking = json!({ "items": { "required": names } });
    let branches = json!({ "anyOf": [lacking, { "type": "string" }] });
    for schema in [lacking, branches] {
        let schema = compiled(&schema).unwrap();
        let params = Value::Array(vec![json!({}); 10_000]);
        let refused = schema.check(&params, &mut Budget::default()).unwrap_err();
        assert!(refused.contains("not listed"), "{refused}");
        let few = schema
            .check(&json!([{}]), &mut Budget::default())
            .unwrap_err();
        assert!(few.contains("params") || few.contains("/0"), "{few}");
    }
}
