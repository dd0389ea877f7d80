//! One file per noun.

pub(crate) mod artifact;
pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod batch;
pub(crate) mod build;
pub(crate) mod cell;
pub(crate) mod completion;
pub(crate) mod component;
pub(crate) mod context;
pub(crate) mod deploy;
pub(crate) mod dev;
pub(crate) mod docs;
pub(crate) mod doctor;
pub(crate) mod egress;
pub(crate) mod explain;
pub(crate) mod failure;
mod grant_options;
pub(crate) mod handler;
pub(crate) mod job;
pub(crate) mod limit;
pub(crate) mod man;
mod moment;
pub(crate) mod new;
pub(crate) mod node;
mod notify;
pub(crate) mod outbox;
pub(crate) mod queue;
pub(crate) mod run;
pub(crate) mod runner;
pub(crate) mod schedule;
pub(crate) mod serve;
mod settings;
pub(crate) mod state;
pub(crate) mod store;
pub(crate) mod token;
pub(crate) mod up;
mod watch;
pub(crate) mod webhook;
pub(crate) mod worker;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use host_console::error::{CliError, Exit};
use host_console::output::say;
use host_console::plain;
use host_runtime::owner::Owner;
use host_server::serve::{LOGS, NODE, STORE};

/// Returns the file of the jobs in the data directory that `flag` names. It must be there.
fn store_of(data: &Path, flag: &str, doing: &str) -> Result<PathBuf, CliError> {
    let path = data.join(STORE);
    let Err(error) = std::fs::metadata(&path) else {
        return Ok(path);
    };
    // Only a host whose jobs are in a database keeps its id in a file.
    if error.kind() == ErrorKind::NotFound && data.join(NODE).exists() {
        let cause = format!("there is no {STORE}: the host keeps its jobs in a database");
        return Err(CliError::new(Exit::NotFound, doing, cause)
            .next("`pg_dump` copies a database, and `host store check --store URL` checks one"));
    }
    Err(CliError::new(Exit::NotFound, doing, error)
        .next(format!("give {flag} the data directory of a host")))
}

/// Runs `work` with the rights of the owner of a data directory, if root runs it. Root follows no name in a directory of
/// another user.
fn as_owner<T>(
    data: &Path,
    doing: &str,
    work: impl FnOnce() -> Result<T, CliError>,
) -> Result<T, CliError> {
    let done = Owner::find(data).and_then(|owner| owner.act(work));
    done.map_err(|error| CliError::new(Exit::Failed, doing, error))?
}

/// Leaves a note for the audit of a data directory's host. What it says is done already, so it only warns on failure.
fn leave_note(data: &Path, verb: &str, object: &str) {
    if let Err(error) = host_server::audit::left::leave(data, verb, object) {
        let data = plain::line(&data.to_string_lossy()).into_owned();
        say(&format!(
            "warning: cannot leave a note for the audit in {data}: {error}"
        ));
    }
}

/// Keeps other users from reading what a command writes from now on.
fn keep_private() {
    use rustix::fs::Mode;
    let _ = rustix::process::umask(Mode::RWXG | Mode::RWXO);
}
