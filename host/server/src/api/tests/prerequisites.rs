//! Jobs that wait for others: how each has to end, and whose results they get.

use axum::http::StatusCode;
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use serde_json::{Value, json};

use super::access::Guarded;
use super::fixture::Host;

const JOBS: &str = "/api/v1/jobs";

#[tokio::test]
async fn a_job_shows_how_those_that_it_waits_for_have_to_end() {
    let host = Host::start().await;
    let body = r##"[
        {"handler":"noop"},
        {"handler":"noop","depends_on":["#0",{"job":"#2","when":"ended"}]},
        {"handler":"noop","depends_on":[{"job":"#0"},{"job":"#0","when":"completed"}]},
        {"handler":"noop","depends_on":[{"job":"#0","when":"failed"}]},
        {"handler":"noop","depends_on":[{"job":"#1","when":"ended"},"#2"]}
    ]"##;
    let answer = host.post(JOBS, body).await.is(StatusCode::CREATED).body;
    let id = |n: usize| answer[n]["id"].as_str().unwrap().to_owned();
    let ended = |n| json!({"job": id(n), "when": "ended"});
    let first = id(0);
    for (n, depends_on, why) in [
        (
            1,
            json!([id(0), ended(2)]),
            format!("it depends on job {first}, which is available, and on 1 other"),
        ),
        (
            2,
            json!([id(0)]),
            format!("it depends on job {first}, which is available"),
        ),
        (
            3,
            json!([{"job": id(0), "when": "failed"}]),
            format!("it depends on job {first}, which is available and has to fail"),
        ),
        (
            4,
            json!([ended(1), id(2)]),
            format!(
                "it depends on job {}, which is pending and has to end, and on 1 other",
                id(1)
            ),
        ),
    ] {
        let job = host.get(&format!("{JOBS}/{}", id(n))).await.body;
        assert_eq!(job["depends_on"], depends_on, "{job}");
        assert_eq!(job["waits_because"], why);
    }
    let cancel = format!("{JOBS}/{first}/cancel");
    host.post(&cancel, "{}").await.is(StatusCode::OK);
    let job = host.get(&format!("{JOBS}/{}", id(3))).await.body;
    let why = format!("not needed: job {first} was cancelled, and did not fail");
    assert_eq!(
        (&job["state"], &job["cancel_reason"]),
        (&json!("cancelled"), &json!(why))
    );
    let last = host.get(&format!("{JOBS}/{}", id(4))).await.body;
    assert_eq!(last["state"], "discarded", "{last}");
}

