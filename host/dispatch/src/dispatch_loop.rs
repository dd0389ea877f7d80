//! The dispatch loop: the thread that owns the store. Each turn collects requests and events of
//! cells and foreign workers, commits once, and then sends replies, starts and stops attempts, and
//! publishes events. Knows no wire.

mod attempts;
mod batch;
mod claims;
mod demand;
mod drain;
mod intake;
mod messages;
mod params_in_flight;
mod pauses;
mod remote;
mod room;
mod settle;
mod share;
mod signals;
mod start;
mod stops;
mod traces;
mod unconfigured;
mod worker_events;
mod works;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use host_cells::pool::executor::CellExecutor;
use host_cells::port::{CellEvent, CellPort};
use host_core::id::{JobId, NodeId};
use host_core::name::Name;
use host_core::port::spans::Spans;
use host_core::time::Time;
use host_engine::node::{Recover, TakenBack};
use host_engine::{Command, Committed, Reply, Store, StoreError};
use host_runtime::clock::Clock;
use host_runtime::lifeline::Lifeline;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::DropGuard;

use self::attempts::Attempts;
use self::batch::{Batch, Finished, Origin};
use self::demand::Demand;
use self::intake::{Inputs, Intake, Requests};
use self::pauses::Pauses;
use self::room::StoreSpace;
use self::share::Share;
use self::signals::Signals;
use self::stops::Stops;
use self::unconfigured::Unconfigured;
use self::works::Works;
use crate::discards::DiscardLog;
use crate::lease_mail::{self, LeaseMail, LeaseService};
use crate::logged::Logs;
use crate::nodes::{CommitSignal, RemoteChange};
use crate::numbers::Numbers;
use crate::workers::Workers;
use crate::{Request, Shared, SubmitError};

pub use self::intake::{BATCH_BYTES_MAX, BATCH_COMMANDS_MAX};
pub use self::stops::Phase;
pub use self::unconfigured::IsConfigured;

/// The most cell events that may wait for the loop. Beyond that, cells wait.
pub const EVENTS_MAX: usize = 1_024;

/// The most bytes of params that cells and foreign workers may hold, each job's until its attempt has
/// ended. Beyond that, jobs wait in the store instead of in memory.
pub const PARAMS_BYTES_MAX: usize = 256 << 20;

/// How often a batch is tried before it is cut in two.
const TRIES_MAX: u32 = 3;

/// How often a command is tried alone before it is refused.
const TRIES_ALONE_MAX: u32 = 5;

/// The most jobs that one tick handles.
const TICK_JOBS_MAX: u32 = 512;

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
            let _ = sender.send(result);
        })?;
    Ok(ended)
}

async fn run<P: CellPort>(wiring: Wiring<P>) -> Result<(), StoreError> {
    let (remote_changes, commit_signal) = wiring.others.unzip();
    let is_shared = commit_signal.is_some();
    let mut inputs = Inputs {
        remote_changes,
        requests: Requests::new(wiring.requests),
        events: wiring.events,
        phase: wiring.phase,
        drain: wiring.shared.presence.drain_requests(),
        unrunnable: wiring.shared.presence.unrunnable(),
    };
    let (cells, slots) = wiring.cells.pool.size();
    let mut dispatch_loop = DispatchLoop {
        store: wiring.store,
        clock: wiring.clock,
        cells: wiring.cells,
        unconfigured: Unconfigured::new(wiring.is_configured, is_shared),
        workers: Workers::new(
            wiring.leases.table().clone(),
            is_shared.then_some(wiring.node),
        ),
        leases: wiring.leases,
        node: wiring.node,
        lifeline: wiring.lifeline,
        attempts: Attempts::new(wiring.params_bytes_max, wiring.spans),
        demand: Demand::new(0),
        discards: DiscardLog::default(),
        share: Share::new(cells, slots, !wiring.living.is_empty()),
        next_wakeup: None,
        room: StoreSpace::default(),
        stops: Stops::new(wiring.stopping_ms, wiring.workers_end),
        signals: Signals::new(wiring.shared, wiring.numbers, wiring.logs, commit_signal),
        unrunnable: BTreeSet::new(),
        works: Works::default(),
    };
    let _guard = dispatch_loop.leases.close_on_drop();
    dispatch_loop.recover(&wiring.living)?;
    let mut pauses = Pauses::default();
    loop {
        let due = dispatch_loop.due(dispatch_loop.clock.now());
        let mut intake = inputs
            .gather(dispatch_loop.clock, &dispatch_loop.leases, due)
            .await;
        intake.was_paused = pauses.turn(due, dispatch_loop.clock.now());
        dispatch_loop.enter(*inputs.phase.borrow_and_update());
        dispatch_loop.drain(*inputs.drain.borrow_and_update());
        dispatch_loop.set_unrunnable(&inputs.unrunnable.borrow_and_update());
        let begun = dispatch_loop.clock.uptime();
        let shared = Arc::clone(&dispatch_loop.signals.shared);
        shared.away.turn_begins(begun);
        dispatch_loop.turn(intake)?;
        shared.away.turn_is_over();
        let took = dispatch_loop.clock.uptime().saturating_sub(begun);
        let works = std::mem::take(&mut dispatch_loop.works);
        works.end_turn(took, &dispatch_loop.signals.numbers);
        if dispatch_loop.is_done() {
            break;
        }
    }
    for request in inputs.requests.close() {
        refuse(
            Origin::Request(request.reply, Vec::new()),
            &SubmitError::Stopping,
        );
    }
    Ok(())
}

