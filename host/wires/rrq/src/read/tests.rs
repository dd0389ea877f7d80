//! Every field with every kind of wrong value. Random bytes must be refused with a message.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Message, for_orchestrator, for_worker};
use crate::refusals::{About, Refusal};

fn request() -> Value {
    json!({"type": "request", "payload": {
        "protocol_version": "2", "request_id": "r", "job_id": "j", "function_name": "echo",
        "params": {"a": 1},
        "context": {
            "job_id": "j", "attempt": 1, "enqueue_time": "2026-11-20T23:40:47.492469Z",
            "queue_name": "rrq:queue:default", "deadline": "2026-11-20T23:41:47.492509123+02:00",
            "trace_context": null, "correlation_context": null, "worker_id": "w"
        }
    }})
}

/// Sets the value at a path, or removes it if it is `None`.
fn with(mut message: Value, path: &str, value: Option<Value>) -> Value {
    let (parent, key) = path.rsplit_once('/').unwrap();
    let parent = message
        .pointer_mut(parent)
        .unwrap()
        .as_object_mut()
        .unwrap();
    match value {
        Some(value) => parent.insert(key.to_owned(), value),
        None => parent.remove(key),
    };
    message
}

fn read_text(text: &str) -> Result<Message, Refusal> {
    for_worker(Ok(text.as_bytes()))
}

/// Shows a refusal in one line: code, what it is about, message.
fn refused(text: &[u8]) -> String {
    shown(&for_worker(Ok(text)).expect_err("must be refused"))
}

/// The same for a message of a runner.
fn refused_of_runner(text: &[u8]) -> String {
    shown(&for_orchestrator(Ok(text)).expect_err("must be refused"))
}

fn shown(refusal: &Refusal) -> String {
    let about = match &refusal.about {
        About::Frame => "frame".to_owned(),
        About::Ids(ids) => format!("{}/{}", ids.request, ids.job),
        About::Unknown => "unknown".to_owned(),
        About::Aside => "aside".to_owned(),
    };
    format!("{} {about} {}", refusal.code.as_str(), refusal.message)
}

