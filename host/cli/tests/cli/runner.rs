//! `host runner`.

use crate::canned::{CannedHost, Transcript, run_alone};

const PYTHON: &str = r#"{"name":"python","wire":"rrq","restartable":true,"queues":["mail","bulk"],"default":true,"up":1,"in_flight":12,"runners":[{"executor":"python/1","state":"up","address":"127.0.0.1:7801","pid":4711,"in_flight":12,"failures":0},{"executor":"python/2","state":"down","in_flight":0,"failures":3,"reason":"the runner has ended: exit status: 3"}]}"#;
const THEIRS: &str = r#"{"name":"theirs","wire":"rrq","restartable":true,"external":true,"queues":[],"default":false,"up":0,"in_flight":0,"runners":[{"executor":"theirs/1","state":"starting","address":"127.0.0.1:7900","in_flight":0,"failures":0}]}"#;

const HERO: &str = r#"{"name":"hero-osis","wire":"hero","queues":["night"],"default":false,"up":0,"in_flight":3,"runners":[{"executor":"hero-osis","state":"down","address":"redis://127.0.0.1:6379/0","in_flight":3,"failures":7,"reason":"Connection refused (os error 111)"}]}"#;

const WORKERS: &str = r#"{"name":"beads","wire":"beads","external":true,"queues":[],"default":false,"up":2,"in_flight":1,"runners":[{"executor":"beads/1","state":"up","in_flight":1,"failures":0,"doing":"W1 works on 0199a0b0-0000-7000-8000-000000000001"},{"executor":"beads/2","state":"up","in_flight":0,"failures":0,"doing":"W2\u001b[31m waits for a task"}]}"#;

#[test]
fn help() {
    let mut seen = Transcript::new("runner_help");
    for verb in ["ls", "show", "restart"] {
        seen.add(&run_alone(&["runner", verb, "--help"]));
    }
    seen.add(&run_alone(&["runner", "--help"]));
    seen.check();
}

#[test]
fn a_list() {
    let mut seen = Transcript::new("runner_a_list");
    let page = format!(r#"{{"items":[{PYTHON},{THEIRS}],"next_cursor":null}}"#);
    let none = r#"{"items":[],"next_cursor":null}"#;
    let host = CannedHost::start(&[(200, &page), (200, &page), (200, none)]);
    seen.add(&host.run(&["runner", "ls"]));
    seen.add(&host.run(&["runner", "ls", "-o", "name"]));
    seen.add(&host.run(&["runner", "ls"]));
    seen.check();
}

#[test]
fn pools_of_several_nodes() {
    let mut seen = Transcript::new("runner_pools_of_several_nodes");
    let at = |pool: &str, node: &str| pool.replacen('{', &format!(r#"{{"node":{node},"#), 1);
    let python = at(
        PYTHON,
        r#"{"id":"0199a0b0-0000-7000-8000-00000000000a","name":"db-1"}"#,
    )
    .replacen(r#""up":1"#, r#""runners_omitted":3,"up":5"#, 1);
    let theirs = at(THEIRS, r#"{"id":"0199a0b0-0000-7000-8000-00000000000b"}"#);
    let page = format!(r#"{{"items":[{python},{theirs}],"next_cursor":null}}"#);
    let missing = r#"{"status":404,"title":"No such runner","detail":"no runner of the node db-1 is named perl","code":"runner_not_found"}"#;
    // Both have the same name.
    let twin = theirs.replacen(r#"b"}"#, r#"b","name":"db-1"}"#, 1);
    let twins = format!(r#"{{"items":[{python},{twin}],"next_cursor":null}}"#);
    let host = CannedHost::start(&[
        (200, &page),
        (200, &twins),
        (200, &python),
        (200, &theirs),
        (404, missing),
    ]);
    seen.add(&host.run(&["runner", "ls"]));
    seen.add(&host.run(&["runner", "ls"]));
    seen.add(&host.run(&["runner", "show", "python"]));
    seen.add(&host.run(&["runner", "show", "theirs", "--node", "0199 b"]));
    seen.add(&host.run(&["runner", "show", "perl", "--node", "db-1"]));
    seen.check();
}

#[test]
fn one_pool() {
    let mut seen = Transcript::new("runner_one_pool");
    let mut answers = vec![(200, PYTHON); 4];
    answers.push((200, THEIRS));
    let host = CannedHost::start(&answers);
    seen.add(&host.run(&["runner", "show", "python"]));
    seen.add(&host.run(&["runner", "show", "python/2"]));
    seen.add(&host.run(&["runner", "show", "python/3"]));
    seen.add(&host.run(&["runner", "show", "python", "-o", "json"]));
    seen.add(&host.run(&["runner", "show", "theirs", "-q"]));
    seen.check();
}

#[test]
fn a_worker_of_hero() {
    let mut seen = Transcript::new("runner_a_worker_of_hero");
    let host = CannedHost::start(&[(200, HERO)]);
    seen.add(&host.run(&["runner", "show", "hero-osis"]));
    seen.check();
}

#[test]
fn workers_that_report_what_they_do() {
    let mut seen = Transcript::new("runner_workers_that_tell_what_they_do");
    let host = CannedHost::start(&[(200, WORKERS)]);
    seen.add(&host.run(&["runner", "show", "beads"]));
    seen.check();
}

#[test]
fn restarting() {
    let mut seen = Transcript::new("runner_restarting");
    let missing = r#"{"status":404,"title":"No such runner","detail":"no runner is named perl","code":"runner_not_found"}"#;
    let wrong = r#"{"status":422,"title":"Invalid request","detail":"runner: must be 1–2","code":"invalid_request"}"#;
    let host = CannedHost::start(&[
        (200, PYTHON),
        (200, PYTHON),
        (200, THEIRS),
        (422, wrong),
        (404, missing),
    ]);
    seen.add(&host.run(&["runner", "restart", "python"]));
    seen.add(&host.run(&["runner", "restart", "python/2"]));
    seen.add(&host.run(&["runner", "restart", "theirs"]));
    seen.add(&host.run(&["runner", "restart", "python/3"]));
    seen.add(&host.run(&["runner", "restart", "perl"]));
    seen.check();
}
