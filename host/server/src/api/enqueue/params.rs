//! Checks a job's params against what its handler or runner takes. They stay text; one reading checks them,
//! and parses them only if the handler has a schema.

use std::fmt::Write as _;

use host_api::new_job::NewJobBody;
use host_cells::compile::schema::Budget;
use host_cells::run::handlers::Handler;
use host_core::json::JsonText;
use host_core::json::strict::Document;
use host_http::json;
use serde_json::Value;
use serde_json::value::RawValue;

use super::route::Route;
use crate::api::Api;
use crate::api::error::ApiError;
use crate::api::problem::kinds;

/// An entry of a request.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) body: NewJobBody,
    /// Its params, once they were read.
    params: Option<Document>,
}

impl From<NewJobBody> for Entry {
    fn from(body: NewJobBody) -> Self {
        Self { body, params: None }
    }
}

impl Entry {
    /// Checks the params of a job that goes to a runner or to this handler.
    pub(super) fn check_params(
        &mut self,
        api: &Api,
        route: &Route,
        handler: Option<&Handler>,
        budget: &mut Budget,
    ) -> Result<(), ApiError> {
        let given = self.body.params.as_deref();
        let text = given.map_or("null", RawValue::get);
        if let Some(runner) = &route.runner {
            // A runner accepts an object; absent params are an empty one.
            if !text.starts_with('{') && text != "null" {
                return Err(invalid(format!(
                    "params: a handler of the runner {runner} takes an object"
                )));
            }
            let checked = api.executors.check(runner, &route.handler, text);
            checked.map_err(invalid)?;
        }
        // Params that get inputs later are checked when the job starts.
        let schema = handler
            .and_then(|handler| handler.params.as_ref())
            .filter(|_| self.body.inputs.is_empty());
        let known = self.params.take();
        let params = match known.filter(|params| params.tree.is_some() || schema.is_none()) {
            Some(params) => params,
            None => json::read_document(text.as_bytes(), schema.is_some())
                .map_err(|error| error.at("params"))?,
        };
        let params = self.params.insert(params);
        if let (Some(schema), Some(tree)) = (schema, &params.tree) {
            schema.check(tree, budget).map_err(|detail| {
                let stated = handler.and_then(|handler| handler.info.params_schema.as_ref());
                invalid(match stated {
                    Some(stated) if given.is_none() => missing(stated),
                    _ => detail,
                })
            })?;
        }
        if handler.is_some() && params.has_doubles {
            let exact = JsonText(text.to_owned()).check_exact();
            exact.map_err(|error| invalid(format!("params: {error}")))?;
        }
        Ok(())
    }
}

fn invalid(detail: String) -> ApiError {
    ApiError::new(&kinds::INVALID_PARAMS, detail)
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
        let _ = write!(detail, "; the handler takes {article} {kind}");
    }
    let required: Vec<String> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .map(Value::to_string)
        .collect();
    if !required.is_empty() {
        let _ = write!(detail, " with {}", required.join(", "));
    }
    let examples = [&schema["examples"][0], &schema["example"]];
    let example = examples
        .into_iter()
        .find(|example| !example.is_null())
        .map(Value::to_string);
    if let Some(example) = example.filter(|text| text.len() <= EXAMPLE_BYTES_MAX) {
        let _ = write!(detail, ", such as {example}");
    }
    detail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_params_are_refused_with_what_the_handler_takes() {
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
