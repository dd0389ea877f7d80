//! RRQ's own programs: its example runner, and its orchestrator on its own Redis, tuned for speed.

use std::fs::File;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host_core::time::Time;
use host_tests::{Redis, eventually, peers, ports, worker};
use redis::{Commands, Connection};
use tempfile::TempDir;

use super::{OURS, THEIRS};
use crate::numbers::{count, ms};

const RELEASE: &str = "0.11.1";

/// Its best settings: processes, requests per process, and the polling interval.
const POOL_SIZE: u16 = 4;
const IN_FLIGHT_MAX: u16 = 64;
const POLL_SECONDS: f64 = 0.001;

const QUEUE: &str = "rrq:queue:default";
const PATIENCE: Duration = Duration::from_mins(2);

/// How often to check that all jobs are done.
const LOOK_PAUSE: Duration = Duration::from_millis(2);

/// How many Redis commands are sent at once.
const PIPELINE: usize = 1_000;

/// RRQ's example runner. It is killed when dropped.
pub(super) struct SocketRunner {
    child: Child,
    address: String,
}

/// The runner that an orchestrator launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runner {
    Ours,
    Theirs,
}

/// A running orchestrator; it, its runners and its Redis end when this is dropped.
pub(super) struct Orchestrator {
    child: Child,
    function: &'static str,
    connection: Connection,
    jobs: usize,
    folder: TempDir,
    _redis: Redis,
}

