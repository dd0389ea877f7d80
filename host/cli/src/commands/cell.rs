//! `host cell`: the child processes of a host. Users never start it, so the help does not list it.

use std::io;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use host_cells::vet;
use host_console::error::{CliError, Exit};

/// The child processes of a host.
#[derive(Debug, Args)]
pub(crate) struct Cell {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run guests for the host at the other end of an inherited socket
    Run {
        /// The socket
        #[arg(long)]
        fd: i32,
        /// How many guests run at once
        #[arg(long)]
        slots: u32,
        /// How much memory all guests share
        #[arg(long)]
        memory_mib: u64,
    },
    /// Compile the schemas on standard input
    Schemas,
    /// Compile the component on standard input
    Compile {
        /// The file to write
        #[arg(long)]
        output: PathBuf,
    },
}

impl Cell {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        let failed =
            |doing: &'static str| move |cause: String| CliError::new(Exit::Failed, doing, cause);
        match self.verb {
            Verb::Run {
                fd,
                slots,
                memory_mib,
            } => host_cell::child::run(fd, slots, memory_mib).map_err(failed("run as a cell")),
            Verb::Schemas => {
                let failed = failed("compile schemas");
                host_cell::child::restrict_schemas(vet::MEMORY_BYTES_MAX, vet::CPU_SECONDS_MAX)
                    .map_err(failed)?;
                vet::answer(&mut io::stdin().lock(), &mut io::stdout().lock())
                    .map_err(|error| failed(error.to_string()))
            }
            Verb::Compile { output } => {
                host_cell::child::compile_stdin(&output).map_err(failed("compile a component"))
            }
        }
    }
}
