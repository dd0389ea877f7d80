//! Which requests have a clear length, in whatever parts their bytes arrive.

use super::*;

/// The longest head in these tests, in bytes.
const MAX: usize = 200;

/// Returns the number of the refused request if the bytes arrive in parts of this length.
fn status_of(bytes: &[u8], part: usize) -> Option<u64> {
    let mut heads = Heads::new(MAX);
    for part in bytes.chunks(part) {
        heads.follow(part);
    }
    let number = heads.unclear().0.load(Ordering::Acquire);
    (number != u64::MAX).then_some(number)
}

#[test]
fn a_request_whose_length_others_may_read_differently_is_refused() {
    const TWO: &str = "content-length: 2\r\nContent-Length: 2\r\n\r\n{}";
    let body = "POST /a HTTP/1.1\r\ncontent-length: 41\r\n\r\nPOST /b HTTP/1.1\r\ncontent-length: 2\r\n\r\n";
    assert_eq!(body.len() - body.find("POST /b").unwrap() + 2, 41);
    let cases: Vec<(String, Option<u64>)> = vec![
        ("GET / HTTP/1.1\r\n\r\n".into(), None),
        (
            "GET / HTTP/1.1\r\ncontent-length: 0\r\n\r\n".repeat(3),
            None,
        ),
        ("\r\n\r\nGET / HTTP/1.1\nhost: a\n\n".repeat(2), None),
        (
            "POST / HTTP/1.1\r\ncontent-length:  2 \r\n\r\n{}".repeat(3),
            None,
        ),
        (format!("{body}{{}}"), None),
        (
            "POST / HTTP/1.1\r\ntransfer-encoding: Chunked\r\n\r\n0\r\n\r\n".into(),
            None,
        ),
        (format!("POST / HTTP/1.1\r\n{TWO}"), Some(0)),
        (
            format!("GET / HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\n{TWO}"),
            Some(1),
        ),
        (format!("{body}{{}}GET / HTTP/1.1\r\n{TWO}"), Some(1)),
        (
            format!(
                "{}POST / HTTP/1.1\r\n{TWO}",
                "POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}".repeat(9)
            ),
            Some(9),
        ),
        (
            "POST / HTTP/1.1\r\ncontent-length: 2, 2\r\n\r\n{}".into(),
            Some(0),
        ),
        (
            "POST / HTTP/1.1\r\ncontent-length: +2\r\n\r\n{}".into(),
            Some(0),
        ),
        ("POST / HTTP/1.1\r\ncontent-length:\r\n\r\n".into(), Some(0)),
        (
            "POST / HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n".into(),
            Some(0),
        ),
        (
            "POST / HTTP/1.1\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
                .into(),
            Some(0),
        ),
        (
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n0\r\n\r\n"
                .into(),
            Some(0),
        ),
        (
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n"
                .into(),
            Some(0),
        ),
        (
            "POST / HTTP/1.1\r\ntransfer-encoding: gzip, chunked\r\n\r\n".into(),
            Some(0),
        ),
        (
            "POST / HTTP/1.1\r\ntransfer-encoding: identity\r\n\r\n".into(),
            Some(0),
        ),
        ("no request\r\n\r\n".into(), Some(0)),
        (format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(MAX)), Some(0)),
        (
            format!("GET / HTTP/1.1\r\n{}\r\n", "x:y\r\n".repeat(FIELDS_MAX + 1)),
            Some(0),
        ),
    ];
    for (bytes, expected) in cases {
        for part in [1, 2, 7, 64, 1_000] {
            let found = status_of(bytes.as_bytes(), part);
            assert_eq!(found, expected, "in parts of {part}: {bytes:?}");
        }
    }
}
