//! Foreign Delta runners lease our jobs from the real program.

use std::time::{Duration, Instant};

use host_tests::delta::{Runner, config};
use host_tests::{Client, Options, Server, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A host with the pool `ci`.
struct Host {
    folder: TempDir,
    options: Options,
    server: Server,
}

impl Host {
    fn start(ttl_seconds: u64) -> Self {
        let folder = TempDir::new().unwrap();
        let mut options = Options::new(&folder.path().join("data"));
        let config = config(folder.path(), ttl_seconds, "");
        options.args = vec!["--config".to_owned(), config.display().to_string()];
        let server = Server::start(&options);
        Self {
            folder,
            options,
            server,
        }
    }

    fn client(&self) -> Client {
        self.server.client()
    }

    fn runner(&self, id: &str) -> Runner {
        Runner::new(self.server.address(), id)
    }

    /// Kills the host and starts it again.
    fn kill(self) -> Self {
        self.server.kill();
        let server = Server::start(&self.options);
        Self { server, ..self }
    }

    fn attempts(&self, job: &str) -> Value {
        let answer = self.client().get(&format!("/api/v1/jobs/{job}/attempts"));
        answer.unwrap().body["items"].clone()
    }

    /// Returns the host's log.
    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("data/serve.log")).unwrap()
    }
}

fn job() -> Value {
    json!({"handler": "ci#unit-tests", "params": {"steps": ["make"]}})
}

#[test]
fn a_runner_executes_a_job_and_the_job_shows_it() {
    let host = Host::start(60);
    let (client, runner) = (host.client(), host.runner("w1"));
    let (lease, id) = std::thread::scope(|scope| {
        let waits = scope.spawn(|| runner.lease());
        let listed = eventually("the runner to be shown", Duration::from_secs(30), || {
            let runners = client.get("/api/v1/runners/ci").ok()?.body;
            let name = runners["runners"][0]["executor"].as_str()? == "ci/w1";
            name.then_some(runners)
        });
        assert_eq!(listed["wire"], "delta", "{listed}");
        let id = client.enqueue(&job());
        (waits.join().unwrap(), id)
    });
    assert_eq!(lease["job_id"], id);
    assert_eq!(
        lease["job_spec"],
        json!({"name": "unit-tests", "steps": ["make"]})
    );
    assert_eq!(
        runner
            .report("ack-lease", &lease, json!({"job_id": id}))
            .status,
        200
    );
    let beat = json!({"progress": {"percent": 35, "current_step": "make"}, "log_cursor": {"bytes_sent": 9}});
    assert_eq!(runner.report("heartbeat", &lease, beat).status, 200);
    let shown = client.job(&id);
    assert_eq!(
        shown["progress"],
        json!({"percent": 35.0, "message": "make · 9 bytes of log"})
    );
    assert_eq!(runner.log(&lease, 0, "Running\nall ").status, 200);
    assert_eq!(runner.log(&lease, 12, "tests\n").body["next_offset"], 18);
    let end = json!({"status": "SUCCEEDED", "exit_code": 0, "summary": "All passed."});
    assert_eq!(
        runner.report("complete", &lease, end).body["accepted"],
        true
    );
    let job = client.wait(&id);
    assert_eq!(job["state"], "completed");
    assert_eq!(job["result"]["summary"], "All passed.");
    assert_eq!(host.attempts(&id)[0]["executor"], "ci/w1");
    let lines = eventually("the log to be kept", Duration::from_secs(30), || {
        let logs = client.get(&format!("/api/v1/jobs/{id}/logs")).ok()?.body;
        let lines: Vec<_> = logs["items"]
            .as_array()?
            .iter()
            .map(|line| line["message"].clone())
            .collect();
        (lines.len() == 2).then_some(lines)
    });
    assert_eq!(lines, ["Running", "all tests"]);
    let events = client.get("/metrics").unwrap().body.to_string();
    assert!(events.contains("host_jobs"), "{events}");
    let secret = lease["lease_id"].as_str().unwrap();
    assert!(!host.log().contains(secret) && !events.contains(secret));
}

