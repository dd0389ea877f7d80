//! A wire is a folder and a line in the list: its name occurs in its folder, in the list of wires, in tests and in
//! documents, and nowhere else.

use std::path::Path;

use super::files;
use crate::cargo::root;

/// Where the wires are: each folder with a specification is one.
const FOLDER: &str = "host/wires";

/// The list of wires, and the manifest of its crate.
const LIST: &[&str] = &["host/wires/src/lib.rs", "host/wires/Cargo.toml"];

/// A wire for readers and tests, whose name is an ordinary word.
const SAMPLE: &str = "sample";

/// Where to search for the names.
const SEARCHED: &[&str] = &["host/", "guest-sdk/", "xtask/src/"];

/// Files that must name a wire, and why.
const EXCEPTIONS: &[(&str, &str)] = &[
    (
        "xtask/src/peers.rs",
        "it installs the programs of other projects for tests",
    ),
    (
        "xtask/src/bench.rs",
        "it measures the wires beside those programs",
    ),
    (
        "xtask/src/test.rs",
        "it names the components of the interpreters, whose handlers are called hero.*",
    ),
    (
        "host/wires/arco/src/output.rs",
        "fields of its messages are about Delta tables",
    ),
    (
        "xtask/src/tidy/wires.rs",
        "its examples show how a name is found",
    ),
];

/// Returns the names of all wires, in lower case.
fn wires() -> Vec<String> {
    let folders = std::fs::read_dir(root().join(FOLDER))
        .unwrap()
        .map(|folder| folder.unwrap());
    let specified = folders.filter(|folder| folder.path().join("SPEC.md").exists());
    specified
        .map(|folder| folder.file_name().to_string_lossy().into_owned())
        .filter(|name| name != SAMPLE)
        .collect()
}

/// Splits a line into words, in lower case: `HeroJob`, `HERO_OFF` and `hero-worker` begin with `hero`.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let is_next_small = characters.peek().is_some_and(|it| it.is_lowercase());
        let begins = character.is_uppercase() && (before.is_lowercase() || is_next_small);
        if begins || !character.is_alphabetic() {
            words.push(String::new());
        }
        if let (true, Some(word)) = (character.is_alphabetic(), words.last_mut()) {
            word.extend(character.to_lowercase());
        }
        before = character;
    }
    words
}

fn is_test(path: &Path) -> bool {
    path.with_extension("").iter().any(|part| part == "tests")
}

fn may_name(path: &str, wire: &str) -> bool {
    let is_home = path.strip_prefix(FOLDER).is_some_and(|rest| {
        let rest = rest.trim_start_matches('/');
        rest.split('/').next() == Some(wire)
    });
    is_home || LIST.contains(&path) || EXCEPTIONS.iter().any(|(exception, _)| *exception == path)
}

#[test]
fn no_wire_is_named_outside_its_folder() {
    let wires = wires();
    assert!(!wires.is_empty(), "the folders are read");
    let mut found = Vec::new();
    for (path, text) in [files(".rs"), files(".toml")].concat() {
        let shown = path.to_string_lossy().into_owned();
        let is_searched = SEARCHED.iter().any(|start| shown.starts_with(start));
        if !is_searched || is_test(&path) {
            continue;
        }
        for (number, line) in (1..).zip(text.lines()) {
            let words = words(line);
            let named = wires.iter().filter(|wire| words.contains(wire));
            for wire in named.filter(|wire| !may_name(&shown, wire)) {
                found.push(format!("{shown}:{number} names {wire}"));
            }
        }
    }
    assert!(
        found.is_empty(),
        "a wire is a folder and a line in {}; ask it through `Wire`:\n{}",
        LIST[0],
        found.join("\n")
    );
}

#[test]
fn exceptions_are_needed() {
    let wires = wires();
    let needed = |path: &str| {
        let text = std::fs::read_to_string(root().join(path)).unwrap_or_default();
        let mut words = text.lines().flat_map(words);
        words.any(|word| wires.contains(&word))
    };
    for (path, why) in EXCEPTIONS {
        assert!(needed(path), "{path} no longer names a wire ({why})");
    }
}

#[test]
fn names_are_found_in_compounds() {
    for (line, is_named) in [
        ("// Hero's Redis", true),
        ("struct HeroJobView;", true),
        ("fn of_hero() {}", true),
        ("const HOST_HERO_URL: u8;", true),
        ("\"/api/v1/hero/jobs\"", true),
        ("let heroes = superhero();", false),
        ("// HEROScript", true),
        ("heroscript", false),
    ] {
        let words = words(line);
        assert_eq!(words.contains(&"hero".to_owned()), is_named, "{line}");
    }
}
