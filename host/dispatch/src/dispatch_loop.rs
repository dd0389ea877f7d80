//! The dispatch loop: the thread that owns the store. Each turn collects requests and events of
//! cells and foreign workers, commits once, and then sends replies, starts and stops attempts, and
//! publishes events. Knows no wire.

mod batch;
mod claims;
mod demand;
mod drain;
mod intake;
mod messages;
mod params_in_flight;
mod pauses;
mod remote;
mod settle;
mod start;
mod traces;
mod unconfigured;
mod worker_events;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use host_cells::pool::executor::CellExecutor;
use host_cells::port::{CellEvent, CellPort};
use host_core::command::Command;
use host_core::id::NodeId;
use host_core::name::Name;
use host_core::port::spans::Spans;
use host_core::time::Time;
use host_runtime::clock::Clock;
use host_runtime::lifeline::Lifeline;
use host_store::{Store, StoreError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::DropGuard;

use self::batch::{Batch, Finished, Origin};
use self::demand::Demand;
use self::intake::Intake;
use self::params_in_flight::ParamsInFlight;
use self::pauses::Pauses;
use self::traces::Traces;
use self::unconfigured::Unconfigured;
use crate::lease_mail::{self, LeaseMail, LeaseService};
use crate::logged::Logs;
use crate::nodes::{CommitSignal, RemoteChange};
use crate::numbers::Numbers;
use crate::workers::Workers;
use crate::{Request, Shared, SubmitError};

pub use self::intake::{BATCH_BYTES_MAX, BATCH_COMMANDS_MAX};
pub use self::unconfigured::IsConfigured;

/// The most cell events that may wait for the loop. Beyond that, cells wait.
pub const EVENTS_MAX: usize = 1_024;

/// The most bytes of params that cells and foreign workers may hold, each job's until its attempt has
/// ended. Beyond that, jobs wait in the store instead of in memory.
pub const PARAMS_BYTES_MAX: usize = 256 << 20;

/// The most jobs that one tick handles.
const TICK_JOBS_MAX: u32 = 512;

/// The pause before the loop tries a full disk again, in milliseconds.
const FULL_PAUSE_MS: u64 = 250;

/// The pause between two looks whether new jobs have room and the store is where it was, in milliseconds.
const ROOM_PAUSE_MS: u64 = 1_000;

/// The time that killed cells have to exit, in milliseconds.
const CLOSE_TIMEOUT_MS: u64 = 5_000;

/// The phase of the host's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Running,
    /// No more jobs are claimed. Running jobs may finish.
    Stopping,
    /// Jobs that still run are given up.
    Killing,
}

/// What the loop needs.
pub struct Wiring<P> {
    /// The open store, which only the loop writes to.
    pub store: Box<dyn Store>,
    pub clock: Clock,
    /// What the loop publishes.
    pub shared: Arc<Shared>,
    /// The cells, and what is deployed.
    pub cells: CellExecutor<P>,
    /// Whether the host is configured for an executor. Asked when a job first names it.
    pub is_configured: IsConfigured,
    /// The requests and messages of foreign workers.
    pub leases: LeaseService,
    /// Dropped after the last attempt, which ends the wires that send attempts to their workers.
    pub workers_end: DropGuard,
    /// This host. It takes its own leases back when it restarts.
    pub node: NodeId,
    /// The other nodes that live: they keep their leases.
    pub living: Vec<NodeId>,
    /// For how long its cells may run guests, if other nodes share the store.
    pub lifeline: Option<Arc<Lifeline>>,
    /// What other nodes that share the store do, and where to say that this one has done something.
    pub others: Option<(mpsc::Receiver<RemoteChange>, CommitSignal)>,
    /// Receives guests' logs.
    pub logs: Logs,
    /// Commands from outside the loop.
    pub requests: mpsc::Receiver<Request>,
    /// Events of the cells.
    pub events: mpsc::Receiver<CellEvent>,
    pub phase: watch::Receiver<Phase>,
    /// How long running jobs may continue while the host stops, in milliseconds.
    pub stopping_ms: u64,
    /// The most params in flight, in bytes: usually [`PARAMS_BYTES_MAX`].
    pub params_bytes_max: usize,
    pub numbers: Numbers,
    /// Receives the spans of jobs, if they are collected.
    pub spans: Option<Arc<dyn Spans>>,
}

