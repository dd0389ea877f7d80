//! Bombs: small input that would cost a host much time or memory.

use std::io::Write as _;
use std::net::TcpStream;

use serde_json::{Value, json};

/// Components that no compiler makes, each with one handler of its name, with underscores.
pub const MALFORMED: [&str; 4] = [
    "realloc-loop",
    "post-return-loop",
    "wild-result",
    "bulk-loop",
];

/// The manifest of [`MALFORMED`]: they end soon, by their time and not by their fuel.
pub const MALFORMED_LIMITS: &str = "[defaults]\ntimeout_seconds = 1\nfuel = 1000000000000\n";

/// How many clients request an expensive check and disconnect.
const CLIENTS: usize = 40;

/// The longest regular expression that is accepted and expensive: each byte of a text visits all its
/// states.
pub const EXPENSIVE: &str = r#"{"type":"string","pattern":"^(a?){1,700}b$"}"#;

/// Returns params for a handler with the schema [`EXPENSIVE`] that are not checked within the budget.
pub fn expensive_params() -> Value {
    "a".repeat(400_000).into()
}

/// Sends jobs with [`expensive_params`] to the host at `address`, over one connection each, without waiting
/// for answers.
///
/// # Errors
///
/// If the host accepts no connection or not all bytes.
pub fn expensive_checks(address: &str) -> std::io::Result<Vec<TcpStream>> {
    let body = json!({"handler": "by_hand", "params": expensive_params()}).to_string();
    let request = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let sent = (0..CLIENTS).map(|_| {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(request.as_bytes())?;
        Ok(stream)
    });
    sent.collect()
}

/// Returns schemas that would take seconds or hundreds of MiB to compile, or minutes to check. All are
/// refused. Each comes with a part of the reason.
pub fn refused_schemas() -> Vec<(String, &'static str)> {
    let patterns: Vec<Value> = (0..1_400)
        .map(|n| json!({"pattern": format!("^\\w{{{n}}}x")}))
        .collect();
    let mut nested = json!({"type": "object"});
    for n in 0..14 {
        nested = json!({"properties": {n.to_string(): nested}, "unevaluatedProperties": nested});
    }
    let mut doubling = json!({"type": "object"});
    for _ in 0..14 {
        doubling = json!({"allOf": [doubling], "unevaluatedProperties": false});
    }
    let mut deep = json!({});
    for _ in 0..40 {
        deep = json!({"not": deep});
    }
    let pattern = r"(a{1,100}){1,100}b{1,5000}\w{500}";
    let refused = [
        (
            json!({"type": "string", "pattern": pattern}),
            "needs more than",
        ),
        (
            json!({"patternProperties": {"(x{1,100}){1,100}": {}}}),
            "needs more than",
        ),
        (json!({"allOf": patterns}), "64 regular expressions"),
        (nested, "bytes, more than"),
        (doubling, "unevaluated"),
        (deep, "nested deeper"),
    ];
    refused
        .map(|(schema, why)| (schema.to_string(), why))
        .into()
}

/// Returns a schema of 3 kB and params of 60 kB that break it ten million times.
pub fn many_violations() -> (String, Value) {
    let names: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    let schema = json!({"items": {"required": names}}).to_string();
    (schema, Value::Array(vec![json!({}); 9_000]))
}
