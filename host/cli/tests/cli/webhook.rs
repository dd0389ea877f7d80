//! `host webhook`.

use crate::canned::{CannedHost, Transcript, run_alone};

const ACCEPTED: &str =
    r#"{"id":"01990f3c-1a2b-7c3d-8e4f-5a6b7c8d9e0f","state":"available","existing":false}"#;
const NOT_ALLOWED: &str = r#"{"type":"about:blank","code":"invalid_request","title":"Invalid request","status":422,"detail":"url: no section [webhooks.NAME] of the configuration allows it"}"#;

fn delivery(state: &str, more: &str) -> String {
    format!(
        r#"{{"id":"01990f3c-1a2b-7c3d-8e4f-5a6b7c8d9e0f","handler":"webhooks#deliver","queue":"webhooks","state":"{state}","priority":5,"attempt":1,"max_attempts":18,"attempts_charged":1,"attempts_lost":0,"waited_ms":2,"ran_ms":60,"wire":"webhook","enqueued_at":"2026-05-17T18:25:00.000Z"{more}}}"#
    )
}

#[test]
fn help() {
    let mut seen = Transcript::new("webhook_help");
    seen.add(&run_alone(&["webhook", "--help"]));
    seen.add(&run_alone(&["webhook", "test", "--help"]));
    seen.check();
}

#[test]
fn test() {
    let mut seen = Transcript::new("webhook_test");
    let answered = delivery("completed", r#","result":{"status":200,"body":"ok"}"#);
    let failure =
        r#","failure":{"kind":"user_error","message":"the receiver answered 410: it is gone"}"#;
    let gone = delivery("discarded", failure);
    let host = CannedHost::start(&[
        (201, ACCEPTED),
        (200, &answered),
        (201, ACCEPTED),
        (200, &answered),
        (201, ACCEPTED),
        (200, &gone),
        (422, NOT_ALLOWED),
    ]);
    let test = [
        "webhook",
        "test",
        "https://hooks.example.com/paid",
        "--secret",
        "hooks",
    ];
    seen.add(&host.run(&test));
    seen.add(&host.run(&[&test[..], &["-o", "json"]].concat()));
    seen.add(&host.run(&test));
    seen.add(&host.run(&test));
    seen.add(&run_alone(&test[..3]));
    seen.check();
}
