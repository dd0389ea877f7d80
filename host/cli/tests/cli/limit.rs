//! `host limit`.

use crate::canned::{CannedHost, Transcript, run_alone};

const BY_CUSTOMER: &str = r#"{"name":"by-customer","limit":{"key":"/customer","concurrency":3,"when_full":"wait"},"source":"api","waiting":1234,"keys":[{"key":"acme","waiting":1200,"available":1,"running":2},{"key":"","waiting":34,"available":0,"running":3,"held_until":"2026-09-12T10:00:00.000Z"}]}"#;
const MAIL: &str = r#"{"name":"mail","limit":{"match":{"queue":"mail*","handler":"python#*"},"key":["/customer","attributes:region"],"rate":{"count":100,"per_seconds":60,"burst":10},"units":"/recipients","when_full":"refuse"},"source":"configuration","waiting":0,"keys":[]}"#;
const HIDDEN: &str = r#"{"name":"all","limit":{"concurrency":5000,"rate":{"count":1,"per_seconds":1,"burst":1}},"source":"api","waiting":0}"#;

#[test]
fn help() {
    let mut seen = Transcript::new("limit_help");
    seen.add(&run_alone(&["limit", "--help"]));
    for verb in ["set", "ls", "show", "rm"] {
        seen.add(&run_alone(&["limit", verb, "--help"]));
    }
    seen.check();
}

#[test]
fn set() {
    let mut seen = Transcript::new("limit_set");
    let host = CannedHost::start(&[(200, BY_CUSTOMER), (200, MAIL)]);
    let set = ["limit", "set", "by-customer"];
    let with = |options: &[&'static str]| [&set, options].concat();
    seen.add(&host.run(&with(&["--key", "/customer", "--concurrency", "3"])));
    seen.add(&host.run(&with(&[
        "--queue",
        "mail*",
        "--key",
        "/customer",
        "--key",
        "attributes:region",
        "--rate",
        "100/1m",
        "--burst",
        "10",
        "--units",
        "/recipients",
        "--when-full",
        "refuse",
    ])));
    seen.add(&run_alone(&with(&[])));
    seen.add(&run_alone(&with(&["--concurrency", "1", "--units", "/n"])));
    seen.add(&run_alone(&with(&["--rate", "100"])));
    seen.add(&run_alone(&with(&["--rate", "1/500ms"])));
    seen.add(&run_alone(&with(&["--concurrency", "0"])));
    seen.check();
}

#[test]
fn shown_and_removed() {
    let mut seen = Transcript::new("limit_shown");
    let listed = format!("{{\"items\":[{HIDDEN},{BY_CUSTOMER},{MAIL}],\"next_cursor\":null}}");
    let none = r#"{"items":[],"next_cursor":null}"#;
    let removed = r#"{"name":"mail","removed":true}"#;
    let answers = [&listed, none, BY_CUSTOMER, MAIL, HIDDEN, removed];
    let host = CannedHost::start(&answers.map(|answer| (200, answer)));
    seen.add(&host.run(&["limit", "ls"]));
    seen.add(&host.run(&["limit", "ls"]));
    seen.add(&host.run(&["limit", "show", "by-customer", "--keys", "2"]));
    seen.add(&host.run(&["limit", "show", "mail"]));
    seen.add(&host.run(&["limit", "show", "all"]));
    seen.add(&host.run(&["limit", "rm", "mail"]));
    seen.check();
}
