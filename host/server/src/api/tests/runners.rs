//! Which jobs go to foreign runners, and looking at the runners.

use axum::http::StatusCode;
use host_core::policy::Policy;
use serde_json::json;

use super::fixture::Host;
use super::nodes::alone;
use super::sample_executors;

const JOBS: &str = "/api/v1/jobs";

#[tokio::test]
async fn a_prefix_comes_before_a_queue_and_a_queue_before_a_component() {
    let host = Host::start().await;
    for (job, handler) in [
        (r#"{"handler":"ruby#noop"}"#, "ruby#noop"),
        (r#"{"handler":"ruby#noop","queue":"pythons"}"#, "ruby#noop"),
        (r#"{"handler":"noop","queue":"pythons"}"#, "python#noop"),
        (r#"{"handler":"what","queue":"pythons"}"#, "python#what"),
        (r#"{"handler":"noop"}"#, "noop"),
    ] {
        let id = host.enqueue(job).await;
        let shown = host.get(&format!("{JOBS}/{id}")).await;
        assert_eq!(shown.body["handler"], handler, "{job}");
    }
    let listed = |filter: &'static str| {
        let host = &host;
        async move {
            let path = format!("{JOBS}?handler={}", filter.replace('#', "%23"));
            let list = host.get(&path).await.is(StatusCode::OK);
            list.body["items"].as_array().unwrap().len()
        }
    };
    assert_eq!(listed("ruby#noop").await, 2);
    assert_eq!(listed("python#noop").await, 1);
    assert_eq!(listed("noop").await, 1);
    host.get(&format!("{JOBS}?handler=a%23b%23c"))
        .await
        .fails(400, "invalid_query");
}

#[tokio::test]
async fn params_of_a_runner_are_checked_by_no_schema() {
    let host = Host::start().await;
    host.enqueue(r#"{"handler":"python#typed","params":{"n":"text"}}"#)
        .await;
    host.enqueue(r#"{"handler":"typed","queue":"pythons"}"#)
        .await;
}

#[tokio::test]
async fn a_default_runner_has_what_nobody_else_has() {
    let host = Host::start_with_default("ruby").await;
    for (handler, shown) in [("noop", "noop"), ("what", "ruby#what")] {
        let id = host.enqueue(format!(r#"{{"handler":"{handler}"}}"#)).await;
        let job = host.get(&format!("{JOBS}/{id}")).await;
        assert_eq!(job.body["handler"], shown);
    }
}

#[tokio::test]
async fn jobs_of_runners_have_the_rules_of_their_wire_and_their_own_come_first() {
    let host = Host::start().await;
    for (job, attempts, timeout_ms, is_runners) in [
        (r#"{"handler":"noop"}"#, 20, None, false),
        (r#"{"handler":"python#noop"}"#, 20, None, true),
        (r#"{"handler":"noop","queue":"pythons"}"#, 20, None, true),
        (
            r#"{"handler":"python#noop","max_attempts":2,"timeout_seconds":7}"#,
            2,
            Some(7_000),
            true,
        ),
    ] {
        let id = host.enqueue(job).await.parse().unwrap();
        let read = host.dispatch.read(move |reader| reader.job(id)).await;
        let policy = read.unwrap().unwrap().lifecycle.policy;
        let rules = if is_runners {
            sample_executors::policy()
        } else {
            Policy::default()
        };
        let base_ms = if is_runners { 5_000 } else { 1_000 };
        assert_eq!(policy.backoff.base_ms, base_ms, "{job}");
        assert_eq!(policy.backoff.max_ms, 3_600_000, "{job}");
        let expected = Policy {
            max_attempts: attempts,
            timeout_ms,
            ..rules
        };
        assert_eq!(policy, expected, "{job}");
    }
}

#[tokio::test]
async fn a_time_limit_that_the_wire_of_a_runner_cannot_give_is_refused() {
    let host = Host::start().await;
    host.enqueue(r#"{"handler":"python#noop","timeout_seconds":7200}"#)
        .await;
    let refused = host
        .post(JOBS, r#"{"handler":"python#noop","timeout_seconds":10800}"#)
        .await;
    let message = refused.fails(422, "invalid_request");
    assert_eq!(message, "timeout_seconds: must be 0.001–7200, got 10800");
    host.enqueue(r#"{"handler":"noop","timeout_seconds":10800}"#)
        .await;
}

#[tokio::test]
async fn pools_are_listed_shown_and_restarted() {
    let host = alone().await;
    let python = json!({
        "name": "python",
        "wire": "sample",
        "external": false,
        "restartable": true,
        "queues": ["pythons"],
        "default": false,
        "up": 0,
        "in_flight": 0,
        "runners": [
            {"executor": "python/1", "state": "down", "in_flight": 0, "failures": 0},
            {"executor": "python/2", "state": "down", "in_flight": 0, "failures": 0},
        ],
    });
    let list = host.get("/api/v1/runners").await.is(StatusCode::OK);
    assert_eq!(list.body["items"][0], python);
    assert_eq!(list.body["items"][1]["name"], "ruby");
    let one = host.get("/api/v1/runners/python").await.is(StatusCode::OK);
    assert_eq!(one.body, python);
    for body in ["{}", r#"{"runner":2}"#] {
        let restarted = host.post("/api/v1/runners/python/restart", body).await;
        assert_eq!(restarted.is(StatusCode::OK).body, python);
    }
    for body in [r#"{"runner":0}"#, r#"{"runner":3}"#] {
        let refused = host.post("/api/v1/runners/python/restart", body).await;
        let message = refused.fails(422, "invalid_request");
        assert_eq!(message, "runner: must be 1–2");
    }
    host.get("/api/v1/runners/perl")
        .await
        .fails(404, "runner_not_found");
    host.post("/api/v1/runners/perl/restart", "{}")
        .await
        .fails(404, "runner_not_found");
}

#[tokio::test]
async fn the_numbers_of_runners_are_shown() {
    let host = Host::start().await;
    let metrics = host.get("/metrics").await.text;
    for line in [
        "host_runners{runner=\"python\",state=\"down\"} 2",
        "host_runners{runner=\"ruby\",state=\"up\"} 0",
        "host_runner_in_flight{runner=\"ruby\"} 0",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn jobs_go_to_workers_elsewhere_by_their_names() {
    let host = alone().await;
    let list = host.get("/api/v1/runners").await.is(StatusCode::OK);
    assert_eq!(list.body["items"].as_array().unwrap().len(), 2);
    for body in [
        r#"{"handler":"far-w1#resize","params":{"w":1}}"#,
        r#"{"handler":"far-w1#script","params":{"script":"40 + 2"}}"#,
    ] {
        host.post("/api/v1/jobs", body)
            .await
            .is(StatusCode::CREATED);
    }
    for (body, message) in [
        (r#"{"handler":"far-w1#script"}"#, "params.script"),
        (
            r#"{"handler":"far-w1#script","params":{"x":7}}"#,
            "params.script",
        ),
        (
            r#"{"handler":"far-w1#resize","params":[]}"#,
            "takes an object",
        ),
    ] {
        let refused = host.post("/api/v1/jobs", body).await;
        let detail = refused.fails(422, "invalid_params");
        assert!(detail.contains(message), "{detail}");
    }
    for name in ["far", "far-a b", "fare-x"] {
        let body = format!(r#"{{"handler":"{name}#x"}}"#);
        let refused = host.post("/api/v1/jobs", &body).await;
        refused.fails(422, "handler_not_found");
    }
    let lane = json!({
        "name": "far-w1",
        "wire": "sample",
        "external": true,
        "restartable": false,
        "queues": [],
        "default": false,
        "up": 0,
        "in_flight": 0,
        "runners": [{
            "executor": "far-w1",
            "state": "starting",
            "address": "tcp://127.0.0.1:1",
            "in_flight": 0,
            "failures": 0,
            "doing": "keeps itself busy",
        }],
    });
    let shown = host.get("/api/v1/runners/far-w1").await;
    assert_eq!(shown.is(StatusCode::OK).body, lane);
    let metrics = host.get("/metrics").await.text;
    let starting = "host_runners{runner=\"far-w1\",state=\"starting\"} 1";
    assert!(metrics.contains(starting), "{metrics}");
    let restart = host.post("/api/v1/runners/far-w1/restart", "{}").await;
    let message = restart.fails(422, "invalid_request");
    assert!(message.contains("not started by this host"), "{message}");
}

#[tokio::test]
async fn as_many_workers_elsewhere_are_named_as_may_be() {
    let host = Host::start().await;
    for (n, status) in [(1, 201), (2, 201), (3, 201), (1, 201), (4, 422)] {
        let body = format!(r#"{{"handler":"far-{n}#x"}}"#);
        let answer = host.post(JOBS, body).await;
        assert_eq!(answer.status, status, "{answer:?}");
        if status == 422 {
            let message = answer.fails(422, "handler_not_found");
            assert!(message.contains("3 were named"), "{message}");
        }
    }
    let refused = host.post(JOBS, r#"{"handler":"pyton#x"}"#).await;
    let message = refused.fails(422, "handler_not_found");
    assert!(message.contains("did you mean python?"), "{message}");
}
