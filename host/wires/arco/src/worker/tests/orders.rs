//! Reading dispatches.

use host_core::name::Name;
use host_wire_kit::http_client::BaseUrl;
use serde_json::{Value, json};

use crate::refusals::Code;
use crate::worker::order::{Order, OrderError};

fn envelope(change: impl FnOnce(&mut Value)) -> Result<Order, OrderError> {
    let mut envelope = json!({
        "taskId": "task",
        "taskKey": "key",
        "attempt": 1,
        "callbackBaseUrl": "http://h",
        "taskToken": "tok",
    });
    change(&mut envelope);
    let base: BaseUrl = "http://h".parse().unwrap();
    Order::read(envelope.to_string().as_bytes(), &[base.origin().clone()])
}

fn with(field: &str, value: Value) -> Order {
    envelope(|it| it[field] = value).unwrap()
}

#[test]
fn callbacks_follow_the_kind_of_the_dispatch() {
    for (current, interval, path) in [
        (false, false, "/v1/tasks/task"),
        (true, false, "/api/v1/tasks/task"),
        (true, true, "/v1/tasks/task"),
        (false, true, "/v1/tasks/task"),
    ] {
        let order = envelope(|it| {
            if current {
                it["dispatchId"] = "d".into();
            }
            if interval {
                it["heartbeatIntervalMs"] = 1_000.into();
            }
        });
        assert_eq!(order.unwrap().path, path);
    }
    let odd = with("taskId", json!("a/b ?%..é"));
    assert_eq!(odd.path, "/v1/tasks/a%2Fb%20%3F%25..%C3%A9");
    assert_eq!(with("taskId", json!("..")).path, "/v1/tasks/%2E%2E");
    let old = envelope(|it| drop(it.as_object_mut().unwrap().remove("taskId"))).unwrap();
    assert_eq!(
        (old.path.as_str(), old.attempt_id.as_str()),
        ("/v1/tasks/key", "key:1")
    );
}

#[test]
fn a_dispatch_is_the_same_however_its_url_is_written() {
    let key = |base: &str, dispatch: Option<&str>| {
        let order = envelope(|it| {
            it["callbackBaseUrl"] = base.into();
            it["dispatchId"] = dispatch.into();
        });
        order.unwrap().key
    };
    for dispatch in [Some("d"), None] {
        for base in ["http://h/", "http://H:80", "http://h/api/"] {
            assert_eq!(key(base, dispatch), key("http://h", dispatch), "{base}");
        }
    }
    assert_ne!(key("http://h", Some("d")), key("http://h", Some("e")));
}

#[test]
fn the_payload_may_name_the_handler_and_its_params() {
    for (payload, handler, params) in [
        (json!(null), Some("key"), "{}"),
        (json!({"a": 1}), Some("key"), r#"{"a":1}"#),
        (
            json!({"handler": "other", "params": {"b": 2}}),
            Some("other"),
            r#"{"b":2}"#,
        ),
        (
            json!({"handler": "other"}),
            Some("other"),
            r#"{"handler":"other"}"#,
        ),
        (
            json!({"handler": 7, "params": [1]}),
            Some("key"),
            r#"{"handler":7,"params":[1]}"#,
        ),
        (
            json!({"handler": "no name"}),
            None,
            r#"{"handler":"no name"}"#,
        ),
        (json!([1]), Some("key"), "[1]"),
    ] {
        let order = with("payload", payload.clone());
        assert_eq!(
            order.handler.as_ref().map(Name::as_str),
            handler,
            "{payload}"
        );
        assert_eq!(order.params.as_str(), params, "{payload}");
    }
}

#[test]
fn times_are_those_of_the_dispatch_or_defaults() {
    let times = |order: &Order| (order.interval_ms, order.timeout_ms, order.grace_ms);
    assert_eq!(times(&envelope(|_| {}).unwrap()), (30_000, 90_000, 30_000));
    assert_eq!(
        times(&with("heartbeatTimeoutSec", json!(30))),
        (10_000, 30_000, 30_000)
    );
    assert_eq!(
        times(&with("heartbeatTimeoutMs", json!(600))),
        (200, 600, 30_000)
    );
    assert_eq!(
        times(&with("heartbeatIntervalMs", json!(500))),
        (500, 90_000, 30_000)
    );
    assert_eq!(
        times(&with("heartbeatIntervalMs", json!(0))),
        (50, 90_000, 30_000)
    );
    assert_eq!(
        times(&with("heartbeatIntervalMs", json!(1_000_000))),
        (45_000, 90_000, 30_000)
    );
    assert_eq!(
        times(&with("cancelGracePeriodMs", json!(0))),
        (30_000, 90_000, 0)
    );
    assert_eq!(
        times(&with("heartbeatTimeoutSec", json!(u64::MAX))),
        (28_800_000, 86_400_000, 30_000)
    );
}

#[test]
fn an_invalid_envelope_is_refused_with_the_name_of_its_field() {
    let cases: &[(&str, Value, &str)] = &[
        ("taskKey", json!(""), "taskKey: "),
        ("taskKey", json!(7), "taskKey: "),
        ("taskId", json!("x".repeat(1_025)), "taskId: "),
        ("attempt", json!(0), "attempt: "),
        ("attempt", json!(-1), "attempt: "),
        ("attempt", json!("1"), "attempt: "),
        ("taskToken", json!(""), "taskToken: "),
        ("taskToken", json!("a b"), "taskToken: "),
        ("taskToken", json!("a\r\nx: y"), "taskToken: "),
    ];
    for (field, value, words) in cases {
        let error = envelope(|it| it[*field] = value.clone()).unwrap_err();
        assert_eq!(error.code, Code::Envelope);
        assert!(error.message.starts_with(words), "{error:?}");
    }
    for field in ["taskKey", "attempt", "callbackBaseUrl", "taskToken"] {
        let error = envelope(|it| drop(it.as_object_mut().unwrap().remove(field))).unwrap_err();
        assert!(format!("{error:?}").contains(field), "{error:?}");
    }
    for body in [
        &b""[..],
        b"[]",
        b"null",
        b"{\"attempt\":1,\"attempt\":1}",
        b"\xff",
    ] {
        assert_eq!(Order::read(body, &[]).unwrap_err().code, Code::Envelope);
    }
    let order = envelope(|_| {}).unwrap();
    assert_eq!(format!("{order:?}"), "Order(task, attempt 1)");
}
