//! What pools of runners tell the dispatch loop: kept until the loop takes it, so that no pool ever
//! waits. Bounded by what was started.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use host_core::name::Name;
use host_protocols::port::Tag;
use host_protocols::runner::{End, Room};
use tokio::sync::Notify;

/// An execution that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Over {
    /// Which one.
    pub tag: Tag,
    /// Its runner for people: `python/1`.
    pub executor: String,
    /// How.
    pub end: End,
}

/// All that was told since the last time.
#[derive(Debug, Default)]
pub struct News {
    /// How many executions each pool takes at once, those in flight included; the changed ones.
    pub capacity: BTreeMap<Name, usize>,
    /// What is over, in order.
    pub over: Vec<Over>,
}

/// What lies here.
#[derive(Debug, Default)]
pub struct Inbox {
    told: Mutex<Told>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Told {
    news: News,
    capacity: BTreeMap<Name, usize>,
}

impl Inbox {
    /// Notes how much a pool can do.
    pub fn room(&self, runner: &Name, room: Room) {
        let capacity = room.free + room.in_flight;
        let mut told = self.lock();
        if told.capacity.get(runner) == Some(&capacity) {
            return;
        }
        told.capacity.insert(runner.clone(), capacity);
        told.news.capacity.insert(runner.clone(), capacity);
        drop(told);
        self.news.notify_one();
    }

    /// Returns how much a pool was last said to do.
    pub fn capacity(&self, runner: &Name) -> usize {
        self.lock().capacity.get(runner).copied().unwrap_or(0)
    }

    /// Notes that an execution is over.
    pub fn over(&self, over: Over) {
        self.lock().news.over.push(over);
        self.news.notify_one();
    }

    /// Takes all that lies here.
    pub fn take(&self) -> News {
        std::mem::take(&mut self.lock().news)
    }

    /// Waits until something new lies here. Cancel safe.
    pub async fn news(&self) {
        self.news.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
