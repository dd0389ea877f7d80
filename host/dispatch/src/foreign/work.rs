//! The thread that feeds the cells of foreign work: it takes the requests of sessions, starts work
//! in cells with room, and answers when work ends. It uses cells through the pool only.

mod checks;
mod pool_events;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use host_cells::pool::CellSlot;
use host_cells::pool::executor::NotStarted;
use host_cells::port::{CellEvent, CellPort};
use host_core::failure::{Failure, FailureKind};
use host_core::id::{JobId, LeaseId};
use host_core::port::{ForeignJob, Reply, Stop};
use host_core::time::Time;
use host_runtime::ids;
use host_runtime::mailbox::Mailbox;
use tokio::sync::mpsc;
use tracing::Span;

use self::checks::Checks;
use super::request::{Ids, request};
use super::{Key, Wiring, span};
use crate::span::Open;

/// A request of a session.
pub(super) enum Ask {
    Start {
        key: Key,
        job: Box<ForeignJob>,
        reply: Reply,
    },
    Stop {
        key: Key,
        grace_ms: u64,
        why: Stop,
    },
}

/// The most jobs that may wait for room. Later ones are refused immediately.
const WAITING_MAX: usize = 4_096;

/// The most bytes of params that these jobs may have together. Later ones are refused immediately.
const WAITING_BYTES_MAX: usize = 256 << 20;

/// How many jobs are refused in one turn. Later ones are looked at in the next.
const REFUSED_MAX: usize = 64;

/// How often an execution may begin again because its cell was lost through no fault of its own.
pub(super) const RESTARTS_MAX: u8 = 3;

/// The most cell events handled at a time.
const EVENTS_BATCH_MAX: usize = 256;

/// The time that killed cells have to exit, in milliseconds.
const CLOSE_TIMEOUT_MS: u64 = 5_000;

/// Runs until it is stopped and the last cell is gone.
pub(super) async fn run<P: CellPort>(wiring: Wiring<P>, asks: Arc<Mailbox<Ask>>) {
    let awake = wiring.eager;
    let mut work = Work {
        wiring,
        asks,
        waiting: VecDeque::new(),
        waiting_bytes: 0,
        checks: Checks::new(),
        goes_on: false,
        running: HashMap::new(),
        by_key: HashMap::new(),
        by_job: HashMap::new(),
        awake,
        close_by: None,
    };
    let mut events = Vec::with_capacity(EVENTS_BATCH_MAX);
    loop {
        work.gather(&mut events).await;
        let now = work.wiring.clock.now();
        work.turn(now, events.drain(..));
        if work.is_done(now) {
            return;
        }
    }
}

/// Work that waits for room.
struct QueuedWork {
    key: Key,
    job: Box<ForeignJob>,
    reply: Reply,
    /// Whether its params fit the handler's schema.
    is_checked: bool,
    /// How often it has begun before.
    restarts: u8,
}

/// Work in a cell.
struct Running {
    ids: Ids,
    key: Key,
    wire: &'static str,
    wants_log: bool,
    /// What its job is called, and the number of the attempt, if its log has no other place.
    homeless: Option<(String, u32)>,
    /// Kept to begin again, and for the history.
    job: Box<ForeignJob>,
    restarts: u8,
    /// Why it was asked to stop, if it was.
    stop: Option<Stop>,
    reply: Reply,
    started_at: Time,
    span: Span,
    /// Its span for the collector, if there is one.
    traced: Option<Box<Open>>,
}

struct Work<P> {
    wiring: Wiring<P>,
    asks: Arc<Mailbox<Ask>>,
    waiting: VecDeque<QueuedWork>,
    /// Counts what is checked too.
    waiting_bytes: usize,
    checks: Checks,
    /// Whether the last turn left something to start.
    goes_on: bool,
    running: HashMap<LeaseId, Running>,
    by_key: HashMap<Key, LeaseId>,
    by_job: HashMap<JobId, LeaseId>,
    awake: bool,
    close_by: Option<Time>,
}

