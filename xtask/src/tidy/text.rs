//! What every source file must have: a header that states its duty, a bounded size, and proper words.

use super::files;
use crate::cargo::root;

const LINES_MAX: usize = 600;

/// Words that do not tell what a module holds.
const MODULE_NAMES_BANNED: &[&str] = &[
    "util", "utils", "common", "helper", "helpers", "types", "misc",
];

/// Markers of unfinished work. Written in halves so that this file does not find itself.
const UNFINISHED: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
];

#[test]
fn each_source_file_says_its_duty_and_stays_small() {
    let sources = files(".rs");
    assert!(sources.len() > 20, "the whole tree is read");
    for (path, text) in sources {
        let shown = path.display();
        assert!(
            text.starts_with("//!"),
            "{shown} must begin with `//!` and its duty"
        );
        let lines = text.lines().count();
        assert!(
            lines <= LINES_MAX,
            "{shown} has {lines} lines, more than {LINES_MAX}: split it"
        );
        let stem = path.file_stem().unwrap().to_string_lossy();
        assert!(
            !MODULE_NAMES_BANNED.contains(&&*stem),
            "{shown}: name the module after what it does"
        );
    }
}

/// A module that two crates compile is two modules. What tests of several crates need is in `host/testing`.
#[test]
fn no_module_is_in_two_crates() {
    const ELSEWHERE: &str = concat!("#[pa", "th");
    for (path, text) in files(".rs") {
        assert!(!text.contains(ELSEWHERE), "{}", path.display());
    }
}

#[test]
fn nothing_is_left_unfinished() {
    for ending in [".rs", ".toml", ".md", ".wit"] {
        for (path, text) in files(ending) {
            for marker in UNFINISHED {
                assert!(!text.contains(marker), "{} has a {marker}", path.display());
            }
        }
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    for (path, text) in files(".md") {
        let folder = root().join(path.parent().unwrap());
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split([')', '#']).next())
        {
            let outside =
                target.is_empty() || target.contains("://") || target.starts_with("mailto:");
            assert!(
                outside || folder.join(target).exists(),
                "{} links to {target}, which is not there",
                path.display()
            );
        }
    }
}
