//! `host serve`: puts the options under their keys and runs a host until it is stopped.

mod trial;

use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use host_cells::sandbox::spawn::{CellProgram, Confinement};
use host_console::error::{CliError, Exit};
use host_console::output::{put_line, say};
use host_console::plain;
use host_runtime::init;
use host_runtime::log::LogWriter;
use host_runtime::stops::Hangup;
use host_server::config::{self, Config, Flags};
use host_server::serve::{self, Ready};
use host_wire_kit::section::ConfigError;
use serde_json::json;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

use self::trial::Trial;
use super::settings::SettingFlags;

/// Run a host: accept jobs, run them in sandboxes and keep them through crashes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host serve --data ./data
  host serve --trial
  host serve --data /var/lib/host --handlers ./handlers --listen 127.0.0.1:0
  HOST_LOG=debug host serve --config host.toml

Prints `ready http=ADDR …` once it accepts requests, with an entry per wire that listens. SIGTERM,
SIGINT or SIGQUIT lets running jobs end; a second one abandons them. Jobs that have not ended continue when the
host is started again. Each option is also a key of the file and a variable of the environment:
docs/config.md has them.")]
pub(crate) struct Serve {
    /// The configuration file (TOML); `HOST_CONFIG` names it too
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingFlags,
    /// Try a host, also from other machines: listen on all addresses with a token and a certificate of its own, which it
    /// prints, and without --data keep everything in memory
    #[arg(long)]
    trial: bool,
    /// Start without the store of a data directory that had one: its jobs and components are forgotten
    #[arg(long)]
    fresh: bool,
    /// Set aside what cannot be read of the store, in DATA/set-aside.jsonl, and start with the rest
    #[arg(long)]
    set_aside_unreadable: bool,
    /// Write the host's own log as text or as JSON, one document per line
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
}

/// How a host writes about itself.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl Serve {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), CliError> {
        leave_first_place("serve");
        log(self.log_format)?;
        let (fresh, set_aside) = (self.fresh, self.set_aside_unreadable);
        if self.trial {
            let trial = Trial::prepare(self.flags())?;
            let welcome = trial.welcome();
            return run_host(trial.config.clone(), |ready| {
                let address = ready.http;
                announce(ready);
                welcome(address);
            });
        }
        let mut config = Config::load(&self.flags()).map_err(|error| match &error {
            ConfigError::UnknownKey { .. } | ConfigError::File { .. } => {
                config_error(&error).next("docs/config.md has all keys")
            }
            _ => config_error(&error),
        })?;
        config.fresh = fresh;
        config.set_aside = set_aside;
        run_host(config, announce)
    }

    fn flags(self) -> Flags {
        Flags {
            config: self.config,
            values: self.settings.0,
            ..Flags::default()
        }
    }
}

/// Runs a host to its end.
fn run_host(config: Config, ready: impl FnOnce(Ready)) -> Result<(), CliError> {
    let program = program("serve", config.confinement.clone())?;
    serve::run(config, program, Hangup::Reload, ready).map_err(|error| {
        let exit = if error.is_fenced() {
            Exit::Fenced
        } else {
            Exit::Failed
        };
        CliError::new(exit, "serve", error)
    })
}

/// Continues in a child if this is the first process of a container. Ends this process when the child has ended.
pub(crate) fn leave_first_place(doing: &str) {
    match init::run_in_child(std::env::args_os().skip(1)) {
        Ok(None) => {}
        Ok(Some(code)) => std::process::exit(code),
        // Without a child to reap for it, the host still runs.
        Err(error) => say(&format!(
            "cannot {doing} in a process of its own: {error}; processes that lose their parent stay defunct"
        )),
    }
}

/// Returns this executable as what cells are made of.
pub(crate) fn program(doing: &str, confinement: Confinement) -> Result<CellProgram, CliError> {
    program_that_compiles(false, doing, confinement)
}

/// The same, where components are compiled in less time to code that computes more slowly.
pub(crate) fn quick_program(
    doing: &str,
    confinement: Confinement,
) -> Result<CellProgram, CliError> {
    program_that_compiles(true, doing, confinement)
}

