//! A host as one of the nodes that share a database: its place among them, and how it hears what the others
//! do.

use std::sync::Arc;

use host_core::id::NodeId;
use host_dispatch::Dispatch;
use host_dispatch::nodes::{self, Committed, ELSEWHERE_MAX, Elsewhere, Following, NoPlace};
use host_dispatch::nodes::{Place, Presence};
use host_runtime::clock::Clock;
use host_runtime::lifeline::Lifeline;
use host_runtime::tasks::Tasks;
use host_store::Others;
use host_store::postgres::PostgresStore;
use tokio::sync::mpsc;

use super::{ServeError, system};
use crate::config::{Config, Database};
use crate::deploy::Deployments;
use crate::nodes::{Sharing, compare};

/// How the dispatch loop hears of other nodes, and tells them.
pub(super) type LoopEnd = (mpsc::Receiver<Elsewhere>, Committed);

/// Returns who else may use the store.
pub(super) fn sharing(config: &Config, node: Option<&Node>) -> Sharing {
    match node {
        Some(node) => Sharing::Others(Arc::clone(&node.others)),
        None => Sharing::Nobody(config.data.clone()),
    }
}

/// This host among the nodes.
pub(super) struct Node {
    own: NodeId,
    place: Place,
    others: Arc<dyn Others>,
    /// Whether the database can give hints.
    listen: bool,
    elsewhere: mpsc::Sender<Elsewhere>,
    done: Option<mpsc::Receiver<Elsewhere>>,
    committed: Committed,
}

impl Node {
    /// Takes the place of the host that `store` is open for. Its heartbeats begin.
    pub(super) fn enter(
        store: &PostgresStore,
        own: NodeId,
        presence: Arc<Presence>,
        database: &Database,
    ) -> Result<Self, ServeError> {
        let (others, can_hint) = store
            .others(database.hints.as_ref())
            .map_err(ServeError::Store)?;
        let listen = database.listen && can_hint;
        if database.listen && !can_hint {
            tracing::info!(
                "the database is behind a pooler: polling for changes of other nodes; \
                 set store.direct_url to bypass the pooler"
            );
        }
        let others: Arc<dyn Others> = Arc::new(others);
        let place = Place::take(own, Box::new(store.heartbeat()), presence);
        let place = place.map_err(|error| match error {
            NoPlace::Store(error) => ServeError::Store(error),
            NoPlace::System(error) => system("start heartbeats")(error),
        })?;
        let (elsewhere, done) = mpsc::channel(ELSEWHERE_MAX);
        Ok(Self {
            own,
            place,
            others,
            listen,
            elsewhere,
            done: Some(done),
            committed: Committed::default(),
        })
    }

    pub(super) fn clock(&self) -> Clock {
        self.place.clock
    }

    pub(super) fn lifeline(&self) -> Arc<Lifeline> {
        Arc::clone(&self.place.lifeline)
    }

    /// Returns the end of the dispatch loop. May be called once.
    pub(super) fn loop_end(&mut self) -> Option<LoopEnd> {
        Some((self.done.take()?, self.committed.clone()))
    }

    /// Takes over from nodes that die, and follows what the others do, until the tasks stop.
    pub(super) fn follow(&mut self, dispatch: &Dispatch, deployments: &Deployments, tasks: &Tasks) {
        if let Some(news) = self.place.news.take() {
            let heeding = nodes::heed(news, dispatch.clone(), tasks.stopping().clone());
            tasks.spawn(heeding);
        }
        tasks.spawn(compare(dispatch.clone(), self.own));
        let deployments = deployments.clone();
        let following = Following {
            clock: self.clock(),
            others: Arc::clone(&self.others),
            listen: self.listen,
            dispatch: dispatch.clone(),
            elsewhere: self.elsewhere.clone(),
            committed: self.committed.clone(),
            beats: self.place.beats.clone(),
            on_components: Arc::new(move || {
                let deployments = deployments.clone();
                Box::pin(async move { deployments.follow().await })
            }),
        };
        let stopping = tasks.stopping().clone();
        tasks.spawn(async move {
            stopping.run_until_cancelled(following.run()).await;
        });
    }

    /// Gives the place up. All cells must have ended. Blocks.
    pub(super) fn leave(self) {
        self.place.leave();
    }
}
