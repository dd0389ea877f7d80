//! Lines that arrive in pieces of any size, and a line without an end.

use super::*;

/// Cuts bytes that arrive `step` at a time. Returns the lines, and whether the stream broke.
fn cut(bytes: &[u8], step: usize) -> (Vec<Vec<u8>>, bool) {
    let mut framing = Lines::<8>::default();
    let mut lines = Vec::new();
    for portion in bytes.chunks(step) {
        framing.room().extend_from_slice(portion);
        loop {
            match framing.next() {
                Next::Frame(line) => lines.push(line.to_vec()),
                Next::Incomplete => break,
                Next::Skipped(Endless) | Next::Broken(Endless) => return (lines, false),
            }
        }
    }
    assert_eq!(
        framing.pending() == Pending::Nothing,
        bytes.ends_with(b"\n")
    );
    (lines, true)
}

#[test]
fn lines_are_the_same_in_any_portions() {
    let bytes = b"one\n\ntwo three\n4\nrest";
    let expected: Vec<Vec<u8>> = ["one", "", "two three", "4"]
        .map(|line| line.as_bytes().to_vec())
        .into();
    // A line that arrives in one read may be slightly too long.
    assert_eq!(cut(bytes, bytes.len()), (expected, true));
    for step in 1..=6 {
        let (lines, goes_on) = cut(b"one\n\ntwo\n4\nrest", step);
        assert_eq!((lines.concat(), goes_on), (b"onetwo4".to_vec(), true));
    }
}

#[test]
fn a_line_without_an_end_breaks_the_stream() {
    for step in 1..=10 {
        let (_, goes_on) = cut(b"one\ntoo long to be one", step);
        assert!(!goes_on, "{step}");
    }
}
