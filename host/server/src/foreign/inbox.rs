//! What sessions ask for, in order, until the thread that feeds the cells takes it. Asking never
//! waits: starts beyond a bound are refused, and a stop is no more than what was started.

use std::sync::{Mutex, PoisonError};

use host_protocols::port::{ForeignJob, Reply, Stop, Tag};
use tokio::sync::Notify;

use crate::hero_logs::LogFile;

/// The most starts that lie here.
const STARTS_MAX: usize = 4_096;

/// Which session asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Door(pub(super) u64);

/// One execution of one session.
pub(super) type Key = (Door, Tag);

/// One wish.
#[derive(Debug)]
pub(super) enum Ask {
    Start {
        key: Key,
        job: Box<ForeignJob>,
        reply: Reply,
        /// Where its log is written to as well.
        log: Option<LogFile>,
    },
    Stop {
        key: Key,
        grace_ms: u64,
        why: Stop,
    },
}

/// All wishes.
#[derive(Default)]
pub(super) struct Inbox {
    asked: Mutex<Asked>,
    news: Notify,
}

#[derive(Default)]
struct Asked {
    asks: Vec<Ask>,
    starts: usize,
    closed: bool,
}

impl Inbox {
    /// Takes a start in, or gives the right to answer back if there is no room.
    pub(super) fn start(&self, ask: Ask) -> Result<(), Reply> {
        let mut asked = self.lock();
        if asked.closed || asked.starts >= STARTS_MAX {
            return match ask {
                Ask::Start { reply, .. } => Err(reply),
                Ask::Stop { .. } => Ok(()),
            };
        }
        asked.starts += 1;
        self.add(asked, ask);
        Ok(())
    }

    /// Takes a stop in.
    pub(super) fn stop(&self, ask: Ask) {
        let asked = self.lock();
        if !asked.closed {
            self.add(asked, ask);
        }
    }

    /// Takes all that lies here.
    pub(super) fn take(&self) -> Vec<Ask> {
        let mut asked = self.lock();
        asked.starts = 0;
        std::mem::take(&mut asked.asks)
    }

    /// Refuses everything from now on and returns what lay here.
    pub(super) fn close(&self) -> Vec<Ask> {
        self.lock().closed = true;
        self.take()
    }

    /// Waits until something new lies here. Cancel safe.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    fn add(&self, mut asked: std::sync::MutexGuard<'_, Asked>, ask: Ask) {
        asked.asks.push(ask);
        if asked.asks.len() == 1 {
            drop(asked);
            self.news.notify_one();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
