//! Who executes a job: the runner that its handler names, the one that its queue goes to, the
//! component that has its handler, or the default runner, in this order.

use std::sync::Arc;

use host_cells::run::handlers::Handler;
use host_core::name::{Name, RUNNER_SEPARATOR};
use host_core::policy::{Policy, RetentionChoice};

use crate::api::error::ApiError;
use crate::api::problem::kinds;
use crate::api::{Api, handlers};
use crate::executors::Found;

/// Where a job goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) queue: Name,
    pub(super) runner: Option<Name>,
    pub(super) handler: Name,
    /// The component that has the handler.
    pub(super) component: Option<Name>,
    /// How jobs that are executed there are retried and bounded, if they say nothing else.
    pub(super) policy: Policy,
    /// The longest time limit that is possible there, in milliseconds; `None` if any is.
    pub(super) timeout_ms_max: Option<u64>,
    /// How long they are kept, if they do not say so.
    pub(super) retention: RetentionChoice,
}

/// Finds who executes a job. The handler is as it was written, perhaps behind the name of a runner. The job is
/// for a component's handler if one is returned.
pub(super) fn find(
    api: &Api,
    handler: &str,
    queue: Name,
) -> Result<(Route, Option<Arc<Handler>>), ApiError> {
    if let Some((prefix, rest)) = handler.split_once(RUNNER_SEPARATOR) {
        let runner = named(api, prefix)?;
        return Ok((to_runner(api, queue, runner, name(rest)?), None));
    }
    let handler = name(handler)?;
    if let Some(runner) = api.executors.of_queue(&queue) {
        return Ok((to_runner(api, queue, runner.clone(), handler), None));
    }
    if let Some(deployed) = api.handlers.get(&handler) {
        let route = Route {
            retention: api.retentions.of(&queue, Some(&deployed)),
            queue,
            runner: None,
            policy: deployed.policy(),
            component: Some(deployed.revision.component.clone()),
            handler,
            timeout_ms_max: None,
        };
        return Ok((route, Some(deployed)));
    }
    match api.executors.default_executor() {
        Some(runner) => Ok((to_runner(api, queue, runner.clone(), handler), None)),
        None => Err(handlers::unknown(&api.handlers.all(), &handler)),
    }
}

fn name(text: &str) -> Result<Name, ApiError> {
    text.parse()
        .map_err(|error| ApiError::new(&kinds::INVALID_REQUEST, format!("handler: {error}")))
}

/// Finds the runner of a prefix.
fn named(api: &Api, prefix: &str) -> Result<Name, ApiError> {
    let detail = match api.executors.find(prefix) {
        Found::Executor(name) => return Ok(name),
        Found::Full(most) => {
            let shown: String = prefix.chars().take(64).collect();
            format!("no lane is left for {shown:?}: {most} were named since the host started")
        }
        Found::Nobody => api.executors.nobody(prefix),
    };
    Err(ApiError::new(&kinds::HANDLER_NOT_FOUND, detail))
}

fn to_runner(api: &Api, queue: Name, runner: Name, handler: Name) -> Route {
    Route {
        retention: api.retentions.of(&queue, None),
        queue,
        handler,
        component: None,
        policy: api.executors.policy(&runner),
        timeout_ms_max: api.executors.timeout_ms_max(&runner),
        runner: Some(runner),
    }
}
