//! A real process is killed again and again while it commits: what it had told is kept.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command as Process, Stdio};

use host_core::command::{Command, Reply};
use host_core::job::State;
use host_store::sqlite::SqliteStore;
use tempfile::TempDir;

use crate::jobs::{NODE, NOW, claim, claimed, commit, complete, id, job, read, returned};

const ROUNDS: u32 = 20;
const STORE: &str = "HOST_STORE_TEST_KILL";

/// The child: enqueues, claims and completes, and tells each job once its end is committed.
///
/// It is a test like any other to the harness and does nothing when it is run as one.
#[test]
fn child_that_is_killed() {
    #[expect(
        clippy::disallowed_methods,
        reason = "how the parent tells the child what to do"
    )]
    let Some(path) = std::env::var_os(STORE) else {
        return;
    };
    let mut store = SqliteStore::open(path.as_ref()).unwrap();
    commit(&mut store, NOW, vec![Command::Recover { node: NODE }]);
    let first = read(&*host_store::store::Store::reader(&store).unwrap())
        .jobs
        .len() as u128;
    let mut out = std::io::stdout();
    for n in (first + 1).. {
        commit(&mut store, NOW, vec![Command::Enqueue(vec![job(n)])]);
        writeln!(out, "enqueued {n}").unwrap();
        for taken in claimed(&mut store, NOW, claim([n], false)) {
            let taken = taken.lifecycle.id.0.as_u128() - id(0).0.as_u128();
            let committed = commit(&mut store, NOW, vec![complete(taken, n, returned())]);
            assert!(matches!(committed.replies[..], [Ok(Reply::Moved(_))]));
            writeln!(out, "completed {taken}").unwrap();
        }
    }
}

#[test]
fn what_was_told_before_a_kill_is_kept() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("host.db");
    let mut told: Vec<(String, u128)> = Vec::new();
    for round in 0..ROUNDS {
        let mut child = Process::new(std::env::current_exe().unwrap())
            .args(["kill::child_that_is_killed", "--exact", "--nocapture"])
            .env(STORE, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // It is killed after a different number of acknowledgements each time, wherever it then is.
        let mut left = 3 + round * 7 % 23;
        for line in lines {
            let line = line.unwrap();
            let mut words = line.split(' ');
            let (Some(what), Some(Ok(n))) = (words.next(), words.next().map(str::parse)) else {
                continue;
            };
            if what == "enqueued" || what == "completed" {
                told.push((what.to_owned(), n));
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
        told.len() > ROUNDS as usize * 3,
        "the child has worked: {}",
        told.len()
    );
    let store = SqliteStore::open(&path).unwrap();
    let reader = host_store::store::Store::reader(&store).unwrap();
    read(&*reader);
    for (what, n) in told {
        let state = reader.state(id(n)).unwrap();
        match what.as_str() {
            "enqueued" => assert!(state.is_some(), "job {n} was acknowledged and is lost"),
            _ => assert_eq!(state, Some(State::Completed), "job {n}"),
        }
    }
}
