//! What an attempt writes to the store exactly if it completes: the jobs that it enqueues and the state that it sets.
//! It is collected while the guest runs, and committed with the attempt's end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::artifact::{ARTIFACTS_MAX, NewArtifact};
use crate::id::{BatchId, LeaseId};
use crate::job::{DEPENDENCIES_MAX, NewJob, Origin};
use crate::outcome::Outcome;
use crate::secret::{Revealed, Secret};
use crate::state::{KEYS_MAX, Space, StateWrite, StateWrites};

/// The most jobs that one attempt enqueues for its end.
pub const JOBS_MAX: usize = 1_000;

/// The most jobs that one attempt enqueues before its end.
pub(crate) const JOBS_NOW_MAX: usize = 10_000;

/// The most that one attempt writes at its end, in bytes.
pub(crate) const WRITES_BYTES_MAX: usize = 8 << 20;

/// The most that all running attempts of a host write at their ends, in bytes.
const ALL_BYTES_MAX: usize = 256 << 20;

/// What an attempt writes if it completes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Writes {
    /// The jobs that it enqueues, in order.
    pub jobs: Vec<NewJob>,
    /// The state that it sets.
    pub state: Vec<StateWrites>,
    /// The files that it produces.
    pub artifacts: Vec<NewArtifact>,
}

/// Why an attempt may write no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TooMuch {
    #[error("an attempt may enqueue at most {JOBS_MAX} jobs for its end; use enqueue-now for more")]
    Jobs,
    #[error(
        "an attempt may enqueue at most {JOBS_NOW_MAX} jobs immediately, with all of its calls together"
    )]
    JobsNow,
    #[error(
        "the jobs of an attempt may name at most {DEPENDENCIES_MAX} jobs in depends_on together"
    )]
    Dependencies,
    #[error("an attempt may set at most {KEYS_MAX} keys at its end; set some earlier")]
    Keys,
    #[error("an attempt may write at most {WRITES_BYTES_MAX} bytes at its end; write some earlier")]
    Bytes,
    #[error("an attempt may keep at most {ARTIFACTS_MAX} artifacts")]
    Artifacts,
    #[error("all running attempts together write more than {ALL_BYTES_MAX} bytes at their ends")]
    AllBytes,
}

impl Writes {
    pub const fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.state.is_empty() && self.artifacts.is_empty()
    }
}

/// How many bytes the attempts of a host have collected.
#[derive(Clone, Debug, Default)]
pub struct CollectedBytes(Arc<AtomicUsize>);

/// Collects what an attempt writes, and knows which secrets it has seen. Clones share it. The handlers of a chain run
/// one after the other and write into the same buffer; what a handler has written counts only if it completes.
#[derive(Clone, Debug)]
pub struct WriteBuffer(Arc<Mutex<Collected>>);

#[derive(Debug)]
struct Collected {
    /// By the handlers that have completed.
    kept: Layer,
    /// By the handler that runs.
    open: Layer,
    /// By the step that it has begun.
    step: Option<Layer>,
    /// How the host has decided that the attempt ends.
    decided: Option<Outcome>,
    /// How many jobs were enqueued before the end.
    jobs_now: usize,
    /// Those that its jobs make.
    batches: BTreeSet<BatchId>,
    of_all: CollectedBytes,
    /// Who enqueued the job of the attempt.
    origin: Option<Box<Origin>>,
    /// The lease of the attempt, if it may hold keys of limits.
    holder: Option<LeaseId>,
    revealed: Revealed,
    /// What must not be removed before the end.
    held: Vec<Box<dyn Hold>>,
}

/// Holds something until it is dropped.
pub trait Hold: fmt::Debug + Send {}

/// What was collected of some handlers.
#[derive(Debug, Default)]
struct Layer {
    jobs: Vec<NewJob>,
    dependencies: usize,
    state: StateByKey,
    artifacts: BTreeMap<String, NewArtifact>,
    bytes: usize,
}

impl Layer {
    /// Returns what it has, `None` if that is nothing.
    fn writes(self) -> Option<Box<Writes>> {
        let writes = Writes {
            jobs: self.jobs,
            state: by_space(self.state),
            artifacts: self.artifacts.into_values().collect(),
        };
        (!writes.is_empty()).then(|| Box::new(writes))
    }
}

/// The changes of keys, and the quota of the handler that makes them.
type StateByKey = BTreeMap<(Space, String), (StateWrite, u64)>;

impl Collected {
    /// Returns what was collected, the latest first.
    fn layers(&self) -> impl Iterator<Item = &Layer> {
        self.step.iter().chain([&self.open, &self.kept])
    }

    fn latest(&mut self) -> &mut Layer {
        self.step.as_mut().unwrap_or(&mut self.open)
    }

    fn sum(&self, of: impl Fn(&Layer) -> usize) -> usize {
        self.layers().map(of).sum()
    }

