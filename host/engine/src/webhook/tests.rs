//! Tests of who is notified of an end, and of what.

use host_core::failure::FailureKind;
use host_core::notify::JOB_EVENTS;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;

const NOW: Time = Time(1_700_000_000_000);

fn notify(url: &str, events: &[Event]) -> Notify {
    Notify {
        url: url.to_owned(),
        secret: "s".to_owned(),
        events: events.to_vec(),
    }
}

fn ended(state: State, notify: Vec<Notify>) -> (Lifecycle, Payload) {
    let mut new = of_test(NOW, JobId(Uuid::from_u128(1)), &self::notify("u", &[]));
    new.notify = notify;
    new.payload.params = JsonText(r#"{"n": 1}"#.to_owned());
    new.payload.attributes = vec![("order".to_owned(), "7".to_owned())];
    let mut job = Lifecycle::accept(NOW, &new, 0);
    job.state = state;
    job.finished_at = Some(NOW.plus_ms(5));
    (job, new.payload)
}

fn read(delivery: &NewJob) -> (Delivery, Value) {
    let params: Delivery = serde_json::from_str(delivery.payload.params.as_str()).unwrap();
    let message = serde_json::from_str(params.message.get()).unwrap();
    (params, message)
}

#[test]
fn the_last_attempt_starts_about_a_day_after_the_first() {
    let Policy {
        max_attempts,
        backoff,
        ..
    } = policy();
    for n in 0..20 {
        let job = JobId(Uuid::from_u128(n));
        let waits = (1..max_attempts).map(|attempt| backoff.delay_ms(job, attempt));
        let hours = waits.sum::<u64>() / 3_600_000;
        assert!((20..32).contains(&hours), "{hours} hours");
    }
}

#[test]
fn each_receiver_is_told_of_the_events_that_it_wants() {
    let receivers = vec![
        notify("all", &JOB_EVENTS),
        notify("failures", &[Event::JobDiscarded]),
    ];
    for (state, notified) in [
        (State::Completed, &["all"][..]),
        (State::Discarded, &["all", "failures"]),
        (State::Cancelled, &["all"]),
        (State::Running, &[]),
    ] {
        let (mut job, payload) = ended(state, receivers.clone());
        let deliveries = deliveries(&mut job, NOW, &payload, &Ending::default());
        let urls: Vec<String> = deliveries.iter().map(|it| read(it).0.url).collect();
        assert_eq!(urls, notified, "{state:?}");
        assert_eq!(job.notify.len(), receivers.len());
    }
}

#[test]
fn a_message_says_what_became_of_the_job() {
    let (mut job, payload) = ended(State::Completed, vec![notify("u", &JOB_EVENTS)]);
    let ending = Ending {
        result: Some(JsonText("[2]".to_owned())),
        failure: None,
    };
    let deliveries = deliveries(&mut job, NOW, &payload, &ending);
    let [delivery] = &*deliveries else {
        panic!("{deliveries:?}")
    };
    let (params, message) = read(delivery);
    assert_eq!((&*params.url, &*params.secret), ("u", "s"));
    let expected = json!({
        "type": "job.completed",
        "timestamp": "2023-11-14T22:13:20.000Z",
        "data": {
            "id": job.id.to_string(),
            "handler": "webhooks#deliver",
            "queue": "webhooks",
            "state": "completed",
            "attempt": 0,
            "enqueued_at": "2023-11-14T22:13:20.000Z",
            "finished_at": "2023-11-14T22:13:20.005Z",
            "attributes": {"order": "7"},
            "params": {"n": 1},
            "result": [2],
        },
    });
    assert_eq!(message, expected);
    assert!(
        params.message.get().contains(r#"{"n": 1}"#),
        "byte for byte"
    );
}

#[test]
fn what_is_too_large_is_left_out_and_named() {
    let (mut job, mut payload) = ended(State::Discarded, vec![notify("u", &JOB_EVENTS)]);
    job.failure = Some(FailureKind::UserError);
    payload.params = JsonText(format!("\"{}\"", "x".repeat(VALUE_BYTES_MAX)));
    let ending = Ending {
        result: None,
        failure: Some(Failure::new(FailureKind::UserError, "no stock")),
    };
    let deliveries = deliveries(&mut job, NOW, &payload, &ending);
    let (_, message) = read(&deliveries[0]);
    assert_eq!(message["data"]["omitted"], json!(["params"]));
    assert_eq!(message["data"].get("params"), None);
    let failure = json!({"kind": "user_error", "message": "no stock"});
    assert_eq!(message["data"]["failure"], failure);
}

#[test]
fn a_job_that_ends_again_is_told_again_behind_the_delivery_before() {
    let receivers = vec![notify("a", &JOB_EVENTS), notify("b", &JOB_EVENTS)];
    let (mut job, payload) = ended(State::Cancelled, receivers);
    let first = deliveries(&mut job, NOW, &payload, &Ending::default());
    let second = deliveries(&mut job, NOW, &payload, &Ending::default());
    let mut ids: Vec<JobId> = first.iter().chain(&second).map(|it| it.id).collect();
    assert!(first.iter().all(|it| it.depends_on.is_empty()));
    for (before, after) in first.iter().zip(&second) {
        assert_eq!(after.depends_on, [before.id], "in order for each receiver");
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(
        ids.len(),
        4,
        "all at the same instant, and each has its own id"
    );
    assert!(ids.iter().all(|id| id.0.get_version_num() == 7));
}
