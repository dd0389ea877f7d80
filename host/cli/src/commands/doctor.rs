//! `host doctor`: runs every check of this machine and prints what each found and what to do.

mod disk;
mod machine;
mod network;
mod redis;

use std::path::PathBuf;

use clap::Args;
use host_console::error::{CliError, Exit};
use host_console::options::Shown;
use host_console::output::Output;
use host_console::table::{Cell, Color, Column, Rows};
use serde::Serialize;

/// Check that a host can run well on this machine.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host doctor --data ./data
  host doctor -o json | jq '.[] | select(.status != \"ok\")'

Exit codes: 0 a host can run here, 1 a check failed.")]
pub(crate) struct Doctor {
    /// The data directory of the host
    #[arg(long, value_name = "DIR", default_value = ".")]
    data: PathBuf,
    #[command(flatten)]
    shown: Shown,
}

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// Nothing to do.
    Ok,
    /// A host runs, but slower or less protected than it could.
    Warn,
    /// A host does not start, or stops soon.
    Fail,
}

/// What one check found.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    status: Status,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            status: Status::Ok,
            found: found.into(),
            next: None,
        }
    }

    fn warn(name: &'static str, found: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            status: Status::Warn,
            next: Some(next.into()),
            ..Self::ok(name, found)
        }
    }

    fn fail(name: &'static str, found: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            status: Status::Fail,
            next: Some(next.into()),
            ..Self::ok(name, found)
        }
    }
}

impl Doctor {
    /// Runs the checks.
    pub(crate) fn run(self) -> Result<(), CliError> {
        let output = self.shown.open();
        let mut checks = machine::checks();
        checks.extend(disk::checks(&self.data));
        checks.push(network::port());
        checks.extend(redis::checks());
        print(output, &checks)?;
        if checks.iter().any(|check| check.status == Status::Fail) {
            return Err(CliError::Silent(Exit::Failed));
        }
        output.hint("`host serve --data DIR` starts a host");
        Ok(())
    }
}

fn print(output: Output, checks: &[Check]) -> Result<(), CliError> {
    let documents: Vec<_> = checks
        .iter()
        .map(serde_json::value::to_raw_value)
        .collect::<Result<_, _>>()
        .map_err(|error| CliError::new(Exit::Failed, "write the checks as JSON", error))?;
    let name = |index: usize| checks.get(index).map_or("", |check| check.name).to_owned();
    output.list(&documents, name, || {
        let mut rows = Rows::new(&[
            Column::Left("CHECK"),
            Column::Left("STATUS"),
            Column::Left("FOUND"),
        ]);
        for check in checks {
            let (word, color) = match check.status {
                Status::Ok => ("ok", Color::Green),
                Status::Warn => ("warn", Color::Yellow),
                Status::Fail => ("fail", Color::Red),
            };
            let found = Cell::new(&check.found);
            rows.row(vec![
                Cell::new(check.name),
                Cell::new(word).fg(color),
                found,
            ]);
            if let Some(next) = &check.next {
                rows.row(vec![
                    Cell::new(""),
                    Cell::new(""),
                    Cell::new(format!("→ {next}")),
                ]);
            }
        }
        rows
    })
}
