//! The `host` command: reads the command line, hands it to its command and turns what comes back
//! into an exit code. Knows no command.

mod args;
mod commands;
mod component_file;
mod log;
mod manifest;

use std::process::ExitCode;

use host_console::error::CliError;
use host_console::output;

fn main() -> ExitCode {
    let matches = match args::parse() {
        Ok(matches) => matches,
        Err(error) => {
            let _ignored = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    match args::run(&matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !matches!(error, CliError::Silent(_)) {
                output::say(&error.to_string());
            }
            ExitCode::from(error.exit() as u8)
        }
    }
}
