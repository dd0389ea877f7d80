//! The rights in the specification are exactly those that the sessions use.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::messages::Script;

const HERO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

const SPEC: &str = include_str!("../../../SPEC.md");

/// The commands of a worker's connections that are not in `rights.lua`.
const CONNECTING: [&str; 6] = [
    "client|id",
    "client|unblock",
    "eval",
    "evalsha",
    "script|load",
    "select",
];

/// The scripts of a worker. All others belong to the other roles.
const WORKER: [Script; 6] = [
    Script::Claim,
    Script::Start,
    Script::Finish,
    Script::Renew,
    Script::Release,
    Script::Wake,
];

/// Returns the commands that the `n`th `ACL SETUSER` of the specification allows.
fn allowed(n: usize) -> BTreeSet<String> {
    let line = SPEC.lines().filter(|line| line.starts_with("ACL SETUSER "));
    let words = line.clone().nth(n).unwrap().split(' ');
    words
        .filter_map(|word| word.strip_prefix('+').map(str::to_owned))
        .collect()
}

/// Returns the commands between quotes behind `call` in a script.
fn commands(source: &str, call: &str) -> BTreeSet<String> {
    let calls = source.split(call).skip(1);
    calls
        .map(|rest| rest.split('\'').next().unwrap().to_ascii_lowercase())
        .collect()
}

fn used(scripts: impl Iterator<Item = Script>) -> BTreeSet<String> {
    scripts
        .flat_map(|script| {
            let source = script.source();
            let mut found = commands(source, "redis.call('");
            found.extend(commands(source, "redis.pcall('"));
            found
        })
        .collect()
}

/// Collects the commands that sessions send as they are: what stands first in `plain(&[…])`.
fn sent_plain(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sent_plain(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with("tests.rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let calls = text.split("plain(&[").skip(1);
            let names = calls.filter_map(|rest| rest.trim_start().strip_prefix('"'));
            found.extend(
                names
                    .map(|rest| rest.split('"').next().unwrap().to_ascii_lowercase())
                    .filter(|name| name.bytes().all(|byte| byte.is_ascii_lowercase())),
            );
        }
    }
}

/// Checks a line of the specification, and shows the expected line if it differs.
fn is_written(n: usize, expected: &BTreeSet<String>) {
    let commands: Vec<String> = expected.iter().map(|word| format!("+{word}")).collect();
    let words = commands.join(" ");
    assert_eq!(allowed(n), *expected, "SPEC.md is to allow {words}");
}

#[test]
fn a_worker_is_given_what_it_asks_for() {
    let needed = commands(SOURCE, "needs('");
    assert!(needed.len() > 15 && used(WORKER.into_iter()).is_subset(&needed));
    let mut expected = needed;
    expected.extend(CONNECTING.map(str::to_owned));
    is_written(0, &expected);
}

#[test]
fn the_other_roles_are_given_what_they_use_beyond() {
    let others = Script::ALL.into_iter().filter(|it| !WORKER.contains(it));
    let mut expected = used(others);
    sent_plain(Path::new(HERO), &mut expected);
    expected.insert("info".to_owned());
    let worker = allowed(0);
    expected.retain(|command| !worker.contains(command) && command != "client");
    is_written(1, &expected);
}

#[test]
fn what_is_missing_is_named() {
    assert_eq!(explain("here:1", &[]), None);
    let message = explain("here:1", &["LPOS".to_owned(), "HSET".to_owned()]).unwrap();
    assert!(
        message.contains("here:1")
            && message.contains("LPOS, HSET")
            && message.contains("~hero:* +lpos +hset`"),
        "{message}"
    );
}
