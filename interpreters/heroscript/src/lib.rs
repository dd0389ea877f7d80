//! The handler `hero.heroscript`. It parses a script and returns its actions as steps, which the host then
//! runs in order.

mod action;
mod error;
mod parse;
mod words;

#[cfg(test)]
mod tests;

use guest_sdk::schemars::{self, JsonSchema};
use guest_sdk::{Category, Ctx, Error, export_handlers, handler};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use action::{Action, Level};
pub use error::SyntaxError;
pub use parse::parse;

export_handlers!(heroscript);

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// The HeroScript.
    script: String,
}

/// One step for the host to run.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct Step {
    /// The handler: `actor.action`.
    handler: String,
    /// The params: the action's pairs, its words without a key as `args`, and its `id`.
    params: Map<String, Value>,
}

/// Parses a HeroScript and returns its actions. The host runs the handler `actor.action` of each.
#[handler("hero.heroscript", schema)]
fn heroscript(_ctx: &Ctx, params: Params) -> Result<Vec<Step>, Error> {
    let actions = parse(&params.script).map_err(|error| syntax_error(&error))?;
    actions.into_iter().map(step).collect()
}

fn step(action: Action) -> Result<Step, Error> {
    let handler = format!("{}.{}", action.actor, action.name);
    let mut params: Map<String, Value> = action
        .params
        .into_iter()
        .map(|(key, value)| (key, Value::String(value)))
        .collect();
    if !action.args.is_empty()
        && params
            .insert("args".to_owned(), json!(action.args))
            .is_some()
    {
        return Err(syntax_error(&SyntaxError {
            line: action.line,
            message: format!(
                "{handler} has both a key `args` and words without a key; give each word a key"
            ),
        }));
    }
    if let Some(id) = action.id {
        params.insert("id".to_owned(), Value::String(id));
    }
    Ok(Step { handler, params })
}

fn syntax_error(error: &SyntaxError) -> Error {
    let message = format!("line {}: {}", error.line, error.message);
    Error::new(Category::DataQuality, "script_syntax", message)
        .details(&json!({"line": error.line}))
}
