//! Frames that arrive in pieces of any size, and invalid frames.

use bytes::{Bytes, BytesMut};
use host_wire_kit::stream::{Framing, Next, Pending};
use proptest::prelude::*;

use super::{Defect, Frames, HEADER_BYTES, OutcomeFrames, PAYLOAD_BYTES_MAX, put};
use crate::ids::Ids;

/// Reads `bytes` in the given pieces. Returns all frames, and why no more can be read.
fn cut(bytes: &[u8], portions: &[usize]) -> (Vec<Vec<u8>>, Result<(), Defect>) {
    let mut frames = Frames::default();
    let mut found = Vec::new();
    let mut rest = bytes;
    let mut portions = portions.iter().copied().cycle();
    loop {
        match frames.next() {
            Next::Frame(frame) => found.push(frame.to_vec()),
            Next::Skipped(defect) => panic!("{defect:?} was skipped"),
            Next::Broken(defect) => return (found, Err(defect)),
            Next::Incomplete if rest.is_empty() => return (found, Ok(())),
            Next::Incomplete => {
                let arrived = frames.pending_bytes();
                let room = frames.room();
                assert!(room.capacity() > room.len(), "no room");
                assert!(
                    room.capacity() <= 2 * arrived + (128 << 10),
                    "{} for {arrived}",
                    room.capacity()
                );
                let take = portions.next().unwrap_or(1).max(1).min(rest.len());
                room.extend_from_slice(&rest[..take]);
                rest = &rest[take..];
            }
        }
    }
}

fn framed(payloads: &[Vec<u8>]) -> BytesMut {
    let mut out = BytesMut::new();
    for payload in payloads {
        put(&mut out, |writer| {
            std::io::Write::write_all(writer, payload).unwrap();
        })
        .unwrap();
    }
    out
}

proptest! {
    #[test]
    fn what_is_framed_comes_back_in_any_portions(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..8),
        portions in prop::collection::vec(1_usize..40, 1..6),
    ) {
        let (found, end) = cut(&framed(&payloads), &portions);
        prop_assert_eq!(found, payloads);
        prop_assert_eq!(end, Ok(()));
    }

    #[test]
    fn any_bytes_are_cut_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..2_000),
        portions in prop::collection::vec(1_usize..700, 1..6),
    ) {
        let (found, end) = cut(&bytes, &portions);
        let used: usize = found.iter().map(|frame| frame.len() + HEADER_BYTES).sum();
        prop_assert!(used <= bytes.len());
        prop_assert_eq!(&cut(&bytes, &[1]), &(found, end), "portions change nothing");
    }
}

#[test]
fn lengths_are_bounded() {
    assert_eq!(cut(&[0, 0, 0, 0], &[4]).1, Err(Defect::Empty));
    for header in [*b"GET ", [0x16, 3, 1, 2], [0xff; 4], [1, 0, 0, 1]] {
        let mut frames = Frames::default();
        frames.room().extend_from_slice(&header);
        assert_eq!(frames.next(), Next::Broken(Defect::TooLarge { header }));
        assert!(frames.room().capacity() < 64 << 10, "nothing is reserved");
    }
}

#[test]
fn the_largest_payload_passes_and_its_buffer_is_given_back() {
    let payload = vec![b'x'; PAYLOAD_BYTES_MAX];
    let bytes = framed(std::slice::from_ref(&payload));
    let mut frames = Frames::default();
    for part in bytes.chunks(50_000) {
        frames.room().extend_from_slice(part);
    }
    assert_eq!(frames.pending(), Pending::Body);
    assert!(matches!(frames.next(), Next::Frame(frame) if frame == payload));
    assert_eq!(frames.pending(), Pending::Nothing);
    assert!(frames.room().capacity() <= 128 << 10);
    let mut out = BytesMut::from(&b"before"[..]);
    let refused = put(&mut out, |writer| {
        std::io::Write::write_all(writer, &payload).unwrap();
        std::io::Write::write_all(writer, b"y").unwrap();
    });
    assert!(refused.is_err());
    assert_eq!(&out[..], b"before");
}

#[test]
fn a_runner_s_frame_that_is_too_large_is_skipped_and_its_ids_are_kept() {
    let large = |ids: &str| {
        let filler = "x".repeat(PAYLOAD_BYTES_MAX);
        format!(r#"{{"type":"response","payload":{{"result":"{filler}"{ids}}}}}"#)
    };
    let ids = Ids {
        request: "r".to_owned(),
        job: "j".to_owned(),
    };
    for (text, ids) in [
        (large(r#","request_id":"r","job_id":"j""#), Some(ids)),
        (large(""), None),
    ] {
        let bytes = u32::try_from(text.len()).unwrap();
        let mut stream = bytes.to_be_bytes().to_vec();
        stream.extend(text.as_bytes());
        stream.extend(framed(&[b"next".to_vec()]));
        let mut frames = OutcomeFrames::default();
        let mut found = Vec::new();
        for piece in stream.chunks(60_000) {
            let room = frames.room();
            assert!(room.capacity() <= 256 << 10, "{}", room.capacity());
            room.extend_from_slice(piece);
            loop {
                match frames.next() {
                    Next::Incomplete => break,
                    next => found.push(next),
                }
            }
        }
        let skipped = Next::Skipped(Defect::Skipped { bytes, ids });
        let next = Next::Frame(Bytes::from_static(b"next"));
        assert_eq!(found, [skipped, next]);
        assert_eq!(frames.pending(), Pending::Nothing);
    }
}

#[test]
fn what_is_no_length_is_not_skipped() {
    for header in [*b"HTTP", [0x16, 3, 1, 2], [0xff; 4]] {
        let mut frames = OutcomeFrames::default();
        frames.room().extend_from_slice(&header);
        assert_eq!(frames.next(), Next::Broken(Defect::TooLarge { header }));
    }
}