impl SocketRunner {
    pub(super) fn start() -> Result<Self> {
        let address = format!("127.0.0.1:{}", ports::free(1));
        let child = Command::new(peers::socket_runner())
            .args(["--tcp-socket", &address])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start socket_runner")?;
        let runner = Self { child, address };
        eventually("socket_runner to listen", PATIENCE, || {
            TcpStream::connect(&runner.address).ok()
        });
        Ok(runner)
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for SocketRunner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Runner {
    fn command(self) -> Vec<String> {
        match self {
            Self::Ours => {
                let mut command = worker::command();
                // As many cells as the pool has processes, so that each has its share of the cores.
                command.extend(["--cells".to_owned(), "1".to_owned()]);
                command
            }
            Self::Theirs => vec![peers::socket_runner().display().to_string()],
        }
    }
}

impl Orchestrator {
    /// Starts an orchestrator that launches `runner`.
    pub(super) fn start(runner: Runner) -> Result<Self> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let redis = Redis::start();
        let config = folder.path().join("rrq.toml");
        std::fs::write(&config, settings(&redis, runner))?;
        let log = File::create(folder.path().join("rrq.log"))?;
        let child = Command::new(peers::rrq(RELEASE).join("bin").join("rrq"))
            .args(["worker", "run", "--config"])
            .arg(&config)
            .env("RUST_LOG", "error")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start rrq")?;
        Ok(Self {
            child,
            function: match runner {
                Runner::Ours => OURS,
                Runner::Theirs => THEIRS,
            },
            connection: redis.connection(),
            jobs: 0,
            folder,
            _redis: redis,
        })
    }

    /// Makes `jobs` due at once, and returns how many are done per second.
    pub(super) async fn rate(&mut self, jobs: usize) -> Result<f64> {
        let ids = self.prepare(jobs)?;
        let start = Instant::now();
        self.make_due(&ids)?;
        while !self.are_done(&ids)? {
            ensure!(start.elapsed() < PATIENCE, "rrq is stuck: {}", self.log());
            tokio::time::sleep(LOOK_PAUSE).await;
        }
        let took = start.elapsed();
        self.check(&ids)?;
        Ok(count(jobs) / took.as_secs_f64())
    }

    /// Runs `jobs` one after the other. Returns the milliseconds from before the enqueue until RRQ's clients
    /// see the end.
    pub(super) fn latencies(&mut self, jobs: usize) -> Result<Vec<f64>> {
        let mut times = Vec::with_capacity(jobs);
        for _ in 0..jobs {
            let start = Instant::now();
            let ids = self.prepare(1)?;
            self.make_due(&ids)?;
            let events: redis::Value = redis::cmd("XREAD")
                .arg("BLOCK")
                .arg(PATIENCE.as_millis())
                .arg("STREAMS")
                .arg(format!("rrq:events:job:{}", ids[0]))
                .arg("0")
                .query(&mut self.connection)?;
            times.push(ms(start.elapsed()));
            ensure!(events != redis::Value::Nil, "rrq is stuck: {}", self.log());
            self.check(&ids)?;
        }
        Ok(times)
    }

    /// Writes jobs as RRQ's producer does, without the queue. Returns their ids.
    fn prepare(&mut self, jobs: usize) -> Result<Vec<String>> {
        let first = self.jobs;
        self.jobs += jobs;
        let ids: Vec<String> = (first..self.jobs)
            .map(|id| format!("job-{id:08}"))
            .collect();
        let now = Time(now_ms()?).to_rfc3339();
        for ids in ids.chunks(PIPELINE) {
            let mut pipe = redis::pipe();
            for id in ids {
                let fields = [
                    ("id", id.as_str()),
                    ("function_name", self.function),
                    ("job_params", r#"{"n":12345}"#),
                    ("enqueue_time", &now),
                    ("status", "PENDING"),
                    ("current_retries", "0"),
                    ("next_scheduled_run_time", &now),
                    ("max_retries", "3"),
                    ("job_timeout_seconds", "300"),
                    ("result_ttl_seconds", "86400"),
                    ("queue_name", QUEUE),
                    ("result", "null"),
                ];
                pipe.hset_multiple(key(id), &fields).ignore();
            }
            pipe.exec(&mut self.connection)?;
        }
        Ok(ids)
    }

    fn make_due(&mut self, ids: &[String]) -> Result<()> {
        let due = now_ms()?;
        let entries: Vec<(i64, &str)> = ids.iter().map(|id| (due, id.as_str())).collect();
        Ok(self.connection.zadd_multiple(QUEUE, &entries)?)
    }

    /// Returns whether neither the queue nor the orchestrator has a job.
    fn are_done(&mut self, ids: &[String]) -> Result<bool> {
        let worker: Option<String> = self.connection.hget(key(&ids[0]), "worker_id")?;
        let Some(worker) = worker else {
            return Ok(false);
        };
        let (waiting, active): (usize, usize) = redis::pipe()
            .atomic()
            .zcard(QUEUE)
            .zcard(format!("rrq:active:jobs:{worker}"))
            .query(&mut self.connection)?;
        Ok(waiting + active == 0)
    }

    /// Checks that every job has succeeded.
    fn check(&mut self, ids: &[String]) -> Result<()> {
        for ids in ids.chunks(PIPELINE) {
            let mut pipe = redis::pipe();
            for id in ids {
                pipe.hmget(key(id), &["status", "last_error"]);
            }
            let found: Vec<(String, Option<String>)> = pipe.query(&mut self.connection)?;
            for (status, error) in found {
                let error = error.unwrap_or_default();
                ensure!(status == "COMPLETED", "a job of rrq is {status}: {error}");
            }
        }
        Ok(())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("rrq.log")).unwrap_or_default()
    }
}

impl Drop for Orchestrator {
    fn drop(&mut self) {
        // Its runners end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn key(id: &str) -> String {
    format!("rrq:job:{id}")
}

fn now_ms() -> Result<i64> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    Ok(i64::try_from(since.as_millis())?)
}

/// Writes RRQ's configuration, as TOML.
fn settings(redis: &Redis, runner: Runner) -> String {
    let cache = worker::cache().display().to_string();
    format!(
        "[rrq]\n\
         redis_dsn = {:?}\n\
         default_runner_name = \"runner\"\n\
         default_poll_delay_seconds = {POLL_SECONDS}\n\
         base_retry_delay_seconds = 0.1\n\
         runner_connect_timeout_ms = 60000\n\
         [rrq.runners.runner]\n\
         type = \"socket\"\n\
         cmd = {:?}\n\
         pool_size = {POOL_SIZE}\n\
         max_in_flight = {IN_FLIGHT_MAX}\n\
         tcp_port = {}\n\
         env = {{ XDG_CACHE_HOME = {cache:?} }}\n",
        redis.url(),
        runner.command(),
        ports::free(POOL_SIZE),
    )
}
