//! A beads worker that sends and receives lines, and workers written in Bash.

#![expect(
    clippy::missing_panics_doc,
    reason = "every function panics if the host does not behave as expected"
)]

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// How long a worker waits for a message.
const WAIT_MAX: Duration = Duration::from_mins(3);

/// One connection of a worker.
pub struct BeadsWorker {
    stream: BufReader<UnixStream>,
    id: String,
}

impl BeadsWorker {
    /// Connects to an orchestrator. Returns an error if nothing listens.
    pub fn connect(path: &Path, id: &str) -> std::io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(WAIT_MAX))?;
        Ok(Self {
            stream: BufReader::new(stream),
            id: id.to_owned(),
        })
    }

    /// Sends a line. Does nothing if the orchestrator is gone.
    pub fn send_line(&mut self, line: &str) {
        let _ = self
            .stream
            .get_mut()
            .write_all(format!("{line}\n").as_bytes());
    }

    /// Reports that this worker is ready.
    pub fn ready(&mut self) {
        let ready = json!({"type": "READY", "worker_id": self.id, "timestamp": 1.5});
        self.send_line(&ready.to_string());
    }

    /// Reports that a task is done.
    pub fn done(&mut self, task: &Value) {
        let done = json!({"type": "DONE", "worker_id": self.id, "timestamp": 1.5, "issue_id": task["issue_id"], "duration_ms": 7});
        self.send_line(&done.to_string());
    }

    /// Returns the next message, or `None` at the end of the connection.
    pub fn message(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).expect("a line is JSON")),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("no message within {WAIT_MAX:?}")
            }
            Err(_) => None,
        }
    }

    /// Returns whether nothing arrives for this long.
    pub fn receives_nothing_for(&mut self, time: Duration) -> bool {
        let stream = self.stream.get_ref();
        stream.set_read_timeout(Some(time)).expect("a time limit");
        let received = self.stream.fill_buf().map(<[u8]>::len);
        let stream = self.stream.get_ref();
        stream
            .set_read_timeout(Some(WAIT_MAX))
            .expect("a time limit");
        received.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// Asks until there is a task, and returns it.
    pub fn task(&mut self) -> Value {
        loop {
            self.ready();
            let message = self.message().expect("the orchestrator answers");
            if message["type"] == "TASK" {
                return message;
            }
            assert_eq!(message["type"], "WAIT", "{message}");
        }
    }

    /// Returns a handle that ends the connection from another thread.
    pub fn ender(&self) -> impl FnOnce() + Send + use<> {
        let stream = self.stream.get_ref().try_clone().expect("a handle");
        move || drop(stream.shutdown(Shutdown::Both))
    }
}

/// A program behind `socat`. It is killed when dropped.
pub struct Socat(pub Child);

impl Socat {
    /// Connects a Bash script to the orchestrator at `path`, as a worker that logs its work to the file
    /// `witness`.
    pub fn worker(path: &Path, script: &Path, id: &str, witness: &Path) -> Self {
        let child = Command::new("socat")
            .arg(format!("UNIX-CONNECT:{}", path.display()))
            .arg(format!("EXEC:bash {} {id}", script.display()))
            .env("WITNESS", witness)
            .stdin(Stdio::null())
            .spawn()
            .expect("socat starts; `cargo xtask test e2e` installs it");
        Self(child)
    }

    /// Listens at `path`, and runs a Bash script for each worker that connects. The script logs what it
    /// receives to the file `witness`.
    pub fn orchestrator(path: &Path, script: &Path, witness: &Path) -> Self {
        let child = Command::new("socat")
            .arg(format!("UNIX-LISTEN:{},fork,mode=600", path.display()))
            .arg(format!("EXEC:bash {}", script.display()))
            .env("WITNESS", witness)
            .stdin(Stdio::null())
            .spawn()
            .expect("socat starts; `cargo xtask test e2e` installs it");
        Self(child)
    }

    /// Waits until it has ended, and returns its exit code.
    pub fn wait(mut self) -> Option<i32> {
        self.0.wait().expect("it ends").code()
    }
}

impl Drop for Socat {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
