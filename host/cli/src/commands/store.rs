//! `host store`: checks the store in a data directory, without a host.

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

/// Check the store of a data directory.
#[derive(Debug, Args)]
pub(crate) struct Store {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Read the whole store and report what is wrong; changes nothing
    #[command(after_help = "\
Examples:
  host store check --data ./data
  host store check --data /backup/data -o json

A host may use the store meanwhile. The check takes about a minute for ten million jobs.

Exit codes: 0 nothing is wrong, 1 something is wrong, 5 DIR has no store.")]
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
                .next("give --data the data directory of a host"));
        }
        let spinner = Spinner::new(output, &doing);
        let findings = host_store::check(&path);
        drop(spinner);
        print(output, &findings, &doing)?;
        if findings.is_empty() {
            output.note("nothing is wrong with it");
            return Ok(());
        }
        output.hint("copy the data directory as it is now, then restore a backup");
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
