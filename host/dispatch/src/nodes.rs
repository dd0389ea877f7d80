//! The place of this host among the nodes that share its store: a thread sends a heartbeat each second,
//! lets its cells run while heartbeats are answered, and detects dead nodes.

mod components;
mod deploy_sync;
mod follow;
mod presence;
mod reports;
mod watch;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use host_core::id::NodeId;
use host_engine::job::Tick;
use host_engine::node::{ChangeCounters, ClusterView, Dead, Life, TakeOver};
use host_engine::{Heartbeat, StoreError};
use host_runtime::clock::{Clock, ClockAdjuster};
use host_runtime::lifeline::Lifeline;
use tokio::sync::{mpsc, watch as latest};
use tokio_util::sync::CancellationToken;

use self::watch::{STOP, Watch};
use crate::{Dispatch, SubmitError};

pub use self::components::{OnComponents, SyncOutcome};
pub(crate) use self::deploy_sync::DeploySync;
pub use self::follow::{CommitSignal, Following, REMOTE_CHANGES_MAX, RemoteChange};
pub use self::presence::Presence;

/// How often a node says that it lives.
const BEAT: Duration = Duration::from_secs(1);

/// The pause after a heartbeat that failed.
const AGAIN: Duration = Duration::from_millis(250);

/// How many events may wait. What does not fit is sent again with a later heartbeat.
const EVENTS_MAX: usize = 64;

/// What a heartbeat shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    Dead(Dead),
    /// This host has lost its place.
    Fenced,
}

/// The place of this host among the nodes. The heartbeats continue until it is dropped or given up.
pub struct Membership {
    /// The host time that the nodes share.
    pub clock: Clock,
    /// For how long cells may run guests.
    pub lifeline: Arc<Lifeline>,
    /// The other nodes that lived when this one joined.
    pub living: Vec<NodeId>,
    /// What the heartbeats show.
    pub events: Option<mpsc::Receiver<NodeEvent>>,
    /// What the last heartbeat showed, and whether other nodes live.
    pub beats: latest::Receiver<(ChangeCounters, bool)>,
    /// Ends the heartbeats when it is dropped.
    beating: SyncSender<()>,
    thread: JoinHandle<Box<dyn Heartbeat>>,
}

/// Why a host has no place.
#[derive(Debug)]
pub enum JoinError {
    Store(StoreError),
    /// The system has no timer or thread for it.
    System(io::Error),
}

impl Membership {
    /// Joins the nodes as `own`, for which the store is open. `presence` is what heartbeats publish, and gets
    /// what other nodes request.
    pub fn join(
        own: NodeId,
        mut heartbeat: Box<dyn Heartbeat>,
        presence: Arc<Presence>,
    ) -> Result<Self, JoinError> {
        let (clock, adjuster) = Clock::adjustable();
        // The first one connects, which takes too long to read a clock by.
        let first = heartbeat.beat(0, &presence.info(), &presence.components());
        first.map_err(JoinError::Store)?;
        let (sent, before) = (Lifeline::now(), clock.now());
        let view = heartbeat
            .beat(0, &presence.info(), &presence.components())
            .map_err(JoinError::Store)?;
        presence.request_drain(view.drain);
        let after = clock.now();
        // Host time is that of the nodes that live, else that of the database.
        let ahead_ms = watch::ahead_of_others(own, &view.nodes).unwrap_or(0);
        let between = before.0.midpoint(after.0);
        adjuster.shift(view.at.0.saturating_add(ahead_ms).saturating_sub(between));
        let lifeline = Arc::new(Lifeline::new(sent + STOP).map_err(JoinError::System)?);
        let (events, received) = mpsc::channel(EVENTS_MAX);
        let (beating, ending) = sync_channel(0);
        let living = others(own, &view).collect();
        let (showing, shown) = latest::channel((view.counters.clone(), has_others(own, &view)));
        let mut beats = Beats {
            own,
            heartbeat,
            clock,
            adjuster,
            lifeline: Arc::clone(&lifeline),
            watch: Watch::default(),
            ahead_ms,
            presence,
            events,
            showing,
        };
        let thread = std::thread::Builder::new()
            .name("heartbeat".to_owned())
            .spawn(move || {
                let mut pause = BEAT;
                while ending.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                    match beats.beat() {
                        Some(next) => pause = next,
                        None => break,
                    }
                }
                beats.heartbeat
            })
            .map_err(JoinError::System)?;
        Ok(Self {
            clock,
            lifeline,
            living,
            events: Some(received),
            beats: shown,
            beating,
            thread,
        })
    }

    /// Leaves the nodes: others may take over its jobs immediately. Its cells must have ended.
    /// Blocks.
    pub fn leave(self) {
        drop(self.beating);
        let left = match self.thread.join() {
            Ok(mut heartbeat) => heartbeat.leave(),
            Err(_panicked) => return,
        };
        if let Err(error) = left {
            tracing::warn!(%error, "cannot announce to the other nodes that this host stops; they will notice");
        }
    }
}

