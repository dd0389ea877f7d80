//! RRQ's own producer, in a Python process that enqueues jobs for the tests.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use serde_json::{Value, json};

const PROGRAM: &str = include_str!("enqueue.py");

/// A running producer. It ends when its input is closed.
pub(crate) struct Producer {
    pipes: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
    child: Child,
}

impl Producer {
    /// Starts the producer of the release in `folder` with RRQ's configuration file.
    pub(crate) fn start(folder: &Path, config: &Path) -> Self {
        let mut child = Command::new(folder.join("bin").join("python"))
            .args(["-c", PROGRAM])
            .arg(config)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts");
        let pipes = (
            child.stdin.take().unwrap(),
            BufReader::new(child.stdout.take().unwrap()),
        );
        Self {
            pipes: Mutex::new(pipes),
            child,
        }
    }

    /// Enqueues a job and returns its id; `options` are those of the producer.
    pub(crate) fn enqueue(&self, function: &str, options: &Value) -> String {
        let mut pipes = self.pipes.lock().unwrap();
        let (stdin, stdout) = &mut *pipes;
        let job = json!({"function": function, "options": options});
        writeln!(stdin, "{job}").expect("the producer reads");
        let mut id = String::new();
        stdout.read_line(&mut id).expect("the producer answers");
        assert!(!id.is_empty(), "the producer refused {job}");
        id.trim().to_owned()
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
