//! `host store`: looks the store in a data directory over, without a host.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use host_console::error::{CliError, Exit};
use host_console::options::Shown;
use host_console::output::Output;
use host_console::plain;
use host_console::progress::Spinner;
use host_console::table::{Cell, Column, Rows};
use host_store::Finding;
use serde_json::json;

/// Look after the store of a data directory.
#[derive(Debug, Args)]
pub(crate) struct Store {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Read all of a store and tell what is not as it must be; changes nothing
    #[command(after_help = "\
Examples:
  host store check --data ./data
  host store check --data /backup/data -o json

A host may use the store meanwhile. Takes about a minute for ten million jobs.

Exit codes: 0 nothing is wrong, 1 something is.")]
    Check(Check),
}

#[derive(Debug, Args)]
struct Check {
    /// The data directory
    #[arg(long, value_name = "DIR", default_value = "data")]
    data: PathBuf,
    #[command(flatten)]
    shown: Shown,
}

impl Store {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Check(check) => check.run(),
        }
    }
}

impl Check {
    fn run(self) -> Result<(), CliError> {
        let output = self.shown.open();
        let path = self.data.join("host.db");
        let shown = path.display().to_string();
        let doing = format!("check the store {}", plain::line(&shown));
        if let Err(error) = std::fs::metadata(&path) {
            return Err(CliError::new(Exit::NotFound, doing, error)
                .next("--data takes the directory that a host was given"));
        }
        let spinner = Spinner::new(output, &doing);
        let findings = host_store::check(&path);
        drop(spinner);
        print(output, &findings, &doing)?;
        if findings.is_empty() {
            output.note("nothing is wrong with it");
            return Ok(());
        }
        output.hint("keep a copy of the directory as it is now, then restore an earlier one");
        Err(CliError::Silent(Exit::Failed))
    }
}

fn print(output: Output, findings: &[Finding], doing: &str) -> Result<(), CliError> {
    let documents: Vec<_> = findings
        .iter()
        .map(|finding| json!({"what": finding.what, "message": finding.message}))
        .map(|finding| serde_json::value::to_raw_value(&finding))
        .collect::<Result<_, _>>()
        .map_err(|error| CliError::new(Exit::Failed, doing, error))?;
    let name = |index: usize| findings.get(index).map_or("", |it| &*it.what).to_owned();
    output.list(&documents, name, || {
        let mut rows = Rows::new(&[Column::Left("WHAT"), Column::Left("FOUND")]);
        for finding in findings {
            rows.row(vec![
                Cell::new(plain::line(&finding.what)),
                Cell::new(plain::line(&finding.message)),
            ]);
        }
        rows
    })
}
