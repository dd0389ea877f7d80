//! `host __man`: writes the manual pages of all commands, for packages.

use std::path::PathBuf;

use clap::{Args, Command};
use host_console::error::{CliError, Exit};

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The folder that they are written into
    folder: PathBuf,
}

impl Man {
    /// Writes one page for each command.
    pub(crate) fn run(&self, host: Command) -> Result<(), CliError> {
        clap_mangen::generate_to(host, &self.folder).map_err(|error| {
            let doing = format!("write manual pages into {}", self.folder.display());
            CliError::new(Exit::Failed, doing, error)
        })
    }
}
