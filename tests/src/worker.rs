//! The real `host worker rrq`, `host worker hero` and `host worker arco` as child processes.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::guests::{built, folder};
use crate::server::{Ready, host, read_ready};
use crate::{compiled, secrets};

/// A running `host worker rrq`. It is killed when dropped.
pub struct Worker {
    process: Process,
    address: String,
}

/// A running `host worker hero`. It is killed when dropped.
pub struct HeroWorker {
    process: Process,
    log_path: PathBuf,
}

/// A running `host worker arco`. It is killed when dropped.
pub struct ArcoWorker {
    process: Process,
    address: String,
}

/// A child process that has printed its `ready` line. Its output is searched for planted secrets.
struct Process {
    child: Child,
    stdout: BufReader<ChildStdout>,
    log_path: PathBuf,
}

/// Returns the command line of a worker with all built components, without an address.
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

/// Returns the folder where the workers of all suites cache compiled handlers (`XDG_CACHE_HOME`).
pub fn cache() -> PathBuf {
    let folder = built("worker-cache");
    compiled::refresh(&folder.join("host"));
    folder
}

impl Worker {
    /// Starts a worker on a free port, and waits until it is ready. Its log is in `data`.
    ///
    /// # Panics
    ///
    /// If the worker ends before it is ready. Its output is in `worker.log` in `data`.
    pub fn start(data: &Path) -> Self {
        Self::launch(data, &cache(), &command())
    }

    /// Starts a worker with another command line than [`command`] and its own cache.
    ///
    /// # Panics
    ///
    /// If the worker ends before it is ready.
    pub fn launch(data: &Path, cache: &Path, command: &[String]) -> Self {
        let mut worker = Command::new(&command[0]);
        worker
            .args(&command[1..])
            .args(["--tcp-socket", "127.0.0.1:0"])
            // The argument takes precedence over this variable.
            .env("RRQ_RUNNER_TCP_SOCKET", "192.0.2.1:1")
            .env("XDG_CACHE_HOME", cache);
        let (process, ready) = Process::start(&mut worker, &data.join("worker.log"));
        let address = ready.rrq.expect("the ready line contains the address");
        Self { process, address }
    }

    /// Returns the address of its listener.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// Asks the worker to stop (SIGTERM). Returns its exit code and how long it took to end.
    ///
    /// # Panics
    ///
    /// If the signal cannot be sent.
    pub fn stop(self) -> (Option<i32>, Duration) {
        let (code, took, _) = self.process.stop();
        (code, took)
    }
}

impl HeroWorker {
    /// Starts a worker with the components in `handlers` for `worker_ids` in the Redis at `url`, and waits
    /// until it is ready. `folder` contains its state and its log `NAME.log`.
    ///
    /// # Panics
    ///
    /// If the worker ends before it is ready.
    pub fn start(
        folder: &Path,
        name: &str,
        handlers: &Path,
        url: &str,
        worker_ids: &[&str],
    ) -> Self {
        let worker_ids = worker_ids.iter().flat_map(|id| ["--worker-id", *id]);
        let args: Vec<&str> = worker_ids.collect();
        Self::start_with(folder, name, handlers, url, &args)
    }

    /// Starts a worker with the given arguments.
    ///
    /// # Panics
    ///
    /// If the worker ends before it is ready.
    pub fn start_with(
        folder: &Path,
        name: &str,
        handlers: &Path,
        url: &str,
        args: &[&str],
    ) -> Self {
        let log_path = folder.join(format!("{name}.log"));
        let mut worker = Command::new(host());
        worker
            .args(["worker", "hero", "--handlers"])
            .arg(handlers)
            .args(args)
            .env("HOST_HERO_URL", url)
            .env("XDG_CACHE_HOME", cache())
            .env("XDG_STATE_HOME", folder);
        let (process, ready) = Process::start(&mut worker, &log_path);
        let redis = ready.hero.expect("the ready line names the Redis");
        assert!(
            !redis.contains('@'),
            "the ready line contains no user or password: {redis}"
        );
        Self { process, log_path }
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// Returns its log.
    ///
    /// # Panics
    ///
    /// If its log cannot be read.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log_path).expect("the log can be read")
    }

