//! Shells as runners, over a host in memory: what they get, what becomes of what they write, and what
//! happens when they end or do not.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use host_core::failure::FailureKind;
use host_core::id::{JobId, NodeId};
use host_core::job::State;
use host_core::outcome::Attempt;
use host_testing::{LeaseHost, Refusals, TestClock};
use host_wire_kit::executors::{Executors as _, WorkerState};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::timeout;
use uuid::Uuid;

use super::*;
use crate::messages::read;
use crate::orchestrator::Message;
use crate::orchestrator::{Answer, Request};
use crate::settings::{DeltaConfig, Times, Tokens};

const BOUND: Duration = Duration::from_mins(1);

const TIMES: Times = Times {
    lease_ttl: 120,
    heartbeat_interval: 20,
    ack: 30,
    cancel_deadline: 30,
    max_runtime: 30,
};

/// A shell's own arguments: the lease is `$6`, the folder to work in `$8`, the log `${10}`.
struct Bench {
    model: Arc<LeaseHost>,
    pools: Arc<Pools>,
    leases: Arc<dyn Leases>,
    folder: TempDir,
    stopping: CancellationToken,
}

impl Bench {
    fn new(command: &[&str]) -> Self {
        Self::on(LeaseHost::new(), TempDir::new().unwrap(), command)
    }

    fn shell(script: &str) -> Self {
        Self::new(&["/bin/sh", "-c", script, "runner"])
    }

    fn on(model: Arc<LeaseHost>, folder: TempDir, command: &[&str]) -> Self {
        let leases = model.first();
        Self::at(model, leases, folder, command)
    }

    /// At a node of the host.
    fn at(
        model: Arc<LeaseHost>,
        leases: Arc<dyn Leases>,
        folder: TempDir,
        command: &[&str],
    ) -> Self {
        let pool = PoolConfig {
            name: "ci".parse().unwrap(),
            origin: String::new(),
            capabilities: BTreeSet::new(),
            launch: Some(Launch {
                command: command.iter().map(|word| (*word).to_owned()).collect(),
                pool_size: 1,
                env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
            }),
        };
        let config = DeltaConfig {
            times: TIMES,
            pools: vec![pool],
            tokens: Tokens::default(),
        };
        let pools = Pools::at(&model, &leases, &Refusals::of(crate::NAME), config);
        pools.reached_at("http://127.0.0.1:7700".to_owned());
        Self {
            model,
            pools,
            leases,
            folder,
            stopping: CancellationToken::new(),
        }
    }