#[test]
fn leases_survive_a_killed_host_and_a_lost_runner_changes_nothing() {
    let host = Host::start(20);
    let (alive, silent) = (host.runner("alive"), host.runner("silent"));
    let kept = host.client().enqueue(&job());
    let kept_lease = alive.lease();
    let lost = host.client().enqueue(&job());
    let lost_lease = silent.lease();
    assert_eq!(
        (&kept_lease["job_id"], &lost_lease["job_id"]),
        (&json!(kept), &json!(lost))
    );
    assert_eq!(
        alive.report("ack-lease", &kept_lease, json!({})).status,
        200
    );
    assert_eq!(
        silent.report("ack-lease", &lost_lease, json!({})).status,
        200
    );

    let host = host.kill();
    let (alive, silent) = (host.runner("alive"), host.runner("silent"));
    assert_eq!(host.client().job(&kept)["state"], "running");
    // The runner of the first job continues. The other is silent until its lease is over and a second runner
    // has the job.
    let second = host.runner("second");
    let again = std::thread::scope(|scope| {
        let waits = scope.spawn(|| second.lease());
        eventually(
            "the lease of a silent runner to end",
            Duration::from_mins(1),
            || {
                assert_eq!(
                    alive
                        .report("heartbeat", &kept_lease, json!({"wait_seconds": 1}))
                        .status,
                    200
                );
                (host.attempts(&lost).as_array()?.len() > 1).then_some(())
            },
        );
        waits.join().unwrap()
    });
    assert_eq!(again["job_id"], lost);
    assert_ne!(again["lease_id"], lost_lease["lease_id"]);
    assert_eq!(second.report("ack-lease", &again, json!({})).status, 200);
    for path in ["heartbeat", "complete"] {
        let late = silent.report(path, &lost_lease, json!({"status": "FAILED"}));
        assert_eq!(
            (late.status, &late.body["type"]),
            (409, &json!("StaleLease")),
            "{late:?}"
        );
    }
    for (runner, lease, id) in [(&alive, &kept_lease, &kept), (&second, &again, &lost)] {
        let end = runner.report("complete", lease, json!({"status": "SUCCEEDED"}));
        assert_eq!(end.status, 200, "{end:?}");
        assert_eq!(host.client().wait(id)["state"], "completed");
    }
    let attempts = host.attempts(&lost);
    let shown: Vec<_> = attempts
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            format!(
                "{} {}",
                it["executor"].as_str().unwrap(),
                it["outcome"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(shown, ["ci/silent lost", "ci/second completed"]);
    assert_eq!(host.attempts(&kept).as_array().unwrap().len(), 1);
    for lease in [&kept_lease, &lost_lease, &again] {
        assert!(!host.log().contains(lease["lease_id"].as_str().unwrap()));
    }
}

/// While a host is paused, heartbeats wait in its sockets: they are not late.
#[test]
fn a_host_that_was_paused_takes_no_lease_from_a_live_runner() {
    let host = Host::start(2);
    let (client, runner) = (host.client(), host.runner("w1"));
    let id = client.enqueue(&job());
    let lease = runner.lease();
    let acked = runner.report("ack-lease", &lease, json!({"job_id": id}));
    assert_eq!(acked.status, 200);
    let signal = |signal| {
        let pid = Pid::from_raw(host.server.pid().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    };
    let paused_at = Instant::now();
    signal(Signal::STOP);
    std::thread::scope(|scope| {
        let beat = scope.spawn(|| runner.report("heartbeat", &lease, json!({})));
        eventually(
            "twice the time of the lease",
            Duration::from_secs(30),
            || (paused_at.elapsed() >= Duration::from_secs(4)).then_some(()),
        );
        signal(Signal::CONT);
        let answer = beat.join().unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    });
    let end = runner.report("complete", &lease, json!({"status": "SUCCEEDED"}));
    assert_eq!(end.status, 200, "{end:?}");
    assert_eq!(client.wait(&id)["state"], "completed");
    assert_eq!(host.attempts(&id).as_array().unwrap().len(), 1);
}
