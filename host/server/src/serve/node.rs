//! A host as one of the nodes that share a database: its membership among them, and how it follows the
//! others.

use std::sync::Arc;

use host_core::id::NodeId;
use host_core::port::lease::Secret;
use host_dispatch::lease_mail::LeaseService;
use host_dispatch::nodes::{
    self, CommitSignal, Following, JoinError, Membership, Presence, REMOTE_CHANGES_MAX,
    RemoteChange,
};
use host_dispatch::{Dispatch, RENEWAL_MS_MAX, Shared};
use host_engine::Others;
use host_runtime::clock::Clock;
use host_runtime::lifeline::Lifeline;
use host_runtime::tasks::Tasks;
use host_store::postgres::PostgresStore;
use tokio::sync::mpsc;

use super::{ServeError, system};
use crate::config::{Config, Database};
use crate::deploy::Deployments;
use crate::nodes::{Sharing, compare};

/// The dispatch loop's connection to other nodes.
type LoopEnd = (mpsc::Receiver<RemoteChange>, CommitSignal);

/// Makes the channels of the dispatch loop. If others may share the store, `node` is this one and the secret of all.
pub(super) fn loop_channels(
    clock: Clock,
    node: Option<(NodeId, Secret)>,
    presence: Arc<Presence>,
) -> (Arc<Shared>, LeaseService) {
    let shared = Arc::new(match node {
        Some(_) => Shared::among_nodes(presence),
        None => Shared::alone(presence),
    });
    let leases = LeaseService::new(clock, Arc::clone(&shared), RENEWAL_MS_MAX);
    match node {
        Some((node, secret)) => (shared, leases.among_nodes(node, secret)),
        None => (shared, leases),
    }
}

/// Returns who else may use the store.
pub(super) fn sharing(config: &Config, node: Option<&Node>) -> Sharing {
    match node {
        Some(node) => Sharing::Others(Arc::clone(&node.others)),
        None => Sharing::Alone(config.data.clone()),
    }
}

/// This host among the nodes.
pub(super) struct Node {
    own: NodeId,
    secret: Secret,
    membership: Membership,
    others: Arc<dyn Others>,
    /// Whether the database can send hints.
    listen: bool,
    remote_changes: mpsc::Sender<RemoteChange>,
    done: Option<mpsc::Receiver<RemoteChange>>,
    commit_signal: CommitSignal,
}

impl Node {
    /// Joins as the host that `store` is open for, and starts its heartbeats.
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
        let secret = store.secret().map_err(ServeError::Store)?;
        let membership =
            Membership::join(own, Box::new(store.heartbeat()), presence).map_err(|error| {
                match error {
                    JoinError::Store(error) => ServeError::Store(error),
                    JoinError::System(error) => system("start heartbeats")(error),
                }
            })?;
        let (remote_changes, done) = mpsc::channel(REMOTE_CHANGES_MAX);
        Ok(Self {
            own,
            secret,
            membership,
            others,
            listen,
            remote_changes,
            done: Some(done),
            commit_signal: CommitSignal::default(),
        })
    }

    pub(super) fn clock(&self) -> Clock {
        self.membership.clock
    }

    /// Returns the other nodes that lived when this one joined.
    pub(super) fn living(&self) -> Vec<NodeId> {
        self.membership.living.clone()
    }

    /// Returns the secret that all nodes share.
    pub(super) fn secret(&self) -> Secret {
        self.secret
    }

    pub(super) fn lifeline(&self) -> Arc<Lifeline> {
        Arc::clone(&self.membership.lifeline)
    }

    /// Returns the end of the dispatch loop. May be called once.
    pub(super) fn loop_end(&mut self) -> Option<LoopEnd> {
        Some((self.done.take()?, self.commit_signal.clone()))
    }

    /// Waits no longer for a database that is away.
    pub(super) fn stop(&self) {
        self.others.stop();
    }

    /// Takes over from dead nodes and follows the others until the tasks stop.
    pub(super) fn follow(&mut self, dispatch: &Dispatch, deployments: &Deployments, tasks: &Tasks) {
        if let Some(events) = self.membership.events.take() {
            let handling =
                nodes::handle_node_events(events, dispatch.clone(), tasks.stopping().clone());
            tasks.spawn(handling);
        }
        tasks.spawn(compare(dispatch.clone(), self.own));
        let deployments = deployments.clone();
        let following = Following {
            clock: self.clock(),
            others: Arc::clone(&self.others),
            listen: self.listen,
            dispatch: dispatch.clone(),
            remote_changes: self.remote_changes.clone(),
            commit_signal: self.commit_signal.clone(),
            beats: self.membership.beats.clone(),
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

    /// Leaves the nodes. All cells must have ended. Blocks.
    pub(super) fn leave(self) {
        self.membership.leave();
    }
}
