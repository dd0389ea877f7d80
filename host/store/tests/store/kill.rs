//! A real process is killed again and again while it commits: everything it acknowledged is kept.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command as Process, Stdio};

use host_core::job::State;
use host_core::lease::{Fence, Hold};
use host_engine::job::Enqueue;
use host_engine::lease::{Claim, Heartbeat};
use host_engine::{Command, Reply, lease};
use host_store::sqlite::SqliteStore;
use tempfile::TempDir;

use crate::jobs::{
    NODE, NOW, claim, claim_in, claimed, commit, complete, executor, id, job, job_for, lease, read,
    recover, returned,
};

const ROUNDS: u32 = 20;
const STORE: &str = "HOST_STORE_TEST_KILL";

/// Opens the store that the parent names. `None` without a parent.
#[expect(
    clippy::disallowed_methods,
    reason = "how the parent configures the child"
)]
pub(crate) fn named_by_the_parent() -> Option<SqliteStore> {
    let path = std::env::var_os(STORE)?;
    Some(SqliteStore::open(path.as_ref()).unwrap())
}

/// The child: enqueues, claims and completes, and prints each job once its end is committed.
///
/// The harness sees a normal test, which does nothing without a parent.
#[test]
fn child_that_is_killed() {
    let Some(mut store) = named_by_the_parent() else {
        return;
    };
    commit(&mut store, NOW, vec![recover(NODE)]);
    let first = read(&*host_engine::Store::reader(&store).unwrap())
        .jobs
        .len() as u128;
    let mut out = std::io::stdout();
    for n in (first + 1).. {
        commit(&mut store, NOW, vec![Command::from(Enqueue(vec![job(n)]))]);
        writeln!(out, "enqueued {n}").unwrap();
        for taken in claimed(&mut store, NOW, claim([n], false)) {
            let taken = taken.lifecycle.id.0.as_u128() - id(0).0.as_u128();
            let committed = commit(&mut store, NOW, vec![complete(taken, n, returned())]);
            assert!(matches!(committed.replies[..], [Ok(Reply::Moved(_))]));
            writeln!(out, "completed {taken}").unwrap();
        }
    }
}

/// Starts this program again as the child of this name.
pub(crate) fn start(child: &str, store: &Path) -> Child {
    Process::new(std::env::current_exe().unwrap())
        .args([child, "--exact", "--nocapture"])
        .env(STORE, store)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn what_was_acknowledged_before_a_kill_is_kept() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("host.db");
    let mut acknowledged: Vec<(String, u128)> = Vec::new();
    for round in 0..ROUNDS {
        let mut child = start("kill::child_that_is_killed", &path);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The child is killed after a different number of acknowledgements each time.
        let mut left = 3 + round * 7 % 23;
        for line in lines {
            let line = line.unwrap();
            let mut words = line.split(' ');
            let (Some(what), Some(Ok(n))) = (words.next(), words.next().map(str::parse)) else {
                continue;
            };
            if what == "enqueued" || what == "completed" {
                acknowledged.push((what.to_owned(), n));
                left -= 1;
            }
            if left == 0 {
                child.kill().unwrap();
                break;
            }
        }
        child.wait().unwrap();
    }
    assert!(
        acknowledged.len() > ROUNDS as usize * 3,
        "the child did too little: {}",
        acknowledged.len()
    );
    let store = SqliteStore::open(&path).unwrap();
    let reader = host_engine::Store::reader(&store).unwrap();
    read(&*reader);
    for (what, n) in acknowledged {
        let state = reader.state(id(n)).unwrap();
        match what.as_str() {
            "enqueued" => assert!(state.is_some(), "job {n} was acknowledged and is lost"),
            _ => assert_eq!(state, Some(State::Completed), "job {n}"),
        }
    }
}

/// The child: leases job 1 by TTL and job 2 by connection, prints that once it is committed, and keeps
/// committing.
///
/// The harness sees a normal test, which does nothing without a parent.
#[test]
fn child_that_leases() {
    let Some(mut store) = named_by_the_parent() else {
        return;
    };
    for (n, hold) in [(1, TTL), (2, Hold::Connection)] {
        commit(
            &mut store,
            NOW,
            vec![Command::from(Enqueue(vec![job_for(n, "far")]))],
        );
        let mut claim = claim_in(&executor("far"), [n]);
        if let Command::Lease(lease::Command::Claim(Claim { slots, .. })) = &mut claim {
            slots[0].hold = hold;
        }
        assert_eq!(claimed(&mut store, NOW, claim).len(), 1);
    }
    let mut out = std::io::stdout();
    for n in 3.. {
        writeln!(out, "leased {n}").unwrap();
        commit(&mut store, NOW, vec![Command::from(Enqueue(vec![job(n)]))]);
    }
}

const TTL: Hold = Hold::Ttl { ttl_ms: 30_000 };

#[test]
fn a_lease_by_ttl_survives_a_kill() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("host.db");
    let mut child = start("kill::child_that_leases", &path);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = lines.filter(|line| line.as_ref().unwrap().starts_with("leased"));
    assert!(acknowledged.nth(4).is_some());
    child.kill().unwrap();
    child.wait().unwrap();

    let mut store = SqliteStore::open(&path).unwrap();
    commit(&mut store, NOW, vec![recover(NODE)]);
    let reader = host_engine::Store::reader(&store).unwrap();
    assert_eq!(reader.state(id(2)).unwrap(), Some(State::Available));
    let leases = reader.remote_leases().unwrap();
    assert_eq!((leases.len(), leases[0].job), (1, id(1)));
    let remote = &leases[0].lease;
    assert_eq!((remote.id, remote.node), (lease(1), NODE));
    assert_eq!(
        (remote.hold, remote.expires_at),
        (TTL, Some(NOW.plus_ms(30_000)))
    );
    let heartbeat = Command::from(Heartbeat {
        job: id(1),
        fence: Fence::Lease(lease(1)),
    });
    for message in [heartbeat, complete(1, 1, returned())] {
        let later = NOW.plus_ms(20_000);
        let committed = commit(&mut store, later, vec![message]);
        assert!(matches!(committed.replies[..], [Ok(Reply::Moved(_))]));
    }
    assert_eq!(reader.state(id(1)).unwrap(), Some(State::Completed));
}
