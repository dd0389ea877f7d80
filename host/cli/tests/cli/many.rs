//! `host job retry|cancel|purge --all`, and an operator's changes of one job.

use crate::canned::{CannedHost, Transcript, run_alone};

const A: &str = "01990f3c-1a2b-7000-8000-000000000001";

const HEALTH: &str =
    r#"{"status":"ok","version":"0.9.0","uptime_seconds":60,"isolation":"shared"}"#;
const COUNT: &str = r#"{"jobs":1500,"complete":true,"oldest":"2026-05-17T18:00:00.000Z","newest":"2026-05-17T18:25:00.000Z"}"#;
const SOME: &str = r#"{"jobs":20,"complete":false,"oldest":"2026-05-17T17:00:00.000Z","newest":"2026-05-17T18:01:00.000Z","next_cursor":"100000"}"#;
const AT_LEAST: &str = r#"{"jobs":20,"complete":false,"oldest":"2026-05-17T17:00:00.000Z","newest":"2026-05-17T18:01:00.000Z","next_cursor":null}"#;
const NONE: &str = r#"{"jobs":0,"complete":true,"oldest":null,"newest":null}"#;
const FIRST: &str =
    r#"{"matched":1000,"changed":1000,"refused":0,"refusals":[],"next_cursor":"77"}"#;
const REST: &str = r#"{"matched":500,"changed":499,"refused":1,"refusals":[{"id":"01990f3c-1a2b-7000-8000-000000000001","code":"unique_key_taken","detail":"job x has the same unique key and has not ended"}],"next_cursor":null}"#;

#[test]
fn help() {
    let mut seen = Transcript::new("many_help");
    for verb in ["purge", "set-priority", "reschedule"] {
        seen.add(&run_alone(&["job", verb, "--help"]));
    }
    seen.check();
}

#[test]
fn a_preview_changes_nothing() {
    let mut seen = Transcript::new("many_a_preview");
    let host = CannedHost::start(&[(200, COUNT), (200, HEALTH), (200, COUNT), (200, NONE)]);
    seen.add(&host.run(&["job", "retry", "--all", "--queue", "nightly", "--dry-run"]));
    let since = [
        "job",
        "retry",
        "--all",
        "--since",
        "1h",
        "--dry-run",
        "-o",
        "json",
    ];
    seen.add(&host.run(&since));
    seen.add(&host.run(&["job", "retry", "--all", "--failure", "timed_out", "--yes"]));
    seen.check();
}

#[test]
fn a_count_goes_on_until_it_is_complete() {
    let mut seen = Transcript::new("many_a_count_goes_on");
    let host = CannedHost::start(&[(200, SOME), (200, COUNT), (200, AT_LEAST)]);
    let preview = ["job", "retry", "--all", "--dry-run"];
    seen.add(&host.run(&preview));
    seen.add(&host.run(&preview));
    seen.check();
}

#[test]
fn all_pages_are_changed_and_refusals_are_listed() {
    let mut seen = Transcript::new("many_all_pages");
    let host = CannedHost::start(&[
        (200, COUNT),
        (200, FIRST),
        (200, REST),
        (200, COUNT),
        (200, FIRST),
    ]);
    seen.add(&host.run(&["job", "retry", "--all", "--force", "--yes"]));
    let limited = [
        "job",
        "purge",
        "--all",
        "--state",
        "discarded",
        "--limit",
        "1000",
        "--yes",
        "-o",
        "json",
    ];
    seen.add(&host.run(&limited));
    seen.check();
}

/// Of three available jobs, two had started by the time that they were cancelled. They still run when those that run are cancelled.
#[test]
fn a_job_that_starts_while_others_are_cancelled_is_counted_once() {
    let mut seen = Transcript::new("many_started");
    let page = |matched, changed, stopping, unchanged| {
        format!(
            r#"{{"matched":{matched},"changed":{changed},"stopping":{stopping},"unchanged":{unchanged},"refused":0,"in_other_state":0,"refusals":[],"next_cursor":null}}"#
        )
    };
    let (available, running) = (page(3, 3, 2, 0), page(5, 2, 2, 3));
    let host = CannedHost::start(&[
        (200, COUNT),
        (200, COUNT),
        (200, &available),
        (200, &running),
    ]);
    let states = ["--state", "available", "--state", "running"];
    let arguments = [&["job", "cancel", "--all", "--yes"][..], &states].concat();
    seen.add(&host.run(&arguments));
    seen.check();
}

#[test]
fn what_is_not_done() {
    let mut seen = Transcript::new("many_what_is_not_done");
    let host = CannedHost::start(&[(200, COUNT)]);
    seen.add(&host.run(&["job", "retry", "--all"]));
    for arguments in [
        &["job", "purge", "--all"][..],
        &["job", "purge", "--all", "--state", "running"],
        &["job", "cancel", A, "--queue", "nightly"],
        &["job", "cancel", A, "--all"],
        &["job", "cancel", A, "--dry-run"],
        &["job", "cancel"],
        &["job", "retry", "--all", "--since", "yesterday"],
        &["job", "set-priority", A, "--to", "10"],
        &["job", "reschedule", A],
    ] {
        seen.add(&run_alone(arguments));
    }
    seen.check();
}

#[test]
fn one_job() {
    let mut seen = Transcript::new("many_one_job");
    let job = |state: &str, more: &str| {
        format!(
            r#"{{"id":"{A}","state":"{state}","handler":"echo","queue":"default","priority":0,"wire":"http"{more}}}"#
        )
    };
    let scheduled = job("scheduled", r#","run_at":"2026-05-17T18:31:00.000Z""#);
    let (available, discarded) = (job("available", ""), job("discarded", ""));
    let host = CannedHost::start(&[(200, &available), (200, &scheduled), (200, &discarded)]);
    seen.add(&host.run(&["job", "set-priority", "01990f3c", "--to", "0"]));
    seen.add(&host.run(&["job", "reschedule", "01990f3c", "--after", "1m"]));
    seen.add(&host.run(&["job", "purge", "01990f3c"]));
    seen.check();
    let hostile = job("scheduled", r#","run_at":"\u001b[31mx""#);
    let host = CannedHost::start(&[(200, &hostile)]);
    let message = host.run(&["job", "reschedule", "01990f3c", "--after", "1m"]);
    assert!(message.contains("starts x\n"), "{message:?}");
    assert!(!message.contains('\u{1b}'), "{message:?}");
}
