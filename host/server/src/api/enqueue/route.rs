//! Who executes a job: the runner that its handler names, the one that its queue goes to, the
//! component that has its handler, or the default runner, in this order. Its params are checked
//! against what the handler or the runner takes.

use std::fmt::Write as _;

use host_cells::compile::schema::Budget;
use host_cells::run::handlers::Handler;
use host_core::json::JsonText;
use host_core::name::{Name, RUNNER_SEPARATOR};
use host_core::policy::{Policy, RetentionChoice};
use serde_json::Value;

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
    /// How jobs that are executed there are retried and bounded, if they say nothing else.
    pub(super) policy: Policy,
    /// How long they are kept, if they do not say so.
    pub(super) retention: RetentionChoice,
}

/// What decides where a job goes.
pub(super) struct Asked<'a> {
    /// The handler as it was written, perhaps behind the name of a runner.
    pub(super) handler: &'a str,
    pub(super) queue: Name,
    /// A document of JSON.
    pub(super) params: &'a str,
    /// Whether the request has params; `null` counts as absent.
    pub(super) has_params: bool,
}

/// Finds who executes a job, and checks that its params are of the kind they take.
pub(super) fn find(api: &Api, asked: Asked<'_>, budget: &mut Budget) -> Result<Route, ApiError> {
    let (queue, params) = (asked.queue, asked.params);
    if let Some((prefix, rest)) = asked.handler.split_once(RUNNER_SEPARATOR) {
        let runner = named(api, prefix)?;
        return to_runner(api, params, queue, runner, name(rest)?);
    }
    let handler = name(asked.handler)?;
    if let Some(runner) = api.executors.of_queue(&queue) {
        return to_runner(api, params, queue, runner.clone(), handler);
    }
    if let Some(deployed) = api.handlers.get(&handler) {
        let checked = check_schema(params, &deployed, budget);
        checked.map_err(|error| match &deployed.info.params_schema {
            Some(schema) if !asked.has_params => ApiError::new(error.kind(), missing(schema)),
            _ => error,
        })?;
        let runner = None;
        let retention = api.retentions.of(&queue, Some(&deployed));
        return Ok(Route {
            retention,
            queue,
            runner,
            handler,
            policy: Policy::default(),
        });
    }
    match api.executors.default_executor() {
        Some(runner) => to_runner(api, params, queue, runner.clone(), handler),
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

/// A runner accepts an object; absent params are an empty one.
fn to_runner(
    api: &Api,
    params: &str,
    queue: Name,
    runner: Name,
    handler: Name,
) -> Result<Route, ApiError> {
    let params = params.trim_ascii_start();
    if !params.starts_with('{') && params != "null" {
        let detail = format!("params: a handler of the runner {runner} takes an object");
        return Err(ApiError::new(&kinds::INVALID_PARAMS, detail));
    }
    api.executors
        .check(&runner, &handler, params)
        .map_err(|detail| ApiError::new(&kinds::INVALID_PARAMS, detail))?;
    let policy = api.executors.policy(&runner);
    let runner = Some(runner);
    Ok(Route {
        retention: api.retentions.of(&queue, None),
        queue,
        runner,
        handler,
        policy,
    })
}

fn check_schema(params: &str, handler: &Handler, budget: &mut Budget) -> Result<(), ApiError> {
    let Some(schema) = &handler.params else {
        return Ok(());
    };
    let params = serde_json::from_str(params)
        .map_err(|error| ApiError::new(&kinds::INVALID_JSON, format!("params: {error}")))?;
    schema
        .check(&params, budget)
        .map_err(|detail| ApiError::new(&kinds::INVALID_PARAMS, detail))
}

/// How long an example may be to be shown in a refusal, in bytes.
const EXAMPLE_BYTES_MAX: usize = 500;

/// Says what params the schema of the handler requires, with an example.
fn missing(schema: &JsonText) -> String {
    let schema: Value = serde_json::from_str(schema.as_str()).unwrap_or_default();
    let mut detail = "missing params".to_owned();
    if let Some(kind) = schema["type"].as_str() {
        let article = if kind.starts_with(['a', 'i', 'o']) {
            "an"
        } else {
            "a"
        };
        let _infallible = write!(detail, "; the handler takes {article} {kind}");
    }
    let required = schema["required"].as_array().into_iter().flatten();
    let required: Vec<String> = required.map(Value::to_string).collect();
    if !required.is_empty() {
        let _infallible = write!(detail, " with {}", required.join(", "));
    }
    let examples = [&schema["examples"][0], &schema["example"]];
    let example = examples.into_iter().find(|example| !example.is_null());
    let example = example.map(Value::to_string);
    if let Some(example) = example.filter(|text| text.len() <= EXAMPLE_BYTES_MAX) {
        let _infallible = write!(detail, ", such as {example}");
    }
    detail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_params_are_said_with_what_the_handler_takes() {
        for (schema, expected) in [
            ("true", "missing params"),
            (
                r#"{"type":"object","required":["to","n"],"examples":[{"to":"a","n":1}]}"#,
                r#"missing params; the handler takes an object with "to", "n", such as {"n":1,"to":"a"}"#,
            ),
            (
                r#"{"type":"string","example":"x"}"#,
                r#"missing params; the handler takes a string, such as "x""#,
            ),
        ] {
            assert_eq!(missing(&JsonText(schema.to_owned())), expected);
        }
    }
}
