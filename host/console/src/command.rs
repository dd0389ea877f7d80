//! Commands that are not part of the derived command line of `host`, such as those of a wire.

use std::fmt;

use clap::{ArgMatches, Args};

use crate::error::{CliError, Exit};

/// A noun of the command line, such as `host job`, with its verbs if it has any.
///
/// `host` adds it to its own nouns, so it appears in the help, the completion scripts and
/// docs/cli.md. [`Derived`] makes a command from a type that derives [`Args`].
pub trait Command: Sync {
    /// Returns the noun's definition: its name, which no other noun may have, its one line of help,
    /// its options and its verbs.
    fn clap(&self) -> clap::Command;

    /// Runs the command to its end and blocks until then. `matches` are those of [`Command::clap`],
    /// without the name of the noun. Data goes to standard output, everything else to standard
    /// error.
    ///
    /// The error decides the exit code; `host` prints it, unless it is [`CliError::Silent`].
    fn run(&self, matches: &ArgMatches) -> Result<(), CliError>;
}

/// A command whose arguments are the type `T`. The documentation of `T` is its line of help.
pub struct Derived<T> {
    name: &'static str,
    run: fn(T) -> Result<(), CliError>,
}

impl<T: Args> Derived<T> {
    /// Makes the command `name`, which reads its arguments as `T` and hands them to `run`.
    pub const fn new(name: &'static str, run: fn(T) -> Result<(), CliError>) -> Self {
        Self { name, run }
    }
}

impl<T: Args> Command for Derived<T> {
    fn clap(&self) -> clap::Command {
        T::augment_args(clap::Command::new(self.name))
    }

    fn run(&self, matches: &ArgMatches) -> Result<(), CliError> {
        let arguments = T::from_arg_matches(matches).map_err(|error| {
            let doing = format!("read the arguments of `host {}`", self.name);
            let error = CliError::new(Exit::Usage, doing, error);
            error.next(format!("`host {} --help` lists them", self.name))
        })?;
        (self.run)(arguments)
    }
}

impl<T> fmt::Debug for Derived<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Derived").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests;
