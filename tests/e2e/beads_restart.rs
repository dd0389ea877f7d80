//! Kills and restarts of either side of beads-workers. The program that our workers call is the witness: it
//! writes each call to a file.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host_tests::{Client, Options, Server, eventually, guests, processes};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;

use crate::beads_tasks::{Running, bd, worker};

/// The limit for every wait.
const WAIT_MAX: Duration = Duration::from_mins(3);

/// The test's own entry after it has killed all workers.
const KILLED: &str = "killed";

/// The events of an issue, as the program sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Claim,
    Close,
    Reopen,
    /// Not a call: its worker is gone.
    Killed,
}

/// The file with the program's calls.
struct Witness(PathBuf);

impl Witness {
    /// Returns the calls for each issue, in their order.
    fn calls(&self) -> BTreeMap<String, Vec<Call>> {
        let mut issues: BTreeMap<String, Vec<Call>> = BTreeMap::new();
        for line in std::fs::read_to_string(&self.0).unwrap_or_default().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let (issue, call) = match words[..] {
                ["update", issue, "--status=in_progress"] => (issue, Call::Claim),
                ["update", issue, "--status=open"] => (issue, Call::Reopen),
                ["close", issue] => (issue, Call::Close),
                [KILLED] => {
                    for calls in issues.values_mut() {
                        calls.push(Call::Killed);
                    }
                    continue;
                }
                _ => panic!("a call that is not in the document: {line}"),
            };
            issues.entry(issue.to_owned()).or_default().push(call);
        }
        issues
    }

    /// Waits until `count` issues are in progress, after at least `reopened` were reopened.
    fn until_busy(&self, count: usize, reopened: usize) {
        eventually("busy workers", WAIT_MAX, || self.are_busy(count, reopened));
    }

    fn are_busy(&self, count: usize, reopened: usize) -> Option<()> {
        let calls = self.calls();
        let busy = calls.values().filter(|it| it.last() == Some(&Call::Claim));
        let opened = calls.values().flatten().filter(|it| **it == Call::Reopen);
        (busy.count() == count && opened.count() >= reopened).then_some(())
    }

    fn note_kill(&self) {
        let mut file = OpenOptions::new().append(true).open(&self.0).unwrap();
        writeln!(file, "{KILLED}").unwrap();
    }

    /// Checks that no issue was started while in progress, and that each of `ids` was closed once, at the
    /// end.
    fn assert_done_once_at_a_time(&self, ids: &[String]) {
        let calls = self.calls();
        for (issue, calls) in &calls {
            let twice = calls.windows(2).any(|two| two == [Call::Claim; 2]);
            assert!(!twice, "{issue} runs twice at the same time: {calls:?}");
        }
        for id in ids {
            let closed = calls[id].iter().filter(|it| **it == Call::Close);
            assert_eq!(closed.count(), 1, "{id}: {:?}", calls[id]);
            assert_eq!(calls[id].last(), Some(&Call::Close), "{id}");
        }
    }
}

/// Starts a host with a socket for workers.
fn orchestrator(folder: &Path, socket: &Path) -> Server {
    let config = folder.join("orchestrator.toml");
    let socket = socket.display();
    let text =
        format!("[protocol.beads]\nsocket = \"{socket}\"\nhold_seconds = 10\nwait_seconds = 1\n");
    std::fs::write(&config, text).unwrap();
    let mut options = Options::new(&folder.join("orchestrator"));
    options.args = vec!["--config".to_owned(), config.display().to_string()];
    Server::start(&options)
}

fn enqueue(client: &Client, count: usize) -> Vec<String> {
    let jobs = vec![json!({"handler": "beads#tidy"}); count];
    let accepted = client.post("/api/v1/jobs", &json!(jobs)).unwrap().body;
    let entries = accepted.as_array().unwrap().iter();
    entries
        .map(|entry| entry["id"].as_str().unwrap().to_owned())
        .collect()
}

