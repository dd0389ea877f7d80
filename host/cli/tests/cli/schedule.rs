//! `host schedule`.

use crate::canned::{CannedHost, Transcript, run_alone};

const NIGHTLY: &str = r#"{"name":"nightly","schedule":{"when":{"cron":"30 2 * * *"},"time_zone":"Europe/Berlin","job":{"handler":"report","params":{"n":1}},"overlap":"skip","catch_up":"last","window":"1h","note":"for the board"},"source":"api","next":"2026-05-18T00:30:00.000Z","fires_at":"2026-05-18T00:30:00.000Z","held":0,"counts":{"fired":12,"late":1,"skipped":2,"missed":3,"failed":4}}"#;
const PAUSED: &str = r#"{"name":"nightly","schedule":{"when":{"every":"10m","phase":"2m"},"job":{"handler":"report"},"paused":true},"source":"api","held":0,"counts":{"fired":0,"late":0,"skipped":0,"missed":0,"failed":0}}"#;
const FIRINGS: &str = r#"{"items":[{"nominal":"2026-05-17T00:30:00.000Z","at":"2026-05-17T00:30:00.012Z","fate":"fired","job":"0199d3a0-6b1e-7c54-9c3f-2f8a5d1e4b60"},{"nominal":"2026-05-16T00:30:00.000Z","at":"2026-05-16T08:00:00.000Z","fate":"missed","times":3},{"nominal":"2026-05-13T00:30:00.000Z","at":"2026-05-13T00:30:00.004Z","fate":"failed","reason":"no handler is named report"}],"next_cursor":null}"#;
const NEXT: &str = r#"{"items":[{"nominal":"2026-05-18T02:30:00+02:00","fires_at":"2026-05-18T00:30:00.000Z"}],"next_cursor":null}"#;
const JOBS: &str = r#"{"jobs":["0199d3a0-6b1e-7c54-9c3f-2f8a5d1e4b60"]}"#;

#[test]
fn help() {
    let mut seen = Transcript::new("schedule_help");
    seen.add(&run_alone(&["schedule", "--help"]));
    for verb in [
        "set", "ls", "show", "next", "pause", "resume", "trigger", "backfill", "rm",
    ] {
        seen.add(&run_alone(&["schedule", verb, "--help"]));
    }
    seen.check();
}

#[test]
fn set() {
    let mut seen = Transcript::new("schedule_set");
    let host = CannedHost::start(&[(200, NIGHTLY), (200, PAUSED)]);
    let nightly = [
        "schedule",
        "set",
        "nightly",
        "report",
        "--cron",
        "30 2 * * *",
        "--time-zone",
        "Europe/Berlin",
        "--params",
        "{\"n\":1}",
    ];
    seen.add(&host.run(&nightly));
    seen.add(&host.run(&[
        "schedule",
        "set",
        "nightly",
        "report",
        "--every",
        "10m",
        "--phase",
        "2m",
        "--overlap",
        "queue_one",
        "--paused",
    ]));
    seen.add(&run_alone(&["schedule", "set", "nightly", "report"]));
    seen.add(&run_alone(&[
        "schedule",
        "set",
        "nightly",
        "report",
        "--every",
        "1h",
        "--overlap",
        "maybe",
    ]));
    seen.check();
}

#[test]
fn shown() {
    let mut seen = Transcript::new("schedule_shown");
    let listed = format!("{{\"items\":[{NIGHTLY},{PAUSED}],\"next_cursor\":null}}");
    let none = r#"{"items":[],"next_cursor":null}"#;
    let answers = [&listed, none, NIGHTLY, FIRINGS, PAUSED, none, NEXT, none];
    let host = CannedHost::start(&answers.map(|answer| (200, answer)));
    seen.add(&host.run(&["schedule", "ls"]));
    seen.add(&host.run(&["schedule", "ls"]));
    seen.add(&host.run(&["schedule", "show", "nightly"]));
    seen.add(&host.run(&["schedule", "show", "nightly"]));
    seen.add(&host.run(&["schedule", "next", "nightly", "--count", "1"]));
    seen.add(&host.run(&["schedule", "next", "nightly"]));
    seen.check();
}

#[test]
fn steered() {
    let mut seen = Transcript::new("schedule_steered");
    let removed = r#"{"name":"nightly","removed":true}"#;
    let answers = [PAUSED, NIGHTLY, JOBS, JOBS, removed].map(|answer| (200, answer));
    let host = CannedHost::start(&answers);
    seen.add(&host.run(&["schedule", "pause", "nightly"]));
    seen.add(&host.run(&["schedule", "resume", "nightly"]));
    seen.add(&host.run(&["schedule", "trigger", "nightly"]));
    let range = [
        "--from",
        "2026-05-01T00:00:00Z",
        "--until",
        "2026-05-02T00:00:00+02:00",
    ];
    let mut backfill = vec!["schedule", "backfill", "nightly"];
    backfill.extend(range);
    seen.add(&host.run(&backfill));
    seen.add(&host.run(&["schedule", "rm", "nightly"]));
    seen.check();
}
