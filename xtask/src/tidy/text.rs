//! The rules for source files: a header that states its duty, a bounded size, and proper words.

use std::path::Path;

use super::files;

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

/// What is logged as Rust would debug it: words of its own for people.
const LOGGED_ANYWAY: &[&str] = &["?named.text"];

/// Operators read the log, so that it says `12 ms` and `ignored a stop`, not what Rust prints of a value.
#[test]
fn the_log_has_no_debug_text() {
    let is_source = |path: &Path| {
        let shown = path.to_string_lossy();
        shown.starts_with("host/") && shown.contains("/src/") && !shown.contains("/tests")
    };
    let mut logs = 0;
    for (path, text) in files(".rs") {
        if !is_source(&path) {
            continue;
        }
        for event in logged(&text) {
            logs += 1;
            let words = event.split([' ', '\n', '(', '=', ',']);
            let debugged: Vec<&str> = words
                .filter(|word| word.starts_with('?') && word.len() > 1)
                .filter(|it| !LOGGED_ANYWAY.contains(it))
                .collect();
            assert!(
                debugged.is_empty() && !event.contains(":?}"),
                "{} logs debug text: {event}",
                path.display()
            );
        }
    }
    assert!(logs > 100, "the events are found: {logs}");
}

/// Returns the arguments of each event that a file logs.
fn logged(text: &str) -> impl Iterator<Item = &str> {
    let after = text.split("tracing::").skip(1);
    after.filter_map(|rest| {
        let (level, arguments) = rest.split_once("!(")?;
        let is_level = ["error", "warn", "info", "debug", "trace"].contains(&level);
        let mut open = 1;
        let end = arguments.find(|c| {
            open += i32::from(c == '(') - i32::from(c == ')');
            open == 0
        })?;
        is_level.then_some(&arguments[..end])
    })
}
