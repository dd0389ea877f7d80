//! What principals see of the jobs that they enqueued themselves, and of others.

use axum::http::StatusCode;
use host_core::access::Scope;
use host_core::failure::{Failure, FailureKind};
use host_core::job::{HANDLER_WIRE, Origin};
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::outcome::Outcome;
use host_engine::job::Enqueue;
use host_engine::schedule::{Fire, KeptSchedule};
use serde_json::{Value, json};

use super::access::Guarded;
use super::retry::late_job;

#[tokio::test]
async fn a_producer_sees_what_its_own_jobs_carry_and_what_is_withheld_of_others() {
    let guarded = Guarded::start().await;
    let host = &guarded.host;
    let body = json!({"name": "p", "role": "producer"});
    let (own, other) = (guarded.make(&body).await, guarded.make(&body).await);
    let enqueued = async |token: &str| {
        let job = json!({"handler": "noop", "params": {"n": "zebra 1"}, "max_attempts": 1});
        let made = guarded
            .send(token, ("POST", "/api/v1/jobs"), Some(&job))
            .await;
        made.is(StatusCode::CREATED).body["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let completed = enqueued(&own).await;
    let result = Some(JsonText("[\"zebra 2\"]".to_owned()));
    host.complete(&host.claim().await, Outcome::Completed { result })
        .await;
    let failed = enqueued(&own).await;
    let failure = Failure::new(FailureKind::UserError, "because of zebra 3");
    host.complete(&host.claim().await, Outcome::Failed(failure))
        .await;
    for (id, withheld) in [
        (&completed, json!(["params", "result"])),
        (&failed, json!(["params", "failure"])),
    ] {
        for path in [
            format!("/api/v1/jobs/{id}"),
            format!("/api/v1/jobs/{id}/wait?timeout_seconds=0"),
        ] {
            let shown = guarded
                .send(&own, ("GET", &path), None)
                .await
                .is(StatusCode::OK);
            assert_eq!(shown.text.matches("zebra").count(), 2, "{}", shown.text);
            assert_eq!(shown.body["withheld"], Value::Null, "{}", shown.text);
            let hidden = guarded
                .send(&other, ("GET", &path), None)
                .await
                .is(StatusCode::OK);
            assert_eq!(hidden.body["withheld"], withheld, "{}", hidden.text);
            assert!(!hidden.text.contains("zebra"), "{}", hidden.text);
        }
    }
    let attempts = format!("/api/v1/jobs/{failed}/attempts");
    let shown = guarded.send(&own, ("GET", &attempts), None).await;
    assert_eq!(
        shown.body["items"][0]["failure"]["message"],
        "because of zebra 3"
    );
    let hidden = guarded.send(&other, ("GET", &attempts), None).await;
    assert_eq!(hidden.body["items"][0]["withheld"], json!(["failure"]));
    assert!(!hidden.text.contains("zebra"), "{}", hidden.text);
    // What a handler enqueued for it may tell what it must not know.
    let origin = Origin {
        principal: format!("token:{}", &own[4..16]),
        scope: Scope::ALL,
        max_waiting: None,
    };
    let mut job = late_job();
    job.payload.wire = HANDLER_WIRE.to_owned();
    job.payload.origin = Some(Box::new(origin));
    let path = format!("/api/v1/jobs/{}", job.id);
    host.dispatch.submit(Enqueue(vec![job])).await.unwrap();
    let hidden = guarded.send(&own, ("GET", &path), None).await;
    assert_eq!(
        hidden.is(StatusCode::OK).body["withheld"],
        json!(["params"])
    );
}

#[tokio::test]
async fn the_start_of_an_id_finds_a_job_behind_any_number_that_the_caller_may_not_see() {
    let guarded = Guarded::start().await;
    let body = json!({"name": "m", "role": "viewer", "queues": ["own"]});
    let token = guarded.make(&body).await;
    for _ in 0..70 {
        guarded.job("web", "noop").await;
    }
    let own = guarded.job("own", "noop").await;
    let path = format!("/api/v1/jobs/{}", &own[..4]);
    let shown = guarded.send(&token, ("GET", &path), None).await;
    assert_eq!(shown.is(StatusCode::OK).body["id"], own);
    guarded.job("own", "noop").await;
    let ambiguous = guarded.send(&token, ("GET", &path), None).await;
    ambiguous.fails(409, "ambiguous_id");
}

#[tokio::test]
async fn only_those_who_may_read_payloads_see_what_jobs_carry() {
    let guarded = Guarded::start().await;
    let body = json!({"handler": "typed", "params": {"n": 7_351_902_468_u64}});
    let made = guarded
        .send(&guarded.admin, ("POST", "/api/v1/jobs"), Some(&body))
        .await;
    let id = made.body["id"].as_str().unwrap().to_owned();
    let viewer = guarded.make(&json!({"name": "v", "role": "viewer"})).await;
    let operator = guarded
        .make(&json!({"name": "o", "role": "operator"}))
        .await;
    let show = format!("/api/v1/jobs/{id}");
    let wait = format!("{show}/wait?timeout_seconds=0");
    for path in [&show, &wait] {
        let hidden = guarded
            .send(&viewer, ("GET", path), None)
            .await
            .is(StatusCode::OK);
        assert!(!hidden.text.contains("7351902468"), "{path}");
        let shown = guarded.send(&operator, ("GET", path), None).await;
        assert!(shown.text.contains("7351902468"), "{path}");
    }
    let logs = format!("{show}/logs");
    let logs = guarded.send(&viewer, ("GET", &logs), None).await;
    assert!(logs.fails(403, "forbidden").contains("read_payload"));
    for query in [
        "failure=my_kind",
        "param=n%3D7351902468",
        "q=7351",
        "q=params.n:7351902468",
    ] {
        let path = format!("/api/v1/jobs?{query}");
        let asked = guarded.send(&viewer, ("GET", &path), None).await;
        assert!(
            asked.fails(403, "forbidden").contains("read_payload"),
            "{query}"
        );
        let found = guarded.send(&operator, ("GET", &path), None).await;
        found.is(StatusCode::OK);
    }
}

/// Otherwise a caller could try values until one is that of the other job.
#[tokio::test]
async fn a_unique_key_of_another_principal_tells_nothing_of_its_params() {
    let guarded = Guarded::start().await;
    let rights = json!({"name": "p", "role": "producer"});
    let (own, other) = (guarded.make(&rights).await, guarded.make(&rights).await);
    let batch = json!({"open": true});
    let batch = guarded
        .send(&other, ("POST", "/api/v1/batches"), Some(&batch))
        .await
        .is(StatusCode::CREATED)
        .body["batch"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let into_batch = format!("/api/v1/batches/{batch}/jobs");
    let job = |params: u32| json!({"handler": "noop", "params": params, "unique_key": "k"});
    let made = guarded
        .send(&own, ("POST", "/api/v1/jobs"), Some(&job(1)))
        .await;
    made.is(StatusCode::CREATED);
    for (token, path, differs) in [
        (&own, "/api/v1/jobs", json!(true)),
        (&guarded.admin, "/api/v1/jobs", json!(true)),
        (&other, "/api/v1/jobs", Value::Null),
        (&other, &*into_batch, Value::Null),
    ] {
        let again = guarded
            .send(token, ("POST", path), Some(&json!([job(2)])))
            .await
            .is(StatusCode::CREATED);
        assert_eq!(again.body[0]["existing"], true, "{}", again.text);
        assert_eq!(
            again.body[0]["existing_params_differ"], differs,
            "{path}: {}",
            again.text
        );
    }
}

#[tokio::test]
async fn schedules_and_limits_say_what_they_withhold() {
    let guarded = Guarded::start().await;
    let viewer = guarded.make(&json!({"name": "v", "role": "viewer"})).await;
    let (schedule, limit) = ("/api/v1/schedules/s", "/api/v1/limits/l");
    let when = json!({"every": "1h"});
    let job = json!({"handler": "noop", "params": {"n": "zebra 1"}});
    let body = json!({"when": when, "job": job});
    let set = guarded
        .send(&guarded.admin, ("PUT", schedule), Some(&body))
        .await;
    assert!(set.is(StatusCode::OK).body.get("withheld").is_none());
    let body = json!({"key": "/n", "concurrency": 1});
    let set = guarded
        .send(&guarded.admin, ("PUT", limit), Some(&body))
        .await;
    assert!(set.is(StatusCode::OK).body.get("withheld").is_none());
    refuse_firing(&guarded, "the limit l is full for zebra 2").await;
    let firings = format!("{schedule}/firings");
    for (path, part, withheld) in [
        (schedule, "", "params"),
        ("/api/v1/schedules", "/items/0", "params"),
        (&*firings, "/items/0", "reason"),
        (limit, "", "keys"),
    ] {
        let hidden = guarded
            .send(&viewer, ("GET", path), None)
            .await
            .is(StatusCode::OK);
        assert!(!hidden.text.contains("zebra"), "{path}: {}", hidden.text);
        let document = hidden.body.pointer(part).unwrap();
        assert_eq!(
            document["withheld"],
            json!([withheld]),
            "{path}: {document}"
        );
        let shown = guarded
            .send(&guarded.admin, ("GET", path), None)
            .await
            .is(StatusCode::OK);
        let document = shown.body.pointer(part).unwrap();
        assert!(document.get("withheld").is_none(), "{path}: {document}");
        assert_eq!(
            shown.text.contains("zebra"),
            path != limit,
            "{}",
            shown.text
        );
    }
}

#[tokio::test]
async fn a_job_says_what_its_reason_to_wait_leaves_out() {
    let guarded = Guarded::start().await;
    let make = async |body: Value| guarded.make(&body).await;
    let viewer = make(json!({"name": "v", "role": "viewer"})).await;
    let scoped = make(json!({"name": "s", "role": "admin", "queues": ["own"]})).await;
    let producer = make(json!({"name": "p", "role": "producer"})).await;
    let limit = json!({"match": {"queue": "default"}, "key": "/n", "concurrency": 1});
    let put = ("PUT", "/api/v1/limits/l");
    let set = guarded.send(&guarded.admin, put, Some(&limit)).await;
    set.is(StatusCode::OK);
    let enqueue = async |token: &str, job: Value| {
        let answer = guarded
            .send(token, ("POST", "/api/v1/jobs"), Some(&job))
            .await;
        let id = answer.is(StatusCode::CREATED).body["id"].clone();
        format!("/api/v1/jobs/{}", id.as_str().unwrap())
    };
    let limited = json!({"handler": "noop", "params": {"n": "zebra"}});
    enqueue(&producer, limited.clone()).await;
    let waits = enqueue(&producer, limited).await;
    let other = guarded.job("other", "noop").await;
    let on = async |jobs: &[&str]| {
        let job = json!({"handler": "noop", "queue": "own", "depends_on": jobs, "inputs": {"a": jobs[0]}});
        enqueue(&guarded.admin, job).await
    };
    let behind = on(&[&other]).await;
    let own = guarded.job("own", "noop").await;
    let behind_own = on(&[&own]).await;
    let reason = |of: &str| format!("the limit l is full: it lets jobs of {of} run 1 at a time");
    let behind_what = |id: &str| format!("it depends on job {id}, which is available");
    let hidden = json!(["waits_because", "params"]);
    let parts = json!(["depends_on", "waits_because", "inputs"]);
    for (token, path, waits_because, withheld) in [
        (&viewer, &waits, json!(reason("its key")), hidden),
        (&producer, &waits, json!(reason("zebra")), Value::Null),
        (&guarded.admin, &waits, json!(reason("zebra")), Value::Null),
        (&scoped, &behind, Value::Null, parts),
        (&scoped, &behind_own, json!(behind_what(&own)), Value::Null),
        (
            &guarded.admin,
            &behind,
            json!(behind_what(&other)),
            Value::Null,
        ),
    ] {
        let shown = guarded
            .send(token, ("GET", path), None)
            .await
            .is(StatusCode::OK);
        assert_eq!(shown.body["waits_because"], waits_because, "{}", shown.text);
        assert_eq!(shown.body["withheld"], withheld, "{}", shown.text);
    }
}

/// Lets the schedule `s` fire at its next time, with a job that is refused.
async fn refuse_firing(guarded: &Guarded, reason: &str) {
    let dispatch = &guarded.host.dispatch;
    let name: Name = "s".parse().unwrap();
    let wanted = name.clone();
    let kept = dispatch
        .read(move |reader| reader.get::<KeptSchedule>(&wanted))
        .await
        .unwrap()
        .unwrap();
    let fire = Fire {
        schedule: name,
        version: kept.progress.version,
        open: Vec::new(),
        wall: kept.fires_at().unwrap(),
        ids: vec![late_job().id, late_job().id],
        job: Err(reason.to_owned()),
        nominals: None,
    };
    let firings = dispatch.submit(fire).await.unwrap();
    assert_eq!(firings.len(), 1, "{firings:?}");
}
