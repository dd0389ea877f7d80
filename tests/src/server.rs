//! The real `host serve` as a child process.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::Client;
use crate::guests::programs;
use crate::{compiled, postgres, processes, secrets};

/// The options of a host.
#[derive(Clone, Debug)]
pub struct Options {
    /// Another program than the one that was built here.
    pub program: Option<PathBuf>,
    /// The data directory. It is kept between starts.
    pub data: PathBuf,
    /// A folder of components to deploy at start.
    pub handlers: Option<PathBuf>,
    /// The address for HTTP; port 0 takes a free one.
    pub listen: String,
    /// More arguments of `host serve`.
    pub args: Vec<String>,
    /// More variables of its environment.
    pub env: Vec<(String, String)>,
    /// Whether it gets its process id from a supervisor, so that it reports that it is alive.
    pub supervised: bool,
    /// Whether it compiles all components itself, even those that another host in tests has compiled.
    pub compiles_all: bool,
    /// Prepares its process before it executes the program.
    pub prepare: fn(&mut Command),
}

/// A running host. It is killed when dropped, and its output is searched for planted secrets.
///
/// # Panics
///
/// When dropped, if it wrote a secret.
pub struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    data: PathBuf,
    address: String,
    rrq_address: String,
    arco_address: Option<String>,
    words: Vec<(String, String)>,
}

impl Options {
    /// Returns options for a host with the data directory `data` and no components.
    pub fn new(data: &Path) -> Self {
        Self {
            program: None,
            data: data.to_owned(),
            handlers: None,
            listen: "127.0.0.1:0".to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            supervised: false,
            compiles_all: false,
            prepare: |_| {},
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
    /// If the host ends before it is ready. Its output is in `serve.log` in its data directory.
    pub fn start(options: &Options) -> Self {
        Self::try_start(options)
            .unwrap_or_else(|log| panic!("host ended before it was ready:\n{log}"))
    }

    /// Starts a host that may fail to start. Returns its output if it ends before it is ready.
    ///
    /// # Panics
    ///
    /// If its data directory cannot be made.
    pub fn try_start(options: &Options) -> Result<Self, String> {
        std::fs::create_dir_all(&options.data).expect("the data directory can be made");
        if !options.compiles_all {
            compiled::give_key(&options.data);
        }
        let log_path = options.data.join("serve.log");
        let log = File::options()
            .create(true)
            .append(true)
            .open(&log_path)
            .expect("the log can be opened");
        let program = options.program.clone().unwrap_or_else(host);
        let mut command = Command::new(&program);
        if options.supervised {
            command = Command::new("sh");
            command.args(["-c", "WATCHDOG_PID=$$ exec \"$0\" \"$@\""]);
            command.arg(&program);
        }
        command
            .args(["serve", "--listen", &options.listen])
            .args(["--rrq-listen", "127.0.0.1:0", "--data"])
            .arg(&options.data)
            .args(&options.args)
            .envs([secrets::VARIABLE])
            .envs(stored(&options.data))
            .envs(options.env.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        if let Some(handlers) = &options.handlers {
            command.arg("--handlers").arg(handlers);
            if !options.data.join("host.db").exists() {
                // Compiled components without a store beside them look like a lost store.
                compiled::give(&options.data);
                command.arg("--fresh");
            }
        }
        (options.prepare)(&mut command);
        let mut child = command.spawn().expect("host starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let Some(ready) = read_ready(&mut stdout) else {
            child.wait().expect("host ends");
            return Err(std::fs::read_to_string(&log_path).unwrap_or_default());
        };
        compiled::give(&options.data);
        Ok(Self {
            child,
            stdout,
            data: options.data.clone(),
            address: ready.http.expect("the host listens for HTTP"),
            rrq_address: ready.rrq.unwrap_or_default(),
            arco_address: ready.arco,
            words: ready.words,
        })
    }

    /// Returns whether the host has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !self.child.try_wait().is_ok_and(|ended| ended.is_none())
    }

    /// Returns a client of this host.
    pub fn client(&self) -> Client {
        Client::new(&self.address)
    }

    /// Returns the address of its HTTP listener.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the address of the listener that serves only this.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn listener(&self, serves: &str) -> &str {
        let mut words = self.words.iter();
        let found = words.find(|(name, _)| name == serves);
        &found.expect("the host has this listener").1
    }

    /// Returns the address of its RRQ listener; empty if it has none.
    pub fn rrq_address(&self) -> &str {
        &self.rrq_address
    }

    /// Returns the address of its Arco worker, if it has one.
    pub fn arco_address(&self) -> Option<&str> {
        self.arco_address.as_deref()
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the host with SIGKILL.
    ///
    /// # Panics
    ///
    /// If the host cannot be killed.
    pub fn kill(mut self) {
        self.child.kill().expect("host can be killed");
        self.child.wait().expect("host ends");
    }

    /// Asks the host to stop, waits for its end, and returns its exit code.
    ///
    /// # Panics
    ///
    /// If the signal cannot be sent.
    pub fn stop(self) -> Option<i32> {
        self.ask_to_stop();
        self.wait()
    }

    /// Asks the host to stop (SIGTERM).
    ///
    /// # Panics
    ///
    /// If the signal cannot be sent.
    pub fn ask_to_stop(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).expect("host can be asked to stop");
    }

    /// Waits until the host has ended, and returns its exit code.
    ///
    /// # Panics
    ///
    /// If waiting fails.
    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().expect("host ends").code()
    }