struct DispatchLoop<P> {
    store: Box<dyn Store>,
    clock: Clock,
    cells: CellExecutor<P>,
    leases: LeaseService,
    workers: Workers,
    unconfigured: Unconfigured,
    node: NodeId,
    lifeline: Option<Arc<Lifeline>>,
    attempts: Attempts,
    demand: Demand,
    discards: DiscardLog,
    share: Share,
    /// When the store has something due.
    next_wakeup: Option<Time>,
    room: StoreSpace,
    stops: Stops,
    signals: Signals,
    /// The handlers whose jobs are left to other nodes.
    unrunnable: BTreeSet<Name>,
    /// What this turn has done.
    works: Works,
}

impl<P: CellPort> DispatchLoop<P> {
    /// Takes back the leases that ended with the previous process, and restores those by TTL for which this
    /// node answers.
    fn recover(&mut self, living: &[NodeId]) -> Result<(), StoreError> {
        let now = self.clock.now();
        let (mut after, mut jobs) = (0, 0);
        let committed = loop {
            let recover = Recover {
                node: self.node,
                living: living.to_vec(),
                after,
            };
            let committed = self.try_to_commit(now, &[recover.into()], TRIES_ALONE_MAX)?;
            jobs += committed.changes.len();
            let changes = &committed.changes;
            self.signals.publish(now, committed.first_change, changes);
            match committed.replies[..] {
                [
                    Ok(Reply::TakenBack(TakenBack {
                        next: Some((next, _)),
                        ..
                    })),
                ] => after = next,
                _ => break committed,
            }
        };
        if jobs > 0 {
            tracing::info!(jobs, "requeueing jobs left running by the previous process");
        }
        let reader = self.store.reader()?;
        self.demand = Demand::new(committed.available);
        for executor in reader.executors_awaited()? {
            self.await_executor(&executor);
        }
        let mut remote = reader.remote_leases()?;
        remote.retain(|it| it.lease.node == self.node);
        for remote in remote {
            self.workers.table.restore(remote);
        }
        self.next_wakeup = committed.next_wakeup;
        self.check_room(now);
        let kept = reader.changes(u64::MAX, 0)?;
        self.signals.shared.events.begin_at(kept.next);
        Ok(())
    }

    /// Returns when the loop must act without input; at or before `now` if it must act already.
    fn due(&self, now: Time) -> Option<Time> {
        let full = self.room.full_until(now);
        let mut due: Vec<Option<Time>> = vec![
            self.cells.pool.due(),
            self.workers.requests.due(),
            self.workers.table.waits_due(),
            self.room.check_at(),
            self.stops.due(),
        ];
        if full.is_some() {
            due.push(full);
        } else {
            due.push(self.next_wakeup);
            due.push(self.signals.shared.away.is_away().then_some(now));
            due.push(self.workers.table.renewals_due());
            let may_claim = self.claims() && self.may_claim();
            due.push((may_claim || !self.attempts.are_stored()).then_some(now));
            if self.demand.has_suspects() && self.claims() {
                let apart_at = self.cells.pool.apart_at().max(now);
                due.push((self.cells.pool.free_apart(apart_at) > 0).then_some(apart_at));
            }
        }
        due.into_iter().flatten().min()
    }

