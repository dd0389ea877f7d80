//! `host run`: runs a handler once, without a host.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use host_tests::guests::component;
use host_tests::server::host;
use host_tests::worker::cache;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::grants;

/// Runs a handler of `basics`, which has been compiled before.
fn run(arguments: &[&str]) -> (Output, String) {
    run_with(&cache(), arguments)
}

fn run_with(cache: &Path, arguments: &[&str]) -> (Output, String) {
    let output = Command::new(host())
        .arg("run")
        .arg(component("basics"))
        .args(arguments)
        .env("XDG_CACHE_HOME", cache)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, printed)
}

fn result(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_result_goes_to_stdout_and_the_log_to_stderr() {
    let cache = TempDir::new().unwrap();
    let echo = ["echo", "--params", r#"{"a": [1, "ü"]}"#];
    let (ran, printed) = run_with(cache.path(), &echo);
    assert_eq!(ran.status.code(), Some(0), "{printed}");
    assert_eq!(result(&ran), json!({"a": [1, "ü"]}));
    let (ran, printed) = run(&["log", "--params", r#"{"lines": 2}"#]);
    assert_eq!(ran.status.code(), Some(0), "{printed}");
    assert!(printed.contains("line 2 of 2"), "{printed}");
}

#[test]
fn each_outcome_has_its_exit_code() {
    let failing = r#"{"message": "no such customer", "retryable": false}"#;
    #[rustfmt::skip]
    let table: &[(&[&str], i32, &str)] = &[
        (&["fail", "--params", failing],                        3, "no such customer"),
        (&["flaky", "--params", r#"{"fail_times": 1}"#],        3, "retry"),
        (&["panic"],                                            3, "trapped"),
        (&["spin", "--timeout", "200ms"],                       3, "timed_out"),
        (&["alloc", "--params", r#"{"mib": 64}"#, "--memory-mib", "8"], 3, "memory_limit"),
        (&["missing"],                                           1, "has noop"),
        (&["sleep", "--params", r#"{"ms": "long"}"#],           1, "/ms"),
        (&["echo", "--params", "{"],                            2, "--params"),
        (&["echo", "--env", "NOBODY_HAS_SET_THIS"],             1, "NOBODY_HAS_SET_THIS"),
    ];
    for (arguments, code, expected) in table {
        let (ran, printed) = run(arguments);
        assert_eq!(ran.status.code(), Some(*code), "{arguments:?}: {printed}");
        assert!(printed.contains(expected), "{arguments:?}: {printed}");
    }
}

#[test]
fn json_output_contains_the_outcome() {
    let (ran, _) = run(&["panic", "-o", "json"]);
    assert_eq!(ran.status.code(), Some(3));
    let ended = result(&ran);
    assert_eq!(ended["outcome"], "failed", "{ended}");
    assert_eq!(ended["failure"]["kind"], "trapped", "{ended}");
    assert!(ended["fuel"].as_u64().unwrap() > 0, "{ended}");
}

#[test]
fn a_run_grants_what_its_flags_allow() {
    let (cache, folder) = (TempDir::new().unwrap(), grants::folder());
    let manifest = cache.path().join("hostile.toml");
    let read = folder.path().display().to_string();
    fs::write(&manifest, grants::manifest(&folder)).unwrap();
    let run = |flags: &[&str]| {
        let mut command = Command::new(host());
        command
            .arg("run")
            .arg(component("hostile"))
            .args(["read_files", "--manifest"])
            .arg(&manifest)
            .args(flags)
            .env("XDG_CACHE_HOME", cache.path())
            .env("GRANTED", "yes");
        let output = command.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        (output, printed)
    };
    let (grant_read, grant_env) = (["--grant-read", &read], ["--grant-env", "GRANTED"]);
    for (flags, expected) in [
        (&[][..], "grant"),
        (&grant_read[..], "GRANTED"),
        (&grant_env[..], read.as_str()),
    ] {
        let (ran, printed) = run(flags);
        assert_eq!(ran.status.code(), Some(1), "{flags:?}: {printed}");
        assert!(printed.contains(expected), "{flags:?}: {printed}");
    }
    let (ran, printed) = run(&[grant_read, grant_env].concat());
    assert_eq!(ran.status.code(), Some(0), "{printed}");
    let seen = result(&ran);
    assert_eq!(seen["env"], json!(["GRANTED=yes"]));
    assert_eq!(seen["paths"]["/etc/passwd"], json!(["read", "looked at"]));
}
