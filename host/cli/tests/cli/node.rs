//! `host node`.

use crate::canned::{CannedHost, Transcript, run_alone};

const ONE: &str = r#"{"id":"0199a0b0-0000-7000-8000-000000000001","name":"one","state":"live","answers":true,"version":"0.9.0","started_at":"2026-05-17T09:00:00.000Z","address":"127.0.0.1:7700","heartbeat_age_seconds":0.4,"cells":4,"slots":16,"wires":["sample"],"runners":["python"],"running":{"all":5,"cells":2,"runners":{"python":3}}}"#;
const DRAINS: &str = r#"{"id":"0199a0b0-0000-7000-8000-000000000001","name":"one","state":"draining","version":"0.9.0","heartbeat_age_seconds":0.4,"running":{"all":2,"cells":2,"runners":{}}}"#;
const DRAINED: &str = r#"{"id":"0199a0b0-0000-7000-8000-000000000001","name":"one","state":"drained","version":"0.9.0","heartbeat_age_seconds":0.4,"running":{"all":0,"cells":0,"runners":{}}}"#;
const SILENT: &str = r#"{"id":"0199a0b0-0000-7000-8000-000000000002","name":"t\u001b[31mwo","state":"silent","version":"0.9.0","heartbeat_age_seconds":7.25,"cells":2,"slots":16,"wires":[],"runners":[],"running":{"all":1,"cells":1,"runners":{}}}"#;
const GONE: &str = r#"{"id":"0199a0b0-0000-7000-8000-000000000003","state":"gone","version":"0.8.0","heartbeat_age_seconds":4000.0,"wires":[],"runners":[],"running":{"all":0,"cells":0,"runners":{}}}"#;
const ASKED: &str = r#"{"id":"0199a0b0-0000-7000-8000-000000000001","name":"one","state":"draining","version":"0.9.0","heartbeat_age_seconds":0.4,"running":{"all":2,"cells":2,"runners":{}},"others_live":0,"note":"no other node starts jobs: they wait until one does, or until this one is resumed"}"#;
const RESUMED: &str = r#"{"id":"0199a0b0-0000-7000-8000-000000000001","name":"one","state":"live","version":"0.9.0","heartbeat_age_seconds":0.4,"running":{"all":2,"cells":2,"runners":{}},"others_live":1}"#;
const UNKNOWN: &str = r#"{"type":"urn:host:problem:node_not_found","title":"No such node","status":404,"code":"node_not_found","detail":"no node has the name or the id \"x\""}"#;
const LOST: &str = r#"{"type":"urn:host:problem:node_gone","title":"The node is gone","status":409,"code":"node_gone","detail":"the node has sent no heartbeat for 12 s; other nodes take over its jobs"}"#;

#[test]
fn help() {
    let mut seen = Transcript::new("node_help");
    for verb in ["ls", "show", "drain", "resume"] {
        seen.add(&run_alone(&["node", verb, "--help"]));
    }
    seen.add(&run_alone(&["node", "--help"]));
    seen.check();
}

#[test]
fn a_list() {
    let mut seen = Transcript::new("node_a_list");
    let page = format!(r#"{{"items":[{ONE},{SILENT},{GONE}],"next_cursor":null}}"#);
    let alone = format!(r#"{{"items":[{ONE}],"next_cursor":null}}"#);
    let host = CannedHost::start(&[(200, &page), (200, &page), (200, &alone)]);
    seen.add(&host.run(&["node", "ls"]));
    seen.add(&host.run(&["node", "ls", "-o", "name"]));
    seen.add(&host.run(&["node", "ls"]));
    seen.check();
}

#[test]
fn one_node() {
    let mut seen = Transcript::new("node_one_node");
    let host = CannedHost::start(&[(200, ONE), (200, ONE), (200, GONE), (404, UNKNOWN)]);
    seen.add(&host.run(&["node", "show", "one"]));
    seen.add(&host.run(&["node", "show", "one", "-o", "json"]));
    seen.add(&host.run(&["node", "show", "0199a0b0-0000-7000-8000-000000000003"]));
    seen.add(&host.run(&["node", "show", "x"]));
    seen.check();
}

#[test]
fn draining() {
    let mut seen = Transcript::new("node_draining");
    let host = CannedHost::start(&[
        (200, ASKED),
        (200, ASKED),
        (200, DRAINS),
        (200, DRAINED),
        (200, ASKED),
        (200, DRAINS),
        (409, LOST),
        (404, UNKNOWN),
        (200, RESUMED),
    ]);
    seen.add(&host.run(&["node", "drain", "one"]));
    seen.add(&host.run(&["node", "drain", "one", "--wait", "-q"]));
    seen.add(&host.run(&["node", "drain", "one", "--wait", "--timeout", "0s"]));
    seen.add(&host.run(&["node", "drain", "one"]));
    seen.add(&host.run(&["node", "drain", "x"]));
    seen.add(&host.run(&["node", "resume", "one"]));
    seen.add(&host.run(&["node", "drain", "one", "--timeout", "5s"]));
    seen.check();
}
