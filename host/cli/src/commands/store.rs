//! `host store`: checks the store in a data directory or in a database, moves it from one to the other,
//! and raises the schema of a database, without a host.

mod copy;
pub(crate) mod database;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use host_api::client::Item;
use host_console::error::{CliError, Exit};
use host_console::options::OutputOptions;
use host_console::output::Output;
use host_console::plain;
use host_console::progress::Spinner;
use host_console::table::{Cell, Column, Rows};
use host_store::Finding;
use serde_json::json;

use self::copy::Copy;
use self::database::{DatabaseArgs, StoreOptions};
use super::{LOGS, STORE, as_owner, store_of};

/// Check or copy a store, or inspect and migrate a database.
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
  host store check --store postgres://host@db/jobs

In a data directory, it reads host.db with its log host.db-wal, and logs.db. A host may use the store
during the check, which takes about a minute for ten million jobs.

Exit codes: 0 no problems found, 1 problems found, 5 there is no store.")]
    Check(Check),
    /// Show the server, the schema and the size of a database
    #[command(after_help = "\
Examples:
  host store status --store postgres://host@db/jobs
  host store status --config host.toml -o json

A password comes from store.url_file, from HOST_STORE_URL or from the file of PGPASSFILE.")]
    Status(DatabaseArgs),
    /// Create the tables of a database, or migrate them to the schema of this version
    #[command(after_help = "\
Examples:
  host store migrate --store postgres://host@db/jobs

A host does this when it starts, if its user may. There is no way back to an earlier version.")]
    Migrate(DatabaseArgs),
    /// Move the store of a stopped host to a database, or back
    #[command(after_help = "\
Examples:
  host store copy --from ./data --to postgres://host@db/jobs
  host store copy --from postgres://host@db/jobs --to ./data -o json

Stop the host first. The original is checked, copied, and compared with the copy row by row; then the copy
is checked too. The copy appears once it is complete: if anything fails, nothing is left. The original stays
as it is. Logs of jobs go to a database too, and stay there on the way back. Keys of wires and compiled
components stay in the data directory.

Exit codes: 0 copied and the same, 1 not copied, 5 DIR has no store.")]
    Copy(Copy),
}

#[derive(Debug, Args)]
struct Check {
    /// The data directory [default: data, if no database was given]
    #[arg(long, value_name = "DIR", conflicts_with = "store")]
    data: Option<PathBuf>,
    #[command(flatten)]
    place: StoreOptions,
    #[command(flatten)]
    shown: OutputOptions,
}

impl Store {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Check(check) => check.run(),
            Verb::Status(asked) => asked.status(),
            Verb::Migrate(asked) => asked.migrate(),
            Verb::Copy(copy) => copy.run(),
        }
    }
}

impl Check {
    fn run(self) -> Result<(), CliError> {
        let output = self.shown.open();
        let database = match self.data {
            Some(_) => None,
            None => self.place.find("store", "check the store")?,
        };
        if let Some(database) = database {
            let doing = format!("check the store {}", database.target);
            let spinner = Spinner::new(output, &doing);
            let findings = database::check(&database, &doing, &spinner);
            drop(spinner);
            let next = "make a dump of it as it is now, then restore a backup";
            return report(output, &findings?, &doing, Some(next));
        }
        let data = self.data.unwrap_or_else(|| PathBuf::from("data"));
        let shown = data.join(STORE).display().to_string();
        let doing = format!("check the store {}", plain::line(&shown));
        as_owner(&data, &doing, || {
            let path = store_of(&data, "--data", &doing)?;
            let spinner = Spinner::new(output, &doing);
            let mut findings = host_store::check(&path);
            let advice = "copy the data directory as it is now, then restore a backup";
            let next = (!findings.is_empty()).then_some(advice);
            findings.extend(host_store::check_logs(&data.join(LOGS)));
            drop(spinner);
            report(output, &findings, &doing, next)
        })
    }
}

fn report(
    output: Output,
    findings: &[Finding],
    doing: &str,
    next: Option<&str>,
) -> Result<(), CliError> {
    print(output, findings, doing)?;
    if findings.is_empty() {
        output.note("no problems found");
        return Ok(());
    }
    if let Some(next) = next {
        output.hint(next);
    }
    Err(CliError::Silent(Exit::Failed))
}

fn print(output: Output, findings: &[Finding], doing: &str) -> Result<(), CliError> {
    let documents: Vec<_> = findings
        .iter()
        .map(|finding| {
            let document = json!({"what": finding.what, "message": finding.message});
            Ok(Item::new(document)?.map(|_| finding))
        })
        .collect::<serde_json::Result<_>>()
        .map_err(|error| CliError::new(Exit::Failed, doing, error))?;
    output.list(
        &documents,
        |finding| &finding.what,
        || {
            let mut rows = Rows::new(&[Column::Left("WHAT"), Column::Left("FOUND")]);
            for finding in findings {
                rows.row(vec![
                    Cell::new(plain::line(&finding.what)),
                    Cell::new(plain::line(&finding.message)),
                ]);
            }
            rows
        },
    )
}
