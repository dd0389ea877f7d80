//! What a fuzzer calls: bytes of a peer, as they come, said to both sides. Nothing may panic, no
//! answer may be anything but whole frames, and nothing may be left when the connection is gone.

use bytes::BytesMut;
use host_core::time::Time;

use super::config::{Dialect, RunnerConfig, Source};
use super::frame::Frames;
use super::orchestrator::{Orchestrator, RunnerAsk};
use super::worker::{Worker, WorkerAsk, WorkerSaid};
use crate::rrq::worker::Answered;
use crate::session::{Action, Actions, ActionsOf, Framing, Link, Moment, Session};

const AT: Moment = Moment {
    now: Time(1_763_000_000_000),
    wall: Time(1_763_000_000_000),
};

/// Says `bytes` on one connection to a runner of ours; every execution is refused for want of room.
///
/// # Panics
///
/// Where a fuzzer has found something.
pub fn to_worker(bytes: &[u8]) {
    let mut worker = Worker::default();
    let mut todo = Actions::default();
    worker.on_open(AT.now, Link(0), &mut todo);
    hear(&mut worker, Link(0), bytes, &mut todo, |worker, todo| {
        let started: Vec<_> = check::<Worker>(todo)
            .into_iter()
            .filter_map(|ask| match ask {
                WorkerAsk::Start(tag, _) => Some(tag),
                WorkerAsk::Stop { .. } => None,
            })
            .collect();
        for tag in started {
            worker.on_said(AT, WorkerSaid::Answer(tag, Answered::Busy), todo);
        }
    });
    worker.on_closed(AT.now, Link(0), &mut todo);
    check::<Worker>(&mut todo);
    assert!(worker.is_idle(), "an execution is left");
}

/// Says `bytes` to us as a runner that we have connected to.
///
/// # Panics
///
/// Where a fuzzer has found something.
pub fn to_orchestrator(bytes: &[u8]) {
    let config = RunnerConfig {
        name: "fuzz".to_owned(),
        source: Source::External(([127, 0, 0, 1], 1).into()),
        in_flight_max: 1,
        dialect: Dialect::Current,
    };
    let mut pool = Orchestrator::new(&config, AT.now);
    let mut todo = Actions::default();
    pool.on_wakeup(AT.now, &mut todo);
    let link = check::<Orchestrator>(&mut todo)
        .into_iter()
        .find_map(|ask| match ask {
            RunnerAsk::Connect { link, .. } => Some(link),
            _ => None,
        });
    let Some(link) = link else {
        return;
    };
    pool.on_open(AT.now, link, &mut todo);
    hear(&mut pool, link, bytes, &mut todo, |_, todo| {
        check::<Orchestrator>(todo);
    });
    pool.on_closed(AT.now, link, &mut todo);
    check::<Orchestrator>(&mut todo);
}

fn hear<S: Session>(
    session: &mut S,
    link: Link,
    bytes: &[u8],
    todo: &mut ActionsOf<S>,
    mut after: impl FnMut(&mut S, &mut ActionsOf<S>),
) {
    let mut framing = S::Framing::default();
    // Odd portions, so that frames are cut everywhere.
    for part in bytes.chunks(61) {
        framing.room().extend_from_slice(part);
        loop {
            let (frame, more) = match framing.next() {
                Ok(None) => break,
                Ok(Some(frame)) => (Ok(frame), true),
                Err(defect) => (Err(defect), false),
            };
            session.on_message(AT, link, S::read(frame), todo);
            after(session, todo);
            if !more {
                return;
            }
        }
    }
}

/// Looks at what was decided: what is written must be whole frames. Returns what was asked for.
fn check<S: Session>(todo: &mut ActionsOf<S>) -> Vec<S::Ask> {
    let mut asked = Vec::new();
    for action in todo.drain() {
        match action {
            Action::Send(_, message) => {
                let mut frames = Frames::default();
                let mut out = BytesMut::new();
                S::write(&message, &mut out);
                frames.room().extend_from_slice(&out);
                assert!(matches!(frames.next(), Ok(Some(_))), "not a whole frame");
                assert_eq!(frames.pending_bytes(), 0, "more than a frame");
            }
            Action::Ask(ask) => asked.push(ask),
            Action::Close(_) | Action::Count(_) => {}
        }
    }
    asked
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{to_orchestrator, to_worker};

    const SESSION: &[u8] =
        include_bytes!("../../tests/golden/session-0.11.1-orchestrator-pythonrunner.bin");

    /// The capture without its marks of direction: a stream of frames.
    fn stream() -> Vec<u8> {
        let mut stream = Vec::new();
        let mut rest = SESSION;
        while let Some((&[_, a, b, c, d], after)) = rest.split_first_chunk() {
            let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap();
            stream.extend([a, b, c, d]);
            stream.extend(&after[..length]);
            rest = &after[length..];
        }
        stream
    }

    #[test]
    fn a_real_stream_passes() {
        to_worker(&stream());
        to_orchestrator(&stream());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            to_worker(&bytes);
            to_orchestrator(&bytes);
        }

        #[test]
        fn no_changed_stream_panics(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
            keep in any::<prop::sample::Index>(),
        ) {
            let mut stream = stream();
            for (at, byte) in changes {
                let at = at.index(stream.len());
                stream[at] = byte;
            }
            stream.truncate(keep.index(stream.len()));
            to_worker(&stream);
            to_orchestrator(&stream);
        }
    }
}
