//! Executes the work that other orchestrators own, in separate cells, without the store and without
//! waiting for the disk. The orchestrators keep, retry and dead-letter it; the host keeps only its
//! history.

mod history;
mod request;
mod span;
mod work;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use host_cells::pool::executor::CellExecutor;
use host_cells::port::{CellEvent, CellPort};
use host_core::cell::LogLine;
use host_core::port::spans::Spans;
use host_core::port::{Execute, ForeignJob, Reply, Stop, Tag};
use host_core::time::Time;
use host_runtime::clock::Clock;
use host_runtime::mailbox::Mailbox;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use self::work::Ask;
use crate::logged::Logs;
use crate::numbers::Numbers;

pub use self::history::{History, KeptFor, register_dropped};

/// The most messages that may wait for the thread that feeds the cells. Later starts are refused.
const WAITING_MAX: usize = 4_096;

/// Takes lines of a guest's log with the job's id at its orchestrator, the number of the attempt and the time when
/// it began. Must not wait.
pub type FallbackLogs = Box<dyn Fn(&str, u32, Time, Vec<LogLine>) + Send + Sync>;

/// What the executor of foreign work needs.
pub struct Wiring<P> {
    pub clock: Clock,
    /// The cells, and what is deployed.
    pub cells: CellExecutor<P>,
    /// Events of the cells.
    pub events: mpsc::Receiver<CellEvent>,
    /// Receives guests' logs, if they are kept.
    pub logs: Option<Logs>,
    /// Receives the logs of guests whose wire has no place for them.
    pub fallback_logs: Option<FallbackLogs>,
    /// Receives ended executions, if they are kept.
    pub history: Option<History>,
    pub numbers: Numbers,
    /// Receives the spans of executions, if they are collected.
    pub spans: Option<Arc<dyn Spans>>,
    /// Whether cells start immediately instead of with the first work.
    pub eager: bool,
    /// Cancelled once the handlers are known. Work waits until then.
    pub loaded: CancellationToken,
    /// When this is cancelled, guests are killed and then the cells end.
    pub stopping: CancellationToken,
}

/// Accepts foreign work. Cloning shares the cells.
#[derive(Clone)]
pub struct Foreign {
    asks: Arc<Mailbox<Ask>>,
    sessions: Arc<AtomicU64>,
}

impl Foreign {
    /// Starts the thread that feeds the cells. The returned receiver completes when the last cell
    /// is gone.
    pub fn start<P: CellPort + 'static>(
        wiring: Wiring<P>,
    ) -> io::Result<(Self, oneshot::Receiver<()>)> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        let (sender, ended) = oneshot::channel();
        let (foreign, work) = Self::new(wiring);
        std::thread::Builder::new()
            .name("foreign".to_owned())
            .spawn(move || {
                runtime.block_on(work);
                // The caller may be gone.
                let _ = sender.send(());
            })?;
        Ok((foreign, ended))
    }

    /// Makes the handle, and the future that feeds the cells. The future ends after `stopping` is
    /// cancelled and the last cell is gone.
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

    /// Returns the port of one session. Tags of different sessions may be equal.
    pub fn session(&self) -> Arc<dyn Execute> {
        let session = SessionId(self.sessions.fetch_add(1, Ordering::Relaxed));
        let asks = Arc::clone(&self.asks);
        Arc::new(Session { session, asks })
    }
}

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
        // A closed mailbox means that every execution was answered.
        let _ = self.asks.put(Ask::Stop { key, grace_ms, why });
    }
}

#[cfg(test)]
mod tests;
