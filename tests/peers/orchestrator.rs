//! Starts a real RRQ orchestrator with its own Redis. Its only runner is `host`.

use std::collections::HashMap;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use host_core::time::Time;
use host_tests::{Redis, eventually, peers, ports, processes, worker};
use redis::{Commands, Connection};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::producer::Producer;

/// The newest release.
pub(crate) const CURRENT: &str = "0.11.1";

/// The last release with the documented dialect: one connection per request, and the address only in
/// the environment.
pub(crate) const DOCUMENTED: &str = "0.9.14";

/// The error of a job whose timeout our worker reported just before the deadline. If it does not, RRQ
/// records another message and kills the worker.
pub(crate) const TIMED_OUT: &str = "Job execution timed out.";

/// A timeout long enough for a busy machine: the worker answers 1 % of it before the deadline.
pub(crate) const TIMEOUT_SECONDS: u64 = 25;

/// How long to wait for anything, even on a busy machine.
const WAIT_MAX: Duration = Duration::from_mins(3);

/// How much of the orchestrator's log a failing test shows, in bytes.
const LOG_BYTES_MAX: usize = 8_000;

/// The options of an orchestrator.
pub(crate) struct Setup {
    release: &'static str,
    pool_size: u16,
    external: Option<String>,
    cancel_hints: bool,
    response_seconds: Option<u32>,
}

/// A running orchestrator. When dropped, it ends with its runners and its Redis.
pub(crate) struct Orchestrator {
    child: Child,
    producer: Producer,
    connection: Mutex<Connection>,
    folder: TempDir,
    _redis: Redis,
}

/// The record of a job in RRQ.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: String,
    fields: HashMap<String, String>,
}

impl Setup {
    /// Returns options for the newest release with one worker.
    pub(crate) fn new() -> Self {
        Self {
            release: CURRENT,
            pool_size: 1,
            external: None,
            cancel_hints: true,
            response_seconds: None,
        }
    }

    /// Uses another release.
    pub(crate) fn release(self, release: &'static str) -> Self {
        Self { release, ..self }
    }

    /// Launches several workers.
    pub(crate) fn pool_size(self, pool_size: u16) -> Self {
        Self { pool_size, ..self }
    }

    /// Launches no workers, and connects to a running one.
    pub(crate) fn external(self, address: &str) -> Self {
        let external = Some(address.to_owned());
        Self { external, ..self }
    }

    /// Disables cancel hints: RRQ then sends cancels only to external runners.
    pub(crate) fn without_cancel_hints(self) -> Self {
        Self {
            cancel_hints: false,
            ..self
        }
    }

    /// Limits how long the orchestrator waits for an answer, regardless of the job's timeout.
    pub(crate) fn response_seconds(self, seconds: u32) -> Self {
        Self {
            response_seconds: Some(seconds),
            ..self
        }
    }

    /// Writes RRQ's configuration, as TOML.
    fn config(&self, redis: &Redis) -> String {
        let mut rrq = vec![
            format!("redis_dsn = {:?}", redis.url()),
            "default_runner_name = \"host\"".to_owned(),
            "default_poll_delay_seconds = 0.005".to_owned(),
            "base_retry_delay_seconds = 0.1".to_owned(),
            "worker_shutdown_grace_period_seconds = 1.0".to_owned(),
            "runner_connect_timeout_ms = 60000".to_owned(),
        ];
        let mut runner = vec![
            "type = \"socket\"".to_owned(),
            format!("cmd = {:?}", worker::command()),
            format!("pool_size = {}", self.pool_size),
            "max_in_flight = 64".to_owned(),
            format!("env = {{ XDG_CACHE_HOME = {:?} }}", worker::cache()),
        ];
        if let Some(seconds) = self.response_seconds {
            runner.push(format!("response_timeout_seconds = {seconds}"));
        }
        let port = ports::free(self.pool_size);
        if self.release == DOCUMENTED {
            runner.push(format!("tcp_socket = \"127.0.0.1:{port}\""));
        } else {
            let hints = self.cancel_hints;
            rrq.push(format!("runner_enable_inflight_cancel_hints = {hints}"));
            rrq.push("capture_runner_output = true".to_owned());
            let port = match &self.external {
                None => port.to_string(),
                Some(address) => address.rsplit_once(':').unwrap().1.to_owned(),
            };
            runner.push(format!("tcp_port = {port}"));
        }
        if self.external.is_some() {
            rrq.push("runner_management_mode = \"external\"".to_owned());
        }
        let (rrq, runner) = (rrq.join("\n"), runner.join("\n"));
        format!("[rrq]\n{rrq}\n\n[rrq.runners.host]\n{runner}\n")
    }