/// Starts the loop on its own thread. The returned receiver gets the loop's result, an error if the
/// store is broken. After a panic it gets nothing.
pub fn spawn<P: CellPort + 'static>(
    wiring: Wiring<P>,
) -> io::Result<oneshot::Receiver<Result<(), StoreError>>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let (sender, ended) = oneshot::channel();
    std::thread::Builder::new()
        .name("dispatch".to_owned())
        .spawn(move || {
            let result = runtime.block_on(run(wiring));
            // The caller may be gone.
            let _gone = sender.send(result);
        })?;
    Ok(ended)
}

async fn run<P: CellPort>(wiring: Wiring<P>) -> Result<(), StoreError> {
    let (remote_changes, commit_signal) = wiring.others.unzip();
    let is_shared = commit_signal.is_some();
    let mut inputs = Inputs {
        remote_changes,
        requests: wiring.requests,
        events: wiring.events,
        phase: wiring.phase,
        drain: wiring.shared.presence.drain_requests(),
        unrunnable: wiring.shared.presence.unrunnable(),
    };
    let mut dispatch_loop = DispatchLoop {
        store: wiring.store,
        clock: wiring.clock,
        shared: wiring.shared,
        cells: wiring.cells,
        unconfigured: Unconfigured::new(wiring.is_configured, is_shared),
        workers: Workers::new(
            wiring.leases.table().clone(),
            is_shared.then_some(wiring.node),
        ),
        leases: wiring.leases,
        workers_end: Some(wiring.workers_end),
        node: wiring.node,
        lifeline: wiring.lifeline,
        commit_signal,
        logs: wiring.logs,
        finished: Vec::new(),
        params_in_flight: ParamsInFlight::new(wiring.params_bytes_max),
        demand: Demand::new(0),
        next_wakeup: None,
        pauses: Pauses::default(),
        full_until: None,
        room_at: None,
        stopping_ms: wiring.stopping_ms,
        numbers: wiring.numbers,
        traces: wiring.spans.map(Traces::new),
        phase: Phase::Running,
        stop_by: Time(i64::MAX),
        is_draining: false,
        unrunnable: BTreeSet::new(),
        last_reported: None,
    };
    let _closes = dispatch_loop.leases.close_on_drop();
    dispatch_loop.recover(wiring.living)?;
    loop {
        let intake = dispatch_loop.gather(&mut inputs).await;
        let begun = dispatch_loop.clock.uptime();
        dispatch_loop.turn(intake)?;
        let took = dispatch_loop.clock.uptime().saturating_sub(begun);
        dispatch_loop.numbers.turned(took);
        if dispatch_loop.is_done() {
            break;
        }
    }
    inputs.requests.close();
    while let Ok(request) = inputs.requests.try_recv() {
        refuse(
            Origin::Request(request.reply, Vec::new()),
            &SubmitError::Stopping,
        );
    }
    Ok(())
}

struct Inputs {
    /// `None` if no other node shares the store.
    remote_changes: Option<mpsc::Receiver<RemoteChange>>,
    requests: mpsc::Receiver<Request>,
    events: mpsc::Receiver<CellEvent>,
    phase: watch::Receiver<Phase>,
    /// Whether an operator wants no more jobs to start here.
    drain: watch::Receiver<bool>,
    /// The handlers that cannot run here.
    unrunnable: watch::Receiver<BTreeSet<Name>>,
}

