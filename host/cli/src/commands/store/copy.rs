//! `host store copy`: moves the store of a host that is stopped from its data directory to a database, or
//! back.

use std::path::{Path, PathBuf};

use clap::Args;
use host_console::error::{CliError, Exit};
use host_console::options::OutputOptions;
use host_console::output::{Output, say};
use host_console::progress::Spinner;
use host_console::table::Rows;
use host_console::{human, plain};
use host_runtime::ids;
use host_runtime::lock::DataLock;
use host_server::config::Database;
use host_store::Finding;
use host_store::copy::{self, Moved, Progress, Step};
use host_store::postgres::target::Target;
use serde_json::json;

use super::database::{self, StoreOptions};
use crate::commands::{STORE, as_owner, keep_private, leave_note, store_of};

#[derive(Debug, Args)]
pub(super) struct Copy {
    /// The data directory or the database to copy
    #[arg(long, value_name = "DIR|URL", default_value = "data")]
    from: String,
    /// Where to: a database that no host has used, or a data directory without a store [default: the
    /// database that `HOST_STORE_URL` or the configuration names]
    #[arg(long, value_name = "URL|DIR")]
    to: Option<String>,
    /// The configuration file (TOML); `HOST_CONFIG` names it too
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    shown: OutputOptions,
}

/// One end of a copy.
enum End {
    Data(PathBuf),
    Database(Box<Database>),
}

impl End {
    fn parse(
        flag: &str,
        stated: Option<String>,
        config: Option<PathBuf>,
        doing: &str,
    ) -> Result<Self, CliError> {
        match stated {
            Some(path) if !Target::is_url(&path) => Ok(Self::Data(path.into())),
            store => {
                let place = StoreOptions { config, store };
                Ok(Self::Database(Box::new(place.need(flag, doing)?)))
            }
        }
    }

    fn display(&self) -> String {
        match self {
            Self::Data(dir) => plain::line(&dir.display().to_string()).into_owned(),
            Self::Database(database) => database.target.to_string(),
        }
    }

    fn check(&self, doing: &str, spinner: &Spinner) -> Result<Vec<Finding>, CliError> {
        match self {
            Self::Data(dir) => as_owner(dir, doing, || Ok(host_store::check(&dir.join(STORE)))),
            Self::Database(database) => database::check(database, doing, spinner),
        }
    }
}

impl Copy {
    pub(super) fn run(self) -> Result<(), CliError> {
        let output = self.shown.open();
        let doing = "copy the store";
        let from = End::parse("from", Some(self.from), self.config.clone(), doing)?;
        let to = End::parse("to", self.to, self.config, doing)?;
        let doing = format!("copy the store {} to {}", from.display(), to.display());
        let spinner = Spinner::new(output, &format!("checking {}", from.display()));
        let mut on_progress = |progress: Progress| spinner.say(&line(progress));
        let mut check = || from.check(&doing, &spinner);
        let moved = match (&from, &to) {
            (End::Data(dir), End::Database(database)) => {
                // The owner is the host's user, who reaches the database, too.
                as_owner(dir, &doing, || {
                    into_database(dir, database, &doing, &mut check, &mut on_progress)
                })
            }
            (End::Database(database), End::Data(dir)) => as_owner(dir, &doing, || {
                into_data(database, dir, &doing, &mut check, &mut on_progress)
            }),
            _ => Err(CliError::new(
                Exit::Usage,
                &doing,
                "one of --from and --to must be a data directory, and the other a database",
            )),
        }?;
        spinner.say(&format!("checking {}", to.display()));
        let found = to.check(&doing, &spinner)?;
        drop(spinner);
        refuse(&found, &doing, "the copy")?;
        if let (End::Data(data), _) | (_, End::Data(data)) = (&from, &to) {
            let object = format!("{} to {}", from.display(), to.display());
            leave_note(data, "copy", &object);
        }
        print(output, moved, &from, &to)?;
        output.hint(&next(&to));
        Ok(())
    }
}