    fn enqueue(&self) -> JobId {
        let job = ("ci", "unit-tests");
        self.model
            .enqueue(job, r#"{"steps":["make"]}"#, TIMES.policy(), &[])
    }

    /// Starts runners until `test` has ended, and then stops.
    async fn run<T>(&self, test: impl Future<Output = T>) -> T {
        let deps = LauncherDeps {
            leases: Arc::clone(&self.leases),
            clock: Arc::<TestClock>::clone(&self.model.clock),
            stopping: self.stopping.clone(),
            folder: self.folder.path().join("delta"),
        };
        let test = async {
            let result = timeout(BOUND, test).await.expect("it ends");
            self.stopping.cancel();
            result
        };
        let (result, ()) = tokio::join!(test, run(&self.pools, deps));
        result
    }

    fn attempt_folder(&self, job: JobId, attempt: u32) -> PathBuf {
        let folder = self.folder.path().join("delta").join(job.to_string());
        folder.join(attempt.to_string())
    }

    /// Waits until a line of the log of a job is `line`.
    async fn until_logged(&self, line: &str) {
        while !self.lines().iter().any(|it| it == line) {
            tokio::task::yield_now().await;
        }
    }

    fn lines(&self) -> Vec<String> {
        let logged = self.model.logged().into_iter();
        logged.map(|(_, _, line)| line).collect()
    }

    /// Says something as the runner of the lease in the file.
    async fn say(&self, job: JobId, what: &str) {
        let text =
            std::fs::read(self.attempt_folder(job, 1).join("run.partial/lease.json")).unwrap();
        let lease: Value = serde_json::from_slice(&text).unwrap();
        let message = serde_json::json!({
            "lease_id": lease["lease_id"], "runner_id": "1", "status": "SUCCEEDED",
        });
        let (message, pool) = (message.to_string(), &self.pools.config.pools[0]);
        let read = match what {
            "ack" => Message::ack,
            _ => Message::complete,
        };
        let (about, message) = read(message.as_bytes()).unwrap();
        let message = Request::Message(NamedLease::read(pool, &about).unwrap(), message);
        self.pools.request(message).await.unwrap();
    }
}

#[tokio::test]
async fn the_name_of_a_runner_has_its_node_if_there_are_several() {
    let model = LeaseHost::new();
    let node = model.node(NodeId(Uuid::from_u128(0x1_2345_6789)));
    let command = ["/bin/sh", "-c", "echo \"as $4\"", "runner"];
    let bench = Bench::at(model, node, TempDir::new().unwrap(), &command);
    let job = bench.enqueue();
    bench
        .run(async {
            bench.until_logged("as 1@23456789").await;
            bench
                .model
                .until(job, |kept| !kept.attempts.is_empty())
                .await;
        })
        .await;
    let health = bench.pools.health();
    assert_eq!(health[0].workers[0].name, "ci/1@23456789");
    assert_eq!(bench.model.attempts(job), "1 ci/1@23456789 lost");
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

const WAITS: &str = "
    echo \"$1 $2 $3 $4 $5 $7 $9\"
    cat \"$6\" >&2
    printf 'in the log\nthe rest' > \"${10}\"
    echo up
    until [ -e \"$8/done\" ]; do sleep 0.02; done
";

#[tokio::test]
async fn a_runner_is_started_for_a_job_with_its_lease_in_a_file() {
    let bench = Bench::shell(WAITS);
    let job = bench.enqueue();
    let folder = bench.attempt_folder(job, 1);
    bench
        .run(async {
            bench.until_logged("up").await;
            bench.until_logged("in the log").await;
            let lease = folder.join("run.partial/lease.json");
            assert_eq!((mode(&lease), mode(&folder)), (0o600, 0o700));
            let health = bench.pools.slots.health(&"ci".parse().unwrap());
            assert_eq!(health[0].name, "ci/1");
            assert!(health[0].pid.is_some() && health[0].state == WorkerState::Up);
            bench.say(job, "ack").await;
            bench.say(job, "complete").await;
            std::fs::write(folder.join("run.partial/work/done"), "").unwrap();
            bench.until_logged("the rest").await;
            while folder.join("run.partial/work").exists() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    assert!(!folder.join("run.partial/lease.json").exists());
    assert_eq!(
        std::fs::read_to_string(folder.join("log")).unwrap(),
        "in the log\nthe rest"
    );
    assert_eq!(bench.model.state(job), State::Completed);
    assert_eq!(bench.model.attempts(job), "1 ci/1 completed");
    let lines = bench.lines().join("\n");
    let flags = "-orchestrator http://127.0.0.1:7700 -runner-id 1 -lease -workdir -log";
    assert!(lines.contains(flags), "{lines}");
    assert!(lines.contains("\"lease_id\":\"[lease]\""), "{lines}");
    assert!(
        !lines.contains("lease_0"),
        "a secret is in the log: {lines}"
    );
}

#[tokio::test]
async fn a_runner_that_ends_without_an_end_of_its_job_loses_the_lease_at_once() {
    for (script, how, why) in [
        ("exit 3", "exit status: 3", "ended with status 3"),
        ("kill -9 $$", "signal: 9 (SIGKILL)", "ended by signal 9"),
    ] {
        let bench = Bench::shell(script);
        let job = bench.enqueue();
        let ended = |kept: &[Attempt]| !kept.is_empty();
        let model = &bench.model;
        let kept = bench
            .run(model.until(job, |kept| ended(&kept.attempts)))
            .await;
        let attempt = &kept.attempts[0];
        assert_eq!(
            (attempt.executor.as_str(), attempt.outcome.as_str()),
            ("ci/1", "lost")
        );
        let failure = attempt.failure.as_ref().unwrap();
        assert!(failure.message.contains(why), "{failure:?}");
        // It had not acknowledged its lease, so that the attempt counts.
        let job = &kept.job.lifecycle;
        assert_eq!((job.state, job.attempts_charged()), (State::Retryable, 1));
        let lines = bench.lines().join("\n");
        assert!(lines.contains(how), "{lines}");
    }
}

#[tokio::test]
async fn jobs_whose_runners_exit_at_once_hold_up_no_other() {
    let script = r#"case $(cat "$6") in *'"name":"good"'*) echo good ;; *) exit 1 ;; esac"#;
    let bench = Bench::shell(script);
    let enqueue = |handler: &str| {
        let steps = r#"{"steps":["make"]}"#;
        bench
            .model
            .enqueue(("ci", handler), steps, TIMES.policy(), &[])
    };
    let bad: Vec<JobId> = (0..20).map(|_| enqueue("bad")).collect();
    enqueue("good");
    bench.run(bench.until_logged("good")).await;
    for job in bad {
        assert_eq!(bench.model.attempts(job), "1 ci/1 lost");
    }
}

#[tokio::test]
async fn a_runner_that_does_not_end_is_stopped_at_the_time_limit_of_its_job() {
    let bench = Bench::shell(STUBBORN);
    let mut policy = TIMES.policy();
    policy.timeout_ms = Some(1_000);
    let handler = ("ci", "unit-tests");
    let job = bench
        .model
        .enqueue(handler, r#"{"steps":["make"]}"#, policy, &[]);
    let kept = bench
        .run(async {
            bench.until_logged("up").await;
            bench.say(job, "ack").await;
            bench
                .model
                .until(job, |kept| !kept.attempts.is_empty())
                .await
        })
        .await;
    assert!(bench.lines().contains(&"told".to_owned()));
    let failure = kept.attempts[0].failure.as_ref().unwrap();
    assert_eq!(failure.kind, FailureKind::TimedOut);
    assert_eq!(failure.message, "the runner did not end within 1 s");
}

#[tokio::test]
async fn a_job_waits_while_no_runner_can_be_started() {
    let bench = Bench::new(&["/nowhere/at/all"]);
    let job = bench.enqueue();
    let name = "ci".parse().unwrap();
    let health = bench
        .run(async {
            loop {
                let health = bench.pools.slots.health(&name).remove(0);
                if health.failures > 0 {
                    break health;
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
    assert_eq!(health.state, WorkerState::Down);
    let reason = health.reason.unwrap();
    assert!(
        reason.contains("cannot start the runner: No such file"),
        "{reason}"
    );
    assert_eq!(bench.model.state(job), State::Available);
    assert_eq!(bench.model.attempts(job), "");
}

const STUBBORN: &str = "trap 'echo told; exit 0' TERM; echo up; while :; do sleep 0.02; done";

#[tokio::test]
async fn a_runner_whose_lease_is_over_is_told_to_end() {
    let bench = Bench::shell(STUBBORN);
    let job = bench.enqueue();
    bench
        .run(async {
            bench.until_logged("up").await;
            bench.say(job, "ack").await;
            bench.model.cancel(job, None).unwrap();
            // The cancel gets no answer.
            bench.model.advance(30_000);
            assert_eq!(bench.model.state(job), State::Cancelled);
            bench.until_logged("told").await;
        })
        .await;
}

#[tokio::test]
async fn a_host_that_stops_ends_its_runners_and_gives_their_jobs_back() {
    let bench = Bench::shell(STUBBORN);
    let job = bench.enqueue();
    bench
        .run(async {
            bench.until_logged("up").await;
            bench.say(job, "ack").await;
        })
        .await;
    assert!(bench.lines().contains(&"told".to_owned()));
    assert_eq!(bench.model.state(job), State::Available);
    assert_eq!(bench.model.attempts(job), "1 ci/1 lost");
}

#[tokio::test]
async fn after_a_restart_the_leases_of_its_runners_are_taken_back_and_no_others() {
    let bench = Bench::new(&["/nowhere/at/all"]);
    let (own, others) = (bench.enqueue(), bench.enqueue());
    let pool = &bench.pools.config.pools[0];
    for name in ["1", "w1"] {
        let ask = read::Ask {
            runner_id: name.to_owned(),
            capabilities: BTreeSet::new(),
            wait_seconds: 0,
        };
        let granted = bench
            .pools
            .request(Request::Ask(pool.name.clone(), ask))
            .await
            .unwrap();
        assert!(matches!(granted, Answer::Granted(Some(_))));
    }
    let Bench { model, folder, .. } = bench;
    let left = folder.path().join("delta").join(own.to_string()).join("1");
    std::fs::create_dir_all(left.join("run.partial/work/deep")).unwrap();
    std::fs::write(left.join("run.partial/lease.json"), "{}").unwrap();
    std::fs::write(left.join("log"), "kept").unwrap();
    let unknown = JobId(uuid::Uuid::from_u128(9));
    let gone = folder.path().join("delta").join(unknown.to_string());
    std::fs::create_dir_all(&gone).unwrap();
    model.restart();
    let bench = Bench::on(model, folder, &["/nowhere/at/all"]);
    bench
        .run(async {
            bench
                .model
                .until(own, |kept| !kept.attempts.is_empty())
                .await;
            while gone.exists() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    assert_eq!(bench.model.attempts(own), "1 ci/1 lost");
    assert_eq!(bench.model.state(others), State::Running);
    assert!(
        !left.join("run.partial/work").exists() && !left.join("run.partial/lease.json").exists()
    );
    assert!(left.join("log").exists(), "the log stays with its job");
}
