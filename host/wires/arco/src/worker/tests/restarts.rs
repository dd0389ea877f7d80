//! What survives a restart: ends that the control plane has not accepted yet, and the dispatches that ended.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use serde_json::json;
use tokio::net::TcpListener;

use super::fixture::{World, answered};
use crate::messages::Secret;
use crate::tests::peer::Peer;
use crate::worker::memory::{Admission, FINISHED_MAX, Memory};
use crate::worker::outbox::{Outbox, Pending};

#[tokio::test]
async fn an_end_is_sent_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::start_with(Arc::new(Peer::start().await), Some(folder.path()), 2).await;
    let envelope = world.envelope(1, "echo");
    let done = world.begin(&world.envelope(2, "echo"));
    world.plane.expect("started").await.acknowledge(false);
    world.plane.expect("completed").await.acknowledge(false);
    assert_eq!(answered(done).await.0, 200);
    let waiting = world.begin(&envelope);
    world.plane.expect("started").await.acknowledge(false);
    let completed = world.plane.expect("completed").await;
    let body = completed.body.clone();
    let (address, second) = (world.plane.address, world.envelope(2, "echo"));
    // Requests get no answer any more.
    drop(completed);
    world.stop_unanswered().await;
    drop(waiting);

    let plane = Arc::new(Peer::on(TcpListener::bind(address).await.unwrap()));
    let world = World::start_with(plane, Some(folder.path()), 2).await;
    let completed = world.plane.expect("completed").await;
    assert_eq!(completed.body, body, "it was executed again, or changed");
    assert_eq!(completed.headers["authorization"], "Bearer tok");
    completed.acknowledge(false);
    for envelope in [&envelope, &second] {
        assert_eq!(world.dispatch(envelope).await.status, 200);
    }
    assert!(world.sandbox.jobs.borrow().is_empty());
    world.stop_all().await;
    let (_, left) = Outbox::open(folder.path()).unwrap();
    assert_eq!(left.pending, []);
    assert_eq!(left.finished.len(), 2);
}

#[tokio::test]
async fn an_end_whose_origin_is_no_longer_allowed_stays_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (outbox, _) = Outbox::open(folder.path()).unwrap();
    let kept = Pending {
        base: "http://elsewhere:80".to_owned(),
        until_ms: i64::MAX,
        ..pending(1)
    };
    outbox.put(&kept).unwrap();
    // The token of this one has expired.
    outbox
        .put(&Pending {
            key: "old".to_owned(),
            until_ms: 5,
            ..kept.clone()
        })
        .unwrap();
    for _ in 0..2 {
        let world = World::start_with(Arc::new(Peer::start().await), Some(folder.path()), 2).await;
        world.stop_all().await;
        let (_, left) = Outbox::open(folder.path()).unwrap();
        assert_eq!(left.pending, std::slice::from_ref(&kept));
    }
}

fn pending(number: usize) -> Pending {
    Pending {
        key: format!("key\n{number}"),
        base: "http://h:80".to_owned(),
        path: "/v1/tasks/t/completed".to_owned(),
        token: Secret("tok".to_owned()),
        body: json!({"attempt": 1}).to_string(),
        until_ms: 5,
    }
}

#[test]
fn the_outbox_keeps_what_is_put_until_it_is_done() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("outbox");
    let (outbox, left) = Outbox::open(&folder).unwrap();
    assert!(left.pending.is_empty() && left.finished.is_empty());
    outbox.put(&pending(1)).unwrap();
    outbox.put(&pending(2)).unwrap();
    outbox.put(&pending(2)).unwrap();
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for entry in std::fs::read_dir(&folder).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    outbox.done(&pending(1).key).unwrap();
    outbox.done(&pending(1).key).unwrap();
    // A line and a file that a crash has cut.
    std::fs::write(folder.join("half.json"), "{\"key\":").unwrap();
    let (_, left) = Outbox::open(&folder).unwrap();
    assert_eq!(left.pending, [pending(2)]);
    assert_eq!(left.finished, [pending(1).key, pending(1).key]);
    assert!(!format!("{left:?}").contains("tok\""));
}

#[test]
fn lists_of_ended_dispatches_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let (outbox, _) = Outbox::open(folder.path()).unwrap();
    for number in 0..2 * FINISHED_MAX + 5 {
        outbox.done(&number.to_string()).unwrap();
    }
    let (_, left) = Outbox::open(folder.path()).unwrap();
    assert_eq!(left.finished.len(), FINISHED_MAX + 5);
    assert_eq!(
        left.finished.last().unwrap(),
        &(2 * FINISHED_MAX + 4).to_string()
    );
    let mut memory = Memory::new(1, left.finished);
    assert_eq!(
        memory.admit(&(2 * FINISHED_MAX + 4).to_string()),
        Admission::Finished
    );
    assert_eq!(memory.admit(&FINISHED_MAX.to_string()), Admission::New);
    assert_eq!(memory.admit(&FINISHED_MAX.to_string()), Admission::Running);
    assert_eq!(memory.admit("another"), Admission::Full);
    memory.end(&FINISHED_MAX.to_string(), false);
    assert_eq!(memory.admit("another"), Admission::New);
    assert_eq!(memory.load(), (1, 1));
}