fn assert_completed(client: &Client, ids: &[String]) {
    for id in ids {
        let job = client.wait(id);
        assert_eq!(job["state"], "completed", "{job}");
        assert_eq!(job["attempts_charged"], 1, "a loss is not charged: {job}");
    }
}

#[test]
fn each_task_runs_once_at_a_time_when_the_orchestrator_of_50_busy_workers_is_killed() {
    const WORKERS: usize = 50;
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("b.sock");
    let server = orchestrator(folder.path(), &socket);
    let ids = enqueue(&server.client(), WORKERS + 10);
    let (program, calls) = bd(folder.path());
    let witness = Witness(calls);
    let args = ["--concurrency", "50", "--bd", program.to_str().unwrap()];
    let start = || Running::start(&mut worker(&socket, "sleep_forever", &args));
    let mut busy = start();
    witness.until_busy(WORKERS, 0);
    server.kill();
    let server = orchestrator(folder.path(), &socket);
    eventually("busy workers again", WAIT_MAX, || {
        // The workers of the document try for 7 s. A loaded machine may need longer to start a host.
        if let Some(gave_up) = busy.0.try_wait().unwrap() {
            assert_eq!(gave_up.code(), Some(1));
            busy = start();
        }
        witness.are_busy(WORKERS, WORKERS)
    });
    kill_process(Pid::from_child(&busy.0), Signal::TERM).unwrap();
    assert_eq!(busy.wait(), Some(0));
    let quick = Running::start(&mut worker(&socket, "noop", &args));
    assert_completed(&server.client(), &ids);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(quick.wait(), Some(0), "SHUTDOWN ends the workers");
    witness.assert_done_once_at_a_time(&ids);
}

#[test]
fn a_host_that_works_for_an_orchestrator_goes_on_after_it_was_killed() {
    const WORKERS: usize = 4;
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("b.sock");
    let server = orchestrator(folder.path(), &socket);
    let client = server.client();
    let ids = enqueue(&client, 2 * WORKERS);
    let (program, calls) = bd(folder.path());
    let witness = Witness(calls);
    let config = folder.path().join("worker.toml");
    let start = |handler: &str| {
        let text = format!(
            "[protocol.beads.worker]\nsocket = {socket:?}\nhandler = {handler:?}\n\
             concurrency = {WORKERS}\nworker_id = \"builder-1\"\nbd = {program:?}\n"
        );
        std::fs::write(&config, text).unwrap();
        let mut options = Options::new(&folder.path().join("worker")).handlers(&guests::folder());
        options.args = vec!["--config".to_owned(), config.display().to_string()];
        Server::start(&options)
    };
    let worker = start("sleep_forever");
    witness.until_busy(WORKERS, 0);
    let shown = client.get("/api/v1/runners").unwrap().body.to_string();
    assert!(shown.contains("builder-4 works on "), "{shown}");
    let children = processes::children(worker.pid());
    assert!(!children.is_empty());
    worker.kill();
    eventually("its guests to be gone", WAIT_MAX, || {
        let gone = children.iter().all(|child| !processes::is_alive(*child));
        gone.then_some(())
    });
    witness.note_kill();
    eventually("all tasks to be available", WAIT_MAX, || {
        let mut jobs = ids.iter().map(|id| client.job(id));
        jobs.all(|job| job["state"] == "available").then_some(())
    });
    let worker = start("echo");
    assert_completed(&client, &ids);
    eventually("what the host keeps of them", WAIT_MAX, || {
        let kept = worker.client().foreign_jobs();
        let done = |id: &String| {
            let mut kept = kept.iter().filter(|job| job["external_id"] == id.as_str());
            kept.any(|job| job["wire"] == "beads" && job["state"] == "completed")
        };
        ids.iter().all(done).then_some(())
    });
    assert_eq!(worker.stop(), Some(0));
    assert_eq!(server.stop(), Some(0));
    witness.assert_done_once_at_a_time(&ids);
}
