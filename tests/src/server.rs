//! The real `host serve` as a child process.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::Client;
use crate::guests::programs;
use crate::processes;

/// How a host is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its data directory; kept from one start to the next.
    pub data: PathBuf,
    /// A folder of components to deploy at start.
    pub handlers: Option<PathBuf>,
    /// More arguments of `host serve`.
    pub args: Vec<String>,
}

/// A running host; it is killed when this is dropped.
pub struct Server {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    address: String,
    rrq_address: String,
}

impl Options {
    /// Starts a host on `data` without components.
    pub fn new(data: &Path) -> Self {
        Self {
            data: data.to_owned(),
            handlers: None,
            args: Vec::new(),
        }
    }

    /// Deploys all components of `folder` at start.
    #[must_use]
    pub fn handlers(mut self, folder: &Path) -> Self {
        self.handlers = Some(folder.to_owned());
        self
    }
}

impl Server {
    /// Starts a host on a free port and waits until it is ready.
    ///
    /// # Panics
    ///
    /// If it ends before it is ready; what it wrote is in `serve.log` in its data directory.
    pub fn start(options: &Options) -> Self {
        std::fs::create_dir_all(&options.data).expect("the data directory can be made");
        let log_path = options.data.join("serve.log");
        let log = File::options()
            .create(true)
            .append(true)
            .open(&log_path)
            .expect("the log can be opened");
        let mut command = Command::new(host());
        command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(["--rrq-listen", "127.0.0.1:0", "--data"])
            .arg(&options.data)
            .args(&options.args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        if let Some(handlers) = &options.handlers {
            command.arg("--handlers").arg(handlers);
        }
        let mut child = command.spawn().expect("host starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let ready = read_ready(&mut stdout).unwrap_or_else(|| {
            let log = std::fs::read_to_string(&log_path).unwrap_or_default();
            panic!("host ended before it was ready:\n{log}")
        });
        Self {
            child,
            _stdout: stdout,
            address: ready.http.expect("it listens for HTTP"),
            rrq_address: ready.rrq.unwrap_or_default(),
        }
    }

    /// Returns a client of this host.
    pub fn client(&self) -> Client {
        Client::new(&self.address)
    }

    /// Returns where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns where it listens for RRQ; empty if it does not.
    pub fn rrq_address(&self) -> &str {
        &self.rrq_address
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it without giving it a moment.
    ///
    /// # Panics
    ///
    /// If it cannot be killed.
    pub fn kill(mut self) {
        self.child.kill().expect("host can be killed");
        self.child.wait().expect("host ends");
    }

    /// Asks it to stop and returns its exit code.
    ///
    /// # Panics
    ///
    /// If it cannot be asked.
    pub fn stop(self) -> Option<i32> {
        self.ask_to_stop();
        self.ended()
    }

    /// Asks it to stop.
    ///
    /// # Panics
    ///
    /// If it cannot be asked.
    pub fn ask_to_stop(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).expect("host can be asked to stop");
    }

    /// Waits for its end and returns its exit code.
    ///
    /// # Panics
    ///
    /// If it cannot be waited for.
    pub fn ended(mut self) -> Option<i32> {
        self.child.wait().expect("host ends").code()
    }

    /// Returns how much memory its process has resident, in bytes.
    ///
    /// # Panics
    ///
    /// If it has ended.
    pub fn resident_bytes(&self) -> u64 {
        processes::resident_bytes(self.pid())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the program under test.
///
/// # Panics
///
/// If it has not been built, with the command that builds it.
pub fn host() -> PathBuf {
    let path = programs().join("host");
    assert!(
        path.exists(),
        "{} is missing: run `cargo build --package host` first",
        path.display()
    );
    path
}

/// Where a program of ours says that it listens.
pub(crate) struct Ready {
    pub(crate) http: Option<String>,
    pub(crate) rrq: Option<String>,
    pub(crate) hero: Option<String>,
}

/// Reads `ready http=ADDR rrq=ADDR`; `None` if the stream ends before it.
pub(crate) fn read_ready(stdout: &mut impl BufRead) -> Option<Ready> {
    let mut line = String::new();
    while stdout.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        if let Some(ready) = line.trim().strip_prefix("ready ") {
            let address = |name| {
                let found = ready.split(' ').find_map(|word| word.strip_prefix(name));
                found.map(str::to_owned)
            };
            return Some(Ready {
                http: address("http="),
                rrq: address("rrq="),
                hero: address("hero="),
            });
        }
        line.clear();
    }
    None
}
