//! The order in which a session hears: with the worker role of RRQ as the session.

use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use serde_json::json;

use super::*;
use crate::rrq::{Worker, WorkerAsk};
use host_core::port::Tag;

/// A clock that is set.
#[derive(Default)]
struct Hands(AtomicI64);

impl Clock for Hands {
    fn now(&self) -> Time {
        Time(self.0.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Time {
        self.now()
    }
}

struct Uncounted;

impl Counters for Uncounted {
    fn refused(&self, wire: &'static str, code: &'static str) {
        panic!("{wire}: {code}");
    }
}

/// Notes what is asked, as text.
#[derive(Default)]
struct Asked(Mutex<Vec<String>>);

impl Edge<Worker> for Asked {
    fn ask(&self, _hub: &Arc<Hub<Worker, Self>>, ask: WorkerAsk) {
        lock(&self.0).push(match ask {
            WorkerAsk::Start(Tag(tag), _) => format!("start {tag}"),
            WorkerAsk::Stop { tag: Tag(tag), .. } => format!("stop {tag}"),
        });
    }
}

fn request(id: &str, deadline: Time) -> <Worker as Session>::In {
    let request = json!({"type": "request", "payload": {
        "protocol_version": "2",
        "request_id": id,
        "job_id": id,
        "function_name": "noop",
        "params": {},
        "context": {
            "job_id": id,
            "attempt": 1,
            "enqueue_time": "2026-01-01T00:00:00Z",
            "queue_name": "default",
            "deadline": deadline.to_rfc3339(),
        },
    }});
    Worker::read(Ok(Bytes::from(request.to_string())))
}

#[test]
fn what_is_due_goes_before_what_a_peer_sends() {
    let clock = Arc::new(Hands::default());
    let hub = Hub::new(
        Worker::default(),
        Asked::default(),
        Arc::<Hands>::clone(&clock),
        Arc::new(Uncounted),
    );
    hub.hand_in(Event::Opened(Link(0), Arc::default()));
    let say = |id: &str| {
        let message = request(id, clock.now().plus_ms(1_000));
        hub.hand_in(Event::Message(Link(0), message));
    };
    say("a");
    clock.0.store(990, Ordering::SeqCst);
    // Nobody keeps the time here: the message alone brings the hub to work.
    say("b");
    assert_eq!(*lock(&hub.edge().0), ["start 0", "stop 0", "start 1"]);
}
