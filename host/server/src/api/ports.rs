//! What the API asks of other parts of the server: deploying components, reading logs, and the nodes.

use futures_util::future::BoxFuture;
use host_cells::deploy::examine::Component;
use host_core::id::{JobId, NodeId};
use host_core::name::Name;
use host_dispatch::SubmitError;
use host_engine::StoreError;
use host_engine::audit::Note;
use host_engine::component::Manifest;
use host_engine::node::NodeRecord;
use host_http::problem::Kind;
use host_store::logs::LogPage;

use super::error::ApiError;

pub use crate::deploy::{Consent, Deployed, DeployedBy};

/// Why a component is not deployed, rolled back or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeployError {
    /// Which kind of problem it is.
    pub kind: &'static Kind,
    /// The cause, for people.
    pub message: String,
}

/// Changes deployments, and records each change with its note. A dropped call may still take effect.
pub trait Deployer: Send + Sync {
    /// Checks, compiles and describes a component and makes it the current revision of `name`. What would
    /// come of it must be accepted.
    fn deploy(
        &self,
        name: Name,
        manifest: Manifest,
        component: Component,
        consent: Consent,
        by: DeployedBy,
    ) -> BoxFuture<'_, Result<Deployed, DeployError>>;

    /// Makes an earlier revision current. What would come of it for waiting jobs must be accepted.
    fn rollback(
        &self,
        name: Name,
        revision: u32,
        consent: Consent,
        note: Note,
    ) -> BoxFuture<'_, Result<Deployed, DeployError>>;

    /// Publishes what other nodes have deployed since. Returns false if there are none.
    fn sync(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }

    /// Forgets a component that no job needs.
    fn remove(&self, name: Name, note: Note) -> BoxFuture<'_, Result<(), DeployError>>;
}

/// Reads what jobs have logged.
pub trait Logs: Send + Sync {
    /// Returns at most `limit` lines of a job, from behind the line with the number `after`.
    fn page(
        &self,
        job: JobId,
        after: Option<u64>,
        limit: u32,
    ) -> BoxFuture<'_, Result<LogPage, StoreError>>;
}

/// The nodes that share the store, this host among them.
pub trait Nodes: Send + Sync {
    /// Returns the id of this host.
    fn own(&self) -> NodeId;

    /// Returns all of them, including gone ones that are still kept.
    fn list(&self) -> BoxFuture<'_, Result<Vec<NodeRecord>, StoreError>>;

    /// Asks one to start no more jobs, or to start some again.
    fn set_drain(&self, node: NodeId, drain: bool) -> BoxFuture<'_, Result<(), StoreError>>;
}

impl DeployError {
    /// Makes an error of a kind; `detail` says what is wrong.
    pub fn new(kind: &'static Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

impl From<SubmitError> for DeployError {
    fn from(error: SubmitError) -> Self {
        let message = error.to_string();
        Self::new(ApiError::from(error).kind(), message)
    }
}

impl From<DeployError> for ApiError {
    fn from(error: DeployError) -> Self {
        Self::new(error.kind, error.message)
    }
}
