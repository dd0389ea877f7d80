//! Work that other orchestrators own: executed in cells of its own, without the store and without
//! waiting for the disk. They keep, retry and dead-letter it; what is kept here is its history.

mod history;
mod inbox;
mod opening;
mod order;
mod span;
mod work;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use host_protocols::port::{Executor, ForeignJob, Reply, Stop, Tag};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use self::inbox::{Ask, Door, Inbox};
use self::opening::Opening;
use crate::cells::pool::Pool;
use crate::cells::port::{CellEvent, CellPort};
use crate::clock::Clock;
use crate::dispatch::logged::Logs;
use crate::dispatch::numbers::Numbers;
use crate::dispatch::writer::Environment;
use crate::handlers::Handlers;
use crate::hero_logs::LogFiles;

pub use self::history::History;

/// All that executing foreign work takes.
pub struct Wiring<P> {
    /// Tells host time.
    pub clock: Clock,
    /// What is deployed.
    pub handlers: Handlers,
    /// What guests may be given of the host's environment.
    pub environment: Environment,
    /// Where guests run.
    pub pool: Pool<P>,
    /// What the pool's cells say.
    pub events: mpsc::Receiver<CellEvent>,
    /// Where guests' logs go, if they are kept.
    pub logs: Option<Logs>,
    /// Opens the log files that jobs name, if they may.
    pub log_files: Option<LogFiles>,
    /// Where what has ended goes, if it is kept.
    pub history: Option<History>,
    /// What is counted.
    pub numbers: Numbers,
    /// Whether cells start at once, or with the first work.
    pub eager: bool,
    /// Cancelled once the handlers are known: until then work waits, as it does for room.
    pub loaded: CancellationToken,
    /// Ends all of it: guests are killed, and then the cells.
    pub stopping: CancellationToken,
}

/// Takes foreign work. Cloning shares the cells.
#[derive(Clone)]
pub struct Foreign {
    inbox: Arc<Inbox>,
    opening: Arc<Opening>,
    log_files: Option<LogFiles>,
    doors: Arc<AtomicU64>,
}

impl Foreign {
    /// Starts the thread that feeds the cells. What comes back with it is told when the last of
    /// them is gone.
    pub fn start<P: CellPort + 'static>(
        wiring: Wiring<P>,
    ) -> io::Result<(Self, oneshot::Receiver<()>)> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        let (told, ended) = oneshot::channel();
        let (foreign, work) = Self::new(wiring);
        std::thread::Builder::new()
            .name("foreign".to_owned())
            .spawn(move || {
                runtime.block_on(work);
                // Whoever started it may be gone.
                let _heard = told.send(());
            })?;
        Ok((foreign, ended))
    }

    /// Makes the way in, and what feeds the cells as long as it is polled: it ends when it is told
    /// to stop and the last of them is gone.
    pub fn new<P: CellPort + 'static>(
        wiring: Wiring<P>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let inbox = Arc::new(Inbox::default());
        let foreign = Self {
            inbox: Arc::clone(&inbox),
            opening: Arc::default(),
            log_files: wiring.log_files.clone(),
            doors: Arc::default(),
        };
        let opening = Arc::clone(&foreign.opening);
        (foreign, work::run(wiring, inbox, opening))
    }

    /// Returns a way in for one session, whose tags are its own.
    pub fn door(&self) -> Arc<dyn Executor> {
        let door = Door(self.doors.fetch_add(1, Ordering::Relaxed));
        let to = self.clone();
        Arc::new(Way { door, to })
    }
}

struct Way {
    door: Door,
    to: Foreign,
}

impl Executor for Way {
    fn start(&self, job: ForeignJob, reply: Reply) {
        let key = (self.door, reply.tag());
        let job = Box::new(job);
        let Foreign {
            inbox,
            opening,
            log_files,
            ..
        } = &self.to;
        if let Some(log_path) = job.log_path.clone() {
            return match log_files {
                Some(files) => opening.begin(files, inbox, &log_path, (key, job, reply)),
                None => reply.no_log("no folder for logs is configured".to_owned()),
            };
        }
        let start = Ask::Start {
            key,
            job,
            reply,
            log: None,
        };
        if let Err(reply) = inbox.start(start) {
            reply.busy();
        }
    }

    fn stop(&self, tag: Tag, grace_ms: u64, why: Stop) {
        let key = (self.door, tag);
        if !self.to.opening.stop(key, why) {
            self.to.inbox.stop(Ask::Stop { key, grace_ms, why });
        }
    }
}

#[cfg(test)]
mod tests;
