//! The project's own commands: `cargo xtask <command>`. One file per command.

mod cargo;
mod guests;
mod setup;
mod test;
#[cfg(test)]
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Sets up, tests, shows and measures `host`.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Builds every component of the repository into target/guests
    Guests,
    /// Sets up what tests need and runs all of them, or those of one layer
    Test(test::Args),
}

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Guests => guests::build().map(|folder| println!("{}", folder.display())),
        Command::Test(args) => test::run_all(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
