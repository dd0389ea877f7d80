//! All kinds of bad input: what is answered, and that other requests are not affected.

use serde_json::{Value, json};

use super::fixture::{Bench, completed};

/// The effect of bad input on a connection.
enum Then {
    /// One answer with this `error.type` and `error.code`. The connection stays open.
    Refused(&'static str, &'static str),
    /// The same, but the connection ends.
    RefusedAndClosed(&'static str, &'static str),
    /// No answer, and the connection ends. Counted with this code.
    Closed(&'static str),
    /// No answer, and the connection stays open. Counted with this code.
    Ignored(&'static str),
}

fn frame(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length, payload].concat()
}

/// Sends `bytes` on its own connection, beside one with a request in flight, and checks what
/// follows on both.
fn check(name: &str, bytes: &[u8], then: &Then) {
    let mut bench = Bench::connected();
    bench.send(1, &bench.request("neighbour", "n"));
    let neighbour = bench.tag();
    bench.open(2);
    bench.send_stream(2, bytes);
    let (refused, closed, code) = match then {
        Then::Refused(kind, code) => (Some(*kind), false, *code),
        Then::RefusedAndClosed(kind, code) => (Some(*kind), true, *code),
        Then::Closed(code) => (None, true, *code),
        Then::Ignored(code) => (None, false, *code),
    };
    assert_eq!(bench.counted, [code], "{name}");
    let answers = bench.answers(2);
    assert_eq!(
        answers.len(),
        usize::from(refused.is_some()),
        "{name}: {answers:?}"
    );
    if let Some(kind) = refused {
        assert_eq!(answers[0]["status"], "error", "{name}");
        assert_eq!(answers[0]["error"]["type"], kind, "{name}");
        assert_eq!(answers[0]["error"]["code"], code, "{name}");
        assert_ne!(answers[0]["error"]["message"], "", "{name}");
    }
    assert_eq!(
        bench.closed,
        if closed { vec![2] } else { vec![] },
        "{name}"
    );
    if !closed {
        bench.send(2, &bench.request("after", "a"));
        bench.end(bench.tag(), completed("1"));
        assert_eq!(bench.answer_of(2)["status"], "success", "{name}");
    }
    bench.end(neighbour, completed("2"));
    assert_eq!(bench.answer_of(1)["status"], "success", "{name}");
    assert_eq!(bench.stopped, [], "{name}");
    bench.check_empty();
}

fn changed(field: &str, value: Value) -> Vec<u8> {
    let mut message = Bench::new().request("r", "j");
    let (parent, key) = field.rsplit_once('/').unwrap();
    message.pointer_mut(parent).unwrap()[key] = value;
    frame(message.to_string().as_bytes())
}

fn ids(kind: &str, rest: &str) -> Vec<u8> {
    let text = format!(r#"{{"type":"{kind}","payload":{{"request_id":"r","job_id":"j"{rest}}}}}"#);
    frame(text.as_bytes())
}

#[test]
fn frames() {
    let refused = |code| Then::RefusedAndClosed("invalid_frame", code);
    check("empty", &[0; 4], &refused("E_FRAME_EMPTY"));
    for header in [
        &[0xff; 4],
        b"GET ",
        b"\x16\x03\x01\x02",
        b"SSH-",
        &[1, 0, 0, 1],
    ] {
        check("too large", header, &refused("E_FRAME_TOO_LARGE"));
    }
    let mut bench = Bench::connected();
    bench.send_stream(1, b"GET / HTTP/1.1\r\n\r\n");
    let answer = bench.answer_of(1);
    assert_eq!(answer["job_id"], "unknown");
    assert_eq!(answer["request_id"], Value::Null);
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("looks like HTTP"), "{message}");
}

#[test]
fn documents() {
    for text in [
        &b"{nope"[..],
        b"\xff\xfe",
        b"\xc0\xaf",
        b"\0",
        b"\xef\xbb\xbf{}",
        b"{} {}",
        b"1",
    ] {
        let code = if text == b"1" {
            "E_FIELD_TYPE"
        } else {
            "E_JSON"
        };
        check("document", &frame(text), &Then::Closed(code));
    }
    let refused = Then::Refused("invalid_request", "E_JSON");
    check(
        "duplicate key",
        &ids("request", r#","a":1,"a":2"#),
        &refused,
    );
    check(
        "lone surrogate",
        &ids("request", r#","a":"\ud800\u0041""#),
        &refused,
    );
    let deep = format!(",\"a\":{}{}", "[".repeat(100_000), "]".repeat(100_000));
    check("depth", &ids("request", &deep), &refused);
}

#[test]
fn envelopes() {
    let refused = |code| Then::Refused("invalid_request", code);
    check("unknown type", &ids("log", ""), &refused("E_UNKNOWN_TYPE"));
    check(
        "unknown type, no ids",
        &frame(br#"{"type":"log","payload":{}}"#),
        &Then::Closed("E_UNKNOWN_TYPE"),
    );
    check("no type", &frame(b"{}"), &Then::Closed("E_UNKNOWN_TYPE"));
    check(
        "type is a number",
        &frame(br#"{"type":1}"#),
        &Then::Closed("E_UNKNOWN_TYPE"),
    );
    check(
        "response to a runner",
        &ids("response", r#","status":"success""#),
        &refused("E_DIRECTION"),
    );
}

#[test]
fn fields() {
    let refused = |code| Then::Refused("invalid_request", code);
    for version in [json!("1"), json!(2), json!("2.0"), json!(""), Value::Null] {
        let bytes = changed("/payload/protocol_version", version);
        check("version", &bytes, &refused("E_VERSION"));
    }
    check("no version", &ids("request", ""), &refused("E_VERSION"));
    for params in [json!([]), Value::Null, json!("p")] {
        check(
            "params",
            &changed("/payload/params", params),
            &refused("E_FIELD_TYPE"),
        );
    }
    check(
        "args",
        &changed("/payload/args", json!([])),
        &refused("E_FIELD_TYPE"),
    );
    check(
        "kwargs",
        &changed("/payload/kwargs", json!({})),
        &refused("E_FIELD_TYPE"),
    );
    check(
        "mismatch",
        &changed("/payload/context/job_id", json!("k")),
        &refused("E_FIELD_MISMATCH"),
    );
    for attempt in [json!(0), json!(-1), json!(1.5), json!(1_u64 << 63)] {
        check(
            "attempt",
            &changed("/payload/context/attempt", attempt),
            &refused("E_FIELD_RANGE"),
        );
    }
    let no_ids = frame(br#"{"type":"request","payload":{"job_id":"j"}}"#);
    check("no request_id", &no_ids, &Then::Closed("E_FIELD_TYPE"));
    let cancel = frame(br#"{"type":"cancel","payload":{"job_id":7}}"#);
    check("bad cancel", &cancel, &Then::Ignored("E_FIELD_TYPE"));
    check(
        "cancel of version 1",
        &ids("cancel", r#","protocol_version":"1""#),
        &Then::Ignored("E_VERSION"),
    );
}

#[test]
fn function_names_reach_no_file() {
    let long = "x".repeat(64 << 10);
    for name in [
        "../x y",
        "runner#echo",
        "",
        "\u{202e}x",
        "a\0b",
        long.as_str(),
    ] {
        let mut bench = Bench::connected();
        bench.send_stream(1, &changed("/payload/function_name", json!(name)));
        let answer = bench.answer_of(1);
        assert_eq!(answer["error"]["type"], "handler_not_found", "{name:?}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.len() < 1_000 && !message.contains(char::is_control));
        assert_eq!(bench.started, []);
        bench.check_empty();
    }
}
