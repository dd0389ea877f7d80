//! `[protocol.beads.worker]`: the worker role.

use std::path::{Path, PathBuf};

use host_core::name::Name;
use host_wire_kit::section::{ConfigError, Section};

use super::{WorkerKeys, own_variables};
use crate::frame::Dialect;
use crate::program::ProgramCommand;
use crate::read::is_worker_id;
use crate::worker::WorkerSetup;

/// The worker role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkerConfig {
    pub(crate) socket: PathBuf,
    pub(crate) handler: Name,
    pub(crate) worker_id: String,
    pub(crate) concurrency: usize,
    pub(crate) dialect: Dialect,
    pub(crate) program: Option<ProgramCommand>,
}

impl WorkerConfig {
    /// Reads the table; `None` if it names no socket.
    pub(super) fn read(
        section: &Section<'_>,
        keys: &WorkerKeys,
    ) -> Result<Option<Self>, ConfigError> {
        let worker_id = keys.worker_id.as_ref();
        if let Some(other) = worker_id.filter(|id| !is_worker_id(id)) {
            return Err(other.refuse("expected 1–64 characters"));
        }
        let Some(socket) = &keys.socket else {
            return Ok(None);
        };
        let Some(handler) = &keys.handler else {
            let message =
                "there is a socket but no handler; name it with protocol.beads.worker.handler";
            return Err(socket.hidden(message));
        };
        let refuse = |error| handler.refuse(format!("expected a handler's name; {error}"));
        Ok(Some(Self {
            socket: socket.value.clone(),
            handler: handler.value.parse().map_err(refuse)?,
            worker_id: worker_id.map_or("W1", |id| id.as_str()).to_owned(),
            concurrency: keys.concurrency.count(),
            dialect: if keys.framed {
                Dialect::Framed
            } else {
                Dialect::Lines
            },
            program: keys.bd.as_ref().map(|path| program(section, path)),
        }))
    }

    /// Returns how each worker is set up.
    pub(crate) fn setups(&self) -> Vec<WorkerSetup> {
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
