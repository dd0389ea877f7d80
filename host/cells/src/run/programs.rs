//! The deployed handlers and the variables that they may be granted, from which runs and the steps
//! of chains are made. This module only looks up; it starts nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use host_core::access::{Object, Scope};
use host_core::cell::{Context, DeskDoor, EgressDoor, GivenDir, Handover};
use host_core::chain::ChainKind;
use host_core::desk::DeskPass;
use host_core::egress::Pass;
use host_core::failure::{Failure, FailureKind};
use host_core::handler::Limits;
use host_core::id::JobId;
use host_core::job::Origin;
use host_core::name::Name;
use host_core::trace::Parent;
use host_core::writes::{CollectedBytes, WriteBuffer};
use host_engine::component::Grants;

use crate::run::handlers::{Handler, Handlers, Program, not_deployed};

/// Why a variable is not granted. Does not reveal whether it is set.
pub(crate) const NO_VARIABLE: &str = "which is not in grants.env or not set for the host";

/// Why a run does not get to the desk.
const NO_DESK: &str = "only jobs that this host owns may enqueue others, keep state, artifacts and steps, see secrets and hold keys of limits";

/// The variables of the host process that guests may be granted.
pub type Environment = BTreeMap<String, String>;

/// The handlers that have other handlers run in their attempts, and how.
pub type ChainHandlers = BTreeMap<Name, ChainKind>;

/// The deployed handlers and the variables that they may be granted. Clones share them.
#[derive(Clone)]
pub(crate) struct Programs {
    handlers: Handlers,
    environment: Arc<Environment>,
    chain_handlers: Arc<ChainHandlers>,
    /// The handlers that the job may have run in its attempt; `None` for all.
    scope: Option<Arc<Scope>>,
    collected: CollectedBytes,
}

impl Programs {
    pub(crate) fn new(
        handlers: Handlers,
        environment: Environment,
        chain_handlers: ChainHandlers,
    ) -> Self {
        Self {
            handlers,
            environment: Arc::new(environment),
            chain_handlers: Arc::new(chain_handlers),
            scope: None,
            collected: CollectedBytes::default(),
        }
    }

    /// Limits the handlers to those of a scope.
    #[must_use]
    pub(crate) fn within(self, scope: Option<Scope>) -> Self {
        let scope = scope.filter(|scope| !scope.is_all()).map(Arc::new);
        Self { scope, ..self }
    }

    /// Looks up a handler that a job has run in its attempt. One out of its scope looks like one that does not exist.
    pub(crate) fn executable(&self, name: &Name) -> Result<(Arc<Handler>, Arc<Program>), Failure> {
        let object = Object::Handler(None, name.as_str());
        if self.scope.as_ref().is_none_or(|scope| scope.has(object)) {
            return self.handlers.executable(name);
        }
        Err(not_deployed(name))
    }

    /// Makes a buffer for what an attempt writes on behalf of the one who enqueued its job.
    pub(crate) fn buffer(&self, origin: Option<Box<Origin>>) -> WriteBuffer {
        WriteBuffer::new(self.collected.clone(), origin)
    }

    pub(crate) const fn handlers(&self) -> &Handlers {
        &self.handlers
    }

    /// Returns how a handler has others run in its attempt, if it does.
    pub(crate) fn chain_kind(&self, handler: &Name) -> Option<ChainKind> {
        self.chain_handlers.get(handler).copied()
    }

    /// Looks up the variables that a handler is granted, first in the job, then in the host's environment.
    /// The error is the name of the first variable that is in neither.
    pub(crate) fn granted(
        &self,
        handler: &Handler,
        env: &[(String, String)],
    ) -> Result<Vec<(String, String)>, Failure> {
        granted(
            &handler.grants,
            handler.revision.component.as_str(),
            &self.environment,
            env,
        )
    }
}

/// Returns the directories that a run gets.
pub(crate) fn read_dirs(grants: &Grants) -> Vec<GivenDir> {
    grants
        .read_dirs
        .iter()
        .cloned()
        .map(GivenDir::from)
        .collect()
}

/// Returns what a run gets for its scratch directory, if it has one.
pub(crate) fn scratch(limits: &Limits) -> Option<Handover> {
    (limits.scratch_bytes > 0).then(Handover::default)
}

/// Returns the way to the broker that a run of `handler` gets, if it has grants.
pub(crate) fn http(handler: &Handler, limits: &Limits, context: &Context) -> Option<EgressDoor> {
    let grants = &handler.grants;
    if grants.http.is_empty() && grants.tcp.is_empty() && grants.sql.is_empty() {
        return None;
    }
    let (component, revision) = handler.provider();
    Some(EgressDoor::new(Pass {
        component,
        revision,
        handler: handler.info.name.to_string(),
        grants: grants.http.clone(),
        tcp: grants.tcp.clone(),
        sql: grants.sql.clone(),
        time_left_ms: limits.timeout_ms.saturating_add(limits.grace_ms),
        trace: Parent::of(&context.trace),
        report_as: None,
        has_lifeline: false,
        cuts_bodies: false,
    }))
}

/// Returns whether a handler may ask the desk.
pub(crate) const fn uses_desk(handler: &Handler) -> bool {
    let grants = &handler.grants;
    handler.limits.artifact_bytes > 0
        || handler.limits.steps_max > 0
        || !grants.jobs.is_empty()
        || grants.state.is_some()
        || !grants.secrets.is_empty()
        || !grants.hold.is_empty()
}

/// Returns the way to the desk that a run of `handler` gets, if it has grants. What is collected in `writes`
/// is stored with the attempt's end; without it, nothing can be written.
pub(crate) fn desk(
    handler: &Handler,
    job: JobId,
    context: &Context,
    writes: Option<&WriteBuffer>,
) -> Option<DeskDoor> {
    if !uses_desk(handler) {
        return None;
    }
    let Some(writes) = writes else {
        let socket = Handover::Failed(NO_DESK.to_owned());
        return Some(DeskDoor { pass: None, socket });
    };
    let pass = DeskPass {
        job,
        handler: handler.info.name.clone(),
        jobs: handler.grants.jobs.clone(),
        state: handler.grants.state.clone(),
        secrets: handler.grants.secrets.clone(),
        hold: handler.grants.hold.clone(),
        notify: handler.grants.notify.clone(),
        artifact_bytes: handler.limits.artifact_bytes,
        steps: None,
        trace: context.trace.clone(),
        writes: writes.clone(),
    };
    Some(DeskDoor {
        pass: Some(Box::new(pass)),
        socket: Handover::Comes,
    })
}

fn granted(
    grants: &Grants,
    component: &str,
    environment: &Environment,
    env: &[(String, String)],
) -> Result<Vec<(String, String)>, Failure> {
    let values = grants.env.iter().map(|name| {
        let sent = env.iter().rfind(|(key, _)| key == name);
        let value = sent
            .map(|(_, value)| value)
            .or_else(|| environment.get(name)).ok_or_else(|| {
            let message = format!(
                "the manifest of {component} grants the environment variable {name}, {NO_VARIABLE}"
            );
            Failure::new(FailureKind::GrantMissing, message)
        })?;
        Ok((name.clone(), value.clone()))
    });
    values.collect()
}
