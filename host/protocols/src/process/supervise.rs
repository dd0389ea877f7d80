//! One life of one process: started, listened to, ended with its whole group.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use thiserror::Error;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::Output;
use super::launcher::Launcher;
use super::lines::read_lines;

/// How long the last lines may take to arrive after the end of their process.
const LAST_LINES_TIME: Duration = Duration::from_millis(200);

/// How many requests to stop one process may wait.
const STOPS_MAX: usize = 4;

/// What is started, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments; at least the program.
    pub command: Vec<String>,
    /// Its whole environment: nothing else is inherited.
    pub env: BTreeMap<String, String>,
    /// The folder it runs in; the host's own if there is none.
    pub cwd: Option<PathBuf>,
}

/// Hears what one process does, in order. No call may block.
pub trait ProcessEvents: Send + Sync {
    /// It runs.
    fn started(&self, pid: Option<u32>);

    /// It wrote a line, at most [`super::LINE_BYTES_MAX`] bytes of it.
    fn wrote(&self, output: Output, line: &str);
}

/// Why the end of a process is not known.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// It was never started.
    #[error("cannot start {program:?}: {source}")]
    Start {
        /// The program's name.
        program: String,
        /// What the system says.
        source: io::Error,
    },
    /// It was started, and how it ended cannot be read.
    #[error("cannot read how the process ended: {0}")]
    Status(io::Error),
}

/// Stops one process. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Stop(mpsc::Sender<Duration>);

/// The requests to stop a process.
#[derive(Debug)]
pub struct StopRequests(mpsc::Receiver<Duration>);

impl Stop {
    /// Makes both ends.
    pub fn channel() -> (Self, StopRequests) {
        let (sender, receiver) = mpsc::channel(STOPS_MAX);
        (Self(sender), StopRequests(receiver))
    }

    /// Asks the process to end (SIGTERM), and kills its group after `grace`. A repeated call can
    /// only shorten the grace. Does nothing once the process has ended. Never waits.
    pub fn stop(&self, grace: Duration) {
        // A full queue asks for the same already.
        let _full = self.0.try_send(grace);
    }
}

/// Starts `program` and stays with it until it has ended; then nothing of its process group is
/// left. Dropped, it kills the group. Returns how it ended.
pub async fn supervise(
    launcher: &Launcher,
    program: &Program,
    events: &impl ProcessEvents,
    mut stops: StopRequests,
) -> Result<ExitStatus, ProcessError> {
    let not_started = |source| ProcessError::Start {
        program: program.command.first().cloned().unwrap_or_default(),
        source,
    };
    let command = command(program).map_err(not_started)?;
    let child = launcher.launch(command).await.map_err(not_started)?;
    stay(child, events, &mut stops).await
}

fn command(program: &Program) -> io::Result<Command> {
    let Some((name, arguments)) = program.command.split_first() else {
        return Err(io::Error::other("the command is empty"));
    };
    let mut command = Command::new(name);
    command
        .args(arguments)
        .env_clear()
        .envs(&program.env)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(cwd) = &program.cwd {
        command.current_dir(cwd);
    }
    Ok(command)
}

/// Kills what is left of a process group, also when the task is dropped.
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.0 {
            // It may be gone already.
            let _gone = kill_process_group(pid, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

async fn stay(
    mut child: Child,
    events: &impl ProcessEvents,
    stops: &mut StopRequests,
) -> Result<ExitStatus, ProcessError> {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    let group = Group(pid.and_then(Pid::from_raw));
    events.started(child.id());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut output = Box::pin(async {
        tokio::join!(
            read_lines(stdout, |line| events.wrote(Output::Stdout, line)),
            read_lines(stderr, |line| events.wrote(Output::Stderr, line)),
        )
    });
    let mut is_read = false;
    let mut kill_at: Option<Instant> = None;
    let status = loop {
        let due = kill_at.unwrap_or_else(Instant::now);
        tokio::select! {
            status = child.wait() => break status,
            Some(grace) = stops.0.recv() => {
                group.signal(Signal::TERM);
                let at = Instant::now() + grace;
                kill_at = Some(kill_at.map_or(at, |earlier| earlier.min(at)));
            }
            () = sleep_until(due), if kill_at.is_some() => {
                group.signal(Signal::KILL);
                break child.wait().await;
            }
            _ = &mut output, if !is_read => is_read = true,
        }
    };
    // What it started and left behind may hold what the next one needs.
    drop(group);
    if !is_read {
        let _cut = timeout(LAST_LINES_TIME, output).await;
    }
    status.map_err(ProcessError::Status)
}
