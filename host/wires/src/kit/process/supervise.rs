//! Runs one process: starts it, reads its output, and ends it with its whole process group.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use thiserror::Error;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::Output;
use super::launcher::Launcher;
use super::output::Pipes;

/// How long to wait for the last lines after the process has ended.
const LAST_LINES_TIME: Duration = Duration::from_millis(200);

/// How many stop requests for one process may wait.
const STOPS_MAX: usize = 4;

/// What to start, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments. Never empty.
    pub command: Vec<String>,
    /// The whole environment of the process: it inherits nothing else.
    pub env: BTreeMap<String, String>,
    /// The folder the process runs in; the host's own folder if `None`.
    pub cwd: Option<PathBuf>,
}

/// Receives what one process does, in order. No call may block.
pub trait ProcessEvents: Send + Sync {
    /// The process was started. What it writes can be read from `pipes` before it is passed on.
    fn started(&self, pid: Option<u32>, pipes: Arc<Pipes>);

    /// The process wrote a line. At most [`super::LINE_BYTES_MAX`] bytes of it are passed on.
    fn wrote(&self, output: Output, line: &str);
}

/// Why the end of a process is unknown.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// The process could not be started.
    #[error("cannot start {program:?}: {source}")]
    Start { program: String, source: io::Error },
    /// The process was started, but its exit status cannot be read.
    #[error("cannot read how the process ended: {0}")]
    Status(io::Error),
}

/// Stops one process. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Stop(mpsc::Sender<Duration>);

/// The receiving end of the stop requests for a process.
#[derive(Debug)]
pub struct StopRequests(mpsc::Receiver<Duration>);

impl Stop {
    pub fn channel() -> (Self, StopRequests) {
        let (sender, receiver) = mpsc::channel(STOPS_MAX);
        (Self(sender), StopRequests(receiver))
    }

    /// Asks the process to end with SIGTERM, and kills its group after `grace`. Another call can
    /// only shorten the grace. Does nothing if the process has ended. Never waits.
    pub fn stop(&self, grace: Duration) {
        // If the queue is full, a stop has been requested already.
        let _full = self.0.try_send(grace);
    }
}

/// Starts `program`, waits until it has ended, and kills what is left of its process group. Returns
/// how the process ended. If dropped, kills the group.
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
    let mut child = launcher.launch(command).await.map_err(not_started)?;
    let pipes = Arc::new(Pipes::take(&mut child).map_err(not_started)?);
    stay(child, pipes, events, &mut stops).await
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

/// Kills the rest of a process group, even if the task is dropped.
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.0 {
            // The group may be gone already.
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
    pipes: Arc<Pipes>,
    events: &impl ProcessEvents,
    stops: &mut StopRequests,
) -> Result<ExitStatus, ProcessError> {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    let group = Group(pid.and_then(Pid::from_raw));
    events.started(child.id(), Arc::clone(&pipes));
    let mut output = Box::pin(pipes.read_to_end(|output, line| events.wrote(output, line)));
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
            () = &mut output, if !is_read => is_read = true,
        }
    };
    // Processes that it left behind may hold what the next process needs, such as a port.
    drop(group);
    if !is_read {
        let _cut = timeout(LAST_LINES_TIME, output).await;
    }
    status.map_err(ProcessError::Status)
}
