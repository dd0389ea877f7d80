//! The specification gives users what the sessions use: no more and no less.

use std::collections::BTreeSet;

use super::*;
use crate::hero::wire::Script;

const SPEC: &str = include_str!("../SPEC.md");

/// What a worker's connections use beside the list in `rights.lua`.
const CONNECTING: [&str; 6] = [
    "client|id",
    "client|unblock",
    "eval",
    "evalsha",
    "script|load",
    "select",
];

/// What the other roles send as it is.
const OTHERS_PLAIN: [&str; 3] = ["scan", "zrange", "zrem"];

/// The scripts of a worker; those of the other roles are all others.
const WORKER: [Script; 5] = [
    Script::Claim,
    Script::Start,
    Script::Finish,
    Script::Renew,
    Script::Release,
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

#[test]
fn a_worker_is_given_what_it_asks_for() {
    let needed = commands(SOURCE, "needs('");
    assert!(needed.len() > 15 && used(WORKER.into_iter()).is_subset(&needed));
    let mut expected = needed;
    expected.extend(CONNECTING.map(str::to_owned));
    assert_eq!(allowed(0), expected);
}

#[test]
fn the_other_roles_are_given_what_they_use_beyond() {
    let others = Script::ALL.into_iter().filter(|it| !WORKER.contains(it));
    let mut expected = used(others);
    expected.extend(OTHERS_PLAIN.map(str::to_owned));
    expected.insert("info".to_owned());
    let worker = allowed(0);
    expected.retain(|command| !worker.contains(command));
    assert_eq!(allowed(1), expected);
}

#[test]
fn what_is_missing_is_named() {
    assert_eq!(told("here:1", &[]), None);
    let said = told("here:1", &["LPOS".to_owned(), "HSET".to_owned()]).unwrap();
    assert!(
        said.contains("here:1")
            && said.contains("LPOS, HSET")
            && said.contains("~hero:* +lpos +hset`"),
        "{said}"
    );
}
