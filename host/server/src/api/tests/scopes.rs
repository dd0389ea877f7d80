//! What a token for some queues or handlers learns of the others from numbers, causes and streams.

use axum::http::StatusCode;
use host_core::cost::Sample;
use host_core::failure::{Failure, FailureKind};
use host_core::outcome::{Meter, Outcome};
use serde_json::{Value, json};

use super::access::Guarded;

async fn get(guarded: &Guarded, token: &str, path: &str) -> Value {
    let answer = guarded.send(token, ("GET", path), None).await;
    answer.is(StatusCode::OK).body
}

/// What a handler costs counts its jobs in all queues.
#[tokio::test]
async fn costs_of_handlers_are_for_those_who_see_all_queues() {
    let guarded = Guarded::start().await;
    let sample = Sample {
        ran_ms: 2,
        is_failure: false,
        meter: Meter::default(),
    };
    let at = guarded.clock.now();
    let add = |handler| {
        let costs = guarded.numbers.costs();
        costs.add(handler, ("basics", 1), at, sample);
    };
    add("noop");
    add("a/b");
    let body = json!({"name": "q", "role": "viewer", "queues": ["mail-*"]});
    let of_queues = guarded.make(&body).await;
    let body = json!({"name": "h", "role": "viewer", "handlers": ["noop"]});
    let of_handlers = guarded.make(&body).await;
    for (token, costs) in [(&guarded.admin, 2), (&of_handlers, 1), (&of_queues, 0)] {
        let listed = get(&guarded, token, "/api/v1/handlers").await;
        let shown = listed["items"].as_array().unwrap().iter();
        let with_costs = shown.filter(|it| it["cost"] != json!([])).count();
        assert_eq!(with_costs, costs, "{listed}");
        let shown = get(&guarded, token, "/api/v1/handlers/noop").await;
        assert_eq!(shown["cost"] != json!([]), costs > 0, "{shown}");
    }
}

/// The counts of a queue have jobs of all handlers.
#[tokio::test]
async fn counts_of_queues_are_for_those_who_see_all_handlers() {
    let guarded = Guarded::start().await;
    guarded.job("mail-eu", "noop").await;
    let body = json!({"name": "q", "role": "viewer", "queues": ["mail-*"]});
    let of_queues = guarded.make(&body).await;
    let body = json!({"name": "h", "role": "viewer", "handlers": ["noop"]});
    let of_handlers = guarded.make(&body).await;
    for (token, has_counts) in [
        (&guarded.admin, true),
        (&of_queues, true),
        (&of_handlers, false),
    ] {
        let listed = get(&guarded, token, "/api/v1/queues").await;
        let shown = get(&guarded, token, "/api/v1/queues/mail-eu").await;
        for queue in [&listed["items"][0], &shown] {
            assert_eq!(queue["name"], "mail-eu");
            let counts = queue["counts"].as_object().unwrap();
            assert_eq!(!counts.is_empty(), has_counts, "{queue}");
        }
    }
}

#[tokio::test]
async fn causes_are_those_of_jobs_in_the_scope() {
    let guarded = Guarded::start().await;
    for (queue, handler, message) in [
        ("mail-eu", "noop", "one"),
        ("mail-eu", "a/b", "two"),
        ("web", "noop", "three"),
    ] {
        let job = json!({"queue": queue, "handler": handler, "max_attempts": 1});
        let enqueue = ("POST", "/api/v1/jobs");
        let made = guarded.send(&guarded.admin, enqueue, Some(&job)).await;
        made.is(StatusCode::CREATED);
        let claimed = guarded.host.claim().await;
        let failure = Failure::new(FailureKind::UserError, message);
        guarded
            .host
            .complete(&claimed, Outcome::Failed(failure))
            .await;
    }
    for (queues, handlers, expected) in [
        (json!([]), json!([]), 3),
        (json!(["mail-*"]), json!([]), 2),
        (json!([]), json!(["noop"]), 2),
        (json!(["mail-*"]), json!(["noop"]), 1),
    ] {
        let body = json!({
            "name": "v", "role": "operator", "queues": queues, "handlers": handlers,
        });
        let token = guarded.make(&body).await;
        let causes = get(&guarded, &token, "/api/v1/failures").await;
        let found = causes["items"].as_array().unwrap().len();
        assert_eq!(found, expected, "{queues} {handlers}: {causes}");
    }
}

#[tokio::test]
async fn a_job_out_of_scope_has_no_stream() {
    let guarded = Guarded::start().await;
    let body = json!({"name": "m", "role": "viewer", "queues": ["mail-*"]});
    let token = guarded.make(&body).await;
    let hidden = guarded.job("web", "noop").await;
    let unknown = "01990f3c-1a2b-7000-8000-000000000001";
    let ask = async |id: &str| {
        let path = format!("/api/v1/events?job={id}");
        guarded.send(&token, ("GET", &path), None).await
    };
    let refused = ask(&hidden).await;
    refused.fails(404, "job_not_found");
    let missing = ask(unknown).await;
    assert_eq!(missing.text.replace(unknown, &hidden), refused.text);
}

/// Pages that follow the host get hints. One says that something has changed that the token may see.
#[tokio::test]
async fn hints_keep_to_the_scope() {
    for (queue, is_hinted) in [("web", false), ("mail-eu", true)] {
        let guarded = Guarded::start().await;
        let body = json!({"name": "m", "role": "viewer", "queues": ["mail-*"]});
        let token = guarded.make(&body).await;
        guarded.job(queue, "noop").await;
        let stream = guarded.streamed(&token, "/api/v1/events?hints=true").await;
        let has_hint = stream.contains("event: changed");
        assert_eq!(has_hint, is_hinted, "{queue}: {stream}");
    }
}