struct Beats {
    own: NodeId,
    heartbeat: Box<dyn Heartbeat>,
    clock: Clock,
    adjuster: ClockAdjuster,
    lifeline: Arc<Lifeline>,
    watch: Watch,
    ahead_ms: i64,
    presence: Arc<Presence>,
    events: mpsc::Sender<NodeEvent>,
    showing: latest::Sender<(ChangeCounters, bool)>,
}

impl Beats {
    /// Sends a heartbeat of this host. Returns the pause before the next one, `None` after the last.
    fn beat(&mut self) -> Option<Duration> {
        let (info, components) = (self.presence.info(), self.presence.components());
        let (sent, before) = (Lifeline::now(), self.clock.now());
        match self.heartbeat.beat(self.ahead_ms, &info, &components) {
            Ok(view) => {
                if self.presence.set_unheard(false) {
                    tracing::info!("the database answers heartbeats again");
                }
                let answered = Lifeline::now();
                self.live(sent + STOP);
                let between = before.0.midpoint(self.clock.now().0);
                self.keep_time(between, &view);
                for dead in self.watch.observe((sent, answered), self.own, &view.nodes) {
                    self.notify(NodeEvent::Dead(dead));
                }
                self.presence.request_drain(view.drain);
                let has_others = has_others(self.own, &view);
                self.showing.send_replace((view.counters, has_others));
                Some(BEAT.saturating_sub(Lifeline::now().saturating_sub(sent)))
            }
            Err(StoreError::Fenced) => {
                tracing::error!(
                    "this host lost its place among the nodes; its running guests are stopped"
                );
                self.live(Duration::ZERO);
                self.notify(NodeEvent::Fenced);
                None
            }
            Err(error) => {
                if !self.presence.set_unheard(true) {
                    let stop_s = STOP.as_secs();
                    tracing::warn!(%error, stop_s, "a heartbeat got no answer; running guests are stopped if this lasts");
                }
                Some(AGAIN)
            }
        }
    }

    /// Moves the end of the time of guests to `end`. What ran when it had passed is in the log of its cell.
    fn live(&self, end: Duration) {
        match self.lifeline.extend(end) {
            Ok(had_passed) if had_passed && !end.is_zero() => {
                tracing::warn!("heartbeats got no answer in time; guests were stopped until now");
            }
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "cannot extend the time that guests may run"),
        }
    }

    fn keep_time(&mut self, between: i64, view: &ClusterView) {
        let others_ms = watch::ahead_of_others(self.own, &view.nodes);
        let ahead_ms = between.saturating_sub(view.at.0);
        let step_ms = watch::step(ahead_ms, others_ms);
        self.adjuster.shift(step_ms);
        self.ahead_ms = ahead_ms.saturating_add(step_ms);
    }

    fn notify(&self, event: NodeEvent) {
        // What does not fit is found again with the next heartbeat.
        let _ = self.events.try_send(event);
    }
}

fn has_others(own: NodeId, view: &ClusterView) -> bool {
    others(own, view).next().is_some()
}

/// Returns the other nodes that live.
fn others(own: NodeId, view: &ClusterView) -> impl Iterator<Item = NodeId> {
    let living = view.nodes.iter().filter(|it| it.life == Life::Lives);
    let others = living.filter(move |seen| seen.id != own && seen.is_fresh);
    others.map(|seen| seen.id)
}

/// Acts on what heartbeats show, until `stopping`.
pub async fn handle_node_events(
    mut events: mpsc::Receiver<NodeEvent>,
    dispatch: Dispatch,
    stopping: CancellationToken,
) {
    while let Some(Some(event)) = stopping.run_until_cancelled(events.recv()).await {
        let handled = match event {
            NodeEvent::Dead(dead) => take_over(&dispatch, dead).await,
            // The loop finds out with its next batch, and ends.
            NodeEvent::Fenced => dispatch.submit(Tick { limit: 0 }).await.map(drop),
        };
        match handled {
            Ok(()) => {}
            Err(SubmitError::Stopping) => return,
            Err(error) => {
                tracing::warn!(%error, "cannot act on the result of a heartbeat; retrying");
            }
        }
    }
}

/// Takes back what a dead node has left, in slices. If this fails in between, the node is found dead again.
async fn take_over(dispatch: &Dispatch, dead: Dead) -> Result<(), SubmitError> {
    let mut taken = 0;
    let mut next = Some((0, Some(dead)));
    while let Some((after, Some(dead))) = next {
        let command = TakeOver { dead, after };
        let taken_back = dispatch.submit(command).await?;
        taken += taken_back.jobs;
        next = taken_back.next;
    }
    let node = dead.node;
    tracing::info!(%node, jobs = taken, "took over the jobs of another node");
    Ok(())
}