#[tokio::test]
async fn what_is_no_condition_is_refused() {
    let host = Host::start().await;
    for (entry, expected) in [
        ("1", "the id of a job, #n or {"),
        (r##"{"job":"#0","when":"lost"}"##, "unknown value `lost`"),
        (r#"{"when":"failed"}"#, "missing field `job`"),
        (r##"{"job":"#0","on":"failed"}"##, "unknown field `on`"),
        (r##"{"job":"#x"}"##, "#x is not a valid reference"),
        (
            r##""#0",{"job":"#0","when":"failed"}"##,
            "#0 is named with completed and with failed",
        ),
    ] {
        let body = format!(r#"[{{"handler":"noop"}},{{"handler":"noop","depends_on":[{entry}]}}]"#);
        let refused = host.post(JOBS, body).await;
        let detail = refused.fails(422, "invalid_request");
        assert!(detail.contains(expected), "{detail}");
    }
}

#[tokio::test]
async fn a_job_that_waited_for_a_failure_is_not_run_again_after_a_success() {
    let host = Host::start().await;
    let body =
        r##"[{"handler":"noop"},{"handler":"noop","depends_on":[{"job":"#0","when":"failed"}]}]"##;
    let answer = host.post(JOBS, body).await.is(StatusCode::CREATED).body;
    let [first, second] = [0, 1].map(|n| answer[n]["id"].as_str().unwrap().to_owned());
    let claimed = host.claim().await;
    assert_eq!(claimed.lifecycle.id.to_string(), first);
    host.complete(&claimed, Outcome::Completed { result: None })
        .await;
    let retry = format!("{JOBS}/{second}/retry");
    let refused = host.post(&retry, "{}").await;
    let detail = refused.fails(409, "prerequisite_completed");
    assert!(detail.contains(&first), "{detail}");
    let forced = host.post(&retry, r#"{"force":true}"#).await;
    assert_eq!(forced.is(StatusCode::OK).body["state"], "available");
}

#[tokio::test]
async fn a_job_gets_the_results_that_it_names() {
    let host = Host::start().await;
    let body = r##"[
        {"handler":"noop"},
        {"handler":"noop","params":{"a": 1.0},"depends_on":["#0",{"job":"#2","when":"ended"}],
         "inputs":{"rows":"#0","b/c":"#2"}},
        {"handler":"noop"},
        {"handler":"typed","depends_on":["#0"],"inputs":{"n":"#0"}}
    ]"##;
    let answer = host.post(JOBS, body).await.is(StatusCode::CREATED).body;
    let id = |n: usize| answer[n]["id"].as_str().unwrap().to_owned();
    let job = host.get(&format!("{JOBS}/{}", id(1))).await.body;
    assert_eq!(job["inputs"], json!({"rows": id(0), "b/c": id(2)}));
    assert_eq!(job["params"], json!({"a": 1.0}));
    for result in ["[1.10]", "null"] {
        let claimed = host.claim().await;
        let result = Some(JsonText(result.to_owned()));
        let outcome = Outcome::Completed { result };
        host.complete(&claimed, outcome).await;
    }
    let job = host.get(&format!("{JOBS}/{}", id(1))).await;
    let expected = r#""params":{"a":1.0,"inputs":{"b/c":null,"rows":[1.10]}}"#;
    assert!(job.text.contains(expected), "{}", job.text);
    // The schema of its handler is for the params at its start.
    let typed = host.get(&format!("{JOBS}/{}", id(3))).await.body;
    assert_eq!(typed["params"], json!({"inputs": {"n": [1.1]}}));
    let first = id(0);
    let body =
        format!(r#"{{"handler":"noop","depends_on":["{first}"],"inputs":{{"a":"{first}"}}}}"#);
    let late = host.enqueue(body).await;
    let late = host.get(&format!("{JOBS}/{late}")).await.body;
    assert_eq!(late["state"], "available");
    assert_eq!(late["params"], json!({"inputs": {"a": [1.1]}}));
}

#[tokio::test]
async fn inputs_that_no_job_gives_are_refused() {
    let host = Host::start().await;
    let (short, long) = (
        r##""depends_on":["#0"],"inputs":{"a":"#0"}"##,
        format!(
            r##""depends_on":["#0"],"inputs":{{"{}":"#0"}}"##,
            "x".repeat(65)
        ),
    );
    let (list, taken) = (
        format!(r#"{short},"params":[1]"#),
        format!(r#"{short},"params":{{"inputs":{{}}}}"#),
    );
    let no_room = "must be an object without a member inputs";
    for (fields, code, expected) in [
        (
            r##""inputs":{"a":"#0"}"##,
            "invalid_request",
            "inputs.a: #0 is not in depends_on",
        ),
        (
            r##""depends_on":[{"job":"#0","when":"failed"}],"inputs":{"a":"#0"}"##,
            "invalid_request",
            "inputs.a: a job that has to fail has no result",
        ),
        (
            r##""depends_on":["#0"],"inputs":{"a":"x"}"##,
            "invalid_request",
            "inputs.a: \"x\" is neither an id nor #n",
        ),
        (
            r##""depends_on":["#0"],"inputs":{"":"#0"}"##,
            "invalid_request",
            "must have 1–64 bytes, got 0",
        ),
        (&long, "invalid_request", "must have 1–64 bytes, got 65"),
        (&list, "invalid_params", no_room),
        (&taken, "invalid_params", no_room),
    ] {
        let body = format!(r#"[{{"handler":"noop"}},{{"handler":"noop",{fields}}}]"#);
        let refused = host.post(JOBS, body).await;
        let detail = refused.fails(422, code);
        assert!(detail.contains(expected), "{detail}");
    }
}

/// An input would show the result to a handler of the caller.
#[tokio::test]
async fn only_those_who_may_read_payloads_pass_on_results_of_other_jobs() {
    let guarded = Guarded::start().await;
    let id = guarded.job("web", "noop").await;
    let rights = json!({"name": "p", "role": "producer"});
    let producer = guarded.make(&rights).await;
    let inputs = |of: &str| json!({"handler": "noop", "depends_on": [of], "inputs": {"a": of}});
    let enqueue = async |token: &str, body: Value| {
        guarded
            .send(token, ("POST", "/api/v1/jobs"), Some(&body))
            .await
    };
    let refused = enqueue(&producer, inputs(&id)).await;
    refused.fails(403, "input_hidden");
    enqueue(&guarded.admin, inputs(&id))
        .await
        .is(StatusCode::CREATED);
    let own = json!([{"handler": "noop"}, inputs("#0")]);
    enqueue(&producer, own).await.is(StatusCode::CREATED);
}
