//! What an attempt writes to the store exactly if it completes: the jobs that it enqueues. It is collected while
//! the guest runs, and committed with the attempt's end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::job::{DEPENDENCIES_MAX, NewJob, Origin};

/// The most jobs that one attempt enqueues for its end.
pub const JOBS_MAX: usize = 1_000;

/// The most that one attempt writes at its end, in bytes.
pub const WRITES_BYTES_MAX: usize = 8 << 20;

/// The most that all running attempts of a host write at their ends, in bytes.
const ALL_BYTES_MAX: usize = 256 << 20;

/// What an attempt writes if it completes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Writes {
    /// The jobs that it enqueues, in order.
    pub jobs: Vec<NewJob>,
}

/// Why an attempt may write no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TooMuch {
    #[error("an attempt may enqueue at most {JOBS_MAX} jobs for its end; use enqueue-now for more")]
    Jobs,
    #[error(
        "the jobs of an attempt may name at most {DEPENDENCIES_MAX} jobs in depends_on together"
    )]
    Dependencies,
    #[error("an attempt may write at most {WRITES_BYTES_MAX} bytes at its end; write some earlier")]
    Bytes,
    #[error("all running attempts together write more than {ALL_BYTES_MAX} bytes at their ends")]
    AllBytes,
}

impl Writes {
    pub const fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }
}

/// How many bytes the attempts of a host have collected.
#[derive(Clone, Debug, Default)]
pub struct CollectedBytes(Arc<AtomicUsize>);

/// Collects what an attempt writes. Clones share it. The handlers of a chain run one after the other and write into
/// the same buffer; what a handler has written counts only if it completes.
#[derive(Clone, Debug)]
pub struct WriteBuffer(Arc<Mutex<Collected>>);

#[derive(Debug)]
struct Collected {
    /// By the handlers that have completed.
    kept: Layer,
    /// By the handler that runs.
    open: Layer,
    of_all: CollectedBytes,
    /// Who enqueued the job of the attempt.
    origin: Option<Box<Origin>>,
}

/// What was collected of some handlers.
#[derive(Debug, Default)]
struct Layer {
    writes: Writes,
    dependencies: usize,
    bytes: usize,
}

impl Collected {
    /// Reserves room for the handler that runs.
    fn reserve(&mut self, bytes: usize) -> Result<(), TooMuch> {
        if self.kept.bytes + self.open.bytes + bytes > WRITES_BYTES_MAX {
            return Err(TooMuch::Bytes);
        }
        let of_all = &self.of_all.0;
        if of_all.fetch_add(bytes, Ordering::Relaxed) + bytes > ALL_BYTES_MAX {
            of_all.fetch_sub(bytes, Ordering::Relaxed);
            return Err(TooMuch::AllBytes);
        }
        self.open.bytes += bytes;
        Ok(())
    }
}

impl Drop for Collected {
    fn drop(&mut self) {
        let bytes = self.kept.bytes + self.open.bytes;
        self.of_all.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl WriteBuffer {
    /// Makes a buffer for an attempt, which counts together with others.
    pub fn new(of_all: CollectedBytes, origin: Option<Box<Origin>>) -> Self {
        Self(Arc::new(Mutex::new(Collected {
            kept: Layer::default(),
            open: Layer::default(),
            of_all,
            origin,
        })))
    }

    /// Returns who enqueued the job of the attempt. Jobs that it enqueues have the same origin.
    pub fn origin(&self) -> Option<Box<Origin>> {
        self.lock().origin.clone()
    }

    /// Adds jobs, all or none.
    pub fn enqueue(&self, jobs: Vec<NewJob>) -> Result<(), TooMuch> {
        let mut collected = self.lock();
        let Collected { kept, open, .. } = &*collected;
        if kept.writes.jobs.len() + open.writes.jobs.len() + jobs.len() > JOBS_MAX {
            return Err(TooMuch::Jobs);
        }
        let named: usize = jobs.iter().map(|job| job.depends_on.len()).sum();
        if kept.dependencies + open.dependencies + named > DEPENDENCIES_MAX {
            return Err(TooMuch::Dependencies);
        }
        collected.reserve(jobs.iter().map(NewJob::bytes).sum())?;
        collected.open.dependencies += named;
        collected.open.writes.jobs.extend(jobs);
        Ok(())
    }

    /// Records that the next handler of the attempt begins: what the one before has written is dropped, unless it was
    /// kept.
    pub fn begin(&self) {
        let mut collected = self.lock();
        let dropped = std::mem::take(&mut collected.open);
        let of_all = &collected.of_all.0;
        of_all.fetch_sub(dropped.bytes, Ordering::Relaxed);
    }

    /// Keeps what the handler that runs has written: it has completed.
    pub fn keep(&self) {
        let mut collected = self.lock();
        let open = std::mem::take(&mut collected.open);
        let kept = &mut collected.kept;
        kept.bytes += open.bytes;
        kept.dependencies += open.dependencies;
        kept.writes.jobs.extend(open.writes.jobs);
    }

    /// Takes what was collected: the attempt has completed. `None` if it is nothing.
    pub fn take(&self) -> Option<Box<Writes>> {
        self.keep();
        let writes = std::mem::take(&mut self.lock().kept.writes);
        (!writes.is_empty()).then(|| Box::new(writes))
    }

    fn lock(&self) -> MutexGuard<'_, Collected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Two buffers are equal if they are the same.
impl PartialEq for WriteBuffer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
