//! Who executes a job: the runner that its handler names, the one that its queue goes to, the
//! component that has its handler, or the default runner, in this order.

use std::sync::Arc;

use host_cells::run::handlers::Handler;
use host_core::access::{Object, Scope};
use host_core::name::{EXECUTOR_SEPARATOR, Name};
use host_core::policy::{Policy, RetentionChoice};
use host_engine::webhook::WEBHOOKS;

use crate::api::error::ApiError;
use crate::api::problem::kinds;
use crate::api::{Api, handlers};
use crate::executors::ExecutorLookup;

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
/// for a component's handler if one is returned. What is out of scope is refused before it is looked up.
pub(super) fn find(
    api: &Api,
    scope: &Scope,
    handler: &str,
    queue: Name,
) -> Result<(Route, Option<Arc<Handler>>), ApiError> {
    if let Some((prefix, rest)) = handler.split_once(EXECUTOR_SEPARATOR) {
        let rest = name(rest)?;
        check(scope, &queue, Some(prefix), &rest)?;
        let runner = named(api, scope, prefix)?;
        return Ok((to_runner(api, queue, runner, rest), None));
    }
    let handler = name(handler)?;
    let of_queue = api.executors.of_queue(&queue);
    check(scope, &queue, of_queue.map(Name::as_str), &handler)?;
    if let Some(runner) = of_queue {
        return Ok((to_runner(api, queue, runner.clone(), handler), None));
    }
    if let Some(deployed) = api.handlers.get(&handler) {
        let route = Route {
            retention: api.retentions.choose(&queue, Some(&deployed)),
            queue,
            runner: None,
            policy: deployed.policy(),
            component: Some(deployed.revision.component.clone()),
            handler,
            timeout_ms_max: None,
        };
        return Ok((route, Some(deployed)));
    }
    if let Some(runner) = api.executors.default_executor() {
        return Ok((to_runner(api, queue, runner.clone(), handler), None));
    }
    Err(handlers::unknown(&handlers::seen(api, scope), &handler))
}

fn check(
    scope: &Scope,
    queue: &Name,
    runner: Option<&str>,
    handler: &Name,
) -> Result<(), ApiError> {
    if scope.has(Object::Job(queue.as_str(), runner, handler.as_str())) {
        return Ok(());
    }
    let shown = runner.map_or_else(String::new, |runner| {
        runner
            .chars()
            .take(64)
            .chain([EXECUTOR_SEPARATOR])
            .collect()
    });
    let detail = format!("the token is not for the handler {shown}{handler} in the queue {queue}");
    Err(ApiError::new(&kinds::OUT_OF_SCOPE, detail))
}

fn name(text: &str) -> Result<Name, ApiError> {
    text.parse()
        .map_err(|error| ApiError::invalid(format!("handler: {error}")))
}

/// Finds the runner of a prefix.
fn named(api: &Api, scope: &Scope, prefix: &str) -> Result<Name, ApiError> {
    let detail = match api.executors.find(prefix) {
        _ if prefix == WEBHOOKS => {
            "the host itself makes the jobs of webhooks: name the receiver in `notify`".to_owned()
        }
        ExecutorLookup::Executor(name) => return Ok(name),
        ExecutorLookup::Full(most) => {
            let shown: String = prefix.chars().take(64).collect();
            format!("no lane is left for {shown:?}: {most} were named since the host started")
        }
        // Other nodes' names are not shown to everyone.
        ExecutorLookup::Unknown if !scope.is_all() => {
            let shown: String = prefix.chars().take(64).collect();
            format!("no runner is named {shown:?}")
        }
        ExecutorLookup::Unknown => api.executors.explain_unknown(prefix),
    };
    Err(ApiError::new(&kinds::HANDLER_NOT_FOUND, detail))
}

fn to_runner(api: &Api, queue: Name, runner: Name, handler: Name) -> Route {
    Route {
        retention: api.retentions.choose(&queue, None),
        queue,
        handler,
        component: None,
        policy: api.executors.policy(&runner),
        timeout_ms_max: api.executors.timeout_ms_max(&runner),
        runner: Some(runner),
    }
}
