//! The project's own commands: `cargo xtask <command>`. One file per command.

mod bench;
mod book;
mod cargo;
mod demo;
mod dist;
mod guests;
mod peers;
mod programs;
mod progress;
mod setup;
mod test;
#[cfg(test)]
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Sets up, tests, demonstrates and measures `host`.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures a host on this machine, compared with its disk and the bare engine
    Bench(bench::Args),
    /// Makes the book of docs/ with mdBook, in target/book
    Book,
    /// Shows what a host does, on real input
    Demo,
    /// Makes a tarball and a Debian package
    Dist(dist::Args),
    /// Installs, upgrades and removes the Debian package in a folder, with the tests' program
    DistCheck,
    /// Builds every component of the repository into target/guests
    Guests,
    /// Sets up what tests need and runs all tests, or those of one layer
    Test(test::Args),
}

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Bench(args) => bench::run_all(&args),
        Command::Book => book::build(),
        Command::Demo => demo::run_all(),
        Command::Dist(args) => dist::run_all(&args),
        Command::DistCheck => programs::as_in_tests().and_then(|_demo| dist::check()),
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