    /// Enters a later phase.
    fn enter(&mut self, phase: Phase) {
        if phase <= self.stops.phase() {
            return;
        }
        let (now, runs) = (self.clock.now(), self.runs());
        match phase {
            Phase::Running => {}
            Phase::Stopping => {
                tracing::info!(runs, "stopping: running jobs may finish");
                self.stops.stop(now);
                self.workers.table.recall();
            }
            Phase::Killing => {
                tracing::info!(runs, "stopping: abandoning running jobs");
                self.kill(now);
            }
        }
    }

    fn kill(&mut self, now: Time) {
        self.stops.kill(now);
        self.cells.pool.close();
    }

    /// Returns whether the loop has nothing left to do.
    fn is_done(&mut self) -> bool {
        let now = self.clock.now();
        let is_late = |stops: &Stops| stops.due().is_some_and(|due| now >= due);
        let settled = self.attempts.are_stored() && self.workers.table.connected() == 0;
        let idle = settled && self.cells.pool.runs() == 0;
        if self.stops.phase() == Phase::Stopping && (idle || is_late(&self.stops)) {
            self.kill(now);
        }
        self.stops.phase() == Phase::Killing
            && ((settled && self.cells.pool.is_empty()) || is_late(&self.stops))
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
        if self.room.check_at().is_some_and(|at| now >= at) {
            self.check_room(now);
        }
        let mut batch = Batch::default();
        // Heartbeats may have been answered from memory.
        if intake.was_paused || self.signals.shared.away.is_away() {
            self.workers.table.renew_all();
        }
        let of_messages: Vec<JobId> = messages.iter().map(|message| message.job).collect();
        let may_tick = self.plan_renewals(now, &of_messages, &mut batch);
        let finished = self.plan(now, may_tick, &mut batch);
        let asked = !intake.requests.is_empty();
        for mut request in intake.requests {
            if !request.taken.take() {
                continue;
            }
            self.demand.record_request(&request.command);
            let enqueues = self.attempts.enqueues(now, &mut request.command);
            batch.request(request, enqueues);
        }
        self.plan_messages(messages, &mut batch);
        self.plan_claim(now, &mut batch);
        if !batch.is_empty() {
            self.commit(now, batch, finished, asked)?;
        }
        let is_stopping = self.stops.phase() > Phase::Running;
        self.workers.requests.expire(now, is_stopping);
        self.leases.answer_woken(now);
        self.cells.pool.flush();
        let runs = self.cells.pool.runs();
        self.signals.numbers.pool(runs, self.cells.pool.ready());
        self.signals
            .report_running(runs, &self.workers.table, !self.stops.may_start());
        Ok(())
    }

    /// Plans renewals of leases, and those of the jobs of messages in the same batch in any case. Returns whether a tick may
    /// run: it must not end a lease whose renewal still has to be stored.
    fn plan_renewals(&self, now: Time, of_messages: &[JobId], batch: &mut Batch) -> bool {
        let renewals = self.workers.table.take_renewals(now, of_messages);
        batch.renew(renewals.now);
        !renewals.are_more_urgent
    }

    /// Plans the commands that do not depend on room. Returns the ended attempts that they include.
    fn plan(&mut self, now: Time, may_tick: bool, batch: &mut Batch) -> Vec<Finished> {
        if !self.room.may_try(now) {
            return Vec::new();
        }
        let finished = self.attempts.take_finished();
        self.demand.record_finished(&finished);
        batch.finish(&finished);
        // If the database is away, this shows when it is back.
        let is_due = self.next_wakeup.is_some_and(|wakeup| now >= wakeup);
        if may_tick && (is_due || self.signals.shared.away.is_away()) {
            batch.tick(TICK_JOBS_MAX);
        }
        finished
    }

    fn check_room(&mut self, now: Time) {
        let refused = self.store.room().err();
        self.record_room(now, refused.as_ref());
    }

    /// Publishes why new jobs are refused, and checks again later.
    fn record_room(&mut self, now: Time, refused: Option<&StoreError>) {
        self.room.record_check(now);
        self.signals.report_room(refused);
    }

    /// Publishes whether the database is away, and why.
    fn record_away(&self, why: Option<&StoreError>) {
        if !self.signals.shared.away.set(why.is_some()) {
            return;
        }
        if let Some(error) = why {
            tracing::error!(%error, "requests are refused until the database answers");
        } else {
            tracing::info!("the database answers again");
        }
    }