struct DispatchLoop<P> {
    store: Box<dyn Store>,
    clock: Clock,
    shared: Arc<Shared>,
    cells: CellExecutor<P>,
    unconfigured: Unconfigured,
    leases: LeaseService,
    workers: Workers,
    /// `None` once wires that send attempts to their workers must end.
    workers_end: Option<DropGuard>,
    node: NodeId,
    lifeline: Option<Arc<Lifeline>>,
    /// Notified after each commit, if other nodes share the store.
    commit_signal: Option<CommitSignal>,
    logs: Logs,
    /// Attempts that have ended but are not stored yet.
    finished: Vec<Finished>,
    params_in_flight: ParamsInFlight,
    demand: Demand,
    next_wakeup: Option<Time>,
    pauses: Pauses,
    /// When to try a full disk again.
    full_until: Option<Time>,
    /// When to look whether new jobs have room.
    room_at: Option<Time>,
    stopping_ms: u64,
    numbers: Numbers,
    /// The spans of jobs, if they are collected.
    traces: Option<Traces>,
    phase: Phase,
    stop_by: Time,
    /// Whether an operator wants no more jobs to start here.
    is_draining: bool,
    /// The handlers whose jobs are left to other nodes.
    unrunnable: BTreeSet<Name>,
    /// How many attempts ran when this was last reported, and whether no more were started.
    last_reported: Option<([usize; 2], bool)>,
}

impl<P: CellPort> DispatchLoop<P> {
    /// Takes back the leases that ended with the previous process, and restores those by TTL for which this
    /// node answers.
    fn recover(&mut self, living: Vec<NodeId>) -> Result<(), StoreError> {
        let now = self.clock.now();
        let node = self.node;
        let recover = Command::Recover { node, living };
        let committed = self.store.commit(now, vec![recover])?;
        let jobs = committed.changes.len();
        if jobs > 0 {
            tracing::info!(jobs, "requeueing jobs left running by the previous process");
        }
        let reader = self.store.reader()?;
        self.demand = Demand::new(committed.available);
        for executor in reader.runners_awaited()? {
            self.await_executor(&executor);
        }
        let mut remote = reader.remote_leases()?;
        remote.retain(|it| it.lease.node == self.node);
        for remote in remote {
            self.workers.table.restore(remote);
        }
        self.next_wakeup = committed.next_wakeup;
        self.look_for_room(now);
        self.publish(now, committed.first_change, &committed.changes);
        Ok(())
    }

    /// Waits for something to do and collects the input of the turn.
    async fn gather(&mut self, inputs: &mut Inputs) -> Intake {
        let mut intake = Intake::default();
        let now = self.clock.now();
        let due = self.due(now);
        if due.is_none_or(|due| due > now) {
            let clock = self.clock;
            let due = async move {
                match due {
                    Some(due) => tokio::time::sleep(clock.until(due)).await,
                    None => std::future::pending().await,
                }
            };
            let leases = self.leases.clone();
            let remote_changes = async {
                match &mut inputs.remote_changes {
                    Some(remote_changes) => remote_changes.recv().await,
                    None => None,
                }
            };
            tokio::select! {
                biased;
                () = leases.arrived() => {}
                Some(event) = inputs.events.recv() => intake.events.push(event),
                Some(request) = inputs.requests.recv() => intake.add(request),
                Ok(()) = inputs.phase.changed() => {}
                Ok(()) = inputs.drain.changed() => {}
                Ok(()) = inputs.unrunnable.changed() => {}
                Some(done) = remote_changes => intake.remote_changes.push(done),
                () = due => {}
            }
        }
        if let Some(remote_changes) = &mut inputs.remote_changes {
            intake
                .remote_changes
                .extend(std::iter::from_fn(|| remote_changes.try_recv().ok()));
        }
        intake.fill(&mut inputs.requests, &mut inputs.events);
        intake.was_paused = self.pauses.turn(due, self.clock.now());
        self.enter(*inputs.phase.borrow_and_update());
        self.drain(*inputs.drain.borrow_and_update());
        self.set_unrunnable(&inputs.unrunnable.borrow_and_update());
        intake
    }

