//! `[protocol.beads]`: the socket of the orchestrator role and its limits, and the worker role with the
//! options of `host worker beads`.

#[cfg(test)]
mod tests;
mod worker;

use std::path::PathBuf;

use host_core::name::Name;
use host_wire_kit::driver::CONNECTIONS_MAX;
use host_wire_kit::section::{At, ConfigError, Number, Seconds, Section};
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
    pub(super) struct Keys "protocol.beads." {
        /// Where beads workers connect: the path of a Unix socket, in which `{PID}` is the host's, or `off`. An empty table `[protocol.beads]` turns it on
        socket ["beads-socket"] "PATH": Option<String> = "off; with the table, /tmp/beads-workers-{PID}.sock",
        /// How many beads workers may be connected; further ones are closed immediately
        max_workers "N": Number<1, { CONNECTIONS_MAX as u64 }, 256>,
        /// How long a beads worker must wait if there is no task, in seconds. The public one reads nothing while it waits
        wait_seconds "SECONDS": Number<1, 3_600, 1>,
        /// How long a beads worker's READY stays unanswered while there is no task, in seconds; then it gets
        /// WAIT. A worker that waits gets no task before it asks again
        hold_seconds "SECONDS": Seconds<0, 20, 20>,
        ..
        worker: WorkerKeys,
    }

    pub(super) struct WorkerKeys "protocol.beads.worker." {
        /// The Unix socket of a beads orchestrator whose tasks this host executes
        socket "PATH": Option<At<PathBuf>>,
        /// The handler that executes each task, with the params `issue_id`, `title` and `priority`
        handler "NAME": Option<At<String>>,
        /// The name of the first worker, 1 to 64 characters; the others count up from the number at its end
        worker_id "ID": Option<At<String>> = "W1",
        /// How many workers there are, each with a connection and a task of its own
        concurrency "N": Number<1, 256, 1>,
        /// Whether to begin in the framed dialect instead of JSON lines
        framed: bool,
        #[doc = concat!(
            "A program that is called as `update ID --status=in_progress`, `close ID` and `update ID --status=open`, each for at most 30 s. Of the host's variables it gets only ",
            inherited_variables!(),
            ", ",
            own_variables!(),
        )]
        bd "PATH": Option<PathBuf>,
    }
}

/// The options of `host worker beads`.
pub(super) const FLAGS: &[WorkerFlag] = &[
    WorkerFlag::new("socket", "protocol.beads.worker.socket").about("The Unix socket of the orchestrator").required(),
    WorkerFlag::new("handler", "protocol.beads.worker.handler").required(),
    WorkerFlag::new("worker-id", "protocol.beads.worker.worker_id"),
    WorkerFlag::new("concurrency", "protocol.beads.worker.concurrency"),
    WorkerFlag::new("bd", "protocol.beads.worker.bd").about("A program that is called when a task begins, is done, or has failed: `update ID --status=in_progress`, `close ID`, `update ID --status=open`"),
    WorkerFlag::new("framed", "protocol.beads.worker.framed").about("Begin in the framed dialect instead of JSON lines"),
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
        let keys: Keys = section.table(TABLE)?;
        let is_on = section.document.has_table(TABLE);
        Ok(Self {
            worker: WorkerConfig::read(section, &keys.worker)?,
            orchestrator: orchestrator(keys, is_on),
        })
    }
}

fn orchestrator(keys: Keys, is_on: bool) -> Option<OrchestratorConfig> {
    let default = is_on.then(|| SOCKET_DEFAULT.to_owned());
    let socket = keys.socket.or(default).filter(|path| path != "off")?;
    Some(OrchestratorConfig {
        executor: EXECUTOR.parse().ok()?,
        socket,
        workers_max: keys.max_workers.count(),
        wait_seconds: keys.wait_seconds.get(),
        hold_ms: keys.hold_seconds.get(),
    })
}
