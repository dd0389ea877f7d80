//! Follows what nodes change: a hint, a heartbeat or a poll says that there is something, and it is then read for all
//! who wait for it. The events of this node come this way, too, because the changes of all nodes have one order. Gives
//! others hints when this node has changed something.

use std::sync::Arc;
use std::time::Duration;

use host_core::id::JobId;
use host_core::query::Change;
use host_core::transition::Effect;
use host_engine::node::ChangeCounters;
use host_engine::{Followed, Others, StoreError};
use host_runtime::clock::Clock;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::components::{self, OnComponents, StoreView};
use super::reports;
use crate::Dispatch;

/// The least time between two hints to others, and between two reads of what they did.
const HINT: Duration = Duration::from_millis(20);
const READ: Duration = Duration::from_millis(5);

/// How often a node without hints reads, while a request here waits for something.
const POLL: Duration = Duration::from_millis(40);

/// How many changes are read at a time.
const CHANGES_READ: u32 = 1_000;

/// How many messages to this node are read at a time.
const MAIL_READ: u32 = 1_000;

/// How many changes by other nodes may wait for the loop.
pub const REMOTE_CHANGES_MAX: usize = 64;

/// What other nodes have done.
#[derive(Debug)]
pub enum RemoteChange {
    Changes(Vec<Change>),
    /// What this node must do about its jobs.
    Effects(Vec<(JobId, Effect)>),
    /// A queue was paused or resumed.
    Queues,
    /// A heartbeat was answered.
    Beat {
        /// Whether other nodes live.
        has_others: bool,
    },
}

impl RemoteChange {
    /// Returns how much there is to do.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Changes(changes) => changes.len(),
            Self::Effects(effects) => effects.len(),
            Self::Queues | Self::Beat { .. } => 1,
        }
    }
}

/// How the dispatch loop and what follows the nodes meet.
#[derive(Clone, Default)]
pub struct CommitSignal(Arc<Notify>);

impl CommitSignal {
    /// Signals that a batch was committed.
    pub(crate) fn notify(&self) {
        self.0.notify_one();
    }
}

/// What following needs.
pub struct Following {
    pub clock: Clock,
    pub others: Arc<dyn Others>,
    /// Whether others can give hints.
    pub listen: bool,
    pub dispatch: Dispatch,
    /// To the dispatch loop.
    pub remote_changes: mpsc::Sender<RemoteChange>,
    pub commit_signal: CommitSignal,
    /// What heartbeats show, and whether other nodes live.
    pub beats: watch::Receiver<(ChangeCounters, bool)>,
    pub on_components: OnComponents,
}

impl Following {
    /// Follows as long as it is polled.
    pub async fn run(mut self) {
        let (others, listens) = (Arc::clone(&self.others), self.listen);
        let listening = async move {
            if listens {
                others.listen().await;
            }
            std::future::pending::<()>().await;
        };
        let others = Arc::clone(&self.others);
        let committed = Notify::new();
        let (commit_signal, beats) = (self.commit_signal.clone(), self.beats.clone());
        let listeners = self.dispatch.clone();
        let hinting = hint(others, commit_signal, beats, &listeners, &committed);
        let (viewed, views) = watch::channel(None);
        let dispatch = self.dispatch.clone();
        let syncing = components::sync(views, Arc::clone(&self.on_components), dispatch);
        let (others, dispatch) = (Arc::clone(&self.others), self.dispatch.clone());
        let (commit_signal, beats) = (self.commit_signal.clone(), self.beats.clone());
        let publishing = reports::publish(others, dispatch, commit_signal, beats);
        let woken = Arc::<Notify>::default();
        let (others, dispatch) = (Arc::clone(&self.others), self.dispatch.clone());
        let receiving = reports::receive(others, dispatch, Arc::clone(&woken), self.beats.clone());
        let (dispatch, others) = (self.dispatch.clone(), Arc::clone(&self.others));
        let away = dispatch.shared().away.watch(self.clock, others);
        tokio::select! {
            () = listening => {}
            () = hinting => {}
            () = syncing => {}
            () = publishing => {}
            () = receiving => {}
            () = away => {}
            () = self.follow(viewed, &woken, &committed) => {}
        }
    }