impl<P: CellPort> Work<P> {
    /// Waits for something to do and collects the cells' events.
    async fn gather(&mut self, received: &mut Vec<CellEvent>) {
        let clock = self.wiring.clock;
        let due = self.due();
        let sleep = async move {
            match due {
                Some(due) => tokio::time::sleep(clock.until(due)).await,
                None => std::future::pending().await,
            }
        };
        let stopping = self.wiring.stopping.clone();
        let (loaded, held) = (self.wiring.loaded.clone(), self.is_held());
        let (events, closed) = (&mut self.wiring.events, self.close_by.is_some());
        let goes_on = std::mem::take(&mut self.goes_on);
        let checked = tokio::select! {
            biased;
            () = recv(events, received) => None,
            () = self.asks.arrived() => None,
            checked = self.checks.next() => checked,
            () = sleep => None,
            () = stopping.cancelled(), if !closed => None,
            () = loaded.cancelled(), if held => None,
            () = std::future::ready(()), if goes_on => None,
        };
        if let Some((key, checked)) = checked {
            self.checked(key, checked);
        }
    }

    /// Returns whether work waits until the handlers are known.
    fn is_held(&self) -> bool {
        !self.waiting.is_empty() && !self.wiring.loaded.is_cancelled()
    }

    fn due(&self) -> Option<Time> {
        let pool = self.awake.then(|| self.wiring.cells.pool.due()).flatten();
        pool.into_iter().chain(self.close_by).min()
    }

    fn is_done(&self, now: Time) -> bool {
        self.close_by
            .is_some_and(|by| now >= by || self.wiring.cells.pool.is_empty())
    }

    fn turn(&mut self, now: Time, events: impl Iterator<Item = CellEvent>) {
        for event in events {
            for event in self.wiring.cells.pool.handle_event(now, event) {
                self.handle_pool_event(now, event);
            }
        }
        if self.close_by.is_none() {
            for ask in self.asks.take() {
                self.ask(now, ask);
            }
            if self.wiring.stopping.is_cancelled() {
                self.close(now);
            }
        }
        if self.awake {
            self.wiring.cells.tick(now);
            self.fill(now);
            self.wiring.cells.pool.flush();
        }
    }

    fn ask(&mut self, now: Time, ask: Ask) {
        match ask {
            Ask::Start { job, reply, .. } if !self.has_room_for(&job) => reply.busy(),
            Ask::Start { key, job, reply } => {
                self.awake = true;
                self.waiting_bytes += bytes_of(&job);
                self.waiting.push_back(QueuedWork {
                    key,
                    job,
                    reply,
                    is_checked: false,
                    restarts: 0,
                });
            }
            Ask::Stop { key, grace_ms, why } => {
                if let Some(lease) = self.by_key.get(&key) {
                    if let Some(running) = self.running.get_mut(lease) {
                        running.stop = Some(why);
                    }
                    let why = why.as_str();
                    self.wiring
                        .cells
                        .pool
                        .stop_within(now, *lease, grace_ms, why);
                } else if let Some(waiting) = self.take(key) {
                    self.waiting_bytes -= bytes_of(&waiting.job);
                    let failure = Failure::new(FailureKind::Cancelled, why.as_str());
                    waiting.reply.failed(failure);
                }
            }
        }
    }

    /// Takes out work that has not started.
    fn take(&mut self, key: Key) -> Option<QueuedWork> {
        match self.waiting.iter().position(|it| it.key == key) {
            Some(at) => self.waiting.remove(at),
            None => self.checks.take(key),
        }
    }

    fn has_room_for(&self, job: &ForeignJob) -> bool {
        self.waiting.len() + self.checks.len() < WAITING_MAX
            && self.waiting_bytes + bytes_of(job) <= WAITING_BYTES_MAX
    }

