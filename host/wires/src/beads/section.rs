//! `[protocol.beads]`: the socket of the orchestrator role and its limits, and the worker role.

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use host_core::name::Name;

use super::EXECUTOR;
use super::worker_section::{self, WorkerConfig};
use crate::kit::driver::CONNECTIONS_MAX;
use crate::wire::section::{ConfigError, Section, refused};
use crate::wire::settings::Setting;

/// The table that turns the orchestrator role on.
const TABLE: &str = "protocol.beads";
const SOCKET: &str = "protocol.beads.socket";
const MAX_WORKERS: &str = "protocol.beads.max_workers";
const WAIT: &str = "protocol.beads.wait_seconds";
const HOLD: &str = "protocol.beads.hold_seconds";

/// Where the document puts the socket.
const SOCKET_DEFAULT: &str = "/tmp/beads-workers-{PID}.sock";

/// Stands in a path for the pid of the host.
const PID: &str = "{PID}";

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        key: SOCKET,
        env: "HOST_BEADS_SOCKET",
        flag: Some("beads-socket"),
        value_name: "PATH",
        default: "off; with the table, /tmp/beads-workers-{PID}.sock",
        about: "Where beads workers connect: the path of a Unix socket in which `{PID}` is ours, or `off`. The table `[protocol.beads]` alone turns it on",
    },
    Setting {
        key: MAX_WORKERS,
        env: "HOST_BEADS_MAX_WORKERS",
        flag: None,
        value_name: "N",
        default: "256",
        about: "How many beads workers may be connected, 1 to 4096; others are closed at once",
    },
    Setting {
        key: WAIT,
        env: "HOST_BEADS_WAIT_SECONDS",
        flag: None,
        value_name: "SECONDS",
        default: "30",
        about: "How long a beads worker must wait if there is no task, in seconds, 1 to 3600",
    },
    Setting {
        key: HOLD,
        env: "HOST_BEADS_HOLD_SECONDS",
        flag: None,
        value_name: "SECONDS",
        default: "0",
        about: "How long a beads worker's READY stays unanswered while there is no task, in seconds, 0 to 20; then it is told to wait. A worker that waits is not given a task before it asks again",
    },
    worker_section::SETTINGS[0],
    worker_section::SETTINGS[1],
    worker_section::SETTINGS[2],
    worker_section::SETTINGS[3],
    worker_section::SETTINGS[4],
    worker_section::SETTINGS[5],
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
    let workers_max = section.number(MAX_WORKERS, 1, CONNECTIONS_MAX as u64)?;
    let wait_seconds = section.number(WAIT, 1, 3_600)?;
    let hold_ms = section.seconds(HOLD)?.map(|hold| hold.ms);
    if hold_ms > Some(20_000) {
        let (origin, text) = section.find(HOLD).unwrap_or_default();
        return Err(refused(origin, text, "expected 0–20 seconds"));
    }
    let socket = match section.find(SOCKET) {
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
        workers_max: usize::try_from(workers_max.unwrap_or(256)).unwrap_or(CONNECTIONS_MAX),
        wait_seconds: wait_seconds.unwrap_or(30),
        hold_ms: hold_ms.unwrap_or(0),
    }))
}
