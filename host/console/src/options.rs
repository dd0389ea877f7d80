//! The options that commands share, and the client and output that they describe.

use clap::Args;
use host_api::client::{Client, SERVER_DEFAULT};

use crate::error::{CliError, Exit};
use crate::output::{Format, Output};
use crate::plain;

/// The options of commands that talk to a host.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Host")]
pub struct Remote {
    /// The host to use; may also stand before the command
    #[arg(long, value_name = "URL", env = "HOST_SERVER", hide_env_values = true, default_value = SERVER_DEFAULT)]
    server: String,
    #[command(flatten)]
    shown: Shown,
}

/// The options of commands that print data.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct Shown {
    /// The format of the output
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "table",
        hide_possible_values = true
    )]
    #[arg(help = "The format of the output: table, json, jsonl or name")]
    output: Format,
    /// Print only data and errors, no notes and hints
    #[arg(short, long)]
    quiet: bool,
}

impl Remote {
    /// Opens the client and the output.
    pub fn open(&self) -> Result<(Client, Output), CliError> {
        Ok((connect(&self.server)?, self.shown.open()))
    }
}

impl Shown {
    /// Opens the output.
    pub fn open(self) -> Output {
        Output::new(self.output, self.quiet)
    }
}

/// Makes a client of the host at `server`.
pub fn connect(server: &str) -> Result<Client, CliError> {
    Client::new(server).map_err(|error| {
        let doing = format!("use {} as a server", plain::line(&error.server));
        CliError::new(Exit::Usage, doing, error.cause).next(error.next)
    })
}
