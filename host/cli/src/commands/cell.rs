//! `host cell`: the child processes of a host. Users never start it, so the help does not list it.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
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
    /// Compile the component on standard input
    Compile {
        /// The file to write
        #[arg(long)]
        output: PathBuf,
    },
    /// Measure the bare loop: instantiate the component, call its handler `noop`
    Bench {
        /// The component
        component: PathBuf,
        /// How long to measure
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
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
            Verb::Compile { output } => {
                host_cell::child::compile_stdin(&output).map_err(failed("compile a component"))
            }
            Verb::Bench { component, seconds } => {
                bench(&component, seconds).map_err(failed("measure the bare loop"))
            }
        }
    }
}

fn bench(component: &std::path::Path, seconds: f64) -> Result<(), String> {
    let bytes =
        std::fs::read(component).map_err(|error| format!("{}: {error}", component.display()))?;
    let pace = host_cell::pace::measure(&bytes, Duration::from_secs_f64(seconds))
        .map_err(|error| format!("{error:#}"))?;
    let json = serde_json::to_string(&pace).map_err(|error| error.to_string())?;
    writeln!(std::io::stdout(), "{json}").map_err(|error| error.to_string())
}
