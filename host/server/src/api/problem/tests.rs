//! Generates `docs/errors.md` and compares it; `cargo xtask test docs --update` updates it.

use std::fmt::Write as _;

use host_core::failure::FAILURE_KINDS;

use crate::published;

use super::{Explanation, declared, explain, failures, refusals, wires};

const INTRO: &str = "\
# Errors

Every refusal of the HTTP API is a problem document (RFC 9457): `type`, `title`, `status`, `detail`,
`code` and `next`. The code is stable; the detail says what is wrong with this request. Generated
from what the API and the wires declare; `cargo xtask test docs --update` updates it.

| code | status | meaning | what to do |
|---|---|---|---|
";

const FAILURES: &str = "
## Failures of attempts

Not refusals but how an attempt of an accepted job ends; `failure.kind` of jobs and attempts. A
handler's own error (`user_error`) may name another category and whether it is tried again.

| kind | category | tried again | meaning | what to do |
|---|---|---|---|---|
";

const WIRES: &str = "
## Refusals on other wires

Codes of what a wire other than HTTP does not take: in the answer, the job's error or the dead letter
where the wire has one, and as a label of `host_wire_refusals` in any case.

| code | wire | meaning |
|---|---|---|
";

fn generate() -> String {
    let mut doc = INTRO.to_owned();
    for kind in refusals() {
        writeln!(
            doc,
            "| `{}` | {} | {}: {} | {} |",
            kind.code, kind.status, kind.title, kind.meaning, kind.next
        )
        .unwrap();
    }
    doc.push_str(FAILURES);
    for kind in FAILURE_KINDS {
        let category = serde_json::to_string(&kind.category()).unwrap();
        let again = if kind.is_retryable() { "yes" } else { "no" };
        let it = failures::explain(kind);
        writeln!(
            doc,
            "| `{}` | {} | {again} | {}: {} | {} |",
            it.code,
            category.trim_matches('"'),
            it.title,
            it.explanation,
            it.next
        )
        .unwrap();
    }
    doc.push_str(WIRES);
    for known in wires::list() {
        for (wire, meaning) in known.on {
            writeln!(doc, "| `{}` | {wire} | {meaning} |", known.code).unwrap();
        }
    }
    doc
}

#[test]
fn the_published_list_is_that_of_the_code() {
    published::check("errors.md", &generate());
}

#[test]
fn codes_are_unique_and_explained() {
    for kind in declared() {
        let known = explain(kind.code).next().unwrap();
        assert_eq!(*known, Explanation::from(kind), "parts share one meaning");
        assert!((400..=599).contains(&kind.status), "{kind:?}");
        assert_fits(known);
    }
    for kind in FAILURE_KINDS {
        let it = failures::explain(kind);
        assert_eq!(it.code, kind.as_str());
        let meanings: Vec<_> = explain(it.code).collect();
        assert_eq!(meanings.last(), Some(&it));
        let refusals = meanings.iter().filter(|known| known.status.is_some());
        assert_eq!(refusals.count(), meanings.len() - 1, "{meanings:?}");
        assert_fits(it);
    }
    assert_eq!(explain("nothing").count(), 0);
    assert_eq!(explain("timed_out").count(), 2);
    assert_eq!(wires::explain("nothing"), None);
    let shared = wires::explain("E_FIELD_TYPE").unwrap();
    let on: Vec<&str> = shared.on.iter().map(|(wire, _)| *wire).collect();
    assert_eq!(on, ["beads", "delta", "hero", "rrq"]);
}

/// Checks that it can stand in a table.
fn assert_fits(it: &Explanation) {
    let cells = [it.title, it.explanation, it.next];
    let fits = |text: &&str| !text.is_empty() && !text.contains(['|', '\n']);
    assert!(cells.iter().all(fits), "{it:?}");
}
