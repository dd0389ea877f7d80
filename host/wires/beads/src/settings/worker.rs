//! `[protocol.beads.worker]`: the worker role.

use std::path::{Path, PathBuf};

use host_core::name::Name;
use host_wire_kit::section::{ConfigError, Section, refused};

use super::{
    WORKER_BD, WORKER_CONCURRENCY, WORKER_FRAMED, WORKER_HANDLER, WORKER_ID, WORKER_SOCKET,
    own_variables,
};
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
    pub(crate) fn read(section: &Section<'_>) -> Result<Option<Self>, ConfigError> {
        let concurrency = section.count(&WORKER_CONCURRENCY)?;
        let dialect = if section.switch(&WORKER_FRAMED)? {
            Dialect::Framed
        } else {
            Dialect::Lines
        };
        let worker_id = match section.find(&WORKER_ID) {
            None => WORKER_ID.default,
            Some((_, text)) if is_worker_id(text) => text,
            Some((origin, text)) => return Err(refused(origin, text, "expected 1–64 characters")),
        };
        let Some(socket) = section.path(&WORKER_SOCKET) else {
            return Ok(None);
        };
        let Some((origin, handler)) = section.find(&WORKER_HANDLER) else {
            let message = format!(
                "there is a socket but no handler; name it with {}",
                WORKER_HANDLER.key
            );
            let (origin, _) = section.find(&WORKER_SOCKET).unwrap_or_default();
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
            concurrency,
            dialect,
            program: section.path(&WORKER_BD).map(|path| program(section, &path)),
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
