//! The real `host worker rrq` as a child process.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::guests::{built, folder};
use crate::server::{host, read_ready};

/// A running worker; it is killed when this is dropped.
pub struct Worker {
    child: Child,
    stdout: BufReader<ChildStdout>,
    address: String,
}

/// Returns the command of a worker with the handlers of the repository, without its address.
pub fn command() -> Vec<String> {
    let words = [
        host(),
        "worker".into(),
        "rrq".into(),
        "--handlers".into(),
        folder(),
    ];
    words
        .map(|word: PathBuf| word.display().to_string())
        .to_vec()
}

/// Returns where the workers of all suites keep compiled handlers: the value of `XDG_CACHE_HOME`.
pub fn cache() -> PathBuf {
    built("worker-cache")
}

impl Worker {
    /// Starts a worker on a free port and waits until it is ready; `data` takes its log.
    ///
    /// # Panics
    ///
    /// If it ends before it is ready; what it wrote is in `worker.log` in `data`.
    pub fn start(data: &Path) -> Self {
        Self::launch(data, &cache(), &command())
    }

    /// Starts one with more or other arguments than [`command`], and a cache of its own.
    ///
    /// # Panics
    ///
    /// If it ends before it is ready.
    pub fn launch(data: &Path, cache: &Path, command: &[String]) -> Self {
        let log_path = data.join("worker.log");
        let log = std::fs::File::create(&log_path).expect("the log can be opened");
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .args(["--tcp-socket", "127.0.0.1:0"])
            // The argument wins.
            .env("RRQ_RUNNER_TCP_SOCKET", "192.0.2.1:1")
            .env("XDG_CACHE_HOME", cache)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("host starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let address = read_ready(&mut stdout)
            .and_then(|ready| ready.rrq)
            .unwrap_or_else(|| {
                let log = std::fs::read_to_string(&log_path).unwrap_or_default();
                panic!("the worker ended before it was ready:\n{log}")
            });
        Self {
            child,
            stdout,
            address,
        }
    }

    /// Returns where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to stop; returns its exit code and how long it took to end.
    ///
    /// # Panics
    ///
    /// If it cannot be asked.
    pub fn stop(mut self) -> (Option<i32>, Duration) {
        let start = Instant::now();
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it can be asked");
        let code = self.child.wait().expect("it ends").code();
        let took = start.elapsed();
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("UTF-8");
        assert_eq!(rest, "", "nothing but the ready line stands on stdout");
        (code, took)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
