//! Batches of jobs: what is accepted, what is shown, and to whom.

use host_core::job::State;
use host_core::outcome::Outcome;
use serde_json::{Value, json};

use super::access::Guarded;
use super::fixture::{Answer, Host};

const PATH: &str = "/api/v1/batches";

async fn new(host: &Host, body: &Value) -> Answer {
    host.post(PATH, body.to_string()).await
}

async fn new_id(host: &Host, body: &Value) -> String {
    let made = new(host, body).await;
    assert_eq!(made.status, 201, "{made:?}");
    made.body["batch"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_batch_is_filled_closed_and_calls_back() {
    let host = Host::start().await;
    let body = json!({
        "jobs": [{"handler": "noop"}], "open": true, "on_end": {"handler": "noop", "queue": "reports"},
        "retention_seconds": 60,
    });
    let made = new(&host, &body).await;
    assert_eq!(made.status, 201, "{made:?}");
    let (batch, jobs) = (&made.body["batch"], &made.body["jobs"]);
    assert_eq!(
        (&batch["state"], &batch["counts"]["jobs"]),
        (&json!("open"), &json!(1))
    );
    let id = batch["id"].as_str().unwrap();
    let waits = batch["waits_because"].as_str().unwrap();
    assert_eq!(waits, format!("it is open until `host batch close {id}`"));
    let job = host
        .get(&format!("/api/v1/jobs/{}", jobs[0]["id"].as_str().unwrap()))
        .await;
    assert_eq!(
        (&job.body["batch"], &job.body["attributes"]["batch.id"]),
        (&json!(id), &json!(id))
    );
    let path = format!("{PATH}/{id}");
    let more = json!([{"handler": "noop"}, {"handler": "noop"}]).to_string();
    let added = host.post(&format!("{path}/jobs"), more).await;
    assert_eq!(
        (added.status, added.body.as_array().unwrap().len()),
        (201, 2)
    );
    let other = json!({"handler": "noop", "batch": id}).to_string();
    host.enqueue(other.clone()).await;
    let closed = host.post(&format!("{path}/close"), "").await.body;
    assert_eq!(
        (&closed["state"], &closed["counts"]["jobs"]),
        (&json!("closed"), &json!(4))
    );
    assert_eq!(closed["waits_because"], "4 of 4 jobs have not ended");
    host.post("/api/v1/jobs", other)
        .await
        .fails(409, "batch_closed");
    for _ in 0..4 {
        let claimed = host.claim().await;
        host.complete(&claimed, Outcome::Completed { result: None })
            .await;
    }
    let ended = host.get(&path).await.body;
    assert_eq!(
        (&ended["state"], &ended["callbacks"][0]["enqueued"]),
        (&json!("ended"), &json!(true))
    );
    let report = ended["callbacks"][0]["job"].as_str().unwrap();
    let report = host.get(&format!("/api/v1/jobs/{report}")).await.body;
    assert_eq!(report["params"]["counts"]["completed"], 4);
    assert_eq!(report["queue"], "reports");
    let listed = host
        .get(&format!("/api/v1/jobs?batch={id}&state=completed"))
        .await;
    assert_eq!(listed.body["items"].as_array().unwrap().len(), 4);
    let batches = host.get(&format!("{PATH}?limit=1")).await.body;
    assert_eq!(batches["items"][0], ended);
    let metrics = host.get("/metrics").await.text;
    assert!(metrics.contains("host_batches 0"), "{metrics}");
}

#[tokio::test]
async fn a_batch_is_cancelled_with_a_reason() {
    let host = Host::start().await;
    let id = new_id(&host, &json!({"jobs": [{"handler": "noop"}], "open": true})).await;
    let path = format!("{PATH}/{id}/cancel");
    let long = json!({"reason": "x".repeat(1_025)}).to_string();
    host.post(&path, long).await.fails(422, "invalid_request");
    let cancelled = host.post(&path, r#"{"reason": "wrong input"}"#).await.body;
    assert_eq!(
        (&cancelled["state"], &cancelled["cancel_reason"]),
        (&json!("closed"), &json!("wrong input"))
    );
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_its_field() {
    let host = Host::start().await;
    let noop = json!({"handler": "noop"});
    for (body, status, code, detail) in [
        (
            json!({"jobs": noop}),
            422,
            "invalid_request",
            "jobs: must be an array",
        ),
        (
            json!({"jobs": [{"handler": "x"}]}),
            422,
            "handler_not_found",
            "x",
        ),
        (
            json!({"on_end": {"handler": "noop", "params": 1}}),
            422,
            "invalid_request",
            "on_end.params: a callback cannot have it",
        ),
        (
            json!({"on_success": {"handler": "noop", "unique_key": "a"}}),
            422,
            "invalid_request",
            "on_success.unique_key: a callback cannot have it",
        ),
        // It takes other params than those that it will get.
        (
            json!({"on_end": {"handler": "typed"}}),
            422,
            "invalid_params",
            "n",
        ),
        (
            json!({"jobs": [{"handler": "noop", "batch": "a"}]}),
            422,
            "invalid_request",
            "batch: the path already names the batch",
        ),
        (
            json!({"retention_seconds": 0.5}),
            422,
            "invalid_request",
            "retention_seconds: must be at least 1",
        ),
        (json!({"size": 1}), 422, "invalid_request", "unknown field"),
    ] {
        let answer = new(&host, &body).await;
        let actual = answer.fails(status, code);
        assert!(actual.contains(detail), "{body}: {actual}");
    }
    let unknown = format!("{PATH}/01990000-0000-7000-8000-000000000000");
    host.get(&unknown).await.fails(404, "batch_not_found");
    host.get(&format!("{PATH}/x"))
        .await
        .fails(404, "batch_not_found");
    let close = host.post(&format!("{unknown}/close"), "").await;
    close.fails(404, "batch_not_found");
    let bad = json!({"handler": "noop", "batch": "x"}).to_string();
    let answer = host.post("/api/v1/jobs", bad).await;
    answer.fails(422, "invalid_request");
    assert_eq!(host.get(PATH).await.body["items"], json!([]));
}

#[tokio::test]
async fn an_empty_batch_calls_back_at_once() {
    let host = Host::start().await;
    let made = new(
        &host,
        &json!({"on_success": {"handler": "noop"}, "jobs": [ ]}),
    )
    .await;
    assert_eq!(made.body["batch"]["state"], "ended", "{made:?}");
    let job = made.body["batch"]["callbacks"][0]["job"].as_str().unwrap();
    let job = host.get(&format!("/api/v1/jobs/{job}")).await.body;
    assert_eq!(job["state"], State::Available.as_str());
}

#[tokio::test]
async fn a_scope_sees_the_batches_of_its_principal_alone() {
    let guarded = Guarded::start().await;
    let token = json!({"name": "mail", "allow": ["enqueue", "read", "cancel"], "queues": ["mail"], "handlers": ["*"]});
    let mine = guarded.make(&token).await;
    let body = json!({"jobs": [{"handler": "noop", "queue": "mail"}], "open": true});
    let made = guarded
        .send(&guarded.admin, ("POST", PATH), Some(&body))
        .await;
    let theirs = format!("{PATH}/{}", made.body["batch"]["id"].as_str().unwrap());
    let made = guarded.send(&mine, ("POST", PATH), Some(&body)).await;
    assert_eq!(made.status, 201, "{made:?}");
    let own = format!("{PATH}/{}", made.body["batch"]["id"].as_str().unwrap());
    let listed = guarded.send(&mine, ("GET", PATH), None).await.body;
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    assert_eq!(guarded.send(&mine, ("GET", &own), None).await.status, 200);
    assert_eq!(
        guarded
            .send(&guarded.admin, ("GET", &own), None)
            .await
            .status,
        200
    );
    let job = json!({"handler": "noop", "queue": "mail"});
    for (verb, path, body) in [
        ("GET", "", None),
        ("POST", "/jobs", Some(&job)),
        ("POST", "/close", None),
        ("POST", "/cancel", None),
    ] {
        let answer = guarded
            .send(&mine, (verb, &format!("{theirs}{path}")), body)
            .await;
        answer.fails(404, "batch_not_found");
    }
    // Callbacks are held to the scope, too.
    let outside = json!({"on_end": {"handler": "noop", "queue": "other"}});
    let answer = guarded.send(&mine, ("POST", PATH), Some(&outside)).await;
    answer.fails(403, "out_of_scope");
}

#[tokio::test]
async fn a_job_makes_a_batch_that_others_of_its_request_join() {
    let host = Host::start().await;
    let plan = json!({
        "name": "n", "on_end": {"handler": "noop"}, "on_success": {"handler": "noop"}, "retention_seconds": 60,
    });
    let jobs = json!([
        {"handler": "noop", "batch": "#1"},
        {"handler": "noop", "batch": plan},
        {"handler": "noop", "batch": {"open": true}},
    ]);
    let accepted = host.post("/api/v1/jobs", jobs.to_string()).await;
    assert_eq!(accepted.status, 201, "{accepted:?}");
    let id = |n: usize| accepted.body[n]["id"].as_str().unwrap().to_owned();
    let job = host.get(&format!("/api/v1/jobs/{}", id(0))).await.body;
    assert_eq!(
        (&job["batch"], &job["attributes"]["batch.id"]),
        (&json!(id(1)), &json!(id(1)))
    );
    let batch = host.get(&format!("{PATH}/{}", id(1))).await.body;
    assert_eq!(
        (&batch["state"], &batch["counts"]["jobs"], &batch["name"]),
        (&json!("closed"), &json!(2), &json!("n"))
    );
    let callbacks = batch["callbacks"].as_array().unwrap();
    assert_ne!(callbacks[0]["job"], callbacks[1]["job"]);
    let open = host.get(&format!("{PATH}/{}", id(2))).await.body;
    assert_eq!(open["state"], "open");
    for _ in 0..3 {
        let claimed = host.claim().await;
        host.complete(&claimed, Outcome::Completed { result: None })
            .await;
    }
    let ended = host.get(&format!("{PATH}/{}", id(1))).await.body;
    assert_eq!(ended["state"], "ended");
    assert_eq!(ended["callbacks"][0]["enqueued"], true);
    let alone = json!({"handler": "noop", "batch": {}});
    assert_eq!(
        host.post("/api/v1/jobs", alone.to_string()).await.status,
        201
    );
}

#[tokio::test]
async fn a_batch_that_a_job_cannot_make_is_refused_with_its_field() {
    let host = Host::start().await;
    for (batch, detail) in [
        (
            json!(7),
            "the id of a batch, or an object with a batch to make",
        ),
        (json!({"jobs": []}), "jobs"),
        (json!({"name": " "}), "name"),
        (
            json!({"retention_seconds": 0}),
            "retention_seconds: must be at least 1",
        ),
        (json!({"on_end": {"handler": "nosuch"}}), "on_end"),
        (
            json!({"on_end": {"handler": "noop", "params": 1}}),
            "on_end.params: a callback cannot have it",
        ),
        (
            json!({"on_end": {"handler": "noop", "batch": {}}}),
            "on_end.batch: a callback cannot have it",
        ),
        (json!("#0"), "#0 makes no batch"),
        (json!("#7"), "#7 makes no batch"),
        (json!("#x"), "batch: #x is not a valid reference"),
    ] {
        let body = json!([{"handler": "noop", "batch": batch}]);
        let refused = host.post("/api/v1/jobs", body.to_string()).await;
        assert!((400..500).contains(&refused.status), "{refused:?}");
        let said = refused.body["detail"].as_str().unwrap();
        assert!(said.contains(detail), "{detail}: {said}");
    }
    assert_eq!(host.get(PATH).await.body["items"], json!([]));
    // One that exists already makes no other.
    let jobs = json!([
        {"handler": "noop", "batch": {}, "unique_key": "k"},
        {"handler": "noop", "batch": "#0", "unique_key": "l"},
    ]);
    let unique = jobs.to_string();
    let first = host.post("/api/v1/jobs", unique.clone()).await.body;
    let again = host.post("/api/v1/jobs", unique).await.body;
    for n in 0..2 {
        assert_eq!(again[n]["existing"], true, "{again}");
        assert_eq!(again[n]["id"], first[n]["id"], "{again}");
    }
    let batches = host.get(PATH).await.body["items"].clone();
    assert_eq!(batches[0]["counts"]["jobs"], 2, "{batches}");
    assert_eq!(batches.as_array().unwrap().len(), 1, "{batches}");
}
