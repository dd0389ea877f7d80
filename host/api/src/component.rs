//! A component as the API shows it, and what a deploy does.

use std::ops::Not;

use host_core::name::Name;
use host_engine::component::{Manifest, Revision};
use host_engine::node::{NodeRecord, Readiness};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::words::NodeState;

/// One revision of a component.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Revision)]
pub struct RevisionView {
    /// The component's name.
    #[serde(default)]
    #[schema(required = true)]
    pub component: String,
    /// 1 for the first.
    pub revision: u32,
    /// SHA-256 of its bytes, in hex.
    #[serde(default)]
    #[schema(required = true)]
    pub digest: String,
    /// The names of its handlers.
    #[serde(default)]
    #[schema(required = true)]
    pub handlers: Vec<String>,
    /// When it was deployed (RFC 3339).
    #[serde(default)]
    #[schema(required = true)]
    pub deployed_at: String,
    /// The id of the key that has signed it, if the host asks for signatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
    /// The names of the schedules in its manifest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<String>,
    /// Who deployed it: the name of a token, else the principal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub deployed_by: String,
    /// What they call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What they say about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A component with all its revisions.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Component)]
pub struct ComponentView {
    /// Its name.
    pub component: String,
    /// The revision that new attempts are executed with.
    pub current: u32,
    /// All revisions, the newest first.
    #[serde(default)]
    #[schema(required = true)]
    pub revisions: Vec<KeptView>,
    /// Whether each node can run the current revision. Nodes that are gone are left out.
    #[serde(default)]
    #[schema(required = true)]
    pub nodes: Vec<ReadinessView>,
}

/// Whether a node can run a component.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = NodeReadiness)]
pub struct ReadinessView {
    /// The node's id.
    pub id: String,
    /// The name of its machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its state.
    #[serde(default)]
    #[schema(value_type = NodeState, required = true)]
    pub state: String,
    /// ready, compiling or failed.
    #[serde(default)]
    #[schema(required = true)]
    pub component: String,
    /// Why it cannot run the component.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One revision that is kept.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct KeptView {
    #[serde(flatten)]
    pub revision: RevisionView,
    /// Whether new attempts are executed with it.
    #[serde(default)]
    #[schema(required = true)]
    pub current: bool,
    /// Its limits and grants, as they were deployed.
    #[serde(default)]
    #[schema(value_type = serde_json::Value, required = true)]
    pub manifest: Manifest,
}

/// What a deploy or a rollback did.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct DeployedView {
    #[serde(flatten)]
    pub revision: RevisionView,
    /// Whether it was current before.
    #[serde(default)]
    #[schema(required = true)]
    pub unchanged: bool,
    /// Handlers of the previous revision that it lacks.
    #[serde(default)]
    #[schema(required = true)]
    pub handlers_removed: Vec<RemovedHandlerView>,
    /// What its handlers may access that the previous revision could not.
    #[serde(default)]
    #[schema(required = true)]
    pub grants_added: Vec<String>,
    /// What handlers of the previous revision could access and cannot any more.
    #[serde(default)]
    #[schema(required = true)]
    pub grants_removed: Vec<String>,
    /// Limits that differ from the previous revision.
    #[serde(default)]
    #[schema(required = true)]
    pub limits_changed: Vec<LimitChangeView>,
    /// Interfaces that it imports but is not given: calls to them fail.
    #[serde(default)]
    #[schema(required = true)]
    pub stubbed: Vec<String>,
    /// How many nodes can run it already: at least the one that answers.
    #[serde(default)]
    #[schema(required = true)]
    pub nodes_ready: usize,
    /// How many nodes there are, without those that are gone.
    #[serde(default)]
    #[schema(required = true)]
    pub nodes_all: usize,
}

/// A handler that is no longer deployed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = RemovedHandler)]
pub struct RemovedHandlerView {
    /// Its name.
    pub handler: String,
    /// How many jobs for it have not ended; at most 10,000 are counted. They fail when they start, unless it is deployed
    /// again.
    pub jobs: u64,
}

/// A limit of a handler that has changed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = LimitChange)]
pub struct LimitChangeView {
    /// The handler.
    pub handler: String,
    /// Which limit, with its unit: `memory_bytes`, `fuel`, `timeout_ms`, `grace_ms`, `result_bytes_max`,
    /// `log_bytes_max`, `scratch_bytes`, `artifact_bytes`, `steps_max`, `max_attempts`, `backoff_base_ms`, `backoff_max_ms`, `retention_ms` or
    /// `retention_discarded_ms`.
    pub limit: String,
    /// The value before; null if it was not set.
    pub before: Option<u64>,
    /// The value now; null if it is not set.
    pub after: Option<u64>,
}

/// A removed component.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RemovedView {
    /// Its name.
    pub component: String,
    /// Always true.
    pub removed: bool,
}

/// How to deploy.
#[derive(Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct DeployQuery {
    /// Whether handlers may get grants that they did not have before; `false` if absent.
    #[serde(default, skip_serializing_if = "Not::not")]
    #[param(value_type = Option<bool>)]
    pub accept_grants: bool,
    /// Whether to deploy although the params of waiting jobs do not match a new schema; `false` if absent.
    #[serde(default, skip_serializing_if = "Not::not")]
    #[param(value_type = Option<bool>)]
    pub force: bool,
    /// What to call the revision, such as a version; 1 to 64 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What to keep about it, such as the commit that it was built from; 1 to 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Which revision to go back to.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackBody {
    /// Its number.
    #[schema(minimum = 1)]
    pub revision: u32,
    /// Roll back although params of waiting jobs do not match the schema of that revision.
    #[serde(default)]
    pub force: bool,
    /// Accept grants that the current revision does not have.
    #[serde(default)]
    pub accept_grants: bool,
}

/// The parts of a deploy; the body may also be the component alone, as `application/wasm`.
#[derive(Debug, ToSchema)]
pub struct DeployForm<'a> {
    /// The component's bytes.
    #[schema(value_type = String, format = Binary)]
    pub component: &'a [u8],
    /// The manifest: TOML with limits and grants.
    #[schema(value_type = Option<String>)]
    pub manifest: Option<&'a str>,
    /// The signature of the component, as minisign writes it.
    #[schema(value_type = Option<String>)]
    pub signature: Option<&'a str>,
}

impl From<&Revision> for RevisionView {
    fn from(revision: &Revision) -> Self {
        let handlers = revision.handlers.iter();
        let schedules = revision.schedules.iter();
        Self {
            component: revision.component.to_string(),
            revision: revision.revision,
            digest: revision.digest.to_string(),
            handlers: handlers.map(|handler| handler.name.to_string()).collect(),
            deployed_at: revision.deployed_at.to_rfc3339(),
            signed_by: revision.signature.as_ref().map(|it| it.key.clone()),
            schedules: schedules
                .map(|schedule| schedule.name.to_string())
                .collect(),
            deployed_by: revision.release.by.clone(),
            label: revision.release.label.clone(),
            note: revision.release.note.clone(),
        }
    }
}

impl ReadinessView {
    /// Shows whether a node can run a revision of a component.
    pub fn new(node: &NodeRecord, component: &Name, revision: u32) -> Self {
        let readiness = node.readiness(component, revision);
        let reason = match readiness {
            Readiness::Failed(reason) => Some(reason.to_owned()),
            Readiness::Ready | Readiness::Compiling => None,
        };
        Self {
            id: node.id.to_string(),
            name: node.info.as_ref().map(|info| info.name.clone()),
            state: node.standing().as_str().to_owned(),
            component: readiness.as_str().to_owned(),
            reason,
        }
    }
}
