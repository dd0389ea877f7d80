//! `host backup` and `host restore`: copy a data directory as it is at one moment, and put a copy into
//! the place of a data directory. Both check what they have written.

mod folder;
mod restore;
mod step;

use std::path::{Path, PathBuf};

use clap::Args;
use host_console::error::{CliError, Exit};
use host_console::options::OutputOptions;
use host_console::output::{Output, say};
use host_console::progress::Spinner;
use host_console::table::Rows;
use host_console::{human, plain};
use host_engine::StoreError;
use host_runtime::owner::Owner;
use host_store::backup::Copied;
use serde_json::json;

use self::folder::Way;
use self::step::Step;
use super::{LOGS, STORE, keep_private, leave_note, store_of};

pub(crate) use self::restore::Restore;

/// How much less of a processor the copy gets than a host that needs it.
const NICE: i32 = 10;

/// Back up the data of a host, even while it runs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host backup --data /var/lib/host --to /backup/host-$(date +%F)
  host backup --to /backup/host.db

A directory becomes a copy of the whole data directory, with the logs of jobs and the state of wires. A
file whose name ends in .db gets the jobs, results and components alone. The copy holds each job that
was acknowledged before this command began. It is checked as by `host store check`. Jobs continue
during the copy.

Exit codes: 0 copied and no problems found, 1 not copied or problems found, 5 DIR has no
store.")]
pub(crate) struct Backup {
    /// The data directory
    #[arg(long, value_name = "DIR", default_value = "data")]
    data: PathBuf,
    /// The copy: a directory that does not exist or is empty, or a file that does not exist and ends in
    /// .db
    #[arg(long, value_name = "FILE|DIR")]
    to: PathBuf,
    #[command(flatten)]
    shown: OutputOptions,
}

impl Backup {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), CliError> {
        let output = self.shown.open();
        let (from, to) = (display_path(&self.data), display_path(&self.to));
        let doing = format!("back up {from} to {to}");
        let failed = |cause: &dyn std::fmt::Display| CliError::new(Exit::Failed, &doing, cause);
        let reader = Owner::find(&self.data).map_err(|error| failed(&error))?;
        let original = reader
            .act(|| store_of(&self.data, "--data", &doing))
            .map_err(|error| failed(&error))??;
        if is_inside(&self.to, &self.data) {
            let cause = "a backup inside the data directory would become part of it";
            return Err(CliError::new(Exit::Usage, doing, cause)
                .next("pass --to with a path outside the data directory"));
        }
        let writer = Owner::find(&self.to).map_err(|error| failed(&error))?;
        if let Some(user) = writer.other()
            && reader.other() != Some(user)
        {
            let cause =
                format!("the directory of {to} belongs to user {user}, who could read the backup");
            return Err(CliError::new(Exit::Usage, doing, cause)
                .next("pass --to with a path in a directory of root"));
        }
        keep_private();
        // A host that is busy comes first.
        // Without it, the backup runs at the usual priority.
        let _ = rustix::process::nice(NICE);
        let spinner = Spinner::new(output, &doing);
        let mut step = Step::begin();
        let mut on_progress = |name: &str, copied: Copied| {
            spinner.say(&progress(name, copied));
            step.rest();
        };
        let way = Way {
            from: &self.data,
            reader,
            to: &self.to,
            writer,
        };
        let copied = if is_file(&self.to) {
            let copied = way.copy_store(&original, &self.to, &mut on_progress);
            copied.map(|()| self.to.clone())
        } else {
            writer
                .act(|| folder::make_empty(&self.to))
                .map_err(|error| failed(&error))?
                .and_then(|()| way.copy(&mut on_progress))
                .map(|()| self.to.join(STORE))
        };
        let store = copied.map_err(|error| {
            failed(&error).next(match error {
                StoreError::Damaged { .. } | StoreError::Unreadable { .. } => {
                    "`host store check` shows what is wrong; --to FILE.db copies the jobs without logs.db"
                }
                _ => "pass --to with a new path on a disk with enough space",
            })
        })?;
        spinner.say(&format!("checking {to}"));
        let logs = self.to.is_dir().then(|| self.to.join(LOGS));
        let copy = writer
            .act(|| Copy::check(&store, logs.as_deref(), &doing))
            .map_err(|error| failed(&error))??;
        drop(spinner);
        leave_note(&self.data, "backup", &format!("{from} to {to}"));
        copy.print(output, &self.to)?;
        output.hint(&format!("`host restore {to} --data DIR` restores it"));
        Ok(())
    }
}

/// Returns whether a path that need not exist is below a folder.
fn is_inside(path: &Path, folder: &Path) -> bool {
    let (Ok(path), Ok(folder)) = (std::path::absolute(path), folder.canonicalize()) else {
        return false;
    };
    let above = path.ancestors().find_map(|above| above.canonicalize().ok());
    above.is_some_and(|above| above.starts_with(folder))
}

/// A store that was copied and checked.
struct Copy {
    jobs: u64,
    bytes: u64,
}

impl Copy {
    fn check(store: &Path, logs: Option<&Path>, doing: &str) -> Result<Self, CliError> {
        let mut findings = host_store::check(store);
        findings.extend(logs.and_then(host_store::check_logs));
        for finding in &findings {
            say(&format!(
                "{}: {}",
                plain::line(&finding.what),
                plain::line(&finding.message)
            ));
        }
        if !findings.is_empty() {
            let cause = format!("the copy {} is damaged", display_path(store));
            return Err(CliError::new(Exit::Failed, doing, cause)
                .next("`host store check` shows whether the original is damaged too"));
        }
        let queues = host_store::sqlite::open_reader(store)
            .and_then(|reader| reader.queues())
            .map_err(|error| CliError::new(Exit::Failed, doing, error))?;
        let bytes = std::fs::metadata(store)
            .map_err(|error| CliError::new(Exit::Failed, doing, error))?
            .len();
        Ok(Self {
            jobs: queues.iter().flat_map(|queue| queue.counts).sum(),
            bytes,
        })
    }

    fn print(&self, output: Output, path: &Path) -> Result<(), CliError> {
        let to = display_path(path);
        let document = json!({"path": path, "jobs": self.jobs, "store_bytes": self.bytes});
        output.print_item(&document.to_string(), &to, || {
            let mut rows = Rows::pairs();
            rows.pair("copy", &to);
            rows.pair("jobs", &human::count(self.jobs));
            rows.pair("store", &human::bytes(self.bytes));
            rows.pair("check", "no problems found");
            output.rows(rows)
        })
    }
}

/// Returns whether a path names the copy of a store alone.
fn is_file(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "db") && !path.is_dir()
}

fn display_path(path: &Path) -> String {
    plain::line(&path.display().to_string()).into_owned()
}

fn progress(name: &str, copied: Copied) -> String {
    let percent = (copied.pages * 100).checked_div(copied.pages_total);
    format!("copying {name}: {} %", percent.unwrap_or(100))
}
