//! SECURITY.md: each promise names a test, and each test that it names exists.

use super::files;
use crate::cargo::root;

/// The section of the document whose points are promises.
const BEGIN: &str = "## What is protected";
const END: &str = "## What is not protected";

/// Returns the promises: each point with the names after it, in backquotes and parentheses.
fn promises(text: &str) -> Vec<(String, Vec<String>)> {
    let from = text.find(BEGIN).expect("the document has promises");
    let to = text.find(END).expect("the promises end");
    let points = text[from..to].split("\n- ").skip(1);
    points
        .map(|point| {
            let point = point
                .split("\n\n")
                .next()
                .unwrap_or(point)
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            let listed = match point.rfind("(`") {
                Some(at) => point[at..].split('`').skip(1).step_by(2).collect(),
                None => Vec::new(),
            };
            let names = listed.into_iter().map(str::to_owned).collect();
            (point, names)
        })
        .collect()
}

#[test]
fn every_promise_names_a_test_that_exists() {
    let text = std::fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let sources = files(".rs");
    let is_test = |name: &str| {
        let begin = format!("fn {name}(");
        let mut sources = sources.iter();
        sources.any(|(_, text)| {
            let mut found = text.match_indices(&begin);
            found.any(|(at, _)| {
                let above: Vec<&str> = text[..at].lines().rev().take(8).collect();
                let says = |what: &str| above.iter().any(|line| line.contains(what));
                let runs = says("test]") || says("test(") || text[..at].contains("proptest!");
                runs && !says("#[ignore")
            })
        })
    };
    let promises = promises(&text);
    assert!(promises.len() >= 20, "{promises:?}");
    for (promise, names) in promises {
        assert!(!names.is_empty(), "this promise names no test: {promise}");
        for name in names {
            assert!(is_test(&name), "no test is named {name}: {promise}");
        }
    }
}

#[test]
fn promises_are_read_with_their_names() {
    let text = format!(
        "{BEGIN}\n\n- One (really) of\n  two lines. (`a_b`,\n  `c`)\n- Another.\n\n### Part\n\n- Three. (`d`)\n\n{END}\n- (`no`)"
    );
    let names: Vec<Vec<String>> = promises(&text)
        .into_iter()
        .map(|(_, names)| names)
        .collect();
    assert_eq!(names, [vec!["a_b", "c"], vec![], vec!["d"]]);
}
