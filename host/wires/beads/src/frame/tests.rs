//! How streams of both dialects are cut, in any portions.

use super::*;

/// Feeds `bytes` in portions, and returns what is cut.
fn cut(bytes: &[u8], portion: usize) -> Vec<Result<Vec<u8>, Defect>> {
    let mut messages = Messages::default();
    let mut found = Vec::new();
    for part in bytes.chunks(portion) {
        messages.room().extend_from_slice(part);
        loop {
            match messages.next() {
                Next::Frame(frame) => found.push(Ok(frame.to_vec())),
                Next::Skipped(defect) => found.push(Err(defect)),
                Next::Incomplete => break,
                Next::Broken(defect) => {
                    found.push(Err(defect));
                    return found;
                }
            }
        }
    }
    found
}

fn framed(text: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(text.len()).unwrap().to_be_bytes().to_vec();
    frame.extend_from_slice(text);
    frame
}

#[test]
fn lines_are_cut_alike_in_any_portions() {
    let text = b" {\"a\":1}\r\n\n \t\r\n{}\n\0bin\nGET / HTTP/1.1\r\n{\"half\":";
    let expected = [
        Ok(b" {\"a\":1}".to_vec()),
        Ok(b"{}".to_vec()),
        Err(Defect::LineBinary(Bytes::from_static(b"\0bin"))),
        Ok(b"GET / HTTP/1.1".to_vec()),
    ];
    for portion in 1..=text.len() {
        assert_eq!(cut(text, portion), expected, "in portions of {portion}");
    }
}

#[test]
fn frames_are_cut_alike_in_any_portions_and_keep_their_length() {
    let mut bytes = framed(b"{\"a\":1}");
    bytes.extend(framed(b""));
    bytes.extend(framed(b"{\n}\n"));
    bytes.extend([0, 0]);
    let expected = [
        Ok(framed(b"{\"a\":1}")),
        Ok(framed(b"")),
        Ok(framed(b"{\n}\n")),
    ];
    for portion in 1..=bytes.len() {
        assert_eq!(cut(&bytes, portion), expected, "in portions of {portion}");
    }
    assert_eq!(dialect_of(&framed(b"{}")), Dialect::Framed);
    assert_eq!(text_of(&framed(b"{}")), b"{}");
    assert_eq!(
        (dialect_of(b"{}"), text_of(b"{}")),
        (Dialect::Lines, &b"{}"[..])
    );
}

#[test]
fn the_longest_message_passes_and_a_longer_line_is_skipped() {
    for (bytes, passes) in [
        (MESSAGE_BYTES_MAX - 1, true),
        (MESSAGE_BYTES_MAX, true),
        (MESSAGE_BYTES_MAX + 1, false),
        (3 * MESSAGE_BYTES_MAX, false),
    ] {
        let mut text = vec![b'x'; bytes];
        text.extend_from_slice(b"\nafter\n");
        for portion in [1 << 12, (1 << 20) + 3, text.len()] {
            let found = cut(&text, portion);
            let start = Bytes::from(vec![b'x'; START_BYTES]);
            assert_eq!(found.len(), 2, "{bytes} in portions of {portion}");
            assert_eq!(found[0].is_ok(), passes);
            if !passes {
                assert_eq!(found[0], Err(Defect::LineTooLong(start)));
            }
            assert_eq!(found[1], Ok(b"after".to_vec()));
        }
    }
    let header = u32::try_from(MESSAGE_BYTES_MAX).unwrap();
    assert_eq!(cut(&header.to_be_bytes(), 1), []);
    let header = (header + 1).to_be_bytes();
    assert_eq!(cut(&header, 1), [Err(Defect::FrameTooLarge(header))]);
}

#[test]
fn a_line_without_end_is_not_kept_and_ends_the_connection_at_last() {
    let mut messages = Messages::default();
    let chunk = vec![b'x'; 1 << 16];
    let (mut fed, mut defects) = (0, Vec::new());
    while defects.last() != Some(&Defect::LineEndless) {
        messages.room().extend_from_slice(&chunk);
        fed += chunk.len();
        match messages.next() {
            Next::Incomplete => {}
            Next::Skipped(defect) | Next::Broken(defect) => defects.push(defect),
            Next::Frame(_) => panic!("no line ends"),
        }
        assert!(messages.pending_bytes() <= MESSAGE_BYTES_MAX);
        assert!(fed <= SKIPPED_BYTES_MAX + chunk.len());
    }
    assert_eq!(defects.len(), 2);
    assert!(fed > SKIPPED_BYTES_MAX);
}

#[test]
fn a_late_line_is_skipped_and_a_late_frame_ends_the_connection() {
    let mut lines = Messages::default();
    lines.room().extend_from_slice(b"{\"type\":");
    assert_eq!(lines.next(), Next::Incomplete);
    assert_eq!(lines.pending(), Pending::Body);
    let start = Bytes::from_static(b"{\"type\":");
    assert_eq!(
        lines.late(Pending::Body),
        Next::Skipped(Defect::LineLate(start))
    );
    assert_eq!(
        lines.pending(),
        Pending::Nothing,
        "nothing is awaited while it is skipped"
    );
    lines.room().extend_from_slice(b"\"READY\"}\n{}\n");
    assert_eq!(lines.next(), Next::Frame(Bytes::from_static(b"{}")));

    let mut frames = Messages::default();
    frames.room().extend_from_slice(&[0, 0]);
    assert_eq!(frames.next(), Next::Incomplete);
    assert_eq!(frames.pending(), Pending::Header);
    let late = Defect::FrameLate(Pending::Header);
    assert_eq!(frames.late(Pending::Header), Next::Broken(late));
}
