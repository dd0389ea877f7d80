//! `host outbox`: jobs that applications enqueue in transactions of their own `PostgreSQL`.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use host_api::client::Item;
use host_console::error::{CliError, Exit};
use host_console::options::OutputOptions;
use host_console::output::put_with;
use host_console::plain;
use host_console::table::{Cell, Column, Rows};
use host_outbox::Roles;
use host_server::config::{environment, passfile};
use host_store::postgres::outside::OutsideError;
use host_store::postgres::target::Target;
use serde_json::json;

/// How many refused jobs are shown.
const REFUSALS_MAX: i64 = 20;

/// Enqueue jobs in transactions of your own PostgreSQL
#[derive(Debug, Args)]
pub(crate) struct Outbox {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create the schema `host` with the function host.enqueue in a database, or bring it up to date
    #[command(after_help = "\
Examples:
  host outbox install --database postgres://owner@db/shop --producer shop --host-role jobs
  host outbox install --print --producer shop --host-role jobs > migrations/0042_host_outbox.sql

A password comes from --database-file or from the file of PGPASSFILE. Then, in any transaction:
  SELECT host.enqueue('mail', '{\"to\": \"a@example.com\"}', '{\"queue\": \"mail\"}');")]
    Install(Install),
    /// Show how many jobs wait in an outbox, and which were refused
    #[command(after_help = "\
Examples:
  host outbox status --database postgres://jobs@db/shop
  host outbox status --database-file /run/secrets/outbox -o json")]
    Status(Place),
    /// Let the host look at the refused jobs again, after what was wrong is mended
    #[command(after_help = "Example:\n  host outbox retry --database postgres://jobs@db/shop")]
    Retry(Place),
}

#[derive(Debug, Args)]
struct Install {
    /// A role that may enqueue jobs; can be given several times
    #[arg(long, value_name = "ROLE")]
    producer: Vec<String>,
    /// A role as which a host takes jobs; can be given several times
    #[arg(long, value_name = "ROLE")]
    host_role: Vec<String>,
    /// Print the statements instead of running them
    #[arg(long, conflicts_with_all = ["database", "database_file"])]
    print: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
struct Place {
    /// The application's database
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// A file with the address of the database, which only its owner may read
    #[arg(long, value_name = "FILE", conflicts_with = "database")]
    database_file: Option<PathBuf>,
    #[command(flatten)]
    shown: OutputOptions,
}

impl Outbox {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Install(install) => install.run(),
            Verb::Status(place) => place.status(),
            Verb::Retry(place) => place.retry(),
        }
    }
}

impl Install {
    fn run(self) -> Result<(), CliError> {
        let roles = Roles {
            producers: self.producer,
            hosts: self.host_role,
        };
        if self.print {
            let script = host_outbox::script(&roles);
            return put_with(|stdout| stdout.write_all(script.as_bytes()));
        }
        let output = self.place.shown.open();
        let doing = "install the outbox";
        let target = self.place.target(doing)?;
        host_outbox::install(&target, &roles).map_err(|error| failed(doing, &error))?;
        output.note(&format!("installed the outbox in {target}"));
        Ok(())
    }
}

impl Place {
    fn target(&self, doing: &str) -> Result<Target, CliError> {
        let refused = |cause: String| CliError::new(Exit::Usage, doing, cause);
        let url = match (&self.database, &self.database_file) {
            (Some(url), _) if Target::has_password(url) => {
                let cause = "other users can see command-line flags; put the address with its password in \
                             --database-file, or the password in the file of PGPASSFILE";
                return Err(refused(cause.to_owned()));
            }
            (Some(url), _) => url.clone(),
            (None, Some(file)) => {
                Target::check_file(file).map_err(|error| refused(error.to_string()))?;
                let read = std::fs::read_to_string(file);
                read.map_err(|error| refused(format!("{}: {error}", file.display())))?
            }
            (None, None) => {
                return Err(refused("no database was given".to_owned())
                    .next("name it with --database or --database-file"));
            }
        };
        let variables = environment();
        let passfile = passfile(|name| variables.get(name).map(String::as_str));
        let target = Target::parse(url.trim(), passfile.as_deref());
        target.map_err(|error| refused(format!("invalid database URL: {error}")))
    }

    fn status(self) -> Result<(), CliError> {
        let output = self.shown.open();
        let doing = "show the outbox";
        let target = self.target(doing)?;
        let status =
            host_outbox::status(&target, REFUSALS_MAX).map_err(|error| failed(doing, &error))?;
        let refusals = status.refusals.iter().map(
            |it| json!({"id": it.id.to_string(), "handler": it.handler, "problem": it.problem}),
        );
        let document = json!({
            "waiting": status.waiting,
            "oldest_seconds": status.oldest_seconds,
            "refused": status.refused,
            "refusals": refusals.collect::<Vec<_>>(),
        });
        let item =
            Item::new(&document).map_err(|error| CliError::new(Exit::Failed, doing, error))?;
        output.list(
            &[item],
            |_| "",
            || {
                let mut rows = Rows::new(&[Column::Left("WHAT"), Column::Left("FOUND")]);
                let mut row = |name: &str, value: &str| {
                    let value = plain::line(value).into_owned();
                    rows.row(vec![Cell::new(name.to_owned()), Cell::new(value)]);
                };
                row("WAITING", &status.waiting.to_string());
                row("OLDEST", &format!("{} s", status.oldest_seconds));
                row("REFUSED", &status.refused.to_string());
                for it in &status.refusals {
                    let (id, handler, problem) = (it.id, &it.handler, &it.problem);
                    row("", &format!("{id} {handler}: {problem}"));
                }
                rows
            },
        )
    }

    fn retry(self) -> Result<(), CliError> {
        let output = self.shown.open();
        let doing = "retry the jobs of the outbox";
        let target = self.target(doing)?;
        let retried = host_outbox::retry(&target).map_err(|error| failed(doing, &error))?;
        output.note(&format!("{retried} jobs wait again"));
        Ok(())
    }
}

fn failed(doing: &str, error: &OutsideError) -> CliError {
    CliError::new(Exit::Failed, doing, error)
}
