//! `host batch`.

use crate::canned::{CannedHost, Transcript, run_alone};

const ID: &str = "01990f3c-1a2b-7c3d-8e4f-5a6b7c8d9e0f";
const OPEN: &str = r#"{"id":"01990f3c-1a2b-7c3d-8e4f-5a6b7c8d9e0f","state":"open","counts":{"jobs":1002,"not_ended":1002,"completed":0,"discarded":0,"cancelled":0},"callbacks":[{"on":"on_end","handler":"report","queue":"default","job":"01990f3c-1a2b-7c3d-8e4f-5a6b7c8d9e10","enqueued":false}],"created_at":"2026-05-17T18:30:00.000Z","closes_at":"2026-05-24T18:30:00.000Z","waits_because":"it is open until `host batch close 01990f3c-1a2b-7c3d-8e4f-5a6b7c8d9e0f`"}"#;
const ENDED: &str = r#"{"id":"01990f3c-1a2b-7c3d-8e4f-5a6b7c8d9e0f","state":"ended","counts":{"jobs":1002,"not_ended":0,"completed":1000,"discarded":1,"cancelled":1},"callbacks":[{"on":"on_first_failure","handler":"alert","queue":"default","job":"01990f3c-1a2b-7c3d-8e4f-5a6b7c8d9e11","enqueued":true},{"on":"on_success","handler":"publish","queue":"default","job":"01990f3c-1a2b-7c3d-8e4f-5a6b7c8d9e12","enqueued":false},{"on":"on_end","handler":"report","queue":"default","job":"01990f3c-1a2b-7c3d-8e4f-5a6b7c8d9e10","enqueued":true}],"created_at":"2026-05-17T18:30:00.000Z","created_by":"ops","ended_at":"2026-05-17T18:40:00.000Z","kept_until":"2026-05-24T18:40:00.000Z","cancel_requested_at":"2026-05-17T18:35:00.000Z","cancel_reason":"wrong input"}"#;
const ADDED: &str =
    r#"[{"id":"01990f3c-1a2b-7c3d-8e4f-5a6b7c8d9e0f","state":"available","existing":false}]"#;

#[test]
fn help() {
    let mut seen = Transcript::new("batch_help");
    seen.add(&run_alone(&["batch", "--help"]));
    for verb in [
        "new", "add", "close", "cancel", "retry", "purge", "ls", "show",
    ] {
        seen.add(&run_alone(&["batch", verb, "--help"]));
    }
    seen.check();
}

#[test]
fn made_and_filled() {
    let mut seen = Transcript::new("batch_made");
    let made = format!("{{\"batch\":{OPEN},\"jobs\":[]}}");
    let many = format!("[{}]", vec!["{\"handler\":\"resize\"}"; 1_002].join(","));
    let host = CannedHost::start(&[
        (201, &made),
        (201, &made),
        (201, ADDED),
        (200, ENDED),
        (201, ADDED),
        (200, OPEN),
    ]);
    let one = r#"{"handler":"report","queue":"nightly"}"#;
    seen.add(&host.run(&["batch", "new", "--open", "--on-end", one]));
    // In two requests, of which the second is for what the first has no room for; then it is closed.
    let output = host.run(&[
        "batch",
        "new",
        &many,
        "--on-success",
        "publish",
        "-o",
        "name",
    ]);
    let requests: Vec<&str> = output
        .lines()
        .filter(|line| line.starts_with("> "))
        .collect();
    let ends = ["/batches", "/jobs", "/close"];
    for (request, end) in requests.iter().zip(ends) {
        let start = request.get(..80).unwrap_or(request);
        assert!(start.contains(end), "{start}");
    }
    assert_eq!(requests.len(), ends.len());
    assert!(output.contains(ID), "{output}");
    seen.add(&host.run(&["batch", "add", ID, "[{\"handler\":\"resize\"}]"]));
    seen.add(&run_alone(&[
        "batch",
        "add",
        ID,
        "{\"handler\":\"resize\"}",
    ]));
    seen.add(&run_alone(&["batch", "new", "--on-end", "{"]));
    seen.check();
}

#[test]
fn shown_closed_and_cancelled() {
    let mut seen = Transcript::new("batch_shown");
    let listed = format!("{{\"items\":[{OPEN},{ENDED}],\"next_cursor\":null}}");
    let none = r#"{"items":[],"next_cursor":null}"#;
    let answers = [&listed, none, OPEN, ENDED, ENDED, OPEN];
    let host = CannedHost::start(&answers.map(|answer| (200, answer)));
    seen.add(&host.run(&["batch", "ls"]));
    seen.add(&host.run(&["batch", "ls"]));
    seen.add(&host.run(&["batch", "show", ID]));
    seen.add(&host.run(&["batch", "show", ID]));
    seen.add(&host.run(&["batch", "close", ID]));
    seen.add(&host.run(&["batch", "cancel", ID, "--reason", "wrong input"]));
    seen.check();
}