    /// Returns when the loop must act without input; at or before `now` if it must act already.
    fn due(&self, now: Time) -> Option<Time> {
        let full = self.full_until.filter(|until| now < *until);
        let mut due: Vec<Option<Time>> = vec![
            self.cells.pool.due(),
            self.workers.requests.due(),
            self.room_at,
        ];
        if self.phase > Phase::Running {
            due.push(Some(self.stop_by));
        }
        if full.is_some() {
            due.push(full);
        } else {
            due.push(self.next_wakeup);
            due.push(self.workers.table.renewals_due());
            let may_claim = self.claims() && self.may_claim();
            due.push((may_claim || !self.finished.is_empty()).then_some(now));
            if self.demand.has_suspects() && self.claims() {
                let alone_at = self.cells.pool.alone_at().max(now);
                due.push((self.cells.pool.free_alone(alone_at) > 0).then_some(alone_at));
            }
        }
        due.into_iter().flatten().min()
    }

    /// Returns whether other nodes share the store.
    fn is_shared(&self) -> bool {
        self.commit_signal.is_some()
    }

    /// Records an attempt that has ended.
    fn finish(&mut self, finished: Finished) {
        self.params_in_flight.end(finished.lease);
        if let Some(traces) = &mut self.traces {
            traces.finished(&finished);
        }
        self.finished.push(finished);
    }

    /// Enters a later phase.
    fn enter(&mut self, phase: Phase) {
        if phase <= self.phase {
            return;
        }
        let now = self.clock.now();
        let runs = self.runs();
        tracing::info!(?phase, runs, "the host is stopping");
        self.phase = phase;
        match phase {
            Phase::Running => {}
            Phase::Stopping => {
                self.stop_by = now.plus_ms(self.stopping_ms);
                self.workers.table.recall();
            }
            Phase::Killing => self.close(now),
        }
    }

    fn close(&mut self, now: Time) {
        self.phase = Phase::Killing;
        self.stop_by = now.plus_ms(CLOSE_TIMEOUT_MS);
        self.workers_end = None;
        self.cells.pool.close();
    }

    /// Returns whether the loop has nothing left to do.
    fn is_done(&mut self) -> bool {
        let now = self.clock.now();
        let settled = self.finished.is_empty() && self.workers.table.connected() == 0;
        let idle = settled && self.cells.pool.runs() == 0;
        if self.phase == Phase::Stopping && (idle || now >= self.stop_by) {
            self.close(now);
        }
        self.phase == Phase::Killing
            && ((settled && self.cells.pool.is_empty()) || now >= self.stop_by)
    }

    /// Runs one turn: handles the input, plans, commits, and then settles.
    fn turn(&mut self, intake: Intake) -> Result<(), StoreError> {
        let now = self.clock.now();
        for event in intake.events {
            for event in self.cells.pool.handle_event(now, event) {
                self.handle_pool_event(now, event);
            }
        }
        let messages = self.handle_lease_mail(now);
        for change in intake.remote_changes {
            self.handle_remote_change(now, change);
        }
        self.cells.tick(now);
        if self.room_at.is_some_and(|at| now >= at) {
            self.look_for_room(now);
        }
        let mut batch = Batch::default();
        let table = &self.workers.table;
        batch.renew(if intake.was_paused {
            table.renew_all(now)
        } else {
            table.take_renewals(now)
        });
        let finished = self.plan(now, &mut batch);
        let asked = !intake.requests.is_empty();
        for mut request in intake.requests {
            self.demand.record_request(&request.command);
            let enqueues = match &self.traces {
                Some(_) => Traces::enqueues(now, &mut request.command),
                None => Vec::new(),
            };
            batch.request(request, enqueues);
        }
        self.plan_messages(messages, &mut batch);
        self.plan_claim(now, &mut batch);
        if !batch.is_empty() {
            self.commit(now, batch, finished, asked)?;
        }
        self.workers
            .requests
            .expire(now, self.phase > Phase::Running);
        self.cells.pool.flush();
        let runs = self.cells.pool.runs();
        self.shared.is_busy.store(runs > 0, Ordering::Relaxed);
        self.numbers.pool(runs, self.cells.pool.ready());
        self.report_running();
        Ok(())
    }

