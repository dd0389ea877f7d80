//! `[protocol.beads.worker]`, and the options of `host worker beads`: the worker role.

use std::path::{Path, PathBuf};

use host_core::name::Name;

use super::frame::Dialect;
use super::program::ProgramCommand;
use super::read::is_worker_id;
use super::worker::WorkerSetup;
use crate::wire::section::{ConfigError, Section, inherited_variables, refused};
use crate::wire::settings::{Setting, WorkerFlag};

const SOCKET: &str = "protocol.beads.worker.socket";
const HANDLER: &str = "protocol.beads.worker.handler";
const WORKER_ID: &str = "protocol.beads.worker.worker_id";
const CONCURRENCY: &str = "protocol.beads.worker.concurrency";
const FRAMED: &str = "protocol.beads.worker.framed";
const BD: &str = "protocol.beads.worker.bd";

/// The most workers of one host.
const CONCURRENCY_MAX: u64 = 256;

/// The variables that the program gets besides those of all programs: where its tasks are.
macro_rules! own_variables {
    () => {
        "PWD, BEADS_DIR, BEADS_DB"
    };
}

pub(super) const SETTINGS: [Setting; 6] = [
    Setting {
        key: SOCKET,
        env: "HOST_BEADS_WORKER_SOCKET",
        flag: None,
        value_name: "PATH",
        default: "none",
        about: "The Unix socket of a beads orchestrator whose tasks this host executes",
    },
    Setting {
        key: HANDLER,
        env: "HOST_BEADS_WORKER_HANDLER",
        flag: None,
        value_name: "NAME",
        default: "none",
        about: "The handler that executes each task, with the params `issue_id`, `title` and `priority`",
    },
    Setting {
        key: WORKER_ID,
        env: "HOST_BEADS_WORKER_ID",
        flag: None,
        value_name: "ID",
        default: "W1",
        about: "What the first worker is called, 1 to 64 characters; the others count on from the number at its end",
    },
    Setting {
        key: CONCURRENCY,
        env: "HOST_BEADS_WORKER_CONCURRENCY",
        flag: None,
        value_name: "N",
        default: "1",
        about: "How many workers there are, each with a connection and a task of its own, 1 to 256",
    },
    Setting {
        key: FRAMED,
        env: "HOST_BEADS_WORKER_FRAMED",
        flag: None,
        value_name: "BOOL",
        default: "false",
        about: "Whether to begin in the framed dialect instead of JSON lines: `true` or `false`",
    },
    Setting {
        key: BD,
        env: "HOST_BEADS_WORKER_BD",
        flag: None,
        value_name: "PATH",
        default: "none",
        about: concat!(
            "A program that is called as `update ID --status=in_progress`, `close ID` and `update ID --status=open`, each for at most 30 s. Of the host's variables it gets only ",
            inherited_variables!(),
            ", ",
            own_variables!(),
        ),
    },
];

/// The options of `host worker beads`.
pub(super) const FLAGS: &[WorkerFlag] = &[
    WorkerFlag::new(
        SOCKET,
        "socket",
        "PATH",
        "The Unix socket of the orchestrator",
    )
    .required(),
    WorkerFlag::new(
        HANDLER,
        "handler",
        "NAME",
        "The handler that executes each task, with the params issue_id, title and priority",
    )
    .required(),
    WorkerFlag::new(
        WORKER_ID,
        "worker-id",
        "ID",
        "What the first worker is called; the others count on from the number at its end [default: W1]",
    ),
    WorkerFlag::new(
        CONCURRENCY,
        "concurrency",
        "N",
        "How many workers there are, each with a connection and a task of its own [default: 1]",
    ),
    WorkerFlag::new(
        BD,
        "bd",
        "PATH",
        "A program that is called when a task begins, is done, or has failed: `update ID --status=in_progress`, `close ID`, `update ID --status=open`",
    ),
    WorkerFlag::new(
        FRAMED,
        "framed",
        "",
        "Begin in the framed dialect instead of JSON lines",
    ),
];

/// The worker role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorkerConfig {
    pub(super) socket: PathBuf,
    pub(super) handler: Name,
    pub(super) worker_id: String,
    pub(super) concurrency: usize,
    pub(super) dialect: Dialect,
    pub(super) program: Option<ProgramCommand>,
}

impl WorkerConfig {
    /// Reads the table; `None` if it names no socket.
    pub(super) fn read(section: &Section<'_>) -> Result<Option<Self>, ConfigError> {
        let concurrency = section
            .number(CONCURRENCY, 1, CONCURRENCY_MAX)?
            .unwrap_or(1);
        let dialect = match section.find(FRAMED) {
            None | Some((_, "false")) => Dialect::Lines,
            Some((_, "true")) => Dialect::Framed,
            Some((origin, text)) => return Err(refused(origin, text, "expected true or false")),
        };
        let worker_id = match section.find(WORKER_ID) {
            None => "W1",
            Some((_, text)) if is_worker_id(text) => text,
            Some((origin, text)) => return Err(refused(origin, text, "expected 1–64 characters")),
        };
        let Some(socket) = section.path(SOCKET) else {
            return Ok(None);
        };
        let Some((origin, handler)) = section.find(HANDLER) else {
            let message = format!("there is a socket but no handler; name it with {HANDLER}");
            let (origin, _) = section.find(SOCKET).unwrap_or_default();
            return Err(ConfigError::Hidden { origin, message });
        };
        let parsed = handler.parse();
        Ok(Some(Self {
            socket,
            handler: parsed.map_err(|error| {
                refused(
                    origin,
                    handler,
                    format!("expected a handler's name; {error}"),
                )
            })?,
            worker_id: worker_id.to_owned(),
            concurrency: usize::try_from(concurrency).unwrap_or(1),
            dialect,
            program: section.path(BD).map(|path| program(section, &path)),
        }))
    }

    /// Returns how each worker is set up.
    pub(super) fn setups(&self) -> Vec<WorkerSetup> {
        (0..self.concurrency)
            .map(|index| WorkerSetup {
                worker_id: numbered(&self.worker_id, index),
                handler: self.handler.clone(),
                dialect: self.dialect,
                has_program: self.program.is_some(),
            })
            .collect()
    }
}

fn program(section: &Section<'_>, path: &Path) -> ProgramCommand {
    ProgramCommand {
        path: path.display().to_string(),
        env: section.inherited(own_variables!().split(", ")),
    }
}

/// Counts on from the number at the end of a name: W1, W2 and so on.
fn numbered(first: &str, index: usize) -> String {
    if index == 0 {
        return first.to_owned();
    }
    let name = first.trim_end_matches(|c: char| c.is_ascii_digit());
    let number: u64 = first[name.len()..].parse().unwrap_or(1);
    format!("{name}{}", number.saturating_add(index as u64))
}