#[test]
fn a_request_is_read_whole() {
    let Ok(Message::Request(request)) = read_text(&request().to_string()) else {
        panic!("no request");
    };
    assert_eq!(request.function, "echo");
    assert_eq!(request.params.as_str(), r#"{"a":1}"#);
    assert_eq!(request.queue, "rrq:queue:default");
    assert_eq!(
        request.deadline.unwrap().to_rfc3339(),
        "2026-11-20T21:41:47.492Z"
    );
    assert_eq!(request.worker_id.as_deref(), Some("w"));
}

#[test]
fn what_may_be_absent_may_be_absent_or_null() {
    let optional = [
        "enqueue_time",
        "queue_name",
        "deadline",
        "trace_context",
        "correlation_context",
        "worker_id",
        "job_id",
    ];
    for field in optional {
        let path = format!("/payload/context/{field}");
        for value in [None, Some(Value::Null)] {
            let message = with(request(), &path, value);
            assert!(read_text(&message.to_string()).is_ok(), "{field}");
        }
    }
    let message = with(request(), "/payload/params", None);
    let Ok(Message::Request(request)) = read_text(&message.to_string()) else {
        panic!("no request");
    };
    assert_eq!(request.params.as_str(), "{}");
}

#[test]
fn bad_fields_are_named_with_what_was_found() {
    let long = "x".repeat(5_000);
    let r = "E_FIELD_TYPE r/j";
    let version = "E_VERSION r/j Unsupported protocol version";
    let range = "E_FIELD_RANGE r/j context.attempt: expected a whole number from 1 to 4294967295";
    let cases: Vec<(&str, Option<Value>, String)> = vec![
        ("protocol_version", Some(json!("1")), version.into()),
        ("protocol_version", Some(json!(2)), version.into()),
        ("protocol_version", Some(json!("2.0")), version.into()),
        ("protocol_version", Some(json!("")), version.into()),
        ("protocol_version", None, version.into()),
        ("params", Some(json!([1, 2])), format!("{r} params: expected an object, found an array")),
        ("params", Some(json!(null)), format!("{r} params: expected an object, found null")),
        ("params", Some(json!("{}")), format!("{r} params: expected an object, found a string of 2 bytes")),
        ("args", Some(json!([])), format!("{r} params: expected an object and no args or kwargs")),
        ("kwargs", Some(json!({})), format!("{r} params: expected an object and no args or kwargs")),
        ("function_name", None, format!("{r} function_name: expected a string, found nothing")),
        ("function_name", Some(json!(1)), format!("{r} function_name: expected a string, found a number")),
        ("context", None, format!("{r} context: expected an object, found nothing")),
        ("context", Some(json!([])), format!("{r} context: expected an object, found an array")),
        ("context/job_id", Some(json!("k")), "E_FIELD_MISMATCH r/j context.job_id".into()),
        ("context/attempt", Some(json!(0)), format!("{range}, found a number below 1")),
        ("context/attempt", Some(json!(-1)), range.into()),
        ("context/attempt", Some(json!(1.5)), range.into()),
        ("context/attempt", Some(json!(9_223_372_036_854_775_808_u64)), range.into()),
        ("context/attempt", Some(json!("1")), format!("{r} context.attempt")),
        ("context/attempt", None, format!("{r} context.attempt")),
        ("context/deadline", Some(json!("2026-11-20T23:41:47")), format!("{r} context.deadline: expected an RFC 3339 time with an offset, found a string of 19 bytes")),
        ("context/deadline", Some(json!("2026-11-20T23:41:47+99:99")), format!("{r} context.deadline")),
        ("context/deadline", Some(json!("10000-01-01T00:00:00Z")), format!("{r} context.deadline")),
        ("context/deadline", Some(json!(1_795_000_000)), format!("{r} context.deadline")),
        ("context/queue_name", Some(json!(["q"])), format!("{r} context.queue_name")),
        ("request_id", None, "E_FIELD_TYPE unknown request_id".into()),
        ("request_id", Some(json!(7)), "E_FIELD_TYPE unknown request_id".into()),
        ("job_id", Some(json!(null)), "E_FIELD_TYPE unknown job_id".into()),
        ("job_id", Some(json!(long)), "E_FIELD_RANGE unknown job_id: expected a string of at most 4096 bytes, found a string of 5000 bytes".into()),
    ];
    for (field, value, expected) in cases {
        let message = with(request(), &format!("/payload/{field}"), value.clone());
        let refused = refused(message.to_string().as_bytes());
        assert!(
            refused.starts_with(&expected),
            "{field} {value:?}: {refused}"
        );
    }
}

#[test]
fn bad_documents_are_placed_and_answered_where_their_ids_can_be_read() {
    let ids = br#""payload":{"request_id":"r","job_id":"j""#;
    let join = |parts: &[&[u8]]| parts.concat();
    let deep = [vec![b'['; 200], vec![b']'; 200]].concat();
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (
            b"{nope".to_vec(),
            "E_JSON unknown byte 1: key must be a string",
        ),
        (b"\xff".to_vec(), "E_JSON unknown byte 0"),
        (b"\xef\xbb\xbf{}".to_vec(), "E_JSON unknown byte 0"),
        (b"{}{}".to_vec(), "E_JSON unknown byte 2"),
        (b"\0".to_vec(), "E_JSON unknown byte 0"),
        (
            join(&[b"{\"type\":\"request\",", ids, b",\"x\":\"\xff\"}}"]),
            "E_JSON r/j byte ",
        ),
        (
            join(&[b"{\"type\":\"request\",", ids, b",\"x\":1,\"x\":2}}"]),
            "E_JSON r/j byte ",
        ),
        (
            join(&[b"{\"type\":\"request\",", ids, b",\"x\":", &deep, b"}}"]),
            "E_JSON r/j byte ",
        ),
        (
            join(&[b"{\"type\":\"cancel\",", ids, b",\"x\":1,\"x\":2}}"]),
            "E_JSON aside byte ",
        ),
        (b"[]".to_vec(), "E_FIELD_TYPE unknown the frame"),
        (b"7".to_vec(), "E_FIELD_TYPE unknown the frame"),
        (
            b"{}".to_vec(),
            "E_UNKNOWN_TYPE unknown type: expected request, response or cancel, found nothing",
        ),
        (
            b"{\"type\":7}".to_vec(),
            "E_UNKNOWN_TYPE unknown type: expected request, response or cancel, found a number",
        ),
        (
            b"{\"type\":\"log\",\"payload\":{}}".to_vec(),
            "E_UNKNOWN_TYPE unknown type",
        ),
        (
            join(&[b"{\"type\":\"log\",", ids, b"}}"]),
            "E_UNKNOWN_TYPE r/j type",
        ),
        (
            b"{\"type\":\"request\"}".to_vec(),
            "E_FIELD_TYPE unknown payload: expected an object, found null",
        ),
        (
            b"{\"type\":\"request\",\"payload\":[]}".to_vec(),
            "E_FIELD_TYPE unknown payload",
        ),
        (
            b"{\"type\":\"cancel\",\"payload\":{}}".to_vec(),
            "E_FIELD_TYPE aside job_id",
        ),
        (
            b"{\"type\":\"cancel\",\"payload\":{\"job_id\":\"j\",\"protocol_version\":\"3\"}}"
                .to_vec(),
            "E_VERSION aside",
        ),
        (
            b"{\"type\":\"cancel\",\"payload\":{\"job_id\":\"j\",\"hard_kill\":\"yes\"}}".to_vec(),
            "E_FIELD_TYPE aside hard_kill",
        ),
        (
            join(&[b"{\"type\":\"response\",", ids, b",\"status\":7}}"]),
            "E_DIRECTION r/j",
        ),
        (
            b"{\"type\":\"response\",\"payload\":{\"request_id\":7}}".to_vec(),
            "E_DIRECTION unknown",
        ),
    ];
    for (text, expected) in cases {
        let refused = refused(&text);
        assert!(refused.starts_with(expected), "{expected}: {refused}");
    }
}

