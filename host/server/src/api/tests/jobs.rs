//! Jobs over HTTP: lists, one job, its end, its attempts and logs.

use std::time::Duration;

use axum::http::StatusCode;
use host_core::cell::{Level, LogSource};
use host_core::failure::{Category, Failure, FailureKind};
use host_core::json::JsonText;
use host_core::lease::Fence;
use host_core::outcome::{Meter, Outcome, Progress};
use host_core::time::Time;
use host_core::transition::Loss;
use host_engine::lease::Lose;
use host_store::logs::LogEntry;
use serde_json::json;

use super::fixture::Host;

const NOOP: &str = r#"{"handler":"noop"}"#;

/// More than any of these answers needs.
const SOON: Duration = Duration::from_mins(1);

#[tokio::test]
async fn lists_are_filtered_and_paged() {
    let host = Host::start().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        let queue = if n % 2 == 0 { "even" } else { "odd" };
        let body = format!(r#"{{"handler":"noop","queue":"{queue}"}}"#);
        ids.push(host.enqueue(body).await);
    }
    ids.reverse();
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = host
            .get(&format!("/api/v1/jobs?limit=2{cursor}"))
            .await
            .is(StatusCode::OK);
        for item in page.body["items"].as_array().unwrap() {
            assert_eq!(item["state"], "available");
            assert!(item.get("params").is_none());
            seen.push(item["id"].as_str().unwrap().to_owned());
        }
        match page.body["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ids);
    for (query, count) in [
        ("queue=even", 3),
        ("queue=odd&handler=noop&state=available", 2),
        ("state=running", 0),
        ("handler=a%2Fb", 0),
    ] {
        let page = host.get(&format!("/api/v1/jobs?{query}")).await;
        assert_eq!(
            page.body["items"].as_array().unwrap().len(),
            count,
            "{query}"
        );
    }
}

#[tokio::test]
async fn wrong_queries_are_refused() {
    let host = Host::start().await;
    let id = host.enqueue(NOOP).await;
    for (path, detail) in [
        ("jobs?limit=0", "limit: must be 1–1000"),
        ("jobs?limit=1001", "limit: must be 1–1000"),
        ("jobs?limit=x", "limit: must be a whole number"),
        ("jobs?state=done", "unknown value `done`"),
        ("jobs?queue=a%20b", "queue: a name may contain only"),
        ("jobs?cursor=-1", "cursor: must be a whole number"),
        (
            "jobs?stat=running",
            "unknown parameter `stat`; did you mean `state`?",
        ),
        ("jobs?limit=1&limit=2", "duplicate field `limit`"),
        (
            &format!("jobs/{id}/wait?timeout_seconds=301"),
            "must be 0–300, got",
        ),
        (
            &format!("jobs/{id}/wait?timeout_seconds=-1"),
            "timeout_seconds: must be 0–300, got -1",
        ),
        (
            &format!("jobs/{id}/wait?timeout_seconds=1e300"),
            "timeout_seconds: must be 0–300, got 1e300",
        ),
        (
            &format!("jobs/{id}/wait?timeout_seconds="),
            "timeout_seconds: must be a number, not empty",
        ),
        (
            &format!("jobs/{id}/logs?after=1"),
            "unknown parameter `after`",
        ),
        ("events?job=x", "job: expected a whole id, such as"),
        ("events?hints=1", "hints: must be true or false"),
    ] {
        let answer = host.get(&format!("/api/v1/{path}")).await;
        let message = answer.fails(400, "invalid_query");
        assert!(message.contains(detail), "{path}: {message}");
    }
}

#[tokio::test]
async fn an_id_may_be_cut_to_a_start_that_names_one_job() {
    let host = Host::start().await;
    let (one, other) = (host.enqueue(NOOP).await, host.enqueue(NOOP).await);
    let shared = one
        .bytes()
        .zip(other.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    for id in [&one[..=shared], &one, &one.to_uppercase()] {
        let job = host
            .get(&format!("/api/v1/jobs/{id}"))
            .await
            .is(StatusCode::OK);
        assert_eq!(job.body["id"], one);
    }
    let answer = host.get(&format!("/api/v1/jobs/{}", &one[..shared])).await;
    let detail = answer.fails(409, "ambiguous_id");
    assert!(detail.contains(&one) && detail.contains(&other), "{detail}");
    for id in ["ffffffff", "x", "..%2F..", "%00", &format!("{one}0"), "-"] {
        for path in ["", "/wait", "/attempts", "/logs"] {
            let answer = host.get(&format!("/api/v1/jobs/{id}{path}")).await;
            answer.fails(404, "job_not_found");
        }
        for path in ["cancel", "retry"] {
            let answer = host.post(&format!("/api/v1/jobs/{id}/{path}"), "{}").await;
            answer.fails(404, "job_not_found");
        }
    }
}

#[tokio::test]
async fn an_id_that_is_no_text_is_refused() {
    let host = Host::start().await;
    let answer = host.get("/api/v1/jobs/%FF").await;
    answer.fails(400, "invalid_name");
}

#[tokio::test]
async fn an_unknown_id_in_full_is_not_found() {
    let host = Host::start().await;
    let id = "01990f3c-1a2b-7000-8000-000000000001";
    for path in ["", "/wait", "/attempts", "/logs"] {
        let answer = host.get(&format!("/api/v1/jobs/{id}{path}")).await;
        answer.fails(404, "job_not_found");
    }
    for path in ["cancel", "retry"] {
        let answer = host.post(&format!("/api/v1/jobs/{id}/{path}"), "{}").await;
        answer.fails(404, "job_not_found");
    }
}

#[tokio::test]
async fn a_waiting_job_is_cancelled_at_once_and_can_be_run_again() {
    let host = Host::start().await;
    let id = host.enqueue(NOOP).await;
    let (cancel, retry) = (
        format!("/api/v1/jobs/{id}/cancel"),
        format!("/api/v1/jobs/{id}/retry"),
    );
    let early = host.post(&retry, "{}").await;
    early.fails(409, "job_not_terminal");
    assert_eq!(early.body["state"], "available");
    let body = r#"{"reason":"wrong input","grace_seconds":0}"#;
    let cancelled = host.post(&cancel, body).await.is(StatusCode::OK);
    assert_eq!(cancelled.body["state"], "cancelled");
    assert!(cancelled.body["cancel_requested_at"].is_string());
    let again = host.post(&cancel, "").await;
    again.fails(409, "job_terminal");
    assert_eq!(again.body["state"], "cancelled");
    let job = host.get(&format!("/api/v1/jobs/{id}")).await.body;
    assert_eq!(job["cancel_reason"], "wrong input");
    assert_eq!(job["failure"]["kind"], "cancelled");
    assert_eq!(job["failure"]["category"], "CANCELLED");
    let retried = host.post(&retry, "{}").await.is(StatusCode::OK);
    assert_eq!(retried.body["state"], "available");
    assert_eq!(retried.body.get("failure"), None);
}

#[tokio::test]
async fn a_running_job_stays_running_until_it_has_stopped() {
    let host = Host::start().await;
    let id = host.enqueue(NOOP).await;
    let claimed = host.claim().await;
    let running = host.post(&format!("/api/v1/jobs/{id}/cancel"), "{}").await;
    assert_eq!(running.is(StatusCode::OK).body["state"], "running");
    let attempts = host.get(&format!("/api/v1/jobs/{id}/attempts")).await.body;
    assert_eq!(attempts["items"][0]["outcome"], "running");
    assert_eq!(attempts["items"][0]["executor"], "cell-1");
    let partial = Some(JsonText("{\"done\":3}".to_owned()));
    host.complete(&claimed, Outcome::Cancelled { partial })
        .await;
    let job = host.get(&format!("/api/v1/jobs/{id}/wait")).await.body;
    assert_eq!(
        (&job["state"], &job["result"]),
        (&json!("cancelled"), &json!({"done": 3}))
    );
}

#[tokio::test]
async fn wrong_bodies_of_a_cancel() {
    let host = Host::start().await;
    let id = host.enqueue(NOOP).await;
    let path = format!("/api/v1/jobs/{id}/cancel");
    let long = format!(r#"{{"reason":"{}"}}"#, "x".repeat(1_025));
    let huge = " ".repeat(65 << 10);
    for (body, status, code) in [
        ("{", 400, "invalid_json"),
        (r#"{"grace":1}"#, 422, "invalid_request"),
        (r#"{"grace_seconds":-1}"#, 422, "invalid_request"),
        (long.as_str(), 422, "invalid_request"),
        (huge.as_str(), 413, "body_too_large"),
    ] {
        host.post(&path, body).await.fails(status, code);
    }
    let job = host.get(&format!("/api/v1/jobs/{id}")).await.body;
    assert_eq!(job["state"], "available");
}

#[tokio::test]
async fn waiting_ends_with_the_job_or_the_time() {
    let host = Host::start().await;
    let id = host.enqueue(NOOP).await;
    let path = format!("/api/v1/jobs/{id}/wait");
    let job = host.get(&format!("{path}?timeout_seconds=0.01")).await;
    assert_eq!(job.is(StatusCode::OK).body["state"], "available");
    let claimed = host.claim().await;
    let result = Some(JsonText("[1.10]".to_owned()));
    let patient = format!("{path}?timeout_seconds=300");
    let (job, ()) = tokio::time::timeout(SOON, async {
        tokio::join!(
            host.get(&patient),
            host.complete(&claimed, Outcome::Completed { result })
        )
    })
    .await
    .unwrap();
    assert_eq!(job.body["state"], "completed");
    assert!(job.text.contains(r#""result":[1.10]"#), "{}", job.text);

    let other = host.enqueue(NOOP).await;
    let patient = format!("/api/v1/jobs/{other}/wait?timeout_seconds=300");
    let stop = async { host.tasks.stop() };
    let waited = async { tokio::join!(host.get(&patient), stop) };
    let (job, ()) = tokio::time::timeout(SOON, waited).await.unwrap();
    assert_eq!(
        job.body["state"], "available",
        "a host that stops ends the wait"
    );
}

#[tokio::test]
async fn attempts_tell_what_they_used_and_why_they_failed() {
    let host = Host::start().await;
    let id = host.enqueue(r#"{"handler":"noop","max_attempts":1}"#).await;
    let claimed = host.claim().await;
    let live = &host.dispatch.shared().live;
    let progress = Progress {
        percent: Some(50.0),
        message: "half".to_owned(),
    };
    live.record_progress(Time(1), claimed.lifecycle.id, 1, progress);
    let meter = Meter {
        fuel: 5,
        cpu_us: 2_500,
        peak_memory_bytes: 64,
    };
    live.used(claimed.lifecycle.id, meter);
    let page = host.get(&format!("/api/v1/jobs/{id}/attempts")).await.body;
    let attempt = &page["items"][0];
    assert_eq!(
        (
            &attempt["fuel"],
            &attempt["cpu_ms"],
            &attempt["peak_memory_bytes"]
        ),
        (&json!(5), &json!(2.5), &json!(64))
    );
    let running = host.get(&format!("/api/v1/jobs/{id}")).await.body;
    assert_eq!(
        running["progress"],
        json!({"percent": 50.0, "message": "half"})
    );
    let failure = Failure {
        category: Some(Category::DataQuality),
        user_kind: Some("NoCustomer".to_owned()),
        details: Some(JsonText("{\"id\":1}".to_owned())),
        ..Failure::new(FailureKind::UserError, "no such customer")
    };
    live.forget(claimed.lifecycle.id);
    host.complete(&claimed, Outcome::Failed(failure)).await;
    let failure = json!({
        "kind": "user_error", "category": "DATA_QUALITY", "message": "no such customer",
        "user_kind": "NoCustomer", "details": {"id": 1}, "retryable": false,
    });
    let listed = host.get("/api/v1/jobs").await.body["items"][0]["failure"].take();
    assert_eq!(
        listed,
        json!({"kind": "user_error", "category": "DATA_QUALITY", "user_kind": "NoCustomer", "retryable": false})
    );
    let job = host.get(&format!("/api/v1/jobs/{id}")).await.body;
    assert_eq!(
        (&job["state"], &job["failure"]),
        (&json!("discarded"), &failure)
    );
    for (name, jobs) in [("NoCustomer", 1), ("user_error", 1), ("NoCust", 0)] {
        let found = host.get(&format!("/api/v1/jobs?failure={name}")).await.body;
        let items = found["items"].as_array().unwrap();
        assert_eq!(items.len(), jobs, "{name}");
        assert!(
            items
                .iter()
                .all(|it| it["failure"]["user_kind"] == "NoCustomer")
        );
    }
    let page = host.get(&format!("/api/v1/jobs/{id}/attempts")).await.body;
    let mut attempt = page["items"][0].clone();
    for changing in ["started_at", "finished_at", "duration_ms"] {
        assert!(
            attempt.as_object_mut().unwrap().remove(changing).is_some(),
            "{changing}"
        );
    }
    assert_eq!(
        attempt,
        json!({
            "number": 1, "executor": "cell-1", "component": "basics", "revision": 1,
            "outcome": "failed", "failure": failure, "fuel": 7, "cpu_ms": 1.5,
            "peak_memory_bytes": 65536,
        })
    );
    let list = host.get("/api/v1/jobs?state=discarded").await.body;
    assert_eq!(list["items"][0]["failure"]["kind"], "user_error");
}

#[tokio::test]
async fn a_lost_attempt_is_not_one_of_those_that_count() {
    let host = Host::start().await;
    let id = host.enqueue(r#"{"handler":"noop","max_attempts":1}"#).await;
    let claimed = host.claim().await;
    let lost = Lose {
        job: claimed.lifecycle.id,
        fence: Fence::Lease(claimed.lifecycle.lease.as_ref().unwrap().id),
        loss: Loss::HostRestarted,
        executor: "cell-1".to_owned(),
        requests: None,
    };
    host.dispatch.submit(lost).await.unwrap();
    let claimed = host.claim().await;
    host.complete(&claimed, Outcome::Completed { result: None })
        .await;
    for job in [
        host.get(&format!("/api/v1/jobs/{id}")).await.body,
        host.get("/api/v1/jobs").await.body["items"][0].clone(),
    ] {
        assert_eq!(
            (
                &job["attempt"],
                &job["attempts_charged"],
                &job["attempts_lost"]
            ),
            (&json!(2), &json!(1), &json!(1))
        );
        assert!(job["waited_ms"].is_u64() && job["ran_ms"].is_u64(), "{job}");
    }
}

#[tokio::test]
async fn logs_come_in_pages_that_can_be_followed() {
    let host = Host::start().await;
    let id = host.enqueue(NOOP).await;
    let claimed = host.claim().await;
    let granted_at = claimed.lifecycle.lease.as_ref().unwrap().granted_at;
    let line = |n: u64| LogEntry {
        job: claimed.lifecycle.id,
        attempt: 1,
        at: granted_at.plus_ms(n),
        level: Level::Warn,
        source: LogSource::Stdout,
        message: format!("line {n}"),
        fields: vec![("rows".to_owned(), host_core::json::JsonText(n.to_string()))],
    };
    host.logs.0.lock().extend((1..=3).map(line));
    let path = format!("/api/v1/jobs/{id}/logs");
    let first = host
        .get(&format!("{path}?limit=2"))
        .await
        .is(StatusCode::OK)
        .body;
    assert_eq!(first["next_cursor"], "2");
    let mut shown = first["items"][1].clone();
    assert!(shown.as_object_mut().unwrap().remove("at").is_some());
    assert_eq!(
        shown,
        json!({
            "seq": 2, "attempt": 1, "at_ms": 2, "level": "warn", "source": "stdout",
            "message": "line 2", "fields": {"rows": 2},
        })
    );
    let last = host.get(&format!("{path}?limit=2&cursor=2")).await.body;
    assert_eq!(last["items"][0]["message"], "line 3");
    assert_eq!(last["next_cursor"], json!(null));
    host.logs.0.lock().push(line(4));
    let followed = host.get(&format!("{path}?cursor=3")).await.body;
    assert_eq!(followed["items"][0]["message"], "line 4");
}

#[tokio::test]
async fn lists_have_filters_for_time_attributes_key_failure_wire_words_and_id() {
    let host = Host::start().await;
    let first = host
        .enqueue(r#"{"handler":"noop","unique_key":"k","attributes":{"team":"a","city":"b"}}"#)
        .await;
    let second = host.enqueue(NOOP).await;
    for (query, expected) in [
        (
            "since=2000-01-01T00:00:00Z&sort=oldest",
            vec![&first, &second],
        ),
        ("until=2000-01-01T00:00:00Z", vec![]),
        ("attribute=team%3Da", vec![&first]),
        ("attribute=team%3Db", vec![]),
        ("q=attr.team%3Aa+attr.city%3Ab", vec![&first]),
        ("q=attr.team%3Aa+attr.city%3Ac", vec![]),
        ("q=attr.team%3Aa&attribute=city%3Dc", vec![]),
        ("q=NOOP+CITY", vec![&first]),
        ("q=%22team:a%22", vec![]),
        ("unique_key=k", vec![&first]),
        ("wire=http&sort=newest", vec![&second, &first]),
        ("wire=rrq", vec![]),
        ("failure=timed_out", vec![]),
        ("failure=bad_luck", vec![]),
        (&format!("id={second}"), vec![&second]),
    ] {
        let page = host
            .get(&format!("/api/v1/jobs?{query}"))
            .await
            .is(StatusCode::OK)
            .body;
        let items = page["items"].as_array().unwrap();
        let ids: Vec<_> = items
            .iter()
            .map(|item| item["id"].as_str().unwrap())
            .collect();
        assert_eq!(ids, expected, "{query}");
        let query = query
            .replace("&sort=oldest", "")
            .replace("&sort=newest", "");
        let count = host
            .get(&format!("/api/v1/jobs/count?{query}"))
            .await
            .is(StatusCode::OK)
            .body;
        assert_eq!(count["jobs"], expected.len(), "{query}");
        assert_eq!(count["complete"], true, "{query}");
        assert_eq!(count["oldest"].is_string(), !expected.is_empty(), "{query}");
    }
    for (query, detail) in [
        ("jobs?since=yesterday", "since: expected an RFC 3339 time"),
        ("jobs?attribute=team", "attribute: expected KEY=VALUE"),
        ("jobs?q=team%3Aa", "q: `team:a`: the keys are"),
        ("jobs?q=attr.a%3A1&param=order", "param: expected KEY=VALUE"),
        ("jobs?id=xyz", "id: expected the start of an id"),
        ("jobs?sort=random", "unknown value `random`"),
        ("jobs/count?limit=1", "not supported with a count"),
    ] {
        let answer = host.get(&format!("/api/v1/{query}")).await;
        let message = answer.fails(400, "invalid_query");
        assert!(message.contains(detail), "{query}: {message}");
    }
}

#[tokio::test]
async fn many_jobs_are_changed_page_by_page() {
    let host = Host::start().await;
    for _ in 0..5 {
        host.enqueue(NOOP).await;
    }
    let unnamed = host.post("/api/v1/jobs/cancel", "{}").await;
    let message = unnamed.fails(400, "invalid_query").to_owned();
    assert!(message.contains("specify which jobs"), "{message}");
    let page = |path: &str| {
        let path = format!("/api/v1/jobs/{path}&sort=oldest&limit=3");
        let host = &host;
        async move { host.post(&path, "{}").await.is(StatusCode::OK).body }
    };
    let first = page("cancel?state=available").await;
    assert_eq!(
        (&first["matched"], &first["changed"]),
        (&json!(3), &json!(3))
    );
    let next = first["next_cursor"].as_str().unwrap();
    let second = page(&format!("cancel?state=available&cursor={next}")).await;
    assert_eq!(second["changed"], 2);
    assert_eq!(second["next_cursor"], json!(null));
    let retried = page("retry?state=cancelled&handler=noop").await;
    assert_eq!(retried["changed"], 3);
    let refused = page("purge?state=available").await;
    assert_eq!(
        (&refused["changed"], &refused["refused"]),
        (&json!(0), &json!(3))
    );
    assert_eq!(refused["refusals"][0]["code"], "job_not_terminal");
    let audit = host.get("/api/v1/audit?verb=operate").await.body;
    let record = &audit["items"][0]["record"];
    let entry = ["object", "outcome", "detail"].map(|field| record[field].as_str().unwrap());
    let all = "all that match state:available";
    assert_eq!(entry, ["3 jobs", "done", all], "refused one by one");
    let purged = page("purge?state=cancelled").await;
    assert_eq!(purged["changed"], 2);
    let left = host.get("/api/v1/jobs/count").await.body;
    assert_eq!(left["jobs"], 3);
}

#[tokio::test]
async fn an_operator_changes_one_job() {
    let host = Host::start().await;
    let id = host.enqueue(NOOP).await;
    let path = |verb: &str| format!("/api/v1/jobs/{id}/{verb}");
    let job = host.post(&path("priority"), r#"{"priority":0}"#).await;
    assert_eq!(job.is(StatusCode::OK).body["priority"], 0);
    let job = host
        .post(&path("reschedule"), r#"{"delay_seconds":60}"#)
        .await
        .is(StatusCode::OK)
        .body;
    assert_eq!(job["state"], "scheduled");
    assert!(job["run_at"].is_string());
    let past = r#"{"run_at":"2000-01-01T00:00:00Z"}"#;
    let job = host.post(&path("reschedule"), past).await;
    assert_eq!(job.is(StatusCode::OK).body["state"], "available");
    host.post(&path("purge"), "{}")
        .await
        .fails(409, "job_not_terminal");
    for (verb, body, detail) in [
        ("priority", r#"{"priority":10}"#, "priority: must be 0–9"),
        ("reschedule", "{}", "exactly one of"),
        (
            "reschedule",
            r#"{"run_at":"soon"}"#,
            "run_at: expected an RFC 3339 time",
        ),
    ] {
        let answer = host.post(&path(verb), body).await;
        let message = answer.fails(422, "invalid_request").to_owned();
        assert!(message.contains(detail), "{body}: {message}");
    }
    host.post(&path("cancel"), "{}").await.is(StatusCode::OK);
    let ended = host.post(&path("priority"), r#"{"priority":1}"#).await;
    ended.fails(409, "job_terminal");
    let last = host.post(&path("purge"), "{}").await;
    assert_eq!(last.is(StatusCode::OK).body["state"], "cancelled");
    host.get(&format!("/api/v1/jobs/{id}"))
        .await
        .fails(404, "job_not_found");
}

#[tokio::test]
async fn a_cancel_of_many_jobs_counts_each_once_and_says_which_still_run() {
    let host = Host::start().await;
    for _ in 0..3 {
        host.enqueue(NOOP).await;
    }
    host.claim().await;
    for (state, [matched, changed, stopping, unchanged]) in [
        ("available", [2, 2, 0, 0]),
        ("running", [1, 1, 1, 0]),
        ("running", [1, 0, 0, 1]),
    ] {
        let path = format!("/api/v1/jobs/cancel?state={state}");
        let body = host.post(&path, "{}").await.is(StatusCode::OK).body;
        let counts = ["matched", "changed", "stopping", "unchanged", "refused"]
            .map(|name| body[name].as_u64().unwrap());
        assert_eq!(
            counts,
            [matched, changed, stopping, unchanged, 0],
            "{state}"
        );
    }
}
