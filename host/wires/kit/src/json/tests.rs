//! What passes and what does not, and where the fault is.

use super::check;

fn nested(depth: usize) -> Vec<u8> {
    [vec![b'['; depth], vec![b']'; depth]].concat()
}

#[test]
fn whole_documents_pass() {
    let documents: [&[u8]; 6] = [
        b"{}",
        b" [1, -0, 1.5e10, true, null] \n",
        "{\"\u{202e}\":\"\\ud83d\\ude00\"}".as_bytes(),
        br#"{"a":{"a":1},"b":{"a":1}}"#,
        b"18446744073709551616",
        &nested(127),
    ];
    for document in documents {
        assert_eq!(check(document), Ok(()), "{document:?}");
    }
}

#[test]
fn faults_say_where_and_what() {
    let cases: [(&[u8], usize, &str); 12] = [
        (b"", 0, "EOF"),
        (b"{nope", 1, "key must be a string"),
        (b"\xef\xbb\xbf{}", 0, "expected value"),
        (b"{}{}", 2, "trailing characters"),
        (b"{\"a\":\n1,}", 8, "trailing comma"),
        (b"[NaN]", 1, "expected value"),
        (b"[1e400]", 5, "number out of range"),
        (b"[\"\\ud800\"]", 8, "hex escape"),
        (b"[\"\x00\"]", 2, "control character"),
        (b"[\"\xff\xfe\"]", 4, "invalid unicode"),
        (b"[\"\xc0\xaf\"]", 4, "invalid unicode"),
        (br#"{"a":1,"\u0061":2}"#, 15, "duplicate key `a`"),
    ];
    for (document, offset, message) in cases {
        let fault = check(document).expect_err("must not pass");
        assert!(fault.message.contains(message), "{document:?}: {fault:?}");
        assert!(
            fault.offset.abs_diff(offset) <= 2,
            "{document:?}: {fault:?}, not near {offset}"
        );
    }
}

#[test]
fn depth_is_bounded() {
    for depth in [128, 129, 100_000] {
        let fault = check(&nested(depth)).expect_err("must not pass");
        assert!(fault.message.contains("recursion limit"), "{fault:?}");
    }
}
