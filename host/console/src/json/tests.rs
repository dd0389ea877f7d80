//! Escapes and arguments of JSON.

use host_api::pretty::harmless;

use super::{argument, with_member};
use crate::error::Exit;

#[test]
fn arguments_come_from_the_text_or_a_file() {
    assert_eq!(
        argument("--params", " {\"a\": 1.0} ").unwrap().get(),
        "{\"a\": 1.0}"
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("params.json");
    std::fs::write(&path, "[1]\n").unwrap();
    let given = format!("@{}", path.display());
    assert_eq!(argument("--params", &given).unwrap().get(), "[1]");
}

#[test]
fn bad_arguments_are_usage_errors_that_say_where() {
    let error = argument("--params", "{a: 1}").unwrap_err();
    assert_eq!(error.exit(), Exit::Usage);
    assert!(error.to_string().contains("line 1, column 2"), "{error}");
    let error = argument("--params", "@/dev/zero").unwrap_err();
    assert_eq!(error.exit(), Exit::Usage);
    assert!(error.to_string().contains("16 MiB"), "{error}");
    let error = argument("--params", "@/nowhere/p.json").unwrap_err();
    assert!(error.to_string().contains("/nowhere/p.json"), "{error}");
}

#[test]
fn json_does_nothing_to_a_terminal_and_means_the_same() {
    let json = "{\"a\": \"x\u{9b}31m\u{202e}\u{7f}\",\n\"b\": 1}";
    assert_eq!(
        harmless(json),
        "{\"a\": \"x\\u009b31m\\u202e\\u007f\",\n\"b\": 1}"
    );
    let value: serde_json::Value = serde_json::from_str(&harmless(json)).unwrap();
    assert_eq!(
        value,
        serde_json::from_str::<serde_json::Value>(json).unwrap()
    );
}

#[test]
fn a_member_joins_at_the_end() {
    assert_eq!(
        with_member("{\"a\":1}\n", "b", "[2]"),
        "{\"a\":1,\"b\":[2]}"
    );
    assert_eq!(with_member("{ }", "b", "2"), "{ \"b\":2}");
    assert_eq!(with_member("[1]", "b", "2"), "[1]");
}
