//! What a change of a project ends: a wait for one, or the job that runs the old code.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::commands::watch::Watch;

/// Changes that no build has seen, and the job that runs.
#[derive(Default)]
pub(crate) struct Changes {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    paths: Vec<PathBuf>,
    /// Why changes are no longer seen.
    failed: Option<io::Error>,
    job: Option<String>,
}

impl Changes {
    /// Collects changes from now on, in a thread. `cancel` ends the job that runs, whose code has changed.
    pub(crate) fn follow(
        self: &Arc<Self>,
        mut watch: Watch,
        cancel: impl Fn(&str) + Send + 'static,
    ) {
        let changes = Arc::clone(self);
        thread::spawn(move || {
            loop {
                let seen = watch.changed();
                let is_over = seen.is_err();
                if let Some(job) = changes.add(seen) {
                    cancel(&job);
                }
                if is_over {
                    return;
                }
            }
        });
    }

    /// Adds changes, or why there are no more. Returns the job that runs.
    fn add(&self, seen: io::Result<Vec<PathBuf>>) -> Option<String> {
        let mut state = self.lock();
        match seen {
            Ok(paths) => state.paths.extend(paths),
            Err(error) => state.failed = Some(error),
        }
        self.arrived.notify_all();
        state.job.take()
    }

    /// Waits until something has changed, and returns all changes since the last call.
    pub(crate) fn take(&self) -> io::Result<Vec<PathBuf>> {
        let is_quiet = |state: &mut State| state.paths.is_empty() && state.failed.is_none();
        let waited = self.arrived.wait_while(self.lock(), is_quiet);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        match state.failed.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut state.paths)),
        }
    }

    /// Returns whether something has changed since the last call of [`Changes::take`].
    pub(crate) fn has_any(&self) -> bool {
        !self.lock().paths.is_empty()
    }

    /// Notes the job that runs. Returns whether its code has changed already.
    pub(crate) fn begin_job(&self, id: &str) -> bool {
        let mut state = self.lock();
        let is_old = !state.paths.is_empty();
        state.job = (!is_old).then(|| id.to_owned());
        is_old
    }

    /// Forgets the job, which has ended.
    pub(crate) fn end_job(&self) {
        self.lock().job = None;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_ends_the_job_that_runs_or_the_one_that_begins() {
        let changes = Changes::default();
        let change = || changes.add(Ok(vec![PathBuf::from("a")]));
        assert!(!changes.begin_job("1"));
        assert_eq!(change().as_deref(), Some("1"));
        assert!(changes.begin_job("2"), "it runs what was built before");
        assert_eq!(change(), None, "it is cancelled already");
        assert_eq!(changes.take().unwrap().len(), 2);
        assert!(!changes.has_any());
        assert!(!changes.begin_job("3"));
        changes.end_job();
        assert_eq!(change(), None);
    }

    #[test]
    fn a_wait_ends_when_changes_can_no_longer_be_seen() {
        let changes = Changes::default();
        changes.add(Err(io::Error::other("no room")));
        assert_eq!(changes.take().unwrap_err().to_string(), "no room");
    }
}