    /// Drops what the step has written, if one has begun.
    fn drop_step(&mut self) {
        if let Some(dropped) = self.step.take() {
            self.of_all.0.fetch_sub(dropped.bytes, Ordering::Relaxed);
        }
    }

    /// Reserves room for the handler that runs.
    fn reserve(&mut self, bytes: usize) -> Result<(), TooMuch> {
        if self.sum(|it| it.bytes) + bytes > WRITES_BYTES_MAX {
            return Err(TooMuch::Bytes);
        }
        let of_all = &self.of_all.0;
        if of_all.fetch_add(bytes, Ordering::Relaxed) + bytes > ALL_BYTES_MAX {
            of_all.fetch_sub(bytes, Ordering::Relaxed);
            return Err(TooMuch::AllBytes);
        }
        self.latest().bytes += bytes;
        Ok(())
    }

    /// Records the batches that jobs make.
    fn note_batches(&mut self, jobs: &[NewJob]) {
        let started = jobs.iter().filter(|job| job.starts_batch());
        self.batches.extend(started.filter_map(NewJob::batch_id));
    }

    /// Gives room back.
    fn release(&mut self, bytes: usize) {
        self.latest().bytes -= bytes;
        self.of_all.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Collected {
    fn drop(&mut self) {
        let bytes = self.sum(|it| it.bytes);
        self.of_all.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl WriteBuffer {
    /// Makes a buffer for an attempt, which counts together with others.
    pub fn new(of_all: CollectedBytes, origin: Option<Box<Origin>>) -> Self {
        Self(Arc::new(Mutex::new(Collected {
            kept: Layer::default(),
            open: Layer::default(),
            step: None,
            decided: None,
            jobs_now: 0,
            batches: BTreeSet::new(),
            of_all,
            origin,
            holder: None,
            revealed: Revealed::default(),
            held: Vec::new(),
        })))
    }

    /// Lets the attempt with this lease hold keys of the limits of its job.
    pub fn let_hold(&self, lease: LeaseId) {
        self.lock().holder = Some(lease);
    }

    /// Returns the lease of the attempt if its job has limits.
    pub fn holder(&self) -> Option<LeaseId> {
        self.lock().holder
    }

    /// Counts jobs that are enqueued before the end.
    pub fn count_now(&self, jobs: &[NewJob]) -> Result<(), TooMuch> {
        let mut collected = self.lock();
        if collected.jobs_now + jobs.len() > JOBS_NOW_MAX {
            return Err(TooMuch::JobsNow);
        }
        collected.jobs_now += jobs.len();
        collected.note_batches(jobs);
        Ok(())
    }

    /// Returns who enqueued the job of the attempt. Jobs that it enqueues have the same origin.
    pub fn origin(&self) -> Option<Box<Origin>> {
        self.lock().origin.clone()
    }

    /// Notes that the attempt gets to see a secret.
    pub fn reveal(&self, secret: Secret) {
        self.lock().revealed.add(secret);
    }

    /// Returns the secrets that the attempt has seen; `None` if there are none.
    pub fn revealed(&self) -> Option<Revealed> {
        let collected = self.lock();
        let revealed = &collected.revealed;
        (!revealed.is_empty()).then(|| revealed.clone())
    }

    /// Adds jobs, all or none.
    pub fn enqueue(&self, jobs: Vec<NewJob>) -> Result<(), TooMuch> {
        let mut collected = self.lock();
        if collected.sum(|it| it.jobs.len()) + jobs.len() > JOBS_MAX {
            return Err(TooMuch::Jobs);
        }
        let named: usize = jobs.iter().map(|job| job.depends_on.len()).sum();
        if collected.sum(|it| it.dependencies) + named > DEPENDENCIES_MAX {
            return Err(TooMuch::Dependencies);
        }
        collected.reserve(jobs.iter().map(NewJob::bytes).sum())?;
        collected.note_batches(&jobs);
        let latest = collected.latest();
        latest.dependencies += named;
        latest.jobs.extend(jobs);
        Ok(())
    }

    /// Reserves room for the content of artifacts.
    pub fn reserve(&self, bytes: usize) -> Result<(), TooMuch> {
        self.lock().reserve(bytes)
    }

    /// Adds a file, instead of an earlier one of its name. It is held until the buffer is dropped. Room for its content was
    /// reserved.
    pub fn add_artifact(&self, new: NewArtifact, hold: Box<dyn Hold>) -> Result<(), TooMuch> {
        let mut collected = self.lock();
        if collected.held.len() >= ARTIFACTS_MAX {
            return Err(TooMuch::Artifacts);
        }
        collected.held.push(hold);
        let name = new.artifact.name.clone();
        collected.latest().artifacts.insert(name, new);
        Ok(())
    }

    /// Returns whether a job of the attempt makes a batch.
    pub fn makes(&self, batch: BatchId) -> bool {
        self.lock().batches.contains(&batch)
    }

    /// Changes a key of state. What is expected of the key counts for the first change.
    pub fn set_state(
        &self,
        space: Space,
        quota_bytes: u64,
        mut write: StateWrite,
    ) -> Result<(), TooMuch> {
        let mut collected = self.lock();
        let key = (space, write.key.clone());
        let own = collected.latest().state.get(&key);
        let replaced = own.map(|(write, _)| write.bytes());
        if replaced.is_none() && collected.sum(|it| it.state.len()) >= KEYS_MAX {
            return Err(TooMuch::Keys);
        }
        if let Some((first, _)) = collected.layers().find_map(|it| it.state.get(&key)) {
            write.expected.clone_from(&first.expected);
        }
        collected.reserve(write.bytes())?;
        collected.release(replaced.unwrap_or_default());
        collected.latest().state.insert(key, (write, quota_bytes));
        Ok(())
    }

    /// Returns what the attempt has set a key to; `Some(None)` if it has removed it.
    pub fn state(&self, space: &Space, key: &str) -> Option<Option<Vec<u8>>> {
        let collected = self.lock();
        let key = (space.clone(), key.to_owned());
        let found = collected.layers().find_map(|it| it.state.get(&key));
        found.map(|(write, _)| write.value.clone())
    }

    /// Returns the keys of a space that the attempt has set or removed, and whether it has set them.
    pub fn state_keys(&self, space: &Space) -> BTreeMap<String, bool> {
        let collected = self.lock();
        let mut keys = BTreeMap::new();
        for ((of, key), (write, _)) in collected.layers().flat_map(|it| &it.state) {
            if of == space {
                keys.entry(key.clone()).or_insert(write.value.is_some());
            }
        }
        keys
    }

    /// Records that the next handler of the attempt begins: what the one before has written is dropped, unless it was
    /// kept.
    pub fn begin(&self) {
        let mut collected = self.lock();
        collected.drop_step();
        let dropped = std::mem::take(&mut collected.open);
        let of_all = &collected.of_all.0;
        of_all.fetch_sub(dropped.bytes, Ordering::Relaxed);
    }

    /// Records that the handler that runs begins a step, or has committed a checkpoint of it.
    pub fn begin_step(&self) {
        let mut collected = self.lock();
        collected.drop_step();
        collected.step = Some(Layer::default());
    }

    /// Takes what was collected since the step began or its last checkpoint. It counts until the step continues or ends.
    pub fn take_step(&self) -> Option<Box<Writes>> {
        let mut collected = self.lock();
        let step = collected.step.as_mut()?;
        let taken = std::mem::take(step);
        step.bytes = taken.bytes;
        taken.writes()
    }

    /// Records that changes of keys are stored: earlier ones of the attempt no longer count.
    pub fn supersede(&self, stored: &[StateWrites]) {
        let mut collected = self.lock();
        let Collected { kept, open, .. } = &mut *collected;
        for StateWrites { space, writes, .. } in stored {
            for write in writes {
                let key = (space.clone(), write.key.clone());
                kept.state.remove(&key);
                open.state.remove(&key);
            }
        }
    }

    /// Ends the step: what it has written and not committed is dropped.
    pub fn end_step(&self) {
        self.lock().drop_step();
    }

    /// Decides how the attempt ends, whatever the guest reports.
    pub fn decide(&self, outcome: Outcome) {
        self.lock().decided = Some(outcome);
    }

    /// Returns how the host has decided that the attempt ends.
    pub fn decided(&self) -> Option<Outcome> {
        self.lock().decided.clone()
    }

    /// Keeps what the handler that runs has written: it has completed.
    pub fn keep(&self) {
        let mut collected = self.lock();
        collected.drop_step();
        let open = std::mem::take(&mut collected.open);
        let kept = &mut collected.kept;
        kept.bytes += open.bytes;
        kept.dependencies += open.dependencies;
        kept.jobs.extend(open.jobs);
        kept.state.extend(open.state);
        kept.artifacts.extend(open.artifacts);
    }

    /// Takes what was collected: the attempt has completed. `None` if it is nothing.
    pub fn take(&self) -> Option<Box<Writes>> {
        self.keep();
        let mut collected = self.lock();
        let taken = std::mem::take(&mut collected.kept);
        // They count until the buffer is dropped.
        collected.kept.bytes = taken.bytes;
        taken.writes()
    }

    fn lock(&self) -> MutexGuard<'_, Collected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts the changes of each space together.
fn by_space(state: StateByKey) -> Vec<StateWrites> {
    let mut spaces: Vec<StateWrites> = Vec::new();
    for ((space, _), (write, quota_bytes)) in state {
        match spaces.last_mut().filter(|last| last.space == space) {
            Some(last) => {
                last.quota_bytes = last.quota_bytes.max(quota_bytes);
                last.writes.push(write);
            }
            None => spaces.push(StateWrites {
                space,
                quota_bytes,
                writes: vec![write],
            }),
        }
    }
    spaces
}

/// Two buffers are equal if they are the same.
impl PartialEq for WriteBuffer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Space {
        "handler:a".parse().unwrap()
    }

    fn write(key: &str, value: Option<&[u8]>) -> StateWrite {
        StateWrite {
            key: key.to_owned(),
            value: value.map(<[u8]>::to_vec),
            expected: None,
        }
    }

    #[test]
    fn what_a_handler_has_written_counts_if_it_completes() {
        let buffer = WriteBuffer::new(CollectedBytes::default(), None);
        let set = |key: &str, value: &[u8]| {
            let write = write(key, Some(value));
            buffer.set_state(space(), 1 << 20, write).unwrap();
        };
        set("a", b"1");
        buffer.keep();
        set("a", b"2");
        set("b", b"2");
        assert_eq!(buffer.state(&space(), "a"), Some(Some(b"2".to_vec())));
        buffer.begin();
        assert_eq!(buffer.state(&space(), "a"), Some(Some(b"1".to_vec())));
        assert_eq!(buffer.state(&space(), "b"), None);
        let writes = buffer.take().unwrap();
        assert_eq!(writes.state[0].writes, [write("a", Some(b"1"))]);
        assert_eq!(buffer.take(), None);
    }

    #[test]
    fn what_a_step_has_written_is_apart_and_takes_the_place_of_earlier_changes() {
        let buffer = WriteBuffer::new(CollectedBytes::default(), None);
        let set = |key: &str, value: &[u8]| {
            let write = write(key, Some(value));
            buffer.set_state(space(), 1 << 20, write).unwrap();
        };
        let value = |key: &str| buffer.state(&space(), key).flatten();
        set("a", b"before");
        set("b", b"before");
        assert_eq!(buffer.take_step(), None);
        buffer.begin_step();
        assert_eq!(value("a"), Some(b"before".to_vec()));
        set("a", b"step");
        let keys = BTreeMap::from([("a".to_owned(), true), ("b".to_owned(), true)]);
        assert_eq!(buffer.state_keys(&space()), keys);
        // Dropped.
        buffer.end_step();
        assert_eq!(value("a"), Some(b"before".to_vec()));
        // Committed.
        buffer.begin_step();
        set("a", b"step");
        let writes = buffer.take_step().unwrap();
        assert_eq!(writes.state[0].writes, [write("a", Some(b"step"))]);
        buffer.supersede(&writes.state);
        buffer.begin_step();
        assert_eq!(value("a"), None, "the store has it");
        set("c", b"behind the checkpoint");
        buffer.keep();
        let of_end = buffer.take().unwrap();
        assert_eq!(of_end.state[0].writes, [write("b", Some(b"before"))]);
    }

    #[test]
    fn the_first_change_of_a_key_says_what_is_expected_of_it() {
        let buffer = WriteBuffer::new(CollectedBytes::default(), None);
        let mut first = write("a", Some(b"1"));
        first.expected = Some(None);
        buffer.set_state(space(), 1, first).unwrap();
        buffer.set_state(space(), 1, write("a", None)).unwrap();
        let writes = buffer.take().unwrap();
        let expected = StateWrite {
            expected: Some(None),
            ..write("a", None)
        };
        assert_eq!(writes.state[0].writes, [expected]);
    }

    #[test]
    fn an_attempt_and_all_together_have_a_limit() {
        let of_all = CollectedBytes::default();
        let buffer = || WriteBuffer::new(of_all.clone(), None);
        let large = vec![0; 1 << 20];
        let fill = |buffer: &WriteBuffer| {
            (0..9).try_for_each(|n| {
                let write = write(&n.to_string(), Some(&large));
                buffer.set_state(space(), u64::MAX, write)
            })
        };
        let buffers: Vec<WriteBuffer> = (0..60).map(|_| buffer()).collect();
        let refused: Vec<Option<TooMuch>> = buffers.iter().map(|it| fill(it).err()).collect();
        assert_eq!(refused[0], Some(TooMuch::Bytes));
        assert_eq!(refused[59], Some(TooMuch::AllBytes));
        drop(buffers);
        assert_eq!(
            fill(&buffer()),
            Err(TooMuch::Bytes),
            "the room is free again"
        );
        let small = buffer();
        for n in 0..KEYS_MAX {
            let write = write(&n.to_string(), None);
            small.set_state(space(), 1, write).unwrap();
        }
        let more = small.set_state(space(), 1, write("more", None));
        assert_eq!(more, Err(TooMuch::Keys));
    }
}
