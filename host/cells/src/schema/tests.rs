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
    assert_eq!(tree.check(&params), Ok(()));
    let unnamed = json!({ "name": "a", "left": {} });
    let refused = tree.check(&unnamed).unwrap_err();
    assert!(refused.starts_with("/left: "), "{refused}");
}

#[test]
fn what_cannot_be_followed_is_refused() {
    for (schema, said) in [
        (json!({ "$ref": "#/$defs/none" }), "no part of it"),
        (
            json!({ "$ref": "https://example.com/schema" }),
            "no part of it",
        ),
        (
            json!({ "items": { "$ref": "file:///etc/passwd" } }),
            "no part of it",
        ),
        (json!({ "$dynamicRef": "#" }), "$dynamicRef"),
        (json!({ "items": { "$id": "other" } }), "$id"),
    ] {
        let refused = compiled(&schema).unwrap_err();
        assert!(refused.contains(said), "{schema}: {refused}");
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
        let refused = compiled(&schema).unwrap().check(&deep).unwrap_err();
        assert!(refused.contains("steps"), "{refused}");
    }
}
