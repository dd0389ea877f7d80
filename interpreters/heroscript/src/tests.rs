//! Tests of the parser: the vectors, edge cases, and generated text.

use std::fmt::Write as _;

use guest_sdk::{Error, MockHost};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{Params, heroscript, parse};

fn actions(script: &str) -> Vec<Value> {
    let actions = parse(script).unwrap();
    actions
        .iter()
        .map(|action| serde_json::to_value(action).unwrap())
        .collect()
}

fn pairs(script: &str) -> Vec<(String, String)> {
    parse(script).unwrap().remove(0).params
}

fn error(script: &str) -> (usize, String) {
    let error = parse(script).expect_err(script);
    (error.line, error.message)
}

#[test]
fn parses_the_vectors() {
    let document: Value = serde_json::from_str(include_str!("../tests/vectors.json")).unwrap();
    let vectors = document["vectors"].as_array().unwrap();
    assert_eq!(vectors.len(), 6);
    for vector in vectors {
        let script = vector["in"].as_str().unwrap();
        if let Some(expected) = vector["error"].as_str() {
            let (line, message) = error(script);
            assert!(message.starts_with(expected), "{message}");
            assert_eq!(line, 1);
            continue;
        }
        let expected = vector["actions"].as_array().unwrap();
        let read = actions(script);
        assert_eq!(read.len(), expected.len(), "{script}");
        for (read, expected) in read.iter().zip(expected) {
            for (key, value) in expected.as_object().unwrap() {
                if key != "params_note" {
                    assert_eq!(&read[key], value, "{key} of {script}");
                }
            }
            let ids = [&read["id"], &expected["id"]];
            assert_eq!(ids[0], ids[1], "{script}");
        }
    }
}

#[test]
fn values_are_taken_literally() {
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    #[rustfmt::skip]
    let table = [
        ("!!a.b url:http://x/y?z=1 n:1", vec![pair("url", "http://x/y?z=1"), pair("n", "1")]),
        ("!!a.b s:'it\\'s' d:\"a 'b' c\"", vec![pair("s", "it's"), pair("d", "a 'b' c")]),
        ("!!a.b e: // nothing\n  f:'' g:", vec![pair("e", ""), pair("f", ""), pair("g", "")]),
        ("!!a.b x:1 // y:2\n  z:3", vec![pair("x", "1"), pair("z", "3")]),
        ("!!a.b\tx:1\r\n\n\ty:ü\r\n", vec![pair("x", "1"), pair("y", "ü")]),
        ("!!a.b t:'\n    one\n      two\n\n    three\n    '", vec![pair("t", "\none\n  two\n\nthree\n")]),
        ("!!a.b p:'C:\\dir' x:1 x:2", vec![pair("p", "C:\\dir"), pair("x", "1"), pair("x", "2")]),
    ];
    for (script, expected) in table {
        assert_eq!(pairs(script), expected, "{script}");
    }
}

#[test]
fn a_comment_belongs_to_the_action_directly_after_it() {
    let read = actions("// one\n/// two\n\n!!a.b\n// lost\ntext\n!!c.d\n  // inside\n  x:1\n");
    assert_eq!(read[0]["comments"], json!("one\ntwo"));
    assert_eq!(read[1]["comments"], Value::Null);
    assert_eq!(read[1]["params"], json!([["x", "1"]]));
}

#[test]
fn the_default_actor_is_core() {
    let read = actions("!!start now 'or later'");
    assert_eq!(read[0]["actor"], "core");
    assert_eq!(read[0]["args"], json!(["now", "or later"]));
}

#[test]
fn errors_name_their_line() {
    #[rustfmt::skip]
    let table = [
        ("!!a.b x:1\n\n!!!!!c.d", 3, "5 x !"),
        ("text\n!! a.b", 2, "actor.action"),
        ("!!a.b.c", 1, "actor.action"),
        ("!!a/../b", 1, "actor.action"),
        ("!!a.b\n  x:1\n  :2", 3, "missing key before"),
        ("!!a.b\n  x:'one\ntwo'", 2, "unterminated"),
        ("!!a.b x:'one'two", 1, "missing space"),
    ];
    for (script, line, word) in table {
        let (at, message) = error(script);
        assert_eq!(at, line, "{script}: {message}");
        assert!(message.contains(word), "{script}: {message}");
    }
}

#[test]
fn the_handler_returns_steps() {
    let run = |script: &str| {
        let script = script.to_owned();
        heroscript(&MockHost::new().ctx(), Params { script })
    };
    let steps = run("!!vm.define id:a name:'x' cpu:4 fast\n!vm.start\n").unwrap();
    let expected = json!([
        {"handler": "vm.define", "params": {"args": ["fast"], "cpu": "4", "id": "a", "name": "x"}},
        {"handler": "vm.start", "params": {}},
    ]);
    assert_eq!(serde_json::to_value(steps).unwrap(), expected);
    for script in ["\n!!!!!x.y", "\n!!a.b args:1 word"] {
        let Err(Error::Failed(failed)) = run(script) else {
            panic!("{script} was accepted")
        };
        assert_eq!(failed.kind, "script_syntax");
        assert_eq!(failed.details, Some(json!({"line": 2})));
    }
}

proptest! {
    #[test]
    fn any_text_parses_or_is_an_error_within_the_script(script in "[!a-c.:'\"/\\\\ \t\n\rü]{0,80}") {
        if let Err(error) = parse(&script) {
            prop_assert!(error.line >= 1 && error.line <= script.lines().count());
        }
    }

    #[test]
    fn written_pairs_and_words_are_parsed_back(
        pairs in prop::collection::vec(("[a-h][a-z0-9_]{0,8}", "[^'\"\\\\\n\r]{0,20}"), 0..8),
        args in prop::collection::vec("[a-z]{1,8}", 0..4),
    ) {
        let mut script = "!!actor.action".to_owned();
        for (key, value) in &pairs {
            write!(script, "\n  {key}:'{value}'").unwrap();
        }
        for arg in &args {
            script.push(' ');
            script.push_str(arg);
        }
        let read = parse(&script).unwrap().remove(0);
        prop_assert_eq!(read.params, pairs);
        prop_assert_eq!(read.args, args);
    }
}