    /// Returns the resident memory of its process, in bytes.
    ///
    /// # Panics
    ///
    /// If the host has ended.
    pub fn resident_bytes(&self) -> u64 {
        processes::resident_bytes(self.pid())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let is_alive = self.child.try_wait().is_ok_and(|ended| ended.is_none());
        let page = is_alive.then(|| secrets::found_at(&self.address)).flatten();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            return;
        }
        compiled::keep(&self.data);
        assert_eq!(page, None, "a page has a secret");
        let mut message = Vec::new();
        let _ = self.stdout.read_to_end(&mut message);
        assert!(!secrets::has_secret(&message), "its output has a secret");
        let file = secrets::found_in(&self.data);
        assert_eq!(file, None, "a file has a secret");
    }
}

/// Returns the variables of a host with the store that `HOST_TEST_STORE` selects: in the data directory, or
/// with `postgres` in a schema that belongs to that directory.
fn stored(data: &Path) -> Vec<(&'static str, String)> {
    match std::env::var("HOST_TEST_STORE").as_deref() {
        Ok("postgres") => {}
        Ok(other) => panic!("HOST_TEST_STORE: expected postgres or nothing, got {other}"),
        Err(_) => return Vec::new(),
    }
    let name = data.to_string_lossy().to_lowercase();
    let schema: String = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    vec![
        ("HOST_STORE_URL", postgres::schema(&schema)),
        ("HOST_STORE_ALLOW_UNSAFE", "true".to_owned()),
    ]
}

/// Returns the program under test.
///
/// # Panics
///
/// If it has not been built. The message names the command that builds it.
pub fn host() -> PathBuf {
    let path = programs().join("host");
    assert!(
        path.exists(),
        "{} is missing: run `cargo build --bin host` first",
        path.display()
    );
    path
}

/// The addresses in the `ready` line of a host or worker.
pub(crate) struct Ready {
    pub(crate) http: Option<String>,
    pub(crate) rrq: Option<String>,
    pub(crate) hero: Option<String>,
    pub(crate) arco: Option<String>,
    /// Everything in the line.
    pub(crate) words: Vec<(String, String)>,
}

/// Reads the line `ready http=ADDR rrq=ADDR`. Returns `None` if the stream ends before it.
pub(crate) fn read_ready(stdout: &mut impl BufRead) -> Option<Ready> {
    let mut line = String::new();
    while stdout.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        if let Some(ready) = line.trim().strip_prefix("ready ") {
            let words: Vec<(String, String)> = ready
                .split(' ')
                .filter_map(|word| word.split_once('='))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            let address = |name| {
                let found = words.iter().find(|(word, _)| word == name);
                found.map(|(_, value)| value.clone())
            };
            return Some(Ready {
                http: address("http"),
                rrq: address("rrq"),
                hero: address("hero"),
                arco: address("arco"),
                words,
            });
        }
        line.clear();
    }
    None
}
