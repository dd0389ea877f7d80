//! The `DevTools` protocol of Chromium on two pipes: messages in JSON, each ended by a zero byte.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Debian's Chromium without windows.
const PROGRAM: &str = "chromium-headless-shell";

/// How many messages of the browser may wait to be read.
const MESSAGES_MAX: usize = 10_000;

/// The browser's process, which ends with this.
pub(super) struct Protocol {
    process: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    events: VecDeque<Value>,
    last: u64,
    session: Option<String>,
    _profile: TempDir,
}

impl Protocol {
    /// Starts the browser with one tab.
    pub(super) fn start() -> Self {
        let profile = TempDir::new().expect("a folder for the browser");
        // It expects the pipes as 3 and 4.
        let script = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;
        let mut command = Command::new("sh");
        command.args(["-c", script, PROGRAM, "--remote-debugging-pipe"]);
        command.args([
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ]);
        command.args([
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
        ]);
        command.args(["--force-color-profile=srgb", "--font-render-hinting=none"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh starts");
        let input = process.stdin.take().expect("a pipe");
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        let (send, messages) = sync_channel(MESSAGES_MAX);
        std::thread::spawn(move || {
            for message in output.split(0) {
                let message = message.ok().and_then(|it| serde_json::from_slice(&it).ok());
                let Some(message) = message else { return };
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        let mut protocol = Self {
            process,
            input,
            messages,
            events: VecDeque::new(),
            last: 0,
            session: None,
            _profile: profile,
        };
        protocol.attach();
        protocol
    }

    fn attach(&mut self) {
        const BOUND: Duration = Duration::from_mins(2);
        let missing = "Chromium answers; without it, run `cargo xtask test peers` first";
        let blank = json!({"url": "about:blank"});
        let tab = self
            .ask("Target.createTarget", &blank, BOUND)
            .expect(missing);
        let attach = json!({"targetId": tab["targetId"], "flatten": true});
        let session = self
            .ask("Target.attachToTarget", &attach, BOUND)
            .expect(missing);
        self.session = session["sessionId"].as_str().map(str::to_owned);
    }

    /// Asks for something and waits for the answer. Events that come before it are kept.
    pub(super) fn ask(
        &mut self,
        method: &str,
        params: &Value,
        bound: Duration,
    ) -> Result<Value, Value> {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let text = format!("{message}\0");
        let sent = self.input.write_all(text.as_bytes());
        sent.map_err(|error| json!(format!("Chromium does not listen: {error}")))?;
        let end = Instant::now() + bound;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let mut message = self
                .messages
                .recv_timeout(left)
                .map_err(|error| json!(format!("Chromium does not answer {method}: {error}")))?;
            if message["id"] != self.last {
                self.events.push_back(message);
            } else if message.get("error").is_some() {
                return Err(message["error"].take());
            } else {
                return Ok(message["result"].take());
            }
        }
    }

    /// Returns the next event, once there is one.
    pub(super) fn event(&mut self, bound: Duration) -> Option<Value> {
        let kept = self.events.pop_front();
        kept.or_else(|| self.messages.recv_timeout(bound).ok())
    }
}

impl Drop for Protocol {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.process.id())
            .ok()
            .and_then(Pid::from_raw)
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.process.wait();
    }
}
