//! Ids in texts that are cut, broken or full of look-alikes.

use proptest::prelude::*;
use serde_json::json;

use super::{Ids, Scan};

fn ids(text: &str) -> Option<(String, String)> {
    let Ids { request, job } = Scan::of(text.as_bytes()).ids()?;
    Some((request, job))
}

#[test]
fn ids_are_found_where_they_stand_and_nowhere_else() {
    let both = |request: &str, job: &str| Some((request.to_owned(), job.to_owned()));
    let cases = [
        (
            r#"{"type":"response","payload":{"job_id":"j","request_id":"r","result":NaN}}"#,
            both("r", "j"),
        ),
        (
            r#"{"payload":{"result":[{"request_id":"x"}],"request_id":"r","job_id":"j"},"type":"response"}"#,
            both("r", "j"),
        ),
        (
            r#"{"type":"response","payload":{"request_id":"r","job_id":"j","result":"#,
            both("r", "j"),
        ),
        (
            r#"{ "type" : "response" , "payload" : { "request_id" : "\u0072\"" , "job_id" : "j" , "x": 1e999 } }"#,
            both("r\"", "j"),
        ),
        (
            r#"{"payload":{"result":"\",\"request_id\":\"x\"","request_id":"r"}}"#,
            both("r", ""),
        ),
        (r#"{"request_id":"x","payload":{"job_id":"j"}}"#, None),
        (r#"{"other":{"request_id":"x","job_id":"j"}}"#, None),
        (
            r#"[{"request_id":"x"},"payload",{"request_id":"x","job_id":"j"}]"#,
            None,
        ),
        (
            r#"{"payload":{"request_id":"r","request_id":"s","job_id":"j"}}"#,
            None,
        ),
        (
            r#"{"payload":{"request_id":"r","job_id":"j","job_id":"k"}}"#,
            None,
        ),
        (
            r#"{"type":"request","payload":{"request_id":"r","job_id":"j"}}"#,
            None,
        ),
        (
            r#"{"type":"response","payload":{"request_id":7,"job_id":"j"}}"#,
            None,
        ),
        (r#"{"payload":[{"request_id":"r"}]}"#, None),
        ("nope", None),
        ("]]]}}}{", None),
    ];
    for (text, expected) in cases {
        assert_eq!(ids(text), expected, "{text}");
    }
    let long = "x".repeat(5_000);
    assert_eq!(
        ids(&format!(r#"{{"payload":{{"request_id":"{long}"}}}}"#)),
        None
    );
}

#[test]
fn a_delay_without_a_number_is_written_as_one() {
    for (word, number) in [("NaN", "0"), ("-Infinity", "0"), ("Infinity", "1e300")] {
        let with = |delay| format!(r#"{{"payload":{{"retry_after_seconds": {delay}}},"x":"NaN"}}"#);
        let text = with(word);
        let found = Scan::of(text.as_bytes()).with_delay_as_number(text.as_bytes());
        let expected = with(number).replace(": ", ":");
        assert_eq!(String::from_utf8(found.unwrap()).unwrap(), expected);
    }
    for text in [
        r#"{"payload":{"retry_after_seconds":7}}"#,
        r#"{"payload":{"result":{"retry_after_seconds":NaN}}}"#,
        r#"{"payload":{"result":NaN}}"#,
    ] {
        assert_eq!(
            Scan::of(text.as_bytes()).with_delay_as_number(text.as_bytes()),
            None,
            "{text}"
        );
    }
}

proptest! {
    #[test]
    fn ids_of_any_message_are_found_in_any_pieces(
        request in ".{0,20}", job in ".{0,20}", result in ".{0,40}", cut in any::<prop::sample::Index>(),
    ) {
        let payload = json!({"a": {"request_id": "x"}, "job_id": job, "request_id": request, "result": [result]});
        let text = json!({"type": "response", "payload": payload}).to_string();
        let (first, rest) = text.as_bytes().split_at(cut.index(text.len()));
        let mut scan = Scan::default();
        scan.feed(first);
        scan.feed(rest);
        prop_assert_eq!(scan.ids(), Some(Ids { request, job }));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let scan = Scan::of(&bytes);
        let _ = scan.with_delay_as_number(&bytes);
        let _ = scan.ids();
    }
}
