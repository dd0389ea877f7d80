//! `host handler`.

use crate::canned::{CannedHost, Transcript, run_alone};

const LIMITS: &str = r#""memory_bytes":67108864,"timeout_ms":30000,"grace_ms":5000,"result_bytes_max":1048576,"log_bytes_max":1048576"#;
const RETRIES: &str = r#""max_attempts":20,"backoff":{"base_ms":1000,"max_ms":3600000}"#;

fn echo() -> String {
    format!(
        r#"{{"name":"echo","component":"basics","revision":3,"description":"Returns \u001b[31mits params.\n\nAll of them.","limits":{{{LIMITS},"fuel":null}},{RETRIES},"grants":{{"env":[],"read_dirs":[]}},"cost":[{},{}],"params_schema":{{"type":"object","title":"\u001b[1m","maximum":1.10}},"result_schema":null}}"#,
        cost(3, 12_345),
        cost(2, 900)
    )
}

/// What a revision has cost, which ran only earlier today if it is below the third.
fn cost(revision: u32, runs: u32) -> String {
    let spread = |p50: u64, p99: u64| format!(r#"{{"p50":{p50},"p99":{p99},"max":{p99}}}"#);
    let cost = format!(
        r#"{{"runs":{runs},"failures":1,"ran_ms":{},"fuel":{},"cpu_us":{},"peak_memory_bytes":{}}}"#,
        spread(2, 1_500),
        spread(25_277, 1_000_000),
        spread(180, 12_000),
        spread(1_114_112, 1_179_648),
    );
    let hour = if revision < 3 { "null" } else { &cost };
    format!(
        r#"{{"component":"basics","revision":{revision},"last_hour":{hour},"last_day":{cost}}}"#
    )
}

fn report() -> String {
    format!(
        r#"{{"name":"team/report","component":"report","revision":1,"limits":{{{LIMITS},"fuel":123456789}},{RETRIES},"grants":{{"env":["TZ","LANG"],"read_dirs":[{{"host":"/srv/\u001b[1mreports","guest":"/reports"}}]}},"result_schema":{{"type":"string"}}}}"#
    )
}

#[test]
fn help() {
    let mut seen = Transcript::new("handler_help");
    seen.add(&run_alone(&["handler", "--help"]));
    for verb in ["ls", "show"] {
        seen.add(&run_alone(&["handler", verb, "--help"]));
    }
    seen.check();
}

#[test]
fn list() {
    let mut seen = Transcript::new("handler_list");
    let page = format!(r#"{{"items":[{},{}]}}"#, echo(), report());
    let host = CannedHost::start(&[
        (200, &page),
        (200, &page),
        (200, &page),
        (200, &page),
        (200, r#"{"items":[],"next_cursor":null}"#),
    ]);
    seen.add(&host.run(&["handler", "ls"]));
    seen.add(&host.run(&["handler", "ls", "--component", "report", "-o", "jsonl"]));
    seen.add(&host.run(&["handler", "ls", "-o", "name"]));
    seen.add(&host.run(&["handler", "ls", "--component", "other"]));
    seen.add(&host.run(&["handler", "ls"]));
    seen.check();
}

#[test]
fn show() {
    let mut seen = Transcript::new("handler_show");
    let unknown = r#"{"status":404,"title":"Not found","detail":"no handler is named ecko","code":"handler_not_found"}"#;
    let host = CannedHost::start(&[
        (200, &echo()),
        (200, &report()),
        (200, &report()),
        (404, unknown),
    ]);
    seen.add(&host.run(&["handler", "show", "echo"]));
    seen.add(&host.run(&["handler", "show", "team/report"]));
    seen.add(&host.run(&["handler", "show", "team/report", "-o", "json"]));
    seen.add(&host.run(&["handler", "show", "ecko"]));
    seen.check();
}
