//! What a mock host has, and what of it is kept with the end of an attempt or of a step.

use std::collections::BTreeMap;

use super::Line;
use crate::mock_files::MockFiles;
use crate::request::HttpRequest;
use crate::services::Progress;
use crate::store::{NewJob, StoreError, StoreErrorKind};

#[derive(Default)]
pub(super) struct State {
    pub(super) cancelled: Option<String>,
    pub(super) cancel_after: Option<(u32, String)>,
    pub(super) progress: Vec<(Option<f32>, String)>,
    pub(super) logs: Vec<Line>,
    pub(super) slept_ms: u64,
    pub(super) requests: Vec<HttpRequest>,
    pub(super) enqueued: Vec<EnqueuedJob>,
    pub(super) enqueued_now: Vec<NewJob>,
    pub(super) holds: Vec<(String, u32)>,
    pub(super) statements: Vec<(String, String)>,
    /// The database of each transaction.
    pub(super) transactions: Vec<String>,
    pub(super) files: MockFiles,
    pub(super) values: BTreeMap<Key, Vec<u8>>,
    own_values: Values,
    /// What is kept of each step, by its place.
    journal: Vec<(String, Progress)>,
    /// How many steps the attempt has met, and how often each name.
    met: usize,
    names: BTreeMap<String, u32>,
    step: Option<OpenStep>,
    /// The step before, which has failed. It is kept if another one follows.
    failed: Option<(String, String)>,
}

/// What an attempt or a step has set or removed.
type Values = BTreeMap<Key, Option<Vec<u8>>>;

/// A space, and a key in it.
pub(super) type Key = (Option<String>, String);

pub(super) struct EnqueuedJob {
    pub(super) job: NewJob,
    /// Whether it stays, however the attempt ends.
    is_kept: bool,
}

/// The step that runs.
struct OpenStep {
    name: String,
    values: Values,
    /// How many jobs and artifacts the attempt had when it began.
    jobs: usize,
    artifacts: usize,
}

fn invalid(message: String) -> StoreError {
    let kind = StoreErrorKind::InvalidRequest;
    StoreError { kind, message }
}

impl State {
    pub(super) fn value(&self, key: &Key) -> Option<&Vec<u8>> {
        let in_step = self.step.as_ref().and_then(|step| step.values.get(key));
        match in_step.or_else(|| self.own_values.get(key)) {
            Some(own) => own.as_ref(),
            None => self.values.get(key),
        }
    }

    /// Returns all keys, some of them several times, and those that were removed.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        let in_step = self.step.iter().flat_map(|step| step.values.keys());
        let own = self.own_values.keys();
        self.values.keys().chain(own).chain(in_step)
    }

    pub(super) fn set(&mut self, key: Key, value: Option<Vec<u8>>) {
        let step = self.step.as_mut();
        let values = step.map_or(&mut self.own_values, |step| &mut step.values);
        values.insert(key, value);
    }

    pub(super) fn enqueue(&mut self, jobs: &[NewJob]) {
        let new = jobs.iter().map(|job| EnqueuedJob {
            job: job.clone(),
            is_kept: false,
        });
        self.enqueued.extend(new);
    }

    /// Keeps what an attempt has written if it has completed, and drops it otherwise.
    pub(super) fn end(&mut self, completed: bool) {
        self.drop_step();
        self.met = 0;
        self.names.clear();
        self.failed = None;
        let own = std::mem::take(&mut self.own_values);
        if completed {
            self.keep(own, 0, 0);
        }
        self.enqueued.retain(|it| it.is_kept);
        self.files.truncate(0);
    }

    /// Keeps values, and the jobs and artifacts from these on.
    fn keep(&mut self, values: Values, jobs: usize, artifacts: usize) {
        for (key, value) in values {
            match value {
                Some(value) => drop(self.values.insert(key, value)),
                None => drop(self.values.remove(&key)),
            }
        }
        for job in &mut self.enqueued[jobs..] {
            job.is_kept = true;
        }
        self.files.keep(artifacts);
    }

    /// Begins the next step, as the host does.
    pub(super) fn begin_step(&mut self, name: &str) -> Result<Progress, StoreError> {
        if let Some(step) = &self.step {
            let open = &step.name;
            return Err(invalid(format!(
                "the step {open} has not ended: a step cannot begin within another one or beside it"
            )));
        }
        if let Some((name, error)) = self.failed.take() {
            self.journal.truncate(self.met - 1);
            self.journal.push((name, Progress::Failed(error)));
        }
        let count = self.names.entry(name.to_owned()).or_default();
        *count += 1;
        let name = match *count {
            1 => name.to_owned(),
            count => format!("{name}#{count}"),
        };
        let kept = self.journal.get(self.met).cloned();
        self.met += 1;
        let progress = match kept {
            Some((kept, _)) if kept != name => {
                return Err(invalid(format!(
                    "the handler begins the step {name:?} where an earlier attempt has begun {kept:?}"
                )));
            }
            Some((_, progress)) => progress,
            None => Progress::New,
        };
        if matches!(progress, Progress::New | Progress::Begun(_)) {
            self.open_step(name);
        }
        Ok(progress)
    }

    fn open_step(&mut self, name: String) {
        self.step = Some(OpenStep {
            name,
            values: Values::new(),
            jobs: self.enqueued.len(),
            artifacts: self.files.count_written(),
        });
    }

    /// Keeps what the step has written, and how far it is.
    pub(super) fn commit_step(&mut self, progress: Progress) -> Result<(), StoreError> {
        let step = self.take_step()?;
        for key in step.values.keys() {
            self.own_values.remove(key);
        }
        self.keep(step.values, step.jobs, step.artifacts);
        self.journal.truncate(self.met - 1);
        self.journal.push((step.name, progress));
        Ok(())
    }

    /// Opens the step again that has committed a checkpoint.
    pub(super) fn continue_step(&mut self) {
        if let Some((name, _)) = self.journal.last() {
            self.open_step(name.clone());
        }
    }

    /// Ends the step without a result.
    pub(super) fn fail_step(&mut self, error: &str) -> Result<(), StoreError> {
        let Some(name) = self.drop_step() else {
            return Err(invalid("no step has begun".to_owned()));
        };
        self.failed = Some((name, error.to_owned()));
        Ok(())
    }

    fn take_step(&mut self) -> Result<OpenStep, StoreError> {
        let step = self.step.take();
        step.ok_or_else(|| invalid("no step has begun".to_owned()))
    }

    /// Drops what the step has written. Returns its name.
    fn drop_step(&mut self) -> Option<String> {
        let step = self.step.take()?;
        self.enqueued.truncate(step.jobs);
        self.files.truncate(step.artifacts);
        Some(step.name)
    }

    pub(super) fn steps_done(&self) -> Vec<String> {
        let done = |(name, progress): &(String, Progress)| {
            matches!(progress, Progress::Done(_)).then(|| name.clone())
        };
        self.journal.iter().filter_map(done).collect()
    }
}
