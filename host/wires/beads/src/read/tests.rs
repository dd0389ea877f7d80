//! What is read from messages, and what is refused, as tables.

use super::*;

fn read(text: &[u8]) -> Result<Message, Refusal> {
    read_worker(Ok(Bytes::copy_from_slice(text))).message
}

fn code(text: &[u8]) -> Code {
    match read(text) {
        Err(refusal) => refusal.code,
        Ok(message) => panic!("{message:?}"),
    }
}

fn framed(text: &str) -> Vec<u8> {
    let mut frame = u32::try_from(text.len()).unwrap().to_be_bytes().to_vec();
    frame.extend_from_slice(text.as_bytes());
    frame
}

#[test]
fn messages_are_read_in_both_dialects() {
    let done = Kind::Done(Report {
        issue_id: "i".to_owned(),
        duration_ms: Some(15_234),
    });
    let failed = Kind::Failed(
        Report {
            issue_id: "i".to_owned(),
            duration_ms: Some(12),
        },
        "command not found".to_owned(),
    );
    #[rustfmt::skip]
    let table = [
        (r#"{"type":"READY","worker_id":"W1","timestamp":1733423456.789}"#, Kind::Ready),
        (r#"{"timestamp":"yesterday","worker_id":"W1","more":{},"type":"READY"}"#, Kind::Ready),
        (r#"{"type":"READY","worker_id":"W1"}"#, Kind::Ready),
        (r#"{"type":"READY","worker_id":"W1","timestamp":NaN}"#, Kind::Ready),
        (r#"{"type":"READY","worker_id":"W1","timestamp":-Infinity,"x":"NaN \" NaN"}"#, Kind::Ready),
        (r#"{"type":"READY","worker_id":"W1","timestamp":1e308}"#, Kind::Ready),
        (r#"{"type":"HEARTBEAT","worker_id":"W1"}"#, Kind::Alive),
        (r#"{"type":"PROGRESS","worker_id":"W1","percent":7,"version":"1.1"}"#, Kind::Alive),
        (r#"{"type":"DONE","worker_id":"W1","timestamp":1,"issue_id":"i","duration_ms":15234}"#, done),
        (r#"{"type":"FAILED","worker_id":"W1","issue_id":"i","error":"command not found","duration_ms":12}"#, failed),
    ];
    for (text, kind) in table {
        let expected = Message {
            worker_id: "W1".to_owned(),
            kind,
        };
        assert_eq!(read(text.as_bytes()), Ok(expected.clone()), "{text}");
        let whole = format!(r#"{{"version":1,"payload":{text}}}"#);
        assert_eq!(read(&framed(&whole)), Ok(expected), "{text}");
    }
}

#[test]
fn durations_are_clamped_and_never_make_a_message_bad() {
    #[rustfmt::skip]
    let table = [
        ("0", Some(0)), ("-1", Some(0)), ("12.7", Some(12)), ("1e308", Some((1 << 53) - 1)),
        ("18446744073709551616", Some((1 << 53) - 1)), ("\"5\"", None), ("null", None), ("[]", None),
        ("NaN", None),
    ];
    for (text, expected) in table {
        let done =
            format!(r#"{{"type":"DONE","worker_id":"W1","issue_id":"i","duration_ms":{text}}}"#);
        let Ok(Message {
            kind: Kind::Done(report),
            ..
        }) = read(done.as_bytes())
        else {
            panic!("{text}");
        };
        assert_eq!(report.duration_ms, expected, "{text}");
    }
}

#[test]
fn an_error_of_any_form_is_kept_within_its_limit() {
    let long = "ü".repeat(ERROR_BYTES_MAX);
    #[rustfmt::skip]
    let table = [
        ("\"no luck\"", "no luck".to_owned()),
        ("null", NO_ERROR.to_owned()),
        ("{\"a\":1}", "{\"a\":1}".to_owned()),
    ];
    for (text, expected) in table {
        let failed =
            format!(r#"{{"type":"FAILED","worker_id":"W1","issue_id":"i","error":{text}}}"#);
        let Ok(Message {
            kind: Kind::Failed(_, error),
            ..
        }) = read(failed.as_bytes())
        else {
            panic!("{text}");
        };
        assert_eq!(error, expected);
    }
    let cut = cut_marked(&long, ERROR_BYTES_MAX);
    assert!(cut.len() <= ERROR_BYTES_MAX && cut.ends_with("… [cut]"));
}

#[test]
fn bad_messages_have_one_code_for_each_cause() {
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(128), "]".repeat(128));
    let ready = r#"{"type":"READY","worker_id":"W1"}"#;
    let two = format!("{ready} {ready}");
    let bom = format!("\u{feff}{ready}");
    #[rustfmt::skip]
    let table: &[(&[u8], Code)] = &[
        (b"hello", Code::Json),
        (b"{", Code::Json),
        (b"[]", Code::Json),
        (b"1", Code::Json),
        (b"null", Code::Json),
        (two.as_bytes(), Code::Json),
        (bom.as_bytes(), Code::Json),
        (deep.as_bytes(), Code::Json),
        (b"{\"type\":\"READY\",\"type\":\"DONE\"}", Code::Json),
        (b"{\"type\":\"READY\",\"worker_id\":\"\xff\"}", Code::Json),
        (b"{\"type\":\"READY\",\"worker_id\":\"\xc0\xaf\"}", Code::Json),
        (b"{\"type\":\"READY\",\"worker_id\":\"\\ud800\"}", Code::Json),
        (b"{\"type\":\"READY\",\"timestamp\":1e400}", Code::Json),
        (b"{\"type\":\"READY\" NaN}", Code::Json),
        (b"{}", Code::UnknownType),
        (b"{\"type\":null}", Code::UnknownType),
        (b"{\"type\":7}", Code::UnknownType),
        (b"{\"type\":\"STATUS\",\"worker_id\":\"W1\"}", Code::UnknownType),
        (b"{\"type\":\"ready\",\"worker_id\":\"W1\"}", Code::UnknownType),
        (b"{\"type\":\"TASK\",\"worker_id\":\"W1\",\"issue_id\":\"i\"}", Code::Direction),
        (b"{\"type\":\"WAIT\"}", Code::Direction),
        (b"{\"type\":\"SHUTDOWN\"}", Code::Direction),
        (b"{\"type\":\"READY\"}", Code::FieldType),
        (b"{\"type\":\"READY\",\"worker_id\":7}", Code::FieldType),
        (b"{\"type\":\"DONE\",\"worker_id\":\"W1\"}", Code::FieldType),
        (b"{\"type\":\"DONE\",\"worker_id\":\"W1\",\"issue_id\":null}", Code::FieldType),
        (b"{\"type\":\"FAILED\",\"worker_id\":\"W1\",\"issue_id\":{}}", Code::FieldType),
        (b"\0\0\0\0", Code::Json),
        (b"\0\0\0\x02{}", Code::FieldType),
        (b"\0\0\0\x0e{\"payload\":[]}", Code::FieldType),
        (b"\0\0\0\x0e{\"payload\":{}}", Code::UnknownType),
    ];
    for (text, expected) in table {
        let shown = text.escape_ascii();
        assert_eq!(code(text), *expected, "{shown}");
    }
}

#[test]
fn what_is_refused_is_described_and_cut() {
    let secret = "x".repeat(1_000);
    let text =
        format!("{{\"type\":\"DONE\",\"worker_id\":\"W1\",\"issue_id\":[\"{secret}\"]}}\u{1b}");
    let refusal = read(&text.as_bytes()[..text.len() - 1]).unwrap_err();
    assert_eq!(
        refusal.message,
        "issue_id: expected a string, found an array"
    );
    assert!(refusal.start.len() <= 4 * 64, "{}", refusal.start);
    let refusal = read(b"\x1b[31mGET").unwrap_err();
    assert_eq!(refusal.start, "\\x1b[31mGET");
    for (text, other) in [
        (&b"GET / HTTP/1.1"[..], "HTTP"),
        (b"\x16\x03\x01\x02\x00", "TLS"),
        (b"SSH-2.0-OpenSSH_9.6", "SSH"),
        (b"*1", "Redis"),
    ] {
        let refusal = read(text).unwrap_err();
        assert!(refusal.message.contains(other), "{}", refusal.message);
    }
}
