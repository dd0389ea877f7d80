//! `host completion`: prints a completion script for a shell.

use clap::Args;
use clap::builder::PossibleValuesParser;
use clap_complete::env::Shells;
use host_console::error::{CliError, Exit};
use host_console::output::put_line;

use crate::complete::VARIABLE;

/// Print a completion script.
#[derive(Debug, Args)]
#[command(after_help = "\
The script asks `host` for words, so it also completes the names and ids that a host has, such as
handlers, queues, the newest jobs, batches and nodes: those of the host that HOST_SERVER or the
current context names.

Examples:
  host completion bash > ~/.local/share/bash-completion/completions/host
  host completion zsh > ~/.zfunc/_host
  host completion fish > ~/.config/fish/completions/host.fish")]
pub(crate) struct Completion {
    /// The shell
    #[arg(value_parser = PossibleValuesParser::new(Shells::builtins().names().collect::<Vec<_>>()))]
    shell: String,
}

impl Completion {
    /// Prints the script for the command line `host`.
    pub(crate) fn run(self) -> Result<(), CliError> {
        let shells = Shells::builtins();
        let mut script = Vec::new();
        let written = shells
            .completer(&self.shell)
            .ok_or_else(|| std::io::Error::other("this shell is not known"))
            .and_then(|shell| {
                shell.write_registration(VARIABLE, "host", "host", "host", &mut script)
            });
        written.map_err(|error| CliError::new(Exit::Failed, "write the script", error))?;
        put_line(String::from_utf8_lossy(&script).trim_end())
    }
}
