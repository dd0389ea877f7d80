//! Whatever is sent, reading it gives a message or a refusal.

use proptest::prelude::*;

use super::*;

#[test]
fn null_and_absent_are_the_same() {
    let null =
        br#"{"runner_id":"w","lease_id":"l","status":"FAILED","exit_code":null,"timings":null,
        "artifacts":null,"summary":null,"finished_at":null,"type":null}"#;
    let absent = br#"{"runner_id":"w","lease_id":"l","status":"FAILED"}"#;
    assert_eq!(complete(null), complete(absent));
    let escaped = br#"{"runner\u005fid":"w","lease_id":"l","status":"FAILED"}"#;
    assert_eq!(complete(escaped), complete(absent));
}

proptest! {
    #[test]
    fn no_bytes_break_the_readers(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = (ask(&body), ack(&body), heartbeat(&body), complete(&body), cancel_ack(&body));
    }

    #[test]
    fn no_value_of_a_field_breaks_the_readers(
        name in proptest::sample::select(vec![
            "type", "runner_id", "lease_id", "capabilities", "wait_seconds", "progress", "log_cursor",
            "status", "exit_code", "timings", "artifacts", "summary", "final_status",
        ]),
        value in proptest::sample::select(vec![
            "0", "-1", "1e308", "2.5", "\"\"", "\"é\\n\\u0000\"", "[]", "{}", "[[]]", "[{}]", "null",
            "true", "18446744073709551616", "{\"percent\":{}}", "[{\"uri\":null}]",
        ]),
    ) {
        let body = format!(r#"{{"{name}":{value},"z":0}}"#);
        let with_ids = format!(r#"{{"{name}":{value},"runner_id2":1}}"#);
        for body in [body, with_ids] {
            let body = body.as_bytes();
            let _ = (ask(body), ack(body), heartbeat(body), complete(body), cancel_ack(body));
        }
    }
}