    /// Kills the worker with SIGKILL.
    ///
    /// # Panics
    ///
    /// If the worker cannot be killed.
    pub fn kill(mut self) {
        self.process.child.kill().expect("a worker can be killed");
        self.process.child.wait().expect("a worker ends");
    }

    /// Asks the worker to stop (SIGTERM). Returns its exit code and how long it took to end.
    ///
    /// # Panics
    ///
    /// If the signal cannot be sent.
    pub fn stop(self) -> (Option<i32>, Duration) {
        let (code, took, _) = self.process.stop();
        (code, took)
    }
}

impl ArcoWorker {
    /// Starts a worker with all built components, which expects `secret` from control planes at `origin`.
    /// `port` 0 takes a free one.
    ///
    /// # Panics
    ///
    /// If the worker ends before it is ready. Its output is in `arco-worker.log` in `folder`.
    pub fn start(folder_of_log: &Path, port: u16, secret: &str, origin: &str) -> Self {
        Self::start_with(folder_of_log, port, secret, origin, &[])
    }

    /// Does the same with more arguments.
    ///
    /// # Panics
    ///
    /// If the worker ends before it is ready.
    pub fn start_with(
        folder_of_log: &Path,
        port: u16,
        secret: &str,
        origin: &str,
        args: &[String],
    ) -> Self {
        let mut worker = Command::new(host());
        worker
            .args(["worker", "arco", "--secret-env", "ARCO_TEST_SECRET"])
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .args(["--callback-origin", origin, "--handlers"])
            .arg(folder())
            .args(args)
            .env("ARCO_TEST_SECRET", secret)
            .env("XDG_CACHE_HOME", cache());
        let (process, ready) = Process::start(&mut worker, &folder_of_log.join("arco-worker.log"));
        let address = ready.arco.expect("the ready line contains the address");
        Self { process, address }
    }

    /// Returns the address of its listener.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Asks the worker to stop (SIGTERM). Returns the lines that it has printed about jobs.
    ///
    /// # Panics
    ///
    /// If the signal cannot be sent.
    pub fn stop_and_read(self) -> String {
        self.process.stop().2
    }

    /// Asks the worker to stop (SIGTERM). Returns its exit code and how long it took to end.
    ///
    /// # Panics
    ///
    /// If the signal cannot be sent.
    pub fn stop(self) -> (Option<i32>, Duration) {
        let (code, took, _) = self.process.stop();
        (code, took)
    }
}

impl Process {
    fn start(command: &mut Command, log_path: &Path) -> (Self, Ready) {
        let log = std::fs::File::create(log_path).expect("the log can be opened");
        let mut child = command
            .envs([secrets::VARIABLE])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("host starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let ready = read_ready(&mut stdout).unwrap_or_else(|| {
            let log = std::fs::read_to_string(log_path).unwrap_or_default();
            panic!("the worker ended before it was ready:\n{log}")
        });
        let log_path = log_path.to_owned();
        let process = Self {
            child,
            stdout,
            log_path,
        };
        (process, ready)
    }

    /// Returns the exit code, how long it took to end, and what it has printed since it was ready.
    fn stop(mut self) -> (Option<i32>, Duration, String) {
        let start = Instant::now();
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("the signal can be sent");
        let code = self.child.wait().expect("the process ends").code();
        let took = start.elapsed();
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("UTF-8");
        let is_document = |line: &str| line.starts_with('{') && line.ends_with('}');
        // The last one may be cut, because the output of a worker that ends is not read.
        let whole = rest.rfind('\n').map_or("", |end| &rest[..end]);
        assert!(
            whole.lines().all(is_document),
            "stdout contains more than the ready line and documents: {rest}"
        );
        (code, took, rest)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !std::thread::panicking() {
            let log = std::fs::read(&self.log_path).unwrap_or_default();
            assert!(!secrets::has_secret(&log), "its log has a secret");
        }
    }
}
