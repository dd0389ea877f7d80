//! Limits by key: what is accepted and what is shown.

use serde_json::{Value, json};

use super::fixture::{Answer, Host};

const PATH: &str = "/api/v1/limits/by-customer";

async fn put(host: &Host, body: &Value) -> Answer {
    let body = body.to_string();
    host.send("PUT", PATH, "application/json", body).await
}

#[tokio::test]
async fn a_limit_is_shown_as_it_was_set() {
    let host = Host::start().await;
    let limit = json!({
        "match": {"queue": "mail*", "handler": "noop"}, "key": ["/customer", "attributes:region"],
        "concurrency": 3, "rate": {"count": 100, "per_seconds": 60}, "units": "/recipients",
    });
    let set = put(&host, &limit).await;
    assert_eq!(set.status, 200, "{set:?}");
    let shown = host.get(PATH).await.body;
    assert_eq!(shown, set.body);
    assert_eq!(shown["source"], "api");
    assert_eq!(shown["limit"]["rate"]["burst"], 100);
    assert_eq!(shown["limit"]["units"], "/recipients");
    assert_eq!(shown["limit"]["when_full"], "wait");
    assert_eq!((&shown["waiting"], &shown["keys"]), (&json!(0), &json!([])));
    let again = put(&host, &shown["limit"]).await;
    assert_eq!(again.status, 200, "what is shown can be set: {again:?}");
    let listed = host.get("/api/v1/limits").await.body;
    assert_eq!(listed["items"][0]["name"], "by-customer");
    assert_eq!(listed["items"][0]["keys"], Value::Null);
    let removed = host.send("DELETE", PATH, "application/json", "").await;
    assert_eq!(
        removed.body,
        json!({"name": "by-customer", "removed": true})
    );
    host.get(PATH).await.fails(404, "limit_not_found");
    let gone = host.send("DELETE", PATH, "application/json", "").await;
    gone.fails(404, "limit_not_found");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_its_field() {
    let host = Host::start().await;
    for (body, detail) in [
        (json!({}), "concurrency, rate: set one of them, or both"),
        (
            json!({"concurrency": 0}),
            "concurrency: must be 1–1000000, got 0",
        ),
        (
            json!({"concurrency": 1, "key": "customer"}),
            "key: must be a JSON pointer",
        ),
        (
            json!({"concurrency": 1, "key": "/a~2"}),
            "key: a ~ in a JSON pointer must be written ~0",
        ),
        (
            json!({"concurrency": 1, "key": 5}),
            "expected a string or an array of strings",
        ),
        (
            json!({"concurrency": 1, "match": {"queue": "a b"}}),
            "match.queue: may contain only",
        ),
        (
            json!({"rate": {"count": 1, "per_seconds": 0}}),
            "rate.per_seconds: must be 1–2678400, got 0",
        ),
        (
            json!({"concurrency": 1, "when_full": "explode"}),
            "when_full: unknown value `explode`",
        ),
        (json!({"concurrency": 1, "unit": "/n"}), "unknown field"),
        (
            json!({"concurrency": 1, "units": "/n"}),
            "units: needs a rate",
        ),
        (
            json!({"rate": {"count": 1, "per_seconds": 1}, "units": "n"}),
            "units: must be a JSON pointer",
        ),
    ] {
        let answer = put(&host, &body).await;
        let actual = answer.fails(422, "invalid_request");
        assert!(actual.contains(detail), "{body}: {actual}");
    }
    let query = host.get(&format!("{PATH}?keys=0")).await;
    query.fails(400, "invalid_query");
}

#[tokio::test]
async fn a_refused_job_has_the_limit_and_its_key() {
    let host = Host::start().await;
    let limit = json!({"key": "/n", "concurrency": 1, "when_full": "refuse"});
    put(&host, &limit).await;
    let job = json!({"handler": "typed", "params": {"n": 7}}).to_string();
    let first = host.post("/api/v1/jobs", job.clone()).await;
    assert_eq!(first.status, 201, "{first:?}");
    let second = host.post("/api/v1/jobs", job).await;
    let actual = second.fails(422, "limit_full");
    assert_eq!(actual, "the limit by-customer is full for 7");
}

#[tokio::test]
async fn a_job_that_could_never_start_is_refused() {
    let host = Host::start().await;
    let limit = json!({"rate": {"count": 9, "per_seconds": 1, "burst": 5}, "units": "/n"});
    put(&host, &limit).await;
    for (n, status) in [(json!(5), 201), (json!(6), 422), (json!(-1), 422)] {
        let job = json!({"handler": "typed", "params": {"n": n}}).to_string();
        let answer = host.post("/api/v1/jobs", job).await;
        assert_eq!(answer.status, status, "{answer:?}");
        if status == 422 {
            let actual = answer.fails(422, "invalid_limit_units");
            assert_eq!(
                actual,
                "the units of the limit by-customer must be a whole number, 0–5: its bucket holds no more"
            );
        }
    }
}
