//! The handler `hero.heroscript`: reads a script and returns its actions as steps, which the host
//! runs in order. Runs nothing itself.

mod action;
mod parse;
mod words;

#[cfg(test)]
mod tests;

use guest_sdk::schemars::{self, JsonSchema};
use guest_sdk::{Category, Ctx, Error, export_handlers, handler};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use action::{Action, Level};
pub use parse::{Fault, parse};

export_handlers!(heroscript);

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// What is read.
    script: String,
}

/// One action as the host runs it.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct Step {
    /// Which handler: `actor.action`.
    handler: String,
    /// What it is called with: the action's pairs, its words without a key as `args`, its `id`.
    params: Map<String, Value>,
}

/// Reads a HeroScript and returns its actions; the host runs the handler `actor.action` of each.
#[handler("hero.heroscript", schema)]
fn heroscript(_ctx: &Ctx, params: Params) -> Result<Vec<Step>, Error> {
    let actions = parse(&params.script).map_err(|fault| refused(&fault))?;
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
        return Err(refused(&Fault {
            line: action.line,
            message: format!("{handler} has a key `args` and words without a key; give those one"),
        }));
    }
    if let Some(id) = action.id {
        params.insert("id".to_owned(), Value::String(id));
    }
    Ok(Step { handler, params })
}

fn refused(fault: &Fault) -> Error {
    let message = format!("line {}: {}", fault.line, fault.message);
    Error::new(Category::DataQuality, "script_syntax", message)
        .details(&json!({"line": fault.line}))
}