    async fn follow(
        &mut self,
        viewed: watch::Sender<Option<StoreView>>,
        woke: &Notify,
        committed: &Notify,
    ) {
        let mut known: Option<ChangeCounters> = None;
        loop {
            let woken = self.woken(committed).await;
            woke.notify_one();
            let begun = self.clock.now();
            let counters = match woken {
                Some(counters) => {
                    let has_others = self.beats.borrow().1;
                    self.send(RemoteChange::Beat { has_others }).await;
                    Ok(counters)
                }
                None => self.others.change_counters().await,
            };
            let done = match counters {
                Ok(counters) => self
                    .take(known.as_ref(), &counters)
                    .await
                    .map(|()| counters),
                Err(error) => Err(error),
            };
            match done {
                Ok(counters) => {
                    viewed.send_replace(Some(StoreView {
                        at: begun,
                        components: counters.components.clone(),
                        has_others: self.beats.borrow().1,
                    }));
                    known = Some(counters);
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot read the changes of other nodes; retrying");
                }
            }
            sleep(READ).await;
        }
    }

    /// Waits until there may be something. Returns what is known already.
    async fn woken(&mut self, committed: &Notify) -> Option<ChangeCounters> {
        let shared = self.dispatch.shared();
        let polls = !self.listen && self.beats.borrow().1;
        let polled = async {
            if !polls {
                std::future::pending::<()>().await;
            }
            while !shared.is_awaited() {
                sleep(POLL).await;
            }
            sleep(POLL).await;
        };
        tokio::select! {
            () = self.others.hinted() => None,
            () = committed.notified() => None,
            () = polled => None,
            Ok(()) = self.beats.changed() => Some(self.beats.borrow_and_update().0.clone()),
        }
    }

    /// Takes in what has changed since `known`.
    async fn take(
        &self,
        known: Option<&ChangeCounters>,
        counters: &ChangeCounters,
    ) -> Result<(), StoreError> {
        // First: a change only shows that a lease is over, not why.
        let mut has_mail = counters.has_mail;
        while has_mail {
            let effects = self.others.mail(MAIL_READ).await?;
            has_mail = effects.len() == MAIL_READ as usize;
            self.send(RemoteChange::Effects(effects)).await;
        }
        self.changes(counters.next_change).await?;
        // At first, something may have changed since the host read it.
        if known.is_none_or(|known| counters.pauses != known.pauses) {
            self.send(RemoteChange::Queues).await;
        }
        Ok(())
    }

    /// Reads the changes before `end` that are not known, and publishes them. Those of other nodes go to the loop.
    async fn changes(&self, end: u64) -> Result<(), StoreError> {
        let events = &self.dispatch.shared().events;
        while events.next() < end {
            let after = events.next().saturating_sub(1);
            let Followed { items, by_others } = self.others.changes(after, CHANGES_READ).await?;
            let Some((first, at)) = items.first().map(|it| (it.number, it.at)) else {
                return Ok(());
            };
            let mut elsewhere = Vec::new();
            let (mut run_first, mut run_at) = (first, at);
            let mut run = Vec::new();
            for (item, is_by_other) in items.into_iter().zip(by_others) {
                if item.at != run_at {
                    events.changed(run_at, run_first, &run);
                    run.clear();
                    (run_first, run_at) = (item.number, item.at);
                }
                if is_by_other {
                    elsewhere.push(item.change.clone());
                }
                run.push(item.change);
            }
            events.changed(run_at, run_first, &run);
            if !elsewhere.is_empty() {
                self.send(RemoteChange::Changes(elsewhere)).await;
            }
        }
        Ok(())
    }

    async fn send(&self, change: RemoteChange) {
        // The loop may have ended.
        let _ = self.remote_changes.send(change).await;
    }
}

/// After batches, gives others hints as long as there are others, and notifies listeners here.
async fn hint(
    others: Arc<dyn Others>,
    commit_signal: CommitSignal,
    beats: watch::Receiver<(ChangeCounters, bool)>,
    dispatch: &Dispatch,
    committed: &Notify,
) {
    loop {
        commit_signal.0.notified().await;
        let next = Instant::now() + HINT;
        if dispatch.shared().events.has_listeners() {
            committed.notify_one();
        }
        if beats.borrow().1
            && let Err(error) = others.hint().await
        {
            tracing::debug!(%error, "cannot notify other nodes; their heartbeats will show the change");
        }
        sleep_until(next).await;
    }
}
