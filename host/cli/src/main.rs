//! The `host` command: reads the command line, hands it to its command and turns what comes back
//! into an exit code. Knows no command by more than its name.

mod args;
mod client;
mod commands;
mod error;
mod human;
mod json;
mod log;
mod manifest;
mod multipart;
mod output;
mod pages;
mod plain;
mod progress;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _told = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    match commands::run(cli.noun) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !matches!(error, error::CliError::Silent(_)) {
                output::say(&error.to_string());
            }
            ExitCode::from(error.exit() as u8)
        }
    }
}
