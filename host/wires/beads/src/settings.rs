//! `[protocol.beads]`: the socket of the orchestrator role and its limits, and the worker role with the
//! options of `host worker beads`.

#[cfg(test)]
mod tests;
mod worker;

use std::path::PathBuf;

use host_core::name::Name;
use host_wire_kit::driver::CONNECTIONS_MAX;
use host_wire_kit::section::{ConfigError, Section, refused};
use host_wire_kit::settings::WorkerFlag;
use host_wire_kit::{inherited_variables, settings};

pub(super) use self::worker::WorkerConfig;
use super::EXECUTOR;

/// The table that turns the orchestrator role on.
const TABLE: &str = "protocol.beads";

/// Where the document puts the socket.
const SOCKET_DEFAULT: &str = "/tmp/beads-workers-{PID}.sock";

/// Stands in a path for the pid of the host.
const PID: &str = "{PID}";

/// The variables that the program gets besides those of all programs: where its tasks are.
macro_rules! own_variables {
    () => {
        "PWD, BEADS_DIR, BEADS_DB"
    };
}
use own_variables;

settings! {
    pub(super) SETTINGS:
    SOCKET = "protocol.beads.socket" ["beads-socket"], Text("PATH"), "off; with the table, /tmp/beads-workers-{PID}.sock",
        "Where beads workers connect: the path of a Unix socket, in which `{PID}` is the host's, or `off`. An empty table `[protocol.beads]` turns it on";
    MAX_WORKERS = "protocol.beads.max_workers", Number("N", 1, CONNECTIONS_MAX as u64), "256",
        "How many beads workers may be connected; further ones are closed at once";
    WAIT = "protocol.beads.wait_seconds", Number("SECONDS", 1, 3_600), "1",
        "How long a beads worker must wait if there is no task, in seconds. The public one reads nothing while it waits";
    HOLD = "protocol.beads.hold_seconds", Seconds(20), "20",
        "How long a beads worker's READY stays unanswered while there is no task, in seconds; then it gets \
         WAIT. A worker that waits gets no task before it asks again";
    WORKER_SOCKET = "protocol.beads.worker.socket", Text("PATH"), "none",
        "The Unix socket of a beads orchestrator whose tasks this host executes";
    WORKER_HANDLER = "protocol.beads.worker.handler", Text("NAME"), "none",
        "The handler that executes each task, with the params `issue_id`, `title` and `priority`";
    WORKER_ID = "protocol.beads.worker.worker_id", Text("ID"), "W1",
        "The name of the first worker, 1 to 64 characters; the others count up from the number at its end";
    WORKER_CONCURRENCY = "protocol.beads.worker.concurrency", Number("N", 1, 256), "1",
        "How many workers there are, each with a connection and a task of its own";
    WORKER_FRAMED = "protocol.beads.worker.framed", Switch, "false",
        "Whether to begin in the framed dialect instead of JSON lines";
    WORKER_BD = "protocol.beads.worker.bd", Text("PATH"), "none",
        concat!(
            "A program that is called as `update ID --status=in_progress`, `close ID` and `update ID --status=open`, each for at most 30 s. Of the host's variables it gets only ",
            inherited_variables!(),
            ", ",
            own_variables!(),
        );
}

/// The options of `host worker beads`.
pub(super) const FLAGS: &[WorkerFlag] = &[
    WorkerFlag::new("socket", WORKER_SOCKET).about("The Unix socket of the orchestrator").required(),
    WorkerFlag::new("handler", WORKER_HANDLER).required(),
    WorkerFlag::new("worker-id", WORKER_ID),
    WorkerFlag::new("concurrency", WORKER_CONCURRENCY),
    WorkerFlag::new("bd", WORKER_BD).about("A program that is called when a task begins, is done, or has failed: `update ID --status=in_progress`, `close ID`, `update ID --status=open`"),
    WorkerFlag::new("framed", WORKER_FRAMED).about("Begin in the framed dialect instead of JSON lines"),
];

/// The checked section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BeadsConfig {
    /// The orchestrator role; `None` if it is off.
    pub(super) orchestrator: Option<OrchestratorConfig>,
    /// The worker role; `None` if it is off.
    pub(super) worker: Option<WorkerConfig>,
}

/// The orchestrator role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OrchestratorConfig {
    pub(super) executor: Name,
    /// The path as it is configured.
    pub(super) socket: String,
    pub(super) workers_max: usize,
    pub(super) wait_seconds: u64,
    pub(super) hold_ms: u64,
}

impl OrchestratorConfig {
    /// Returns the path of the socket of the process `pid`.
    pub(super) fn path(&self, pid: u32) -> PathBuf {
        PathBuf::from(self.socket.replace(PID, &pid.to_string()))
    }
}

impl BeadsConfig {
    /// Reads the section.
    pub(super) fn read(section: &Section<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            orchestrator: orchestrator(section)?,
            worker: WorkerConfig::read(section)?,
        })
    }
}

fn orchestrator(section: &Section<'_>) -> Result<Option<OrchestratorConfig>, ConfigError> {
    let workers_max = section.count(&MAX_WORKERS)?;
    let wait_seconds = section.number(&WAIT)?;
    let hold_ms = section.milliseconds(&HOLD)?;
    let socket = match section.find(&SOCKET) {
        Some((_, "off")) => return Ok(None),
        Some((origin, "")) => return Err(refused(origin, "", "expected a path or `off`")),
        Some((_, path)) => path,
        None if section.has_table(TABLE) => SOCKET_DEFAULT,
        None => return Ok(None),
    };
    let Ok(executor) = EXECUTOR.parse() else {
        return Ok(None);
    };
    Ok(Some(OrchestratorConfig {
        executor,
        socket: socket.to_owned(),
        workers_max,
        wait_seconds,
        hold_ms,
    }))
}
