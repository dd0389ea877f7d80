//! Schedules: what is accepted and what is shown.

use serde_json::{Value, json};

use super::fixture::{Answer, Host};

const PATH: &str = "/api/v1/schedules/nightly";

async fn put(host: &Host, body: &Value) -> Answer {
    let body = body.to_string();
    host.send("PUT", PATH, "application/json", body).await
}

fn nightly() -> Value {
    json!({
        "when": {"cron": "30 2 * * *"}, "time_zone": "Europe/Berlin",
        "job": {"handler": "typed", "params": {"n": 9_007_199_254_740_993_u64}},
    })
}

#[tokio::test]
async fn a_schedule_is_shown_as_it_was_set() {
    let host = Host::start().await;
    let set = put(&host, &nightly()).await;
    assert_eq!(set.status, 200, "{set:?}");
    assert!(
        set.text.contains("9007199254740993"),
        "digit by digit: {}",
        set.text
    );
    let shown = host.get(PATH).await.body;
    assert_eq!(shown, set.body);
    assert_eq!(shown["schedule"]["overlap"], "skip");
    assert_eq!(shown["schedule"]["window"], "1h");
    assert_eq!(shown["source"], "api");
    assert_eq!(shown["counts"]["fired"], 0);
    let again = put(&host, &shown["schedule"]).await;
    assert_eq!(again.status, 200, "what is shown can be set: {again:?}");
    let listed = host.get("/api/v1/schedules?limit=1").await.body;
    assert_eq!(listed["items"][0]["name"], "nightly");
    let next = host.get(&format!("{PATH}/next?count=400")).await.body;
    let times = next["items"].as_array().unwrap();
    assert_eq!(times.len(), 400);
    let offset = |offset: &str| {
        let has = |item: &&Value| item["nominal"].as_str().unwrap().ends_with(offset);
        times.iter().filter(has).count()
    };
    assert_eq!(offset("+01:00") + offset("+02:00"), 400);
    assert!(offset("+01:00") > 100 && offset("+02:00") > 100);
    let paused = host.post(&format!("{PATH}/pause"), "").await.body;
    assert_eq!(paused["schedule"]["paused"], true);
    assert_eq!(paused["fires_at"], Value::Null);
    let resumed = host.post(&format!("{PATH}/resume"), "").await.body;
    assert_eq!(resumed["fires_at"], shown["fires_at"]);
    let removed = host.send("DELETE", PATH, "application/json", "").await;
    assert_eq!(removed.body, json!({"name": "nightly", "removed": true}));
    host.get(PATH).await.fails(404, "schedule_not_found");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_its_field() {
    let host = Host::start().await;
    for (change, code, detail) in [
        (
            json!({"when": {"cron": "61 * * * *"}}),
            "invalid_request",
            "when.cron: ",
        ),
        (
            json!({"when": {"every": "10x"}}),
            "invalid_request",
            "when.every: expected numbers with units",
        ),
        (
            json!({"when": {}}),
            "invalid_request",
            "when: needs cron or every",
        ),
        (
            json!({"when": {"cron": 5}}),
            "invalid_request",
            "expected a pattern or an array of patterns",
        ),
        (
            json!({"when": {"every": "10ms"}}),
            "invalid_request",
            "when.every: must be 1s to 365d",
        ),
        (
            json!({"time_zone": "Mars"}),
            "invalid_request",
            "time_zone: ",
        ),
        (
            json!({"until": "2020-01-01T00:00:00Z"}),
            "invalid_request",
            "when: it never fires",
        ),
        (json!({"overlap": "maybe"}), "invalid_request", ""),
        (
            json!({"job": {"handler": "missing"}}),
            "handler_not_found",
            "no handler is named missing",
        ),
        (
            json!({"job": {"handler": "typed", "params": {"n": "x"}}}),
            "invalid_params",
            "",
        ),
        (
            json!({"job": [{"handler": "noop"}, {"handler": "noop"}]}),
            "invalid_request",
            "job: ",
        ),
        (
            json!({"job": {"handler": "noop", "run_at": "2030-01-01T00:00:00Z"}}),
            "invalid_request",
            "job.run_at: a schedule's job cannot have it",
        ),
        (
            json!({"job": {"handler": "noop", "unique_key": "k"}}),
            "invalid_request",
            "job.unique_key: a schedule's job cannot have it",
        ),
        (
            json!({"job": {"handler": "noop", "unique": {"key": "k"}}}),
            "invalid_request",
            "job.unique: a schedule's job cannot have it",
        ),
        (json!({"cron": "* * * * *"}), "invalid_request", ""),
    ] {
        let mut body = nightly();
        let fields = change.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(fields);
        let answer = put(&host, &body).await;
        assert_eq!(answer.body["code"], code, "{change}: {answer:?}");
        let actual = answer.body["detail"].as_str().unwrap();
        assert!(actual.contains(detail), "{change}: {actual}");
    }
    host.get(PATH).await.fails(404, "schedule_not_found");
}

#[tokio::test]
async fn a_schedule_is_triggered_and_backfilled() {
    let host = Host::start().await;
    let hourly = json!({"when": {"every": "1h"}, "job": {"handler": "noop", "queue": "nights"}});
    put(&host, &hourly).await;
    let triggered = host.post(&format!("{PATH}/trigger"), "").await.body;
    let id = triggered["jobs"][0].as_str().unwrap();
    let job = host.get(&format!("/api/v1/jobs/{id}")).await.body;
    assert_eq!(job["queue"], "nights");
    assert_eq!(job["wire"], "schedule");
    assert_eq!(job["attributes"]["schedule.name"], "nightly");
    let range = json!({"from": "2026-05-01T00:00:00Z", "until": "2026-05-01T03:30:00Z"});
    let backfilled = host
        .post(&format!("{PATH}/backfill"), range.to_string())
        .await
        .body;
    let jobs = backfilled["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 4);
    let last = jobs[3].as_str().unwrap();
    let job = host.get(&format!("/api/v1/jobs/{last}")).await.body;
    assert_eq!(
        job["attributes"]["schedule.nominal"],
        "2026-05-01T03:00:00.000Z"
    );
    for (from, until) in [
        ("2026-05-01T00:10:00Z", "2026-05-01T00:20:00Z"),
        ("2020-05-01T00:00:00Z", "2026-05-01T00:00:00Z"),
    ] {
        let range = json!({"from": from, "until": until}).to_string();
        let refused = host.post(&format!("{PATH}/backfill"), range).await;
        let detail = refused.fails(422, "invalid_request");
        assert!(
            detail.starts_with("from and until: must have 1–1000"),
            "{detail}"
        );
    }
    let firings = host.get(&format!("{PATH}/firings")).await.body;
    assert_eq!(firings["items"].as_array().unwrap().len(), 5);
    assert_eq!(firings["items"][0]["job"], last);
}