fn program_that_compiles(
    quick: bool,
    doing: &str,
    confinement: Confinement,
) -> Result<CellProgram, CliError> {
    let failed = |cause: String| CliError::new(Exit::Failed, doing, cause);
    // Not the path it was started by: another version may stand there by the time a cell is
    // started.
    let exe = PathBuf::from("/proc/self/exe");
    let engine_hash = host_cell::engine_hash(quick)
        .map_err(|error| failed(format!("this machine cannot run compiled code: {error}")))?;
    Ok(CellProgram {
        exe,
        engine_hash,
        quick,
        confinement,
    })
}

fn config_error(error: &ConfigError) -> CliError {
    CliError::new(Exit::Usage, "serve", error)
}

/// Prints the line that scripts wait for.
fn announce(ready: Ready) {
    // A closed standard output does not stop the host.
    let mut words = vec![("http", display_address(ready.http))];
    let others = ready.listeners.iter();
    words.extend(others.map(|(serves, address)| (serves.as_str(), address.to_string())));
    let socket = ready.socket.map(|path| path.display().to_string());
    words.extend(socket.map(|path| ("socket", path)));
    words.extend(ready.wires);
    let words = words.iter().map(|(key, value)| format!(" {key}={value}"));
    let _ = put_line(&format!("ready{}", words.collect::<String>()));
    let _ = std::io::stdout().flush();
    if let Some(address) = ready.http
        && std::io::stderr().is_terminal()
    {
        say(&format!(
            "hint: `host deploy FILE --server http://{address}` deploys handlers"
        ));
    }
}

fn display_address(address: Option<SocketAddr>) -> String {
    address.map_or("off".to_owned(), |address| address.to_string())
}

/// Lets the process write about itself, as much as `HOST_LOG` says.
pub(crate) fn log(format: LogFormat) -> Result<(), CliError> {
    log_at(format, "info")
}

/// The same, where `HOST_LOG` is not set as much as `default` says.
pub(crate) fn log_at(format: LogFormat, default: &str) -> Result<(), CliError> {
    let environment = config::environment();
    let text = environment.get("HOST_LOG").filter(|text| !text.is_empty());
    let filter = log_filter(text.map_or(default, |text| text)).map_err(|cause| {
        CliError::new(Exit::Usage, "read HOST_LOG", cause).next(
            "write error, warn, info, debug, trace or off, for all or for some parts: info,host_cells=debug",
        )
    })?;
    let note = match format {
        LogFormat::Text => lost_as_text,
        LogFormat::Json => lost_as_json,
    };
    let log = fmt()
        .with_env_filter(filter)
        .log_internal_errors(false)
        .with_writer(move || LogWriter::stderr(note));
    match format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => log.json().init(),
    }
    Ok(())
}

/// What a log says in place of lines that could not be written.
const LOST: &str = "lines before this one could not be written";

fn lost_as_text(lines: u64) -> String {
    format!("{}  WARN host: {LOST} lines={lines}\n", timestamp())
}

fn lost_as_json(lines: u64) -> String {
    let line = json!({
        "timestamp": timestamp(),
        "level": "WARN",
        "fields": {"message": LOST, "lines": lines},
        "target": "host",
    });
    format!("{line}\n")
}

/// Returns the time as the lines of the log have it.
fn timestamp() -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}

/// Reads which messages are written. A word alone is a level here: as the name of a part it would silence all
/// others.
fn log_filter(text: &str) -> Result<EnvFilter, String> {
    let parts = text.split(',').map(str::trim);
    for part in parts.filter(|part| !part.contains(['=', '[', ']', '{', '}'])) {
        // Nothing is read as the level of errors.
        if part.is_empty() || part.parse::<LevelFilter>().is_err() {
            return Err(format!("`{}` is not a valid level", plain::line(part)));
        }
    }
    let filter = EnvFilter::builder().parse(text);
    filter.map_err(|error| format!("`{}`: {error}", plain::line(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        for text in [
            "warn",
            "INFO",
            "off",
            "info,host_cells=debug",
            "host_store=trace",
        ] {
            assert!(log_filter(text).is_ok(), "{text}");
        }
        for text in ["wran", ",", "info,", "host_cells", "host_cells=loud"] {
            assert!(log_filter(text).is_err(), "{text}");
        }
    }
}
