//! Encoding and decoding of frames, and invalid frames.

use host_core::cell::{DESCRIBED_MAX, FromCell, Level, LogLine, LogSource, Offer, RunId, ToCell};
use host_core::handler::HandlerInfo;
use host_core::outcome::{Meter, Outcome};

use super::*;

fn stop(run: u64, reason_bytes: usize) -> ToCell {
    ToCell::Stop {
        run: RunId(run),
        grace_ms: 5_000,
        reason: "x".repeat(reason_bytes),
    }
}

#[test]
fn messages_come_back_as_they_were_in_few_frames() {
    let messages: Vec<ToCell> = (0..100).map(|run| stop(run, 10)).collect();
    let frames = encode(&messages).unwrap();
    assert_eq!(frames.len(), 1);
    assert_eq!(decode::<ToCell>(&frames[0], |_| 0).unwrap(), messages);
}

#[test]
fn large_messages_get_frames_of_their_own() {
    let messages = [stop(1, 200 << 10), stop(2, 200 << 10), stop(3, 10)];
    let frames = encode(&messages).unwrap();
    assert_eq!(frames.len(), 2);
    let back: Vec<ToCell> = frames
        .iter()
        .flat_map(|frame| decode::<ToCell>(frame, |_| 0).unwrap())
        .collect();
    assert_eq!(back, messages);
}

#[test]
fn a_message_larger_than_a_frame_is_refused() {
    let refused = encode(&[stop(1, FRAME_BYTES_MAX)]);
    assert!(
        matches!(refused, Err(FrameError::TooLarge { .. })),
        "{refused:?}"
    );
}

#[test]
fn garbage_and_cut_frames_are_refused() {
    let ended = FromCell::Ended {
        run: RunId(7),
        outcome: Outcome::Completed { result: None },
        meter: Meter::default(),
    };
    let frame = encode(&[ended]).unwrap().remove(0);
    for bytes in [&[0xff; 40][..], &frame[..frame.len() - 1]] {
        let refused = decode_from_cell(bytes);
        assert!(
            matches!(refused, Err(FrameError::Malformed { .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn a_frame_of_countless_small_messages_is_refused() {
    let one = encode(&[FromCell::Ready { slots: 1 }]).unwrap().remove(0);
    let many = one.repeat(FRAME_MESSAGES_MAX + 1);
    assert_eq!(decode_from_cell(&many), Err(FrameError::TooMany));
}

fn log(lines: usize, fields: usize) -> FromCell {
    let line = LogLine {
        at_ms: 0,
        level: Level::Info,
        source: LogSource::Log,
        message: String::new(),
        fields: vec![(String::new(), host_core::json::JsonText(String::new())); fields],
    };
    FromCell::Log {
        run: RunId(1),
        lines: vec![line; lines],
    }
}

/// In memory, a handler without descriptions is many times as large as in a frame.
#[test]
fn countless_handlers_are_refused() {
    let one = HandlerInfo {
        name: "h".parse().unwrap(),
        description: None,
        params_schema: None,
        result_schema: None,
    };
    for (count, refused) in [(DESCRIBED_MAX, false), (DESCRIBED_MAX + 1, true)] {
        let described = FromCell::Described {
            run: RunId(1),
            result: Ok(Offer(vec![one.clone(); count])),
        };
        let frame = encode(std::slice::from_ref(&described)).unwrap().remove(0);
        let decoded = decode_from_cell(&frame);
        assert_eq!(decoded.is_err(), refused, "{count}");
        if let Ok(decoded) = decoded {
            assert_eq!(decoded, [described]);
        }
    }
}

/// In memory, empty lines and fields are many times as large as in a frame.
#[test]
fn lines_that_are_large_only_in_memory_are_refused() {
    for (message, refused) in [
        (log(10_000, 0), false),
        (log(1, 64), false),
        (log(1_000_000, 0), true),
        (log(1, 65), true),
        (log(50_000, 64), true),
    ] {
        let frame = encode(&[message]).unwrap().remove(0);
        let decoded = decode_from_cell(&frame);
        assert_eq!(decoded.is_err(), refused, "{} bytes", frame.len());
    }
    let one = encode(&[log(200_000, 0)]).unwrap().remove(0);
    assert!(decode_from_cell(&one).is_ok());
    let many = decode_from_cell(&one.repeat(8));
    assert_eq!(many, Err(FrameError::TooLargeDecoded));
}