    /// Plans the commands that do not depend on room. Returns the ended attempts that they include.
    fn plan(&mut self, now: Time, batch: &mut Batch) -> Vec<Finished> {
        if self.full_until.is_some_and(|until| now < until) {
            return Vec::new();
        }
        self.full_until = None;
        let finished = std::mem::take(&mut self.finished);
        self.demand.record_finished(&finished);
        batch.finish(&finished);
        if self.next_wakeup.is_some_and(|wakeup| now >= wakeup) {
            batch.tick(TICK_JOBS_MAX);
        }
        finished
    }

    fn look_for_room(&mut self, now: Time) {
        let refused = self.store.room().err();
        self.set_room(now, refused.as_ref());
    }

    /// Publishes why new jobs are refused, and looks again later.
    fn set_room(&mut self, now: Time, refused: Option<&StoreError>) {
        self.room_at = Some(now.plus_ms(ROOM_PAUSE_MS));
        let is_full = matches!(refused, Some(StoreError::Full));
        self.shared.store_full.store(is_full, Ordering::Relaxed);
        self.numbers.store_full(is_full);
        let moved = refused.filter(|error| matches!(error, StoreError::Moved { .. }));
        let was_moved = &self.shared.store_moved;
        match (was_moved.swap(moved.is_some(), Ordering::Relaxed), moved) {
            (false, Some(error)) => tracing::error!(%error, "new jobs are refused"),
            (true, None) => {
                tracing::info!("the store is back where it was; new jobs are accepted again");
            }
            _ => {}
        }
    }

    /// Commits a batch. If new jobs are refused, refuses its requests and commits the rest alone.
    fn commit(
        &mut self,
        now: Time,
        batch: Batch,
        finished: Vec<Finished>,
        asked: bool,
    ) -> Result<(), StoreError> {
        let newly_available_max = batch.newly_available_max;
        let (commands, begun) = (batch.commands.len(), self.clock.uptime());
        match self.store.commit(now, batch.commands) {
            Ok(committed) => {
                self.numbers
                    .committed(commands, self.clock.uptime().saturating_sub(begun));
                self.settle(now, batch.origins, newly_available_max, committed);
                if let Some(signal) = &self.commit_signal {
                    signal.notify();
                }
                Ok(())
            }
            Err(error @ (StoreError::Full | StoreError::Moved { .. })) => {
                self.set_room(now, Some(&error));
                let refused = if matches!(error, StoreError::Full) {
                    tracing::error!(
                        "the disk is full: free space on the disk of the data directory"
                    );
                    SubmitError::StoreFull
                } else {
                    SubmitError::StoreMoved
                };
                for origin in batch.origins {
                    refuse(origin, &refused);
                }
                self.finished.splice(0..0, finished);
                if asked && !self.finished.is_empty() && self.full_until.is_none() {
                    let mut rest = Batch::default();
                    rest.renew(self.workers.table.take_renewals(now));
                    let finished = self.plan(now, &mut rest);
                    return self.commit(now, rest, finished, false);
                }
                self.full_until = Some(now.plus_ms(FULL_PAUSE_MS));
                Ok(())
            }
            Err(error) => {
                for origin in batch.origins {
                    refuse(origin, &SubmitError::Stopping);
                }
                self.cells.pool.close();
                Err(error)
            }
        }
    }
}

/// Answers a request with an error: nothing was done.
fn refuse(origin: Origin, error: &SubmitError) {
    match origin {
        Origin::Request(reply, _) => {
            // The requester may have gone.
            let _gone = reply.send(Err(error.clone()));
        }
        Origin::Lease(message) => {
            lease_mail::refuse(LeaseMail::Message(message), error.clone().into());
        }
        Origin::Renewal(_) | Origin::Finished | Origin::Tick | Origin::Claim(_) => {}
    }
}

#[cfg(test)]
pub(crate) mod tests;