#[test]
fn bad_outcomes_are_about_their_request_where_its_id_can_be_read() {
    let ids = br#""payload":{"request_id":"r","job_id":"j""#;
    let join = |parts: &[&[u8]]| parts.concat();
    let deep = [vec![b'['; 200], vec![b']'; 200]].concat();
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"{nope".to_vec(), "E_JSON unknown byte 1"),
        (
            join(&[b"{\"type\":\"response\",", ids, b",\"result\":NaN}}"]),
            "E_JSON r/j byte ",
        ),
        (
            join(&[
                b"{\"type\":\"response\",",
                ids,
                b",\"result\":",
                &deep,
                b"}}",
            ]),
            "E_JSON r/j byte ",
        ),
        (
            join(&[b"{\"type\":\"response\",", ids, b",\"result\":[1"]),
            "E_JSON r/j byte ",
        ),
        (
            join(&[b"{\"type\":\"cancel\",", ids, b",\"x\":NaN"]),
            "E_JSON unknown byte ",
        ),
        (
            join(&[b"{\"type\":\"request\",", ids, b",\"params\":7}}"]),
            "E_DIRECTION aside",
        ),
        (
            b"{\"type\":\"cancel\",\"payload\":[]}".to_vec(),
            "E_DIRECTION aside",
        ),
        (
            b"{\"type\":\"response\",\"payload\":{\"job_id\":\"j\"}}".to_vec(),
            "E_OUTCOME_REQUEST unknown",
        ),
        (
            join(&[b"{\"type\":\"response\",", ids, b"}}"]),
            "E_OUTCOME_STATUS r/j status",
        ),
        (
            join(&[
                b"{\"type\":\"response\",",
                ids,
                b",\"status\":\"cancelled\"}}",
            ]),
            "E_OUTCOME_STATUS r/j status",
        ),
    ];
    for (text, expected) in cases {
        let refused = refused_of_runner(&text);
        assert!(refused.starts_with(expected), "{expected}: {refused}");
    }
}