/// What the copy calls on its way: a check of the original, and how far it is.
type Check<'a> = &'a mut dyn FnMut() -> Result<Vec<Finding>, CliError>;
type OnProgress<'a> = &'a mut dyn FnMut(Progress);

fn into_database(
    dir: &Path,
    database: &Database,
    doing: &str,
    check: Check<'_>,
    on_progress: OnProgress<'_>,
) -> Result<Moved, CliError> {
    let store = store_of(dir, "--from", doing)?;
    let _lock = lock(dir, doing)?;
    refuse(&check()?, doing, "the original")?;
    let (to, allow_unsafe) = (&database.target, database.allow_unsafe);
    copy::to_postgres(&store, to, allow_unsafe, ids::node(), on_progress)
        .map_err(|error| CliError::new(Exit::Failed, doing, error))
}

fn into_data(
    database: &Database,
    dir: &Path,
    doing: &str,
    check: Check<'_>,
    on_progress: OnProgress<'_>,
) -> Result<Moved, CliError> {
    keep_private();
    std::fs::create_dir_all(dir).map_err(|error| CliError::new(Exit::Failed, doing, error))?;
    let _lock = lock(dir, doing)?;
    let store = dir.join(STORE);
    if store.exists() {
        let cause = "the data directory already has a store";
        return Err(CliError::new(Exit::Failed, doing, cause)
            .next("move it away, or give another directory with --to"));
    }
    refuse(&check()?, doing, "the original")?;
    copy::to_sqlite(&database.target, &store, on_progress)
        .map_err(|error| CliError::new(Exit::Failed, doing, error))
}

fn lock(dir: &Path, doing: &str) -> Result<DataLock, CliError> {
    DataLock::take_free(dir)
        .map_err(|error| CliError::new(Exit::Failed, doing, error).next("stop the host first"))
}

/// Shows what a check has found, and refuses to copy after findings.
fn refuse(found: &[Finding], doing: &str, which: &str) -> Result<(), CliError> {
    if found.is_empty() {
        return Ok(());
    }
    for Finding { what, message } in found {
        say(&format!("{}: {}", plain::line(what), plain::line(message)));
    }
    let cause = format!("{which} is damaged");
    Err(CliError::new(Exit::Failed, doing, cause).next(
        "`host store check` shows the same; restore a backup, or keep both unchanged and ask for help",
    ))
}

fn line(progress: Progress) -> String {
    let Progress {
        step,
        part,
        rows,
        rows_total,
    } = progress;
    let step = match step {
        Step::Copying => "copying",
        Step::Verifying => "verifying",
    };
    let percent = (rows * 100).checked_div(rows_total).unwrap_or(100);
    format!(
        "{step} {part}: {percent} % of {} rows",
        human::count(rows_total)
    )
}

fn print(output: Output, moved: Moved, from: &End, to: &End) -> Result<(), CliError> {
    let (from, to) = (from.display(), to.display());
    let document = json!({
        "from": from,
        "to": to,
        "jobs": moved.jobs,
        "components": moved.components,
        "rows": moved.rows,
    });
    output.print_item(&document.to_string(), &to, || {
        let mut rows = Rows::pairs();
        rows.pair("from", &from);
        rows.pair("to", &to);
        rows.pair("jobs", &human::count(moved.jobs));
        rows.pair("components", &human::count(moved.components));
        rows.pair("rows", &human::count(moved.rows));
        rows.pair(
            "check",
            "all rows are the same, and the copy has no problems",
        );
        output.rows(rows)
    })
}

fn next(to: &End) -> String {
    let place = match to {
        End::Database(_) => "`host serve` with the same --data and --store",
        End::Data(_) => "`host serve` with --data and without a database",
    };
    format!("{place} continues with the copy; the original is unchanged: do not run a host on both")
}