    /// Commits a batch. If new jobs are refused, refuses its requests and commits the rest alone. If it fails
    /// again and again, commits its halves, so that only the command that is the reason is refused.
    fn commit(
        &mut self,
        now: Time,
        batch: Batch,
        finished: Vec<Finished>,
        asked: bool,
    ) -> Result<(), StoreError> {
        let newly_available_max = batch.newly_available_max;
        let tries_max = match batch.commands[..] {
            [_] => TRIES_ALONE_MAX,
            _ if batch.is_part => 1,
            _ => TRIES_MAX,
        };
        match self.try_to_commit(now, &batch.commands, tries_max) {
            Ok(committed) => {
                for (command, reply) in batch.commands.iter().zip(&committed.replies) {
                    self.works.add(command, reply);
                }
                self.record_away(None);
                self.settle(
                    now,
                    batch.origins,
                    &finished,
                    newly_available_max,
                    committed,
                );
                self.signals.notify_commit();
                Ok(())
            }
            Err(error @ (StoreError::Full | StoreError::Moved { .. })) => {
                self.record_room(now, Some(&error));
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
                self.attempts.put_back(finished);
                if asked && !self.attempts.are_stored() && !self.room.is_full() {
                    let mut rest = Batch::default();
                    let may_tick = self.plan_renewals(now, &[], &mut rest);
                    let finished = self.plan(now, may_tick, &mut rest);
                    return self.commit(now, rest, finished, false);
                }
                self.room.record_full(now);
                Ok(())
            }
            Err(error @ StoreError::Away { .. }) => {
                self.record_away(Some(&error));
                for origin in batch.origins {
                    refuse(origin, &SubmitError::StoreAway);
                }
                self.attempts.put_back(finished);
                self.room.record_full(now);
                Ok(())
            }
            Err(StoreError::Failing { .. } | StoreError::Unreadable { .. })
                if batch.commands.len() > 1 =>
            {
                let ([first, second], [finished_first, finished_second]) = batch.halve(finished);
                self.commit(now, first, finished_first, asked)?;
                self.commit(now, second, finished_second, asked)
            }
            // A request that meets a record that cannot be read fails alone. The loop cannot work past one.
            Err(error @ StoreError::Unreadable { .. })
                if batch.origins.iter().any(Origin::is_ours) =>
            {
                self.cells.pool.close();
                Err(error)
            }
            Err(error @ (StoreError::Failing { .. } | StoreError::Unreadable { .. })) => {
                let command = batch.commands.first().map(Command::kind);
                tracing::error!(%error, command, "a command cannot be committed");
                for origin in batch.origins {
                    if origin.is_ours() {
                        // No request waits for its answer: it is tried again later.
                        self.room.record_full(now);
                    }
                    refuse(origin, &SubmitError::Failed(error.to_string()));
                }
                self.attempts.put_back(finished);
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

impl<P> DispatchLoop<P> {
    /// Commits commands. Tries again if that fails for a reason that may pass.
    fn try_to_commit(
        &mut self,
        now: Time,
        commands: &[Command],
        tries_max: u32,
    ) -> Result<Committed, StoreError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let begun = self.clock.uptime();
            let result = self.store.commit(now, commands);
            let took = self.clock.uptime().saturating_sub(begun);
            let numbers = &self.signals.numbers;
            match result {
                Err(error @ StoreError::Failing { .. }) => {
                    numbers.failed();
                    let commands = commands.len();
                    tracing::warn!(%error, commands, tries, took_ms = took.as_millis(), "a batch was not committed");
                    if tries == tries_max {
                        return Err(error);
                    }
                }
                Ok(committed) => {
                    numbers.committed(commands.len(), took);
                    return Ok(committed);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Answers a request with an error: nothing was done.
fn refuse(origin: Origin, error: &SubmitError) {
    match origin {
        Origin::Request(reply, _) => {
            // The requester may have gone.
            let _ = reply.send(Err(error.clone()));
        }
        Origin::Lease(message) => {
            lease_mail::refuse(LeaseMail::Message(message), error.clone().into());
        }
        Origin::Renewal(_) | Origin::Finished | Origin::Tick | Origin::Claim(_) => {}
    }
}

#[cfg(test)]
pub(crate) mod tests;
