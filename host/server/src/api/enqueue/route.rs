//! Who executes a job: the runner its handler names, the one its queue goes to, the component that
//! has its handler, the default runner, in this order. Params are checked for whoever it is.

use host_core::name::{Name, RUNNER_SEPARATOR};
use host_core::policy::Policy;

use super::entry::Entry;
use crate::api::json::meant;
use crate::api::problem::{Code, Problem};
use crate::api::{Api, handlers};
use crate::executors::Found;
use host_cells::handlers::Handler;

/// Where a job goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) queue: Name,
    pub(super) runner: Option<Name>,
    pub(super) handler: Name,
    /// The rules of jobs that are executed there.
    pub(super) policy: Policy,
}

/// Finds who executes the job, and checks that its params are of the kind they take.
pub(super) fn find(api: &Api, entry: &Entry<'_>) -> Result<Route, Problem> {
    let queue = entry.queue()?;
    let text = entry.handler.as_ref();
    if let Some((prefix, rest)) = text.split_once(RUNNER_SEPARATOR) {
        let runner = named(api, prefix)?;
        return to_runner(api, entry, queue, runner, name(rest)?);
    }
    let handler = name(text)?;
    if let Some(runner) = api.executors.of_queue(&queue) {
        return to_runner(api, entry, queue, runner.clone(), handler);
    }
    if let Some(deployed) = api.handlers.get(&handler) {
        check_schema(entry, &deployed)?;
        let runner = None;
        return Ok(Route {
            queue,
            runner,
            handler,
            policy: Policy::default(),
        });
    }
    match api.executors.default_executor() {
        Some(runner) => to_runner(api, entry, queue, runner.clone(), handler),
        None => Err(handlers::unknown(&api.handlers.all(), &handler)),
    }
}

fn name(text: &str) -> Result<Name, Problem> {
    text.parse()
        .map_err(|error| Problem::new(Code::InvalidRequest, format!("handler: {error}")))
}

/// Finds the runner of a prefix.
fn named(api: &Api, prefix: &str) -> Result<Name, Problem> {
    let shown: String = prefix.chars().take(64).collect();
    let detail = match api.executors.find(prefix) {
        Found::Executor(name) => return Ok(name),
        Found::Full(most) => {
            format!("no lane is left for {shown:?}: {most} were named since the host started")
        }
        Found::Nobody => {
            let names = api.executors.names();
            match meant(prefix, names.iter().map(Name::as_str)) {
                Some(near) => format!("no runner is named {shown:?}; did you mean {near}?"),
                None => format!("no runner is named {shown:?}"),
            }
        }
    };
    Err(Problem::new(Code::HandlerNotFound, detail))
}

/// A runner takes an object; absent params are an empty one.
fn to_runner(
    api: &Api,
    entry: &Entry<'_>,
    queue: Name,
    runner: Name,
    handler: Name,
) -> Result<Route, Problem> {
    let params = entry.params_text().trim_ascii_start();
    if !params.starts_with('{') && params != "null" {
        let detail = format!("params: a handler of the runner {runner} takes an object");
        return Err(Problem::new(Code::InvalidParams, detail));
    }
    api.executors
        .check(&runner, &handler, params)
        .map_err(|detail| Problem::new(Code::InvalidParams, detail))?;
    let policy = api.executors.policy(&runner);
    let runner = Some(runner);
    Ok(Route {
        queue,
        runner,
        handler,
        policy,
    })
}

fn check_schema(entry: &Entry<'_>, handler: &Handler) -> Result<(), Problem> {
    let Some(schema) = &handler.params else {
        return Ok(());
    };
    let params = serde_json::from_str(entry.params_text())
        .map_err(|error| Problem::new(Code::InvalidJson, format!("params: {error}")))?;
    schema
        .check(&params)
        .map_err(|detail| Problem::new(Code::InvalidParams, detail))
}
