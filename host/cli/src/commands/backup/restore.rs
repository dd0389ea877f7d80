//! `host restore`: makes a data directory of a copy.

use std::path::PathBuf;

use clap::Args;
use host_console::error::{CliError, Exit};
use host_console::options::OutputOptions;
use host_console::progress::Spinner;
use host_runtime::lock::DataLock;
use host_runtime::owner::Owner;
use host_store::backup::Copied;

use super::folder::Way;
use super::{Copy, display_path, progress};
use crate::commands::{LOGS, STORE, keep_private, leave_note};

/// Restore a backup into a data directory.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host restore /backup/host-2026-05-17 --data /var/lib/host
  host restore /backup/host.db --data ./data

DIR must have no store: stop the host and move its data directory away first. The restored store is
checked as by `host store check`. Jobs that ended after the backup was made run again, and jobs that
were accepted after it are missing. Never run two hosts on copies of one store at the same time.")]
pub(crate) struct Restore {
    /// The backup: a directory or a file that `host backup` made
    from: PathBuf,
    /// The data directory to create
    #[arg(long, value_name = "DIR", default_value = "data")]
    data: PathBuf,
    #[command(flatten)]
    shown: OutputOptions,
}

impl Restore {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), CliError> {
        let output = self.shown.open();
        let (from, data) = (display_path(&self.from), display_path(&self.data));
        let doing = format!("restore {from} to {data}");
        let failed = |cause: &dyn std::fmt::Display| CliError::new(Exit::Failed, &doing, cause);
        let reader = Owner::find(&self.from).map_err(|error| failed(&error))?;
        // What is restored into the directory of another user is that user's.
        let writer = Owner::find(&self.data).map_err(|error| failed(&error))?;
        let is_dir = self.from.is_dir();
        let store = if is_dir {
            self.from.join(STORE)
        } else {
            self.from.clone()
        };
        let found = reader.act(|| std::fs::metadata(&store));
        if let Err(error) = found.flatten() {
            return Err(CliError::new(Exit::NotFound, &doing, error)
                .next("pass the directory or the file that `host backup` wrote"));
        }
        keep_private();
        let made = writer.act(|| std::fs::create_dir_all(&self.data));
        made.flatten().map_err(|error| failed(&error))?;
        let lock = writer.act(|| DataLock::take_free(&self.data));
        let _lock = lock
            .map_err(|error| failed(&error))?
            .map_err(|error| failed(&error).next("stop the host first"))?;
        let target = self.data.join(STORE);
        if target.symlink_metadata().is_ok() {
            return Err(failed(&"the data directory already has a store")
                .next("move it away, or give another directory with --data"));
        }
        let spinner = Spinner::new(output, &doing);
        let mut on_progress = |name: &str, copied: Copied| spinner.say(&progress(name, copied));
        let way = Way {
            from: &self.from,
            reader,
            to: &self.data,
            writer,
        };
        let copied = if is_dir {
            way.copy(&mut on_progress)
        } else {
            // A link to a backup is followed.
            let store = reader
                .act(|| store.canonicalize())
                .flatten()
                .map_err(|error| failed(&error))?;
            way.copy_store(&store, &target, &mut on_progress)
        };
        copied.map_err(|error| {
            failed(&error).next(format!("remove what was copied to {data}, and try again"))
        })?;
        spinner.say(&format!("checking {data}"));
        let logs = is_dir.then(|| self.data.join(LOGS));
        let copy = writer
            .act(|| Copy::check(&target, logs.as_deref(), &doing))
            .map_err(|error| failed(&error))??;
        drop(spinner);
        leave_note(&self.data, "restore", &format!("{from} to {data}"));
        copy.print(output, &self.data)?;
        output.hint(&format!("`host serve --data {data}` runs a host with it"));
        Ok(())
    }
}