    /// Starts the orchestrator, and waits for the runners that it launches.
    pub(crate) fn start(self) -> Orchestrator {
        let folder = TempDir::new().unwrap();
        let redis = Redis::start();
        let config = folder.path().join("rrq.toml");
        std::fs::write(&config, self.config(&redis)).unwrap();
        let installed = peers::rrq(self.release);
        let log = File::create(folder.path().join("rrq.log")).unwrap();
        let child = Command::new(installed.join("bin").join("rrq"))
            .args(["worker", "run", "--config"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("rrq starts");
        let orchestrator = Orchestrator {
            child,
            producer: Producer::start(&installed, &config),
            connection: Mutex::new(redis.connection()),
            folder,
            _redis: redis,
        };
        if self.external.is_none() {
            let expected = usize::from(self.pool_size);
            orchestrator.until("its workers to be there", |it| {
                (it.workers().len() == expected).then_some(())
            });
        }
        orchestrator
    }
}

impl Orchestrator {
    /// Enqueues a job through RRQ's own producer; `options` are those of the producer.
    pub(crate) fn enqueue(&self, function: &str, options: &Value) -> String {
        self.producer.enqueue(function, options)
    }

    /// Enqueues a job and waits until it has ended.
    pub(crate) fn run(&self, function: &str, params: &Value) -> Job {
        let id = self.enqueue(function, &json!({"params": params}));
        self.wait(&id)
    }

    /// Returns the record of a job in RRQ.
    pub(crate) fn job(&self, id: &str) -> Job {
        let mut connection = self.connection.lock().unwrap();
        let fields = connection.hgetall(format!("rrq:job:{id}")).unwrap();
        Job {
            id: id.to_owned(),
            fields,
        }
    }

    /// Waits until a job has ended.
    pub(crate) fn wait(&self, id: &str) -> Job {
        self.until(&format!("job {id} to end"), |it| {
            let job = it.job(id);
            matches!(job.status(), "COMPLETED" | "FAILED").then_some(job)
        })
    }

    /// Returns whether a job is a dead letter.
    pub(crate) fn is_dead_letter(&self, id: &str) -> bool {
        let mut connection = self.connection.lock().unwrap();
        let letters: Vec<String> = connection.lrange("rrq:dlq:default", 0, -1).unwrap();
        letters.iter().any(|letter| letter == id)
    }

    /// Returns the pids of the workers that it launched.
    pub(crate) fn workers(&self) -> Vec<u32> {
        let mut workers = processes::children(self.child.id());
        workers.retain(|child| processes::command(*child).contains(" worker rrq "));
        workers
    }

    /// Returns what it and its workers have logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("rrq.log")).unwrap_or_default()
    }

    /// Waits until `check` returns a value.
    pub(crate) fn until<T>(&self, what: &str, mut check: impl FnMut(&Self) -> Option<T>) -> T {
        eventually(what, WAIT_MAX, || check(self))
    }

    /// Asks the orchestrator to stop.
    pub(crate) fn ask_to_stop(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    /// Kills the orchestrator with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Orchestrator {
    fn drop(&mut self) {
        // Its workers end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let tail = log.len().saturating_sub(LOG_BYTES_MAX);
            println!("{}", String::from_utf8_lossy(&log.as_bytes()[tail..]));
        }
    }
}

impl Job {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// Returns `PENDING`, `ACTIVE`, `RETRYING`, `COMPLETED` or `FAILED`; empty if there is no such job.
    pub(crate) fn status(&self) -> &str {
        self.field("status").unwrap_or_default()
    }

    /// Returns the result.
    pub(crate) fn result(&self) -> Value {
        let text = self.field("result").unwrap_or("null");
        serde_json::from_str(text).unwrap()
    }

    /// Returns the error of the last failed attempt.
    pub(crate) fn last_error(&self) -> &str {
        self.field("last_error").unwrap_or_default()
    }

    /// Returns how many attempts have failed.
    pub(crate) fn retries(&self) -> u32 {
        self.field("current_retries")
            .unwrap_or("0")
            .parse()
            .unwrap()
    }

    /// Returns how long the last attempt took.
    pub(crate) fn took(&self) -> Duration {
        let at = |name| Time::parse_rfc3339(self.field(name).unwrap()).unwrap();
        Duration::from_millis(at("completion_time").since_ms(at("start_time")))
    }
}
