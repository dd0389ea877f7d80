//! The `host` command: reads the command line, hands it to its command and turns what comes back
//! into an exit code. Knows no command.

mod args;
mod commands;
mod complete;
mod component_file;
mod log;
mod manifest;

use std::process::ExitCode;

use host_console::error::{CliError, Exit};
use host_console::output;

fn main() -> ExitCode {
    complete::answer_shell(args::definition);
    let matches = match args::parse() {
        Ok(matches) => matches,
        Err(error) if error.use_stderr() => {
            let _ = error.print();
            return ExitCode::from(Exit::Usage as u8);
        }
        Err(help) => return end(output::put_with(|_| help.print())),
    };
    end(args::run(&matches))
}

/// Prints why a command has failed, and returns its exit code.
fn end(ran: Result<(), CliError>) -> ExitCode {
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !matches!(error, CliError::Silent(_)) {
                output::say(&error.to_string());
            }
            ExitCode::from(error.exit() as u8)
        }
    }
}
