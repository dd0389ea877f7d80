//! The options that commands share, and the client and output that they describe.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use host_api::client::{Client, SERVER_DEFAULT, TlsFiles, WrongServer};

use crate::contexts::{Context, Contexts, variable};
use crate::error::{CliError, Exit};
use crate::output::{Format, Output};
use crate::plain;

/// How much of the file of a token is read, in bytes.
const TOKEN_BYTES_MAX: u64 = 4 << 10;

/// The variable with a token.
const TOKEN_ENV: &str = "HOST_TOKEN";

/// The options of commands that talk to a host.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Host")]
pub struct Remote {
    /// The host to use; may also stand before the command
    #[arg(long, value_name = "URL", env = "HOST_SERVER", hide_env_values = true)]
    #[arg(
        help = "The host to use; may also stand before the command [default: that of the context, else http://127.0.0.1:7700]"
    )]
    server: Option<String>,
    /// The context to use in place of the current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The file with the token to show; `HOST_TOKEN` may have the token itself
    #[arg(long, value_name = "FILE", env = "HOST_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    tls: Tls,
    #[command(flatten)]
    shown: Shown,
}

/// The options for `https://`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Host")]
pub struct Tls {
    /// The authorities that may vouch for an https:// host, in PEM, instead of those of this system
    #[arg(
        long,
        value_name = "FILE",
        env = "HOST_CA_FILE",
        hide_env_values = true
    )]
    ca_file: Option<PathBuf>,
    /// The certificate that shows an https:// host who you are, in PEM
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
        let server = self.server.as_deref().filter(|server| !server.is_empty());
        let (server, context) = match (&self.context, server) {
            // What belongs to a context is shown to no other server.
            (Some(name), _) => (None, Some(Contexts::load()?.get(name)?.clone())),
            (None, Some(server)) => (Some(server), None),
            (None, None) => (None, current()?),
        };
        let context = context.unwrap_or_default();
        let server = server.unwrap_or(match context.server.as_str() {
            "" => SERVER_DEFAULT,
            server => server,
        });
        let (given, kept) = (self.tls.files(), context.tls());
        let tls = TlsFiles {
            authorities: given.authorities.or(kept.authorities),
            certificate: given.certificate.or(kept.certificate),
            key: given.key.or(kept.key),
        };
        let client = connect(server, &tls)?;
        let client = match self.token(&context)? {
            Some(token) => with_token(client, &token)?,
            None => client,
        };
        Ok((client, self.shown.open()))
    }

    /// Finds the token: that of the option, of a variable, or of the context.
    fn token(&self, context: &Context) -> Result<Option<String>, CliError> {
        let file = self.token_file.as_deref();
        if let Some(file) = file.filter(|file| !file.as_os_str().is_empty()) {
            return read(file).map(Some);
        }
        let given = variable(TOKEN_ENV);
        if let Some(token) = given.and_then(|token| token.into_string().ok()) {
            return Ok(Some(token.trim().to_owned()));
        }
        context.token_file.as_deref().map(read).transpose()
    }
}

impl Tls {
    /// Returns the files. An empty name, such as an empty variable gives, is none.
    fn files(&self) -> TlsFiles {
        let set = |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
        TlsFiles {
            authorities: set(&self.ca_file),
            certificate: set(&self.client_cert),
            key: set(&self.client_key),
        }
    }
}

impl Shown {
    /// Opens the output.
    pub fn open(self) -> Output {
        Output::new(self.output, self.quiet)
    }
}

/// Reads the file of a token. Its contents are in no error.
fn read(path: &Path) -> Result<String, CliError> {
    let doing = || format!("read {}", plain::line(&path.to_string_lossy()));
    let mut text = String::new();
    let read =
        File::open(path).and_then(|file| file.take(TOKEN_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|error| CliError::new(Exit::Usage, doing(), error))?;
    Ok(text.trim().to_owned())
}

fn current() -> Result<Option<Context>, CliError> {
    let contexts = Contexts::load()?;
    let current = contexts.current.as_deref();
    current.map(|name| contexts.get(name).cloned()).transpose()
}

impl Context {
    /// Refuses an address or files that no command could use.
    pub fn check(&self) -> Result<(), CliError> {
        let client = connect(&self.server, &self.tls())?;
        match self.token_file.as_deref().map(read).transpose()? {
            Some(token) => with_token(client, &token).map(drop),
            None => Ok(()),
        }
    }

    fn tls(&self) -> TlsFiles {
        TlsFiles {
            authorities: self.ca_file.clone(),
            certificate: self.client_cert.clone(),
            key: self.client_key.clone(),
        }
    }
}

fn with_token(client: Client, token: &str) -> Result<Client, CliError> {
    client.with_token(token).map_err(refused)
}

fn refused(error: WrongServer) -> CliError {
    let doing = format!("use {} as a server", plain::line(&error.server));
    CliError::new(Exit::Usage, doing, error.cause).next(error.next)
}

/// Makes a client of the host at `server`.
pub fn connect(server: &str, tls: &TlsFiles) -> Result<Client, CliError> {
    Client::with_tls(server, tls).map_err(refused)
}
