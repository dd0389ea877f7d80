//! `host queue`.

use crate::canned::{CannedHost, Transcript, run_alone};

const DEFAULT: &str = r#"{"name":"default","paused":false,"counts":{"pending":0,"scheduled":2,"available":12345,"running":8,"retryable":1,"completed":1000000,"cancelled":3,"discarded":4}}"#;
const NIGHTLY: &str = r#"{"name":"nightly","paused":true,"counts":{"available":7}}"#;

#[test]
fn help() {
    let mut seen = Transcript::new("queue_help");
    for verb in ["ls", "show", "pause", "resume", "set", "rm"] {
        seen.add(&run_alone(&["queue", verb, "--help"]));
    }
    seen.add(&run_alone(&["queue", "--help"]));
    seen.check();
}

#[test]
fn a_list_lines_numbers_up() {
    let mut seen = Transcript::new("queue_a_list_lines_numbers_up");
    let page = format!(r#"{{"items":[{DEFAULT},{NIGHTLY}],"next_cursor":null}}"#);
    let host = CannedHost::start(&[(200, &page), (200, &page), (200, &page), (200, &page)]);
    seen.add(&host.run(&["queue", "ls"]));
    seen.add(&host.run(&["queue", "ls", "-o", "json"]));
    seen.add(&host.run(&["queue", "ls", "-o", "jsonl"]));
    seen.add(&host.run(&["queue", "ls", "-o", "name"]));
    seen.check();
}

#[test]
fn an_empty_list_says_so() {
    let mut seen = Transcript::new("queue_an_empty_list_says_so");
    let host = CannedHost::start(&[(200, r#"{"items":[],"next_cursor":null}"#)]);
    seen.add(&host.run(&["queue", "ls"]));
    seen.check();
}

#[test]
fn one_queue() {
    let mut seen = Transcript::new("queue_one_queue");
    let host = CannedHost::start(&[(200, NIGHTLY), (200, DEFAULT)]);
    seen.add(&host.run(&["queue", "show", "nightly"]));
    seen.add(&host.run(&["queue", "show", "default", "-q"]));
    seen.check();
}

#[test]
fn pausing_and_resuming() {
    let mut seen = Transcript::new("queue_pausing_and_resuming");
    let unused = r#"{"name":"nigthly","paused":true,"counts":{"available":0}}"#;
    let host = CannedHost::start(&[(200, NIGHTLY), (200, unused), (200, DEFAULT)]);
    seen.add(&host.run(&["queue", "pause", "nightly"]));
    seen.add(&host.run(&["queue", "pause", "nigthly"]));
    seen.add(&host.run(&["queue", "resume", "a/b c"]));
    seen.check();
}

#[test]
fn limiting() {
    let mut seen = Transcript::new("queue_limiting");
    let set = r#"{"name":"queue:nightly","limit":{"match":{"queue":"nightly"},"concurrency":4},"source":"api","waiting":0,"keys":[]}"#;
    let host = CannedHost::start(&[(200, set)]);
    seen.add(&host.run(&["queue", "set", "nightly", "--concurrency", "4"]));
    seen.add(&run_alone(&["queue", "set", "nightly"]));
    seen.check();
}

#[test]
fn an_unknown_queue() {
    let mut seen = Transcript::new("queue_an_unknown_queue");
    let problem = r#"{"status":404,"title":"Not found","detail":"no queue is named nightli","code":"queue_not_found"}"#;
    let host = CannedHost::start(&[(404, problem)]);
    seen.add(&host.run(&["queue", "pause", "nightli"]));
    seen.check();
}
