//! `host completion`: prints a completion script for a shell.

use clap::Args;
use clap_complete::Shell;
use host_console::error::CliError;
use host_console::output::put_line;

/// Print a completion script.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host completion bash > ~/.local/share/bash-completion/completions/host
  host completion zsh > ~/.zfunc/_host
  host completion fish > ~/.config/fish/completions/host.fish")]
pub(crate) struct Completion {
    /// The shell
    shell: Shell,
}

impl Completion {
    /// Prints the script for the command line `host`.
    pub(crate) fn run(self, mut host: clap::Command) -> Result<(), CliError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut host, "host", &mut script);
        let script = String::from_utf8_lossy(&script);
        put_line(script.trim_end())
    }
}
