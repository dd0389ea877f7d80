//! The options that commands share, and the client and output that they describe.

use std::path::PathBuf;

use clap::Args;
use host_api::client::{Choice, Client, TlsFiles};

use crate::error::CliError;
use crate::output::{Format, Output};

/// The options of commands that talk to a host.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Host")]
pub struct Remote {
    /// The host to use; may also stand before the command
    #[arg(long, value_name = "URL", env = "HOST_SERVER", hide_env_values = true)]
    #[arg(
        help = "The host to use; may also precede the command [default: that of the context, else http://127.0.0.1:7700]"
    )]
    server: Option<String>,
    /// The context to use in place of the current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The file with the token to send; `HOST_TOKEN` may have the token itself
    #[arg(long, value_name = "FILE", env = "HOST_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    tls: Tls,
    #[command(flatten)]
    shown: OutputOptions,
}

/// The options for `https://`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Host")]
pub struct Tls {
    /// CA certificates in PEM to verify an https:// host with, instead of those of this system
    #[arg(
        long,
        value_name = "FILE",
        env = "HOST_CA_FILE",
        hide_env_values = true
    )]
    ca_file: Option<PathBuf>,
    /// Your client certificate for an https:// host, in PEM
    #[arg(
        long,
        value_name = "FILE",
        env = "HOST_CLIENT_CERT",
        hide_env_values = true
    )]
    client_cert: Option<PathBuf>,
    /// The key of this certificate, if it is in another file
    #[arg(
        long,
        value_name = "FILE",
        env = "HOST_CLIENT_KEY",
        hide_env_values = true
    )]
    client_key: Option<PathBuf>,
}

/// The options of commands that print data.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputOptions {
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
        let choice = Choice {
            server: self.server.clone(),
            context: self.context.clone(),
            token_file: self.token_file.clone(),
            tls: self.tls.files(),
        };
        Ok((choice.open()?, self.shown.open()))
    }
}

impl Tls {
    /// Returns the files. An empty name, such as an empty variable gives, counts as unset.
    fn files(&self) -> TlsFiles {
        let set = |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
        TlsFiles {
            authorities: set(&self.ca_file),
            certificate: set(&self.client_cert),
            key: set(&self.client_key),
        }
    }
}

impl OutputOptions {
    /// Opens the output.
    pub fn open(self) -> Output {
        Output::new(self.output, self.quiet)
    }
}

/// Makes a client of the host at `server`.
pub fn connect(server: &str, tls: &TlsFiles) -> Result<Client, CliError> {
    Ok(Client::with_tls(server, tls)?)
}
