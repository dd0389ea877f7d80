//! `host state`.

use crate::canned::{CannedHost, Transcript, run_alone};

const SPACES: &str = r#"{"items":[{"space":"handler:fetch-orders","keys":1,"bytes":77},{"space":"shared:rates","keys":12345,"bytes":1048576}],"next_cursor":null}"#;
const KEYS: &str = r#"{"items":[{"key":"eur","bytes":3,"updated_at":"2026-05-17T18:29:00.000Z"}],"next_cursor":null}"#;
const VALUE: &str = r#"{"key":"eur","value":"1.1","updated_at":"2026-05-17T18:29:00.000Z"}"#;
const BYTES: &str = r#"{"key":"eur","base64":"/wA=","updated_at":"2026-05-17T18:29:00.000Z"}"#;

#[test]
fn help() {
    let mut seen = Transcript::new("state_help");
    for verb in ["ls", "get", "set", "rm"] {
        seen.add(&run_alone(&["state", verb, "--help"]));
    }
    seen.add(&run_alone(&["state", "--help"]));
    seen.check();
}

#[test]
fn lists() {
    let mut seen = Transcript::new("state_lists");
    let none = r#"{"items":[],"next_cursor":null}"#;
    let answers = [SPACES, SPACES, KEYS, KEYS, none, none].map(|answer| (200, answer));
    let host = CannedHost::start(&answers);
    seen.add(&host.run(&["state", "ls"]));
    seen.add(&host.run(&["state", "ls", "-o", "json"]));
    seen.add(&host.run(&["state", "ls", "shared:rates", "--prefix", "e"]));
    seen.add(&host.run(&["state", "ls", "shared:rates", "-o", "json"]));
    seen.add(&host.run(&["state", "ls"]));
    seen.add(&host.run(&["state", "ls", "handler:a/b"]));
    seen.check();
}

#[test]
fn one_key() {
    let mut seen = Transcript::new("state_one_key");
    let removed = r#"{"removed":1,"more":false}"#;
    let answers = [VALUE, VALUE, BYTES, VALUE, removed].map(|answer| (200, answer));
    let host = CannedHost::start(&answers);
    seen.add(&host.run(&["state", "get", "shared:rates", "eur"]));
    seen.add(&host.run(&["state", "get", "shared:rates", "eur", "-o", "json"]));
    seen.add(&host.run(&["state", "get", "shared:rates", "eur", "-o", "json"]));
    seen.add(&host.run(&["state", "set", "shared:rates", "eur", "1.1"]));
    seen.add(&host.run(&["state", "rm", "shared:rates", "eur"]));
    seen.check();
}

#[test]
fn many_keys_are_removed_in_several_requests() {
    let mut seen = Transcript::new("state_many_keys_are_removed_in_several_requests");
    let (more, last) = (
        r#"{"removed":1000,"more":true}"#,
        r#"{"removed":7,"more":false}"#,
    );
    let host = CannedHost::start(&[(200, more), (200, last)]);
    seen.add(&host.run(&["state", "rm", "shared:rates", "--all"]));
    seen.add(&run_alone(&["state", "rm", "shared:rates"]));
    seen.check();
}

#[test]
fn an_unknown_key() {
    let mut seen = Transcript::new("state_an_unknown_key");
    let problem = r#"{"type":"urn:host:problem:state_not_found","title":"No such state","status":404,"detail":"the state shared:rates has no key \"usd\"","code":"state_not_found","next":"`host state ls SPACE` lists the keys, `host state ls` the spaces."}"#;
    let host = CannedHost::start(&[(404, problem)]);
    seen.add(&host.run(&["state", "get", "shared:rates", "usd"]));
    seen.check();
}
