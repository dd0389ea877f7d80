//! The deployed handlers and the variables that they may be granted, from which runs and the steps
//! of chains are made. This module only looks up; it starts nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use host_core::cell::{Context, EgressDoor, GivenDir};
use host_core::chain::ChainKind;
use host_core::egress::Pass;
use host_core::failure::{Failure, FailureKind};
use host_core::handler::{Grants, Limits};
use host_core::name::Name;

use crate::run::handlers::{Handler, Handlers};

/// Why a variable is not granted. Does not reveal whether it is set.
pub(crate) const NO_VARIABLE: &str = "which is not in grants.env or not set for the host";

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
        }
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

/// Returns the way to HTTP servers that a run of `handler` gets, if it has grants.
pub(crate) fn http(handler: &Handler, limits: &Limits, context: &Context) -> Option<EgressDoor> {
    let grants = &handler.grants.http;
    if grants.is_empty() {
        return None;
    }
    let (component, revision) = handler.provider();
    let mut trace = context.trace.iter();
    let parent = trace.find(|(name, _)| name == "traceparent");
    Some(EgressDoor::new(Pass {
        component,
        revision,
        handler: handler.info.name.to_string(),
        grants: grants.clone(),
        time_left_ms: limits.timeout_ms.saturating_add(limits.grace_ms),
        traceparent: parent.map(|(_, value)| value.clone()),
    }))
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
            .or_else(|| environment.get(name));
        let value = value.ok_or_else(|| {
            let message = format!(
                "the manifest of {component} grants the environment variable {name}, {NO_VARIABLE}"
            );
            Failure::new(FailureKind::GrantMissing, message)
        })?;
        Ok((name.clone(), value.clone()))
    });
    values.collect()
}
