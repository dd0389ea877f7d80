//! The interpreters in real sandboxes: scripts that work, and hostile scripts, which end like any hostile
//! guest.

use host_core::cell::LogSource;
use host_core::failure::FailureKind;
use host_core::handler::Limits;
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use serde_json::{Value, json};

use crate::child::{Cell, Ran};

fn run(cell: &mut Cell, script: &str, limits: Limits) -> Ran {
    let params = json!({"script": script, "caller_id": "alice", "env": {"REGION": "eu"}});
    cell.run("hero-rhai/hero.rhai", &params.to_string(), limits)
}

fn result(ran: &Ran) -> Value {
    match &ran.outcome {
        Outcome::Completed { result: Some(text) } => serde_json::from_str(text.as_str()).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_script_returns_and_prints() {
    let mut cell = Cell::start();
    let ran = run(&mut cell, "40 + 2", Limits::default());
    assert_eq!(result(&ran), json!(42));
    let script = "print(`${CALLER_ID} in ${REGION}`); #{a: [1, 2.5, ()]}";
    let ran = run(&mut cell, script, Limits::default());
    assert_eq!(result(&ran), json!({"a": [1, 2.5, null]}));
    assert_eq!(ran.lines[0].message, "alice in eu");
    assert_eq!(ran.lines[0].source, LogSource::Log);
    let script = "fn fact(n) { if n < 2 { 1 } else { n * fact(n - 1) } } fact(20)";
    let ran = run(&mut cell, script, Limits::default());
    assert_eq!(result(&ran), json!(2_432_902_008_176_640_000_i64));
    let script = "fn sum(n) { if n == 0 { 0 } else { n + sum(n - 1) } } sum(80)";
    let ran = run(&mut cell, script, Limits::default());
    assert_eq!(
        result(&ran),
        json!(3_240),
        "the stack holds what scripts need"
    );
}

#[test]
fn grants_of_the_manifest_reach_a_script() {
    let mut cell = Cell::start();
    let params = json!({"script": "[GRANTED, ENV.GRANTED]"}).to_string();
    let mut start = cell.prepare("hero-rhai/hero.rhai", &params, Limits::default());
    start.env = vec![("GRANTED".to_owned(), "yes".to_owned())];
    let ran = cell.finish(start);
    assert_eq!(result(&ran), json!(["yes", "yes"]));
}

#[test]
fn harmful_scripts_end_by_the_limits_of_the_sandbox() {
    use FailureKind::{FuelExhausted, MemoryLimit, ResultTooLarge, TimedOut, Trapped, UserError};
    let mut cell = Cell::start();
    let plenty = Limits {
        timeout_ms: 120_000,
        fuel: Some(1_000_000_000_000),
        ..Limits::default()
    };
    let short = Limits {
        timeout_ms: 300,
        ..plenty.clone()
    };
    let little_fuel = Limits {
        fuel: Some(500_000_000),
        ..plenty.clone()
    };
    #[rustfmt::skip]
    let table = [
        ("loop {}", &short, TimedOut),
        ("loop {}", &little_fuel, FuelExhausted),
        ("let i = 0; while true { i += 1; }", &short, TimedOut),
        ("let s = \"x\"; loop { s += s; }", &plenty, MemoryLimit),
        ("let a = []; loop { a.push(\"x\" + a.len()); }", &plenty, MemoryLimit),
        ("let a = []; a.pad(60_000_000, 0);", &plenty, MemoryLimit),
        ("let a = []; a.pad(1_000_000_000, 0);", &plenty, Trapped),
        ("let m = #{}; let i = 0; loop { m[\"k\" + i] = i; i += 1; }", &plenty, MemoryLimit),
        ("let b = blob(); loop { b.pad(b.len() * 2 + 1, 0); }", &plenty, MemoryLimit),
        ("fn f(n) { f(n + 1) } f(0)", &plenty, Trapped),
        ("let a = []; loop { a = [a]; }", &plenty, Trapped),
        ("let s = \"1\"; loop { s = \"eval(\" + s + \")\"; if s.len() > 100_000 { break; } } eval(s)", &plenty, Trapped),
        ("let s = \"\"; s.pad(2_000_000, 'x'); s", &plenty, ResultTooLarge),
        ("import \"/etc/passwd\" as p;", &plenty, UserError),
        ("let x = ;", &plenty, UserError),
        ("throw 7", &plenty, UserError),
    ];
    let mut wrong = Vec::new();
    for (script, limits, expected) in table {
        let ran = run(&mut cell, script, limits.clone());
        match ran.outcome {
            Outcome::Failed(failure) if failure.kind == expected => {
                assert!(!failure.message.is_empty(), "{script}");
            }
            other => wrong.push((script, expected, other)),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let ran = run(&mut cell, "1 + 1", plenty);
    assert_eq!(result(&ran), json!(2), "the cell is unaffected");
}

#[test]
fn a_looping_script_stops_when_it_is_asked_to() {
    let mut cell = Cell::start();
    let params = json!({"script": "print(\"on\"); loop {}"}).to_string();
    let run = cell.begin("hero-rhai/hero.rhai", &params, Limits::default());
    cell.stop(run, 60_000);
    let ran = cell.wait_for_end(run);
    assert_eq!(ran.outcome, Outcome::Cancelled { partial: None });
}

#[test]
fn a_heroscript_becomes_steps() {
    let mut cell = Cell::start();
    let script = "// first\n!!vm.define name:'a b' cpu:4\n!!vm.start fast\n";
    let params = json!({"script": script}).to_string();
    let ran = cell.run(
        "hero-heroscript/hero.heroscript",
        &params,
        Limits::default(),
    );
    let expected = json!([
        {"handler": "vm.define", "params": {"cpu": "4", "name": "a b"}},
        {"handler": "vm.start", "params": {"args": ["fast"]}},
    ]);
    assert_eq!(result(&ran), expected);

    let params = json!({"script": "\n!!!!!bad.x"}).to_string();
    let ran = cell.run(
        "hero-heroscript/hero.heroscript",
        &params,
        Limits::default(),
    );
    let Outcome::Failed(failure) = ran.outcome else {
        panic!("{ran:?}")
    };
    assert_eq!(failure.user_kind.as_deref(), Some("script_syntax"));
    assert_eq!(failure.details, Some(JsonText(r#"{"line":2}"#.to_owned())));
}

#[test]
fn the_vectors_become_steps() {
    let mut cell = Cell::start();
    let text = include_str!("../../../../interpreters/heroscript/tests/vectors.json");
    let document: Value = serde_json::from_str(text).unwrap();
    let vectors = document["vectors"].as_array().unwrap();
    assert!(vectors.len() > 5, "{vectors:?}");
    for vector in vectors {
        let script = vector["in"].as_str().unwrap();
        let params = json!({"script": script}).to_string();
        let handler = "hero-heroscript/hero.heroscript";
        let ran = cell.run(handler, &params, Limits::default());
        if let Some(error) = vector["error"].as_str() {
            let Outcome::Failed(failure) = ran.outcome else {
                panic!("{script}: {ran:?}")
            };
            assert!(failure.message.contains(error), "{script}: {failure:?}");
            continue;
        }
        let (steps, actions) = (result(&ran), vector["actions"].as_array().unwrap());
        assert_eq!(steps.as_array().unwrap().len(), actions.len(), "{script}");
        for (step, action) in steps.as_array().unwrap().iter().zip(actions) {
            let text = |key: &str| action[key].as_str().unwrap();
            let handler = format!("{}.{}", text("actor"), text("name"));
            assert_eq!(step["handler"], handler, "{script}");
            if let Some(pairs) = action["params"].as_array() {
                assert_eq!(step["params"], params_of(action, pairs), "{script}");
            }
        }
    }
}

/// Returns the params of an action of the vectors.
fn params_of(action: &Value, pairs: &[Value]) -> Value {
    let mut params: serde_json::Map<String, Value> = pairs
        .iter()
        .map(|pair| (pair[0].as_str().unwrap().to_owned(), pair[1].clone()))
        .collect();
    if action["args"]
        .as_array()
        .is_some_and(|args| !args.is_empty())
    {
        params.insert("args".to_owned(), action["args"].clone());
    }
    if let Some(id) = action.get("id") {
        params.insert("id".to_owned(), id.clone());
    }
    Value::Object(params)
}