    /// Starts waiting work while there is room.
    fn fill(&mut self, now: Time) {
        if self.waiting.is_empty() || self.is_held() {
            return;
        }
        let mut refused = 0;
        for slot in self.wiring.cells.pool.offer(self.waiting.len()) {
            while let Some(waiting) = self.waiting.pop_front() {
                self.waiting_bytes -= bytes_of(&waiting.job);
                if self.start(now, &slot, waiting) {
                    break;
                }
                refused += 1;
                if refused == REFUSED_MAX {
                    self.goes_on = true;
                    return;
                }
            }
        }
    }

    /// Starts one job, or answers why it cannot start. Returns whether its slot is taken or gone.
    fn start(&mut self, now: Time, slot: &CellSlot, waiting: QueuedWork) -> bool {
        let Some(QueuedWork {
            key,
            job,
            reply,
            restarts,
            ..
        }) = self.check(waiting)
        else {
            return false;
        };
        if job.deadline.is_some_and(|deadline| deadline <= now) {
            let message = "its deadline passed before a cell had room for it";
            reply.failed(Failure::new(FailureKind::TimedOut, message));
            return false;
        }
        let ids = Ids {
            job: ids::job(now),
            lease: ids::lease(),
        };
        let mut request = request(now, ids, &job);
        let traced = self
            .wiring
            .spans
            .as_ref()
            .and_then(|_| span::begin(now, &job, &mut request.context.trace));
        match self.wiring.cells.start(now, slot, request) {
            Ok(()) => {}
            Err(NotStarted::Refused(refused)) => {
                reply.failed(refused.failure);
                return false;
            }
            Err(NotStarted::CellGone) => {
                self.waiting_bytes += bytes_of(&job);
                self.waiting.push_front(QueuedWork {
                    key,
                    job,
                    reply,
                    is_checked: true,
                    restarts,
                });
                return true;
            }
        }
        if job.timeout_ms.is_some() && restarts == 0 {
            reply.began();
        }
        self.by_key.insert(key, ids.lease);
        self.by_job.insert(ids.job, ids.lease);
        let is_homeless = self.wiring.fallback_logs.is_some() && !job.wants_log;
        let running = Running {
            homeless: is_homeless.then(|| (job.external_id.clone(), job.attempt)),
            span: span::open(ids, &job),
            traced,
            ids,
            key,
            wire: job.wire,
            wants_log: job.wants_log,
            job,
            restarts,
            stop: None,
            reply,
            started_at: now,
        };
        self.running.insert(ids.lease, running);
        true
    }

    /// Returns work whose params fit the handler's schema, or else answers it. What takes long comes back
    /// later.
    fn check(&mut self, waiting: QueuedWork) -> Option<QueuedWork> {
        if waiting.is_checked {
            return Some(waiting);
        }
        let handlers = self.wiring.cells.handlers();
        let handler = handlers.get(&waiting.job.handler);
        match handler.map_or(Some(Ok(())), |it| it.check_soon(&waiting.job.params)) {
            Some(Ok(())) => Some(waiting),
            Some(Err(failure)) => {
                waiting.reply.failed(failure);
                None
            }
            None => {
                self.waiting_bytes += bytes_of(&waiting.job);
                self.checks.add(handlers, waiting);
                None
            }
        }
    }

    /// Gives up all work.
    fn close(&mut self, now: Time) {
        self.close_by = Some(now.plus_ms(CLOSE_TIMEOUT_MS));
        // A reply that is dropped answers that the work is lost.
        drop(self.asks.close());
        self.waiting.clear();
        self.checks.clear();
        self.waiting_bytes = 0;
        self.wiring.cells.pool.close();
    }
}

fn bytes_of(job: &ForeignJob) -> usize {
    job.params.as_str().len()
}

/// Collects the cells' events. Never returns once all cells are gone.
async fn recv(events: &mut mpsc::Receiver<CellEvent>, received: &mut Vec<CellEvent>) {
    if events.recv_many(received, EVENTS_BATCH_MAX).await == 0 {
        std::future::pending::<()>().await;
    }
}
