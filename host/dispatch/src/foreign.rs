//! Work that other orchestrators own: executed in cells of its own, without the store and without
//! waiting for the disk. They keep, retry and dead-letter it; what is kept here is its history.

mod history;
mod request;
mod span;
mod work;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use host_cells::feed::Feed;
use host_cells::port::{CellEvent, CellPort};
use host_core::port::{Execute, ForeignJob, Reply, Stop, Tag};
use host_runtime::clock::Clock;
use host_runtime::mailbox::Mailbox;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use self::work::Ask;
use crate::logged::Logs;
use crate::numbers::Numbers;

pub use self::history::History;

/// The most messages that wait for the thread that feeds cells; starts beyond that are refused.
const WAITING_MAX: usize = 4_096;

/// All that executing foreign work takes.
pub struct Wiring<P> {
    /// Tells host time.
    pub clock: Clock,
    /// Where guests run, and what is deployed.
    pub cells: Feed<P>,
    /// What the cells say.
    pub events: mpsc::Receiver<CellEvent>,
    /// Where guests' logs go, if they are kept.
    pub logs: Option<Logs>,
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
    asks: Arc<Mailbox<Ask>>,
    sessions: Arc<AtomicU64>,
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
        let asks = Arc::new(Mailbox::default());
        let foreign = Self {
            asks: Arc::clone(&asks),
            sessions: Arc::default(),
        };
        (foreign, work::run(wiring, asks))
    }

    /// Returns a way in for one session, whose tags are its own.
    pub fn session(&self) -> Arc<dyn Execute> {
        let session = SessionId(self.sessions.fetch_add(1, Ordering::Relaxed));
        let asks = Arc::clone(&self.asks);
        Arc::new(Session { session, asks })
    }
}

/// Which session asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SessionId(u64);

/// One execution of one session.
type Key = (SessionId, Tag);

struct Session {
    session: SessionId,
    asks: Arc<Mailbox<Ask>>,
}

impl Execute for Session {
    fn start(&self, job: ForeignJob, reply: Reply) {
        let key = (self.session, reply.tag());
        let job = Box::new(job);
        let refused = self
            .asks
            .put_below(WAITING_MAX, Ask::Start { key, job, reply });
        if let Err(Ask::Start { reply, .. }) = refused {
            reply.busy();
        }
    }

    fn stop(&self, tag: Tag, grace_ms: u64, why: Stop) {
        let key = (self.session, tag);
        // Closed, all that was started has been answered.
        let _closed = self.asks.put(Ask::Stop { key, grace_ms, why });
    }
}

#[cfg(test)]
mod tests;
