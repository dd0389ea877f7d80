//! `host component`.

use crate::canned::{CannedHost, Transcript, run_alone};

const DIGEST: &str = "3f2a9c0011223344556677889900aabbccddeeff00112233445566778899aabb";

fn page(cursor: &str, items: &str) -> String {
    format!(r#"{{"items":[{items}],"next_cursor":{cursor}}}"#)
}

fn entry(name: &str, handlers: &str) -> String {
    format!(
        r#"{{"component":"{name}","revision":3,"digest":"{DIGEST}","deployed_at":"2026-05-17T18:25:00.000Z","handlers":[{handlers}]}}"#
    )
}

fn component(current: u32) -> String {
    let revision = |number: u32, at: &str, manifest: &str| {
        format!(
            r#"{{"revision":{number},"digest":"{number}{DIGEST}","deployed_at":"{at}","handlers":["echo","a/b"],"manifest":{manifest},"current":{}}}"#,
            number == current
        )
    };
    let manifest = r#"{"name":"basics","defaults":{"memory_mib":128,"timeout_seconds":1.5,"env":null},"handlers":{"a/b":{"fuel":7,"read_dirs":[{"host":"/srv","guest":"/d\u001b[1m"}]}}}"#;
    format!(
        r#"{{"component":"basics","current":{current},"revisions":[{},{},{}]}}"#,
        revision(1, "2026-05-15T18:30:00.000Z", "{}"),
        revision(2, "2026-05-17T16:30:00.000Z", manifest),
        revision(3, "2026-05-17T18:25:00.000Z", "{}")
    )
}

const UNKNOWN: &str = r#"{"status":404,"title":"Not found","detail":"no component is named basic","code":"component_not_found"}"#;

#[test]
fn help() {
    let mut seen = Transcript::new("component_help");
    seen.add(&run_alone(&["component", "--help"]));
    for verb in ["ls", "show", "rollback", "rm"] {
        seen.add(&run_alone(&["component", verb, "--help"]));
    }
    seen.check();
}

#[test]
fn a_list_is_read_to_its_end() {
    let mut seen = Transcript::new("component_a_list_is_read_to_its_end");
    let first = page("\"c/1\"", &entry("basics", r#""alloc","echo""#));
    let last = page("null", &entry("team/report", ""));
    let host = CannedHost::start(&[
        (200, &first),
        (200, &last),
        (200, &last),
        (200, &last),
        (200, &page("null", "")),
    ]);
    seen.add(&host.run(&["component", "ls"]));
    seen.add(&host.run(&["component", "ls", "-o", "json"]));
    seen.add(&host.run(&["component", "ls", "-o", "name"]));
    seen.add(&host.run(&["component", "ls"]));
    seen.check();
}

#[test]
fn show() {
    let mut seen = Transcript::new("component_show");
    let bare = r#"{"component":"a/b","current":1,"revisions":[{"revision":1,"digest":"12","deployed_at":"2026-05-17T18:25:00.000Z","handlers":[],"current":true}]}"#;
    let one = r#"{"id":"0199a0b0-0000-7000-8000-000000000001","name":"one","state":"live","component":"ready"}"#;
    let two =
        r#"{"id":"0199a0b0-0000-7000-8000-000000000002","state":"silent","component":"compiling"}"#;
    let three = r#"{"id":"0199a0b0-0000-7000-8000-000000000003","name":"t\u001b[31mhree","state":"live","component":"failed","reason":"the manifest grants a/b the environment variable TZ"}"#;
    let nodes = |nodes: &str| format!(r#"{},"nodes":[{nodes}]}}"#, &bare[..bare.len() - 1]);
    let on_nodes = nodes(&[one, two, three].join(","));
    // A host that has its store alone, and can run it.
    let alone = nodes(one);
    let host = CannedHost::start(&[
        (200, &component(2)),
        (200, bare),
        (200, bare),
        (200, &on_nodes),
        (200, &alone),
        (404, UNKNOWN),
    ]);
    seen.add(&host.run(&["component", "show", "basics"]));
    seen.add(&host.run(&["component", "show", "a/b"]));
    seen.add(&host.run(&["component", "show", "a/b", "-o", "json"]));
    seen.add(&host.run(&["component", "show", "a/b"]));
    seen.add(&host.run(&["component", "show", "a/b"]));
    seen.add(&host.run(&["component", "show", "basic"]));
    seen.check();
}

#[test]
fn rollback() {
    let mut seen = Transcript::new("component_rollback");
    let answer = r#"{"component":"basics","revision":2,"digest":"d","handlers":["echo"],"handlers_removed":[{"handler":"old","jobs":3}],"grants_added":["echo: env TZ\u001b[1m"]}"#;
    let refused = r#"{"status":404,"detail":"component basics has no revision 9","code":"revision_not_found","next":"host component show lists them"}"#;
    let host = CannedHost::start(&[
        (200, answer),
        (200, &component(3)),
        (200, answer),
        (200, answer),
        (200, &component(1)),
        (404, refused),
    ]);
    seen.add(&host.run(&["component", "rollback", "basics", "2"]));
    seen.add(&host.run(&["component", "rollback", "basics"]));
    seen.add(&host.run(&["component", "rollback", "basics", "2", "-o", "jsonl"]));
    seen.add(&host.run(&["component", "rollback", "basics"]));
    seen.add(&host.run(&["component", "rollback", "basics", "9"]));
    seen.add(&run_alone(&["component", "rollback", "basics", "0"]));
    seen.check();
}

#[test]
fn rm() {
    let mut seen = Transcript::new("component_rm");
    let live = r#"{"status":409,"detail":"component basics has 3 jobs that have not ended","code":"component_in_use","next":"cancel them or wait for their end"}"#;
    let [removed, other] =
        ["basics", "a/b"].map(|name| format!(r#"{{"component":"{name}","removed":true}}"#));
    let host = CannedHost::start(&[
        (200, &removed),
        (200, &other),
        (200, &removed),
        (409, live),
        (404, UNKNOWN),
    ]);
    seen.add(&host.run(&["component", "rm", "basics"]));
    seen.add(&host.run(&["component", "rm", "a/b", "-o", "json"]));
    seen.add(&host.run(&["component", "rm", "basics", "-o", "name"]));
    seen.add(&host.run(&["component", "rm", "basics"]));
    seen.add(&host.run(&["component", "rm", "basic"]));
    seen.check();
}
