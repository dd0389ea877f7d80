//! A store with a disk that tests can fill, free and break. It counts claims.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use host_core::port::Clock;
use host_core::time::Time;
use host_engine::job::Enqueue;
use host_engine::{Capacity, Command, Committed, Reader, Store, StoreError, job, lease};
use tokio::sync::Semaphore;

/// The handler of jobs that cannot be stored.
pub(crate) const POISON: &str = "poison";

const SOUND: u8 = 0;
const FULL: u8 = 1;
const BROKEN: u8 = 2;
const MOVED: u8 = 3;

/// The disk of the store. Cloning shares it.
#[derive(Clone)]
pub(crate) struct Disk {
    condition: Arc<AtomicU8>,
    refusals: Arc<Semaphore>,
    lone_claims: Arc<AtomicUsize>,
}

impl Default for Disk {
    fn default() -> Self {
        Self {
            condition: Arc::default(),
            refusals: Arc::new(Semaphore::new(0)),
            lone_claims: Arc::default(),
        }
    }
}

impl Disk {
    pub(crate) fn fill(&self) {
        self.condition.store(FULL, Ordering::SeqCst);
    }

    pub(crate) fn move_away(&self) {
        self.condition.store(MOVED, Ordering::SeqCst);
    }

    pub(crate) fn free(&self) {
        self.condition.store(SOUND, Ordering::SeqCst);
    }

    pub(crate) fn break_down(&self) {
        self.condition.store(BROKEN, Ordering::SeqCst);
    }

    /// Returns how many batches were only a claim.
    pub(crate) fn lone_claims(&self) -> usize {
        self.lone_claims.load(Ordering::SeqCst)
    }

    /// Waits until two more batches were refused.
    pub(crate) async fn refused_twice(&self) {
        self.refusals.forget_permits(usize::MAX);
        let two = self.refusals.acquire_many(2);
        let waited = tokio::time::timeout(std::time::Duration::from_mins(1), two).await;
        waited.unwrap().unwrap().forget();
    }
}

pub(crate) struct FailingStore {
    pub(crate) below: Box<dyn Store>,
    pub(crate) disk: Disk,
}

impl Store for FailingStore {
    fn commit(&mut self, now: Time, batch: &[Command]) -> Result<Committed, StoreError> {
        if let [Command::Lease(lease::Command::Claim(_))] = batch {
            self.disk.lone_claims.fetch_add(1, Ordering::SeqCst);
        }
        match self.disk.condition.load(Ordering::SeqCst) {
            FULL => {
                self.disk.refusals.add_permits(1);
                Err(StoreError::Full)
            }
            MOVED
                if batch
                    .iter()
                    .any(|it| matches!(it, Command::Job(job::Command::Enqueue(_)))) =>
            {
                Err(moved())
            }
            BROKEN => Err(StoreError::Broken {
                operation: "write",
                message: "it is broken".to_owned(),
            }),
            _ if batch.iter().any(is_poison) => Err(StoreError::Failing {
                operation: "commit a batch",
                message: "a job is poison".to_owned(),
            }),
            _ => self.below.commit(now, batch),
        }
    }

    fn limit(&mut self, capacity: Capacity, clock: Arc<dyn Clock>) {
        self.below.limit(capacity, clock);
    }

    fn reader(&self) -> Result<Box<dyn Reader>, StoreError> {
        self.below.reader()
    }

    fn room(&mut self) -> Result<(), StoreError> {
        match self.disk.condition.load(Ordering::SeqCst) {
            FULL => Err(StoreError::Full),
            MOVED => Err(moved()),
            _ => Ok(()),
        }
    }
}

/// Returns whether a command makes the batches fail that have it.
fn is_poison(command: &Command) -> bool {
    match command {
        Command::Job(job::Command::Enqueue(Enqueue(jobs))) => {
            jobs.iter().any(|job| job.handler.as_str() == POISON)
        }
        _ => false,
    }
}

fn moved() -> StoreError {
    StoreError::Moved {
        path: "host.db".to_owned(),
    }
}
