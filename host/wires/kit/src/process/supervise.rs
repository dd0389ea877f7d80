//! Runs one process: starts it, reads its output, and ends it with its whole process group or tree.

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
use super::supervisor::{self, Orders};

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
        let _ = self.0.try_send(grace);
    }
}

/// Starts `program`, waits until it has ended, and kills what is left of its process group or tree. Returns
/// how the process ended. If dropped, kills all of it.
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
    let mut command = command(launcher, program).map_err(not_started)?;
    let orders = if launcher.supervisor.is_empty() {
        None
    } else {
        let (ours, theirs) = Orders::pair().map_err(not_started)?;
        // The supervisor ends by itself when it has ended the tree.
        command.stdin(theirs).kill_on_drop(false);
        Some(ours)
    };
    let mut child = launcher.launch(command).await.map_err(not_started)?;
    let pipes = Arc::new(Pipes::take(&mut child).map_err(not_started)?);
    let pid = match &orders {
        Some(orders) => Some(orders.started().await.map_err(not_started)?),
        None => child.id(),
    };
    let tree = match orders {
        Some(orders) => Tree::Supervised(orders),
        None => Tree::Group(pid.and_then(|pid| Pid::from_raw(pid.cast_signed()))),
    };
    events.started(pid, Arc::clone(&pipes));
    stay(child, tree, pipes, events, &mut stops).await
}

fn command(launcher: &Launcher, program: &Program) -> io::Result<Command> {
    if program.command.is_empty() {
        return Err(io::Error::other("the command is empty"));
    }
    let supervisor = launcher.supervisor.iter().copied();
    let mut arguments = supervisor.chain(program.command.iter().map(String::as_str));
    let name = arguments.next().unwrap_or_default();
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

/// What is left of a process and those that it started. Dropped, it is killed.
enum Tree {
    Group(Option<Pid>),
    Supervised(Orders),
}

impl Tree {
    fn terminate(&self) {
        match self {
            Self::Group(pid) => signal(*pid, Signal::TERM),
            Self::Supervised(orders) => orders.give(supervisor::TERMINATE),
        }
    }

    fn kill(&self) {
        match self {
            Self::Group(pid) => signal(*pid, Signal::KILL),
            Self::Supervised(orders) => orders.give(supervisor::KILL),
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.kill();
    }
}

fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(pid) = group {
        // The group may be gone already.
        let _ = kill_process_group(pid, signal);
    }
}

async fn stay(
    mut child: Child,
    tree: Tree,
    pipes: Arc<Pipes>,
    events: &impl ProcessEvents,
    stops: &mut StopRequests,
) -> Result<ExitStatus, ProcessError> {
    let mut output = Box::pin(pipes.read_to_end(|output, line| events.wrote(output, line)));
    let mut is_read = false;
    let mut kill_at: Option<Instant> = None;
    let status = loop {
        let due = kill_at.unwrap_or_else(Instant::now);
        tokio::select! {
            status = child.wait() => break status,
            Some(grace) = stops.0.recv() => {
                tree.terminate();
                let at = Instant::now() + grace;
                kill_at = Some(kill_at.map_or(at, |earlier| earlier.min(at)));
            }
            () = sleep_until(due), if kill_at.is_some() => {
                tree.kill();
                break child.wait().await;
            }
            () = &mut output, if !is_read => is_read = true,
        }
    };
    // Processes that it left behind may hold what the next process needs, such as a port.
    drop(tree);
    if !is_read {
        let _ = timeout(LAST_LINES_TIME, output).await;
    }
    status.map_err(ProcessError::Status)
}
