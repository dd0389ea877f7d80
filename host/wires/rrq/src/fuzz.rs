//! The entry points for fuzzers: any bytes as a peer of either role. Nothing may panic, answers
//! must be whole frames, and nothing may be left when the connection is gone.

use bytes::BytesMut;
use host_core::name::Name;
use host_core::time::Time;
use host_wire_kit::session::{Action, Actions, ActionsOf, Link, Moment, Session};
use host_wire_kit::stream::{Framing, Next, StreamSession};

use super::config::{Dialect, PoolConfig, Source};
use super::frame::Frames;
use super::orchestrator::{Orchestrator, PoolEffect};
use super::worker::{ExecutionEnd, Worker, WorkerEffect, WorkerEvent};

const AT: Moment = Moment {
    now: Time(1_763_000_000_000),
    wall: Time(1_763_000_000_000),
};

/// Sends `bytes` on one connection to our worker. Each execution is refused because there is no
/// room.
///
/// # Panics
///
/// If a rule above is broken.
pub fn to_worker(bytes: &[u8]) {
    let mut worker = Worker::default();
    let mut actions = Actions::default();
    worker.on_open(AT.now, Link(0), &mut actions);
    handle_message(
        &mut worker,
        Link(0),
        bytes,
        &mut actions,
        |worker, actions| {
            let started: Vec<_> = check::<Worker>(actions)
                .into_iter()
                .filter_map(|ask| match ask {
                    WorkerEffect::Start(tag, _) => Some(tag),
                    WorkerEffect::Stop { .. } => None,
                })
                .collect();
            for tag in started {
                worker.on_event(AT, WorkerEvent::Answer(tag, ExecutionEnd::Busy), actions);
            }
        },
    );
    worker.on_closed(AT.now, Link(0), &mut actions);
    check::<Worker>(&mut actions);
    assert!(worker.is_idle(), "an execution is left");
}

/// Sends `bytes` to our orchestrator, as a runner that it has connected to.
///
/// # Panics
///
/// If a rule above is broken.
pub fn to_orchestrator(bytes: &[u8]) {
    let config = PoolConfig {
        name: Name::default_queue(),
        source: Source::External(([127, 0, 0, 1], 1).into()),
        in_flight_max: 1,
        dialect: Dialect::Current,
    };
    let mut pool = Orchestrator::new(&config, AT.now);
    let mut actions = Actions::default();
    pool.on_wakeup(AT.now, &mut actions);
    let link = check::<Orchestrator>(&mut actions)
        .into_iter()
        .find_map(|ask| match ask {
            PoolEffect::Connect { link, .. } => Some(link),
            _ => None,
        });
    let Some(link) = link else {
        return;
    };
    pool.on_open(AT.now, link, &mut actions);
    handle_message(&mut pool, link, bytes, &mut actions, |_, actions| {
        check::<Orchestrator>(actions);
    });
    pool.on_closed(AT.now, link, &mut actions);
    check::<Orchestrator>(&mut actions);
}

fn handle_message<S: StreamSession>(
    session: &mut S,
    link: Link,
    bytes: &[u8],
    actions: &mut ActionsOf<S>,
    mut after: impl FnMut(&mut S, &mut ActionsOf<S>),
) {
    let mut framing = S::Framing::default();
    // Pieces of an odd size cut frames at every place.
    for part in bytes.chunks(61) {
        framing.room().extend_from_slice(part);
        loop {
            let (frame, more) = match framing.next() {
                Next::Incomplete => break,
                Next::Frame(frame) => (Ok(frame), true),
                Next::Skipped(defect) => (Err(defect), true),
                Next::Broken(defect) => (Err(defect), false),
            };
            session.on_message(AT, link, S::read(frame), actions);
            after(session, actions);
            if !more {
                return;
            }
        }
    }
}

/// Checks that everything written is whole frames. Returns the requested effects.
fn check<S: StreamSession>(actions: &mut ActionsOf<S>) -> Vec<S::Effect> {
    let mut asked = Vec::new();
    for action in actions.drain() {
        match action {
            Action::Send(_, message) => {
                let mut frames = Frames::default();
                let mut out = BytesMut::new();
                S::write(&message, &mut out);
                frames.room().extend_from_slice(&out);
                assert!(matches!(frames.next(), Next::Frame(_)), "not a whole frame");
                assert_eq!(frames.pending_bytes(), 0, "more than a frame");
            }
            Action::Effect(ask) => asked.push(ask),
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
        include_bytes!("../tests/golden/session-0.11.1-orchestrator-pythonrunner.bin");

    /// Returns the frames of the capture as one stream, without the marks of direction.
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
