//! A command made of a type that derives its arguments.

use clap::Args;

use super::{Command, Derived};
use crate::error::{CliError, Exit};

/// Greet a person.
#[derive(Args)]
struct Greet {
    name: String,
}

static GREET: &dyn Command = &Derived::new("greet", |greet: Greet| {
    assert_eq!(greet.name, "Ada");
    Err(CliError::Silent(Exit::JobFailed))
});

#[test]
fn it_has_a_name_help_and_arguments() {
    let definition = GREET.clap();
    assert_eq!(definition.get_name(), "greet");
    let about = definition.get_about().map(ToString::to_string);
    assert_eq!(about.as_deref(), Some("Greet a person"));
    definition.debug_assert();
}

#[test]
fn it_runs_with_its_arguments_and_gives_the_exit_code() {
    let matches = GREET.clap().get_matches_from(["greet", "Ada"]);
    let error = GREET.run(&matches).unwrap_err();
    assert_eq!(error.exit(), Exit::JobFailed);
}
