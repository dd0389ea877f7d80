//! Invalid input on the RRQ listener: each defect has its own answer and code, ends at most its own
//! connection, and does not affect other clients.

use std::time::Duration;

use host_tests::eventually;
use host_tests::rrq::{Connection, cancel, frame, request, within_ms};
use serde_json::{Value, json};

use crate::fixture::{Own, own};

/// How the listener reacts to a message.
enum Then<'a> {
    /// Answers request `r` of job `j` with this type and code, and keeps the connection.
    Answer(&'a str, &'a str),
    /// Answers `invalid_frame` with this code, and closes the connection.
    AnswerAndClose(&'a str),
    /// Closes the connection without an answer.
    Closed(&'a str),
    /// Does not answer, and keeps the connection.
    Ignored(&'a str),
}

/// A host, and a second connection that must not be affected.
struct Bench {
    own: Own,
    other: Connection,
}

impl Bench {
    fn start() -> Self {
        let own = own();
        let mut other = Connection::open(own.server.rrq_address());
        other.ask(&request("first", "noop", &json!({})));
        Self { own, other }
    }

    fn connect(&self) -> Connection {
        Connection::open(self.own.server.rrq_address())
    }

    /// Returns how often the refusal `code` was counted.
    fn refusals(&self, code: &str) -> u64 {
        refusals(&self.own, code)
    }

    fn check(&mut self, name: &str, bytes: &[u8], then: &Then<'_>) {
        let (Then::Answer(_, code)
        | Then::AnswerAndClose(code)
        | Then::Closed(code)
        | Then::Ignored(code)) = then;
        let counted = self.refusals(code);
        let mut connection = self.connect();
        connection.send_bytes(bytes);
        match then {
            Then::Answer(kind, _) => {
                let answer = connection.answer();
                assert_eq!(answer["error"]["type"], *kind, "{name}: {answer}");
                assert_eq!(answer["error"]["code"], *code, "{name}: {answer}");
                assert_eq!(answer["status"], "error", "{name}: {answer}");
                let ids = (&answer["request_id"], &answer["job_id"]);
                assert_eq!(ids, (&json!("r"), &json!("job-r")), "{name}: {answer}");
            }
            Then::AnswerAndClose(_) => {
                let answer = connection.answer();
                assert_eq!(answer["error"]["type"], "invalid_frame", "{name}: {answer}");
                assert_eq!(answer["error"]["code"], *code, "{name}: {answer}");
                let ids = (&answer["request_id"], &answer["job_id"]);
                assert_eq!(ids, (&json!(null), &json!("unknown")), "{name}: {answer}");
                assert_eq!(connection.answer_or_end(), None, "{name}");
            }
            Then::Closed(_) => assert_eq!(connection.answer_or_end(), None, "{name}"),
            Then::Ignored(_) => {}
        }
        if matches!(then, Then::Answer(..) | Then::Ignored(_)) {
            let answer = connection.ask(&request("after", "echo", &json!({"a": 1})));
            assert_eq!(answer["request_id"], "after", "{name}: {answer}");
            assert_eq!(answer["result"], json!({"a": 1}), "{name}: {answer}");
        }
        assert!(
            self.refusals(code) > counted,
            "{name}: {code} was not counted"
        );
        let answer = self.other.ask(&request("still", "echo", &json!({"b": 2})));
        assert_eq!(answer["result"], json!({"b": 2}), "{name}: {answer}");
    }

    fn finish(self) {
        let log = std::fs::read_to_string(self.own.data.path().join("serve.log")).unwrap();
        assert!(!log.contains("panicked"), "{log}");
    }
}

/// Returns how often the refusal `code` was counted.
pub(crate) fn refusals(own: &Own, code: &str) -> u64 {
    let metrics = own.server.client().get("/metrics").unwrap().body;
    let text = metrics.as_str().expect("metrics are text");
    let label = format!("code=\"{code}\"");
    let line = text.lines().find(|line| {
        line.starts_with("host_wire_refusals_total{")
            && line.contains("wire=\"rrq\"")
            && line.contains(&label)
    });
    line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

/// Returns the request `r` with one field set to `value`.
fn changed(field: &str, value: Value) -> Vec<u8> {
    let mut message = request("r", "echo", &json!({}));
    let (parent, key) = field.rsplit_once('/').unwrap();
    message.pointer_mut(parent).unwrap()[key] = value;
    frame(message.to_string().as_bytes())
}

/// Returns a message that contains little more than the ids.
fn ids(kind: &str, rest: &str) -> Vec<u8> {
    let ids = r#""request_id":"r","job_id":"job-r""#;
    frame(format!(r#"{{"type":"{kind}","payload":{{{ids}{rest}}}}}"#).as_bytes())
}

#[test]
fn invalid_frames_are_answered_once_and_close_the_connection() {
    let mut bench = Bench::start();
    let answer_with = |code| Then::AnswerAndClose(code);
    bench.check("empty", &[0; 4], &answer_with("E_FRAME_EMPTY"));
    for (name, bytes) in [
        ("the largest", &[0xff; 4][..]),
        ("one too large", &[1, 0, 0, 1]),
        ("HTTP", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
        ("SSH", b"SSH-2.0-OpenSSH_9.2\r\n"),
        ("RESP", b"*1\r\n$4\r\nPING\r\n"),
        ("lines", b"{\"type\":\"request\"}\n"),
    ] {
        bench.check(name, bytes, &answer_with("E_FRAME_TOO_LARGE"));
    }
    let mut connection = bench.connect();
    connection.send_bytes(b"POST / HTTP/1.1\r\n\r\n");
    let answer = connection.answer();
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("looks like HTTP"), "{message}");
    bench.finish();
}

#[test]
fn invalid_json_is_answered_if_its_ids_can_be_read() {
    let mut bench = Bench::start();
    for (name, text) in [
        ("no JSON", &b"{nope"[..]),
        ("invalid UTF-8", b"{\"type\":\"\xff\"}"),
        ("overlong UTF-8", b"\xc0\xaf"),
        ("NUL", b"\0"),
        ("a byte order mark", b"\xef\xbb\xbf{}"),
        ("two documents", b"{} {}"),
        ("a number that is none", b"{\"a\":NaN}"),
        ("a number out of range", b"{\"a\":1e400}"),
    ] {
        bench.check(name, &frame(text), &Then::Closed("E_JSON"));
    }
    bench.check("a number", &frame(b"1"), &Then::Closed("E_FIELD_TYPE"));
    bench.check("an array", &frame(b"[1]"), &Then::Closed("E_FIELD_TYPE"));
    let answer_with = Then::Answer("invalid_request", "E_JSON");
    bench.check(
        "a key twice",
        &ids("request", r#","a":1,"a":2"#),
        &answer_with,
    );
    bench.check(
        "a surrogate",
        &ids("request", r#","a":"\ud800""#),
        &answer_with,
    );
    let deep = format!(",\"a\":{}{}", "[".repeat(129), "]".repeat(129));
    bench.check("depth 129", &ids("request", &deep), &answer_with);
    let deep = format!(",\"a\":{}{}", "[".repeat(100_000), "]".repeat(100_000));
    bench.check("depth 100,000", &ids("request", &deep), &answer_with);
    bench.finish();
}

#[test]
fn invalid_messages_are_answered_if_their_ids_can_be_read() {
    let mut bench = Bench::start();
    let answer_with = |code| Then::Answer("invalid_request", code);
    bench.check("unknown", &ids("log", ""), &answer_with("E_UNKNOWN_TYPE"));
    for text in [
        r#"{"type":"log","payload":{}}"#,
        "{}",
        r#"{"type":1}"#,
        r#"{"type":null,"payload":{"request_id":"r"}}"#,
    ] {
        let then = Then::Closed("E_UNKNOWN_TYPE");
        bench.check(text, &frame(text.as_bytes()), &then);
    }
    let response = ids("response", r#","status":"success","result":1"#);
    bench.check("a response", &response, &answer_with("E_DIRECTION"));
    for (bytes, taken) in [(4_096, true), (4_097, false), (64 << 10, false)] {
        let mut long = request("r", "echo", &json!({}));
        long["payload"]["request_id"] = "i".repeat(bytes).into();
        if taken {
            let answer = bench.other.ask(&long);
            assert_eq!(answer["request_id"], long["payload"]["request_id"]);
        } else {
            let long = frame(long.to_string().as_bytes());
            bench.check("a long id", &long, &Then::Closed("E_FIELD_RANGE"));
        }
    }
    let no_id = frame(br#"{"type":"request","payload":{"job_id":"j"}}"#);
    bench.check("no request_id", &no_id, &Then::Closed("E_FIELD_TYPE"));
    bench.finish();
}

#[test]
fn errors_name_the_wrong_field() {
    let mut bench = Bench::start();
    let answer_with = |code| Then::Answer("invalid_request", code);
    for version in [json!("1"), json!(2), json!("2.0"), json!(""), json!(null)] {
        let bytes = changed("/payload/protocol_version", version.clone());
        bench.check(
            &format!("version {version}"),
            &bytes,
            &answer_with("E_VERSION"),
        );
    }
    bench.check("no version", &ids("request", ""), &answer_with("E_VERSION"));
    for params in [json!([]), json!(null), json!("p"), json!(1), json!(true)] {
        let bytes = changed("/payload/params", params.clone());
        bench.check(
            &format!("params {params}"),
            &bytes,
            &answer_with("E_FIELD_TYPE"),
        );
    }
    for (field, value, code) in [
        ("args", json!([]), "E_FIELD_TYPE"),
        ("kwargs", json!({}), "E_FIELD_TYPE"),
        ("function_name", json!(7), "E_FIELD_TYPE"),
        ("context", json!(null), "E_FIELD_TYPE"),
        ("context", json!([]), "E_FIELD_TYPE"),
        ("context/job_id", json!("another"), "E_FIELD_MISMATCH"),
        ("context/job_id", json!(7), "E_FIELD_TYPE"),
        ("context/attempt", json!(0), "E_FIELD_RANGE"),
        ("context/attempt", json!(-1), "E_FIELD_RANGE"),
        ("context/attempt", json!(1.5), "E_FIELD_RANGE"),
        ("context/attempt", json!(1_u64 << 63), "E_FIELD_RANGE"),
        ("context/attempt", json!("1"), "E_FIELD_TYPE"),
        (
            "context/deadline",
            json!("2026-01-01T00:00:00"),
            "E_FIELD_TYPE",
        ),
        (
            "context/deadline",
            json!("2026-01-01T00:00:00+99:99"),
            "E_FIELD_TYPE",
        ),
        ("context/deadline", json!(1_790_000_000), "E_FIELD_TYPE"),
        ("context/enqueue_time", json!("yesterday"), "E_FIELD_TYPE"),
        ("context/queue_name", json!(7), "E_FIELD_TYPE"),
        ("context/worker_id", json!({}), "E_FIELD_TYPE"),
    ] {
        let bytes = changed(&format!("/payload/{field}"), value.clone());
        bench.check(&format!("{field} {value}"), &bytes, &answer_with(code));
    }
    let mut connection = bench.connect();
    connection.send_bytes(&changed("/payload/context/attempt", json!(0)));
    let answer = connection.answer();
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("context.attempt: expected"),
        "{message}"
    );
    bench.finish();
}

#[test]
fn cancels_of_unknown_requests_are_ignored() {
    const CANCELS: usize = 100_000;
    let mut bench = Bench::start();
    let bad = frame(br#"{"type":"cancel","payload":{"job_id":7}}"#);
    bench.check("a number", &bad, &Then::Ignored("E_FIELD_TYPE"));
    let old = ids("cancel", r#","protocol_version":"1""#);
    bench.check("version 1", &old, &Then::Ignored("E_VERSION"));
    let mut connection = bench.connect();
    connection.ask(&request("1", "noop", &json!({})));
    let before = bench.own.server.resident_bytes();
    let some: Vec<u8> = [
        cancel("unknown", None, true),
        cancel("1", None, false),
        cancel("1", Some("another"), true),
    ]
    .iter()
    .flat_map(|message| frame(message.to_string().as_bytes()))
    .collect();
    connection.send_bytes(&some.repeat(CANCELS / 3));
    let answer = connection.ask(&request("2", "echo", &json!({"c": 3})));
    assert_eq!(answer["request_id"], "2", "a cancel was answered: {answer}");
    let grown = bench.own.server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{CANCELS} cancels cost {grown} bytes");
    bench.finish();
}

#[test]
fn invalid_function_names_are_not_found() {
    let bench = Bench::start();
    let mut connection = bench.connect();
    let long = "x".repeat(64 << 10);
    for name in [
        "no_such_handler",
        "../x",
        "/etc/passwd",
        "runner#echo",
        "",
        "a\0b",
        "\u{202e}\u{1b}[31m",
        &long,
    ] {
        let answer = connection.ask(&request("r", name, &json!({})));
        assert_eq!(answer["error"]["type"], "handler_not_found", "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.len() < 1_000, "{message}");
        assert!(!message.contains(char::is_control), "{message:?}");
    }
    bench.finish();
}

#[test]
fn oversized_contexts_are_dropped_and_the_job_runs() {
    let bench = Bench::start();
    let mut connection = bench.connect();
    let many: serde_json::Map<String, Value> = (0..10_000)
        .map(|n| (format!("key-{n}"), "v".repeat(20).into()))
        .collect();
    for context in [
        json!(many),
        json!({"traceparent": "00-zz-zz-zz"}),
        json!({"traceparent": "a\r\nb: c", "x": "v".repeat(10_000)}),
        json!({"traceparent": {"deep": []}}),
        json!([1]),
        json!("text"),
    ] {
        for field in ["trace_context", "correlation_context"] {
            let mut message = request("r", "echo", &json!({"d": 4}));
            message["payload"]["context"][field] = context.clone();
            let answer = connection.ask(&message);
            assert_eq!(answer["result"], json!({"d": 4}), "{answer}");
        }
    }
    // Times may have any fraction and offset; ids may be any text.
    for time in [
        "2026-11-20T23:40:47.492509123+02:00",
        "1960-01-01T00:00:00Z",
    ] {
        let mut message = request("/.. * ? \n: {} \u{202e}", "echo", &json!({}));
        message["payload"]["context"]["enqueue_time"] = time.into();
        let answer = connection.ask(&message);
        assert_eq!(answer["status"], "success", "{answer}");
        assert_eq!(answer["request_id"], "/.. * ? \n: {} \u{202e}");
    }
    bench.finish();
}

#[test]
fn a_deadline_that_has_passed_starts_nothing() {
    let bench = Bench::start();
    let mut connection = bench.connect();
    let mut late = request("late", "log", &json!({"lines": 1}));
    for deadline in ["2020-01-01T00:00:00Z", "1960-01-01T00:00:00.5-03:00"] {
        late["payload"]["context"]["deadline"] = deadline.into();
        let answer = connection.ask(&late);
        assert_eq!(answer["status"], "timeout", "{answer}");
        assert_eq!(answer["error"]["type"], "timeout", "{answer}");
    }
    let answer = connection.ask(&within_ms(request("now", "noop", &json!({})), 0));
    assert_eq!(answer["status"], "timeout", "{answer}");
    // Requests that ran are in the history. These are not, so they did not run.
    connection.ask(&request("last", "noop", &json!({})));
    let client = bench.own.server.client();
    let seen = eventually(
        "the last job in the history",
        Duration::from_mins(1),
        || {
            let seen = client.foreign_jobs();
            let last = seen.iter().any(|job| job["external_id"] == "job-last");
            last.then_some(seen)
        },
    );
    let ran: Vec<&Value> = seen.iter().map(|job| &job["external_id"]).collect();
    assert!(!ran.contains(&&json!("job-late")), "{ran:?}");
    assert!(!ran.contains(&&json!("job-now")), "{ran:?}");
    bench.finish();
}