#[test]
fn a_trace_context_never_fails_a_job() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let many: serde_json::Map<String, Value> = (0..10_000)
        .map(|n| (format!("k{n:05}"), json!("v")))
        .collect();
    let cases = [
        (json!({"traceparent": parent, "tracestate": "a=b"}), 2),
        (
            json!({"traceparent": "00-zz", "tracestate": "a=b", "baggage": "c=d"}),
            1,
        ),
        (
            json!({"traceparent": parent, "x": "a\r\nb", "y\n": "z", "n": 7}),
            1,
        ),
        (json!({"long": "v".repeat(513), "fits": "v".repeat(512)}), 1),
        (Value::Object(many), 16),
        (json!("no object"), 0),
        (json!(null), 0),
    ];
    for (context, kept) in cases {
        let message = with(request(), "/payload/context/trace_context", Some(context));
        let Ok(Message::Request(request)) = read_text(&message.to_string()) else {
            panic!("no request");
        };
        assert_eq!(request.trace.len(), kept, "{:?}", request.trace);
    }
    let fields = [
        "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
    ];
    for parent in fields {
        let context = Some(json!({"traceparent": parent}));
        let message = with(request(), "/payload/context/trace_context", context);
        let Ok(Message::Request(request)) = read_text(&message.to_string()) else {
            panic!("no request");
        };
        assert_eq!(request.trace, [], "{parent}");
    }
}

#[test]
fn wrong_types_in_every_field_are_refused_or_left_out() {
    let values = [
        json!(null),
        json!(true),
        json!(7),
        json!("text"),
        json!([]),
        json!({}),
    ];
    let fields = [
        "/type",
        "/payload",
        "/payload/protocol_version",
        "/payload/request_id",
        "/payload/job_id",
        "/payload/function_name",
        "/payload/params",
        "/payload/context",
        "/payload/context/job_id",
        "/payload/context/attempt",
        "/payload/context/enqueue_time",
        "/payload/context/queue_name",
        "/payload/context/deadline",
        "/payload/context/trace_context",
        "/payload/context/worker_id",
    ];
    for field in fields {
        for value in &values {
            let message = with(request(), field, Some(value.clone()));
            if let Err(refusal) = read_text(&message.to_string()) {
                assert!(!refusal.message.is_empty(), "{field} {value}");
            }
        }
    }
}

/// The entry point for a fuzzer: no bytes may panic, and each refusal has a message.
fn fuzz(bytes: &[u8]) {
    let refusals = [
        for_worker(Ok(bytes)).err(),
        for_orchestrator(Ok(bytes)).err(),
    ];
    for refusal in refusals.into_iter().flatten() {
        assert!(!refusal.message.is_empty());
        assert!(refusal.message.len() < 1_000, "{}", refusal.message.len());
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzz(&bytes);
    }

    #[test]
    fn no_cut_or_changed_message_panics(at in 0_usize..400, byte in any::<u8>(), cut in any::<bool>()) {
        let mut bytes = request().to_string().into_bytes();
        let at = at % bytes.len();
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] = byte;
        }
        fuzz(&bytes);
    }

    #[test]
    fn no_value_in_any_field_panics(
        field in prop::sample::select(vec![
            "/payload/request_id", "/payload/params", "/payload/context",
            "/payload/context/attempt", "/payload/context/trace_context", "/payload/extra",
        ]),
        value in value(),
    ) {
        fuzz(with(request(), field, Some(value)).to_string().as_bytes());
    }

    #[test]
    fn params_pass_unchanged(key in ".{0,12}", inner in value()) {
        let params = json!({key: inner});
        let message = with(request(), "/payload/params", Some(params.clone()));
        let Ok(Message::Request(request)) = read_text(&message.to_string()) else {
            panic!("no request");
        };
        prop_assert_eq!(request.params.as_str(), params.to_string());
    }
}
