//! `enqueue`, `state_get` and `state_set`: what scripts ask of the host's store, under the grants of this handler. What
//! a script writes counts once it has ended, so it does not matter how often it runs again for its calls.

use guest_sdk::{Ctx, Error, NewJob, StoreError};
use rhai::{Dynamic, Engine, EvalAltResult, Map, Position};
use serde_json::Value;

use crate::value;

type Thrown = Box<EvalAltResult>;

/// Adds the functions to an engine.
pub(crate) fn register(engine: &mut Engine, ctx: &Ctx) {
    let asked = ctx.clone();
    engine.register_fn("enqueue", move |handler: &str, params: Map| {
        enqueue(&asked, handler, params, Map::new())
    });
    let asked = ctx.clone();
    engine.register_fn("enqueue", move |handler: &str, params: Map, fields: Map| {
        enqueue(&asked, handler, params, fields)
    });
    let asked = ctx.clone();
    engine.register_fn("state_get", move |key: &str| get(&asked, key));
    let asked = ctx.clone();
    engine.register_fn("state_set", move |key: &str, value: Dynamic| {
        set(&asked, key, &value)
    });
}

/// Enqueues a job with other fields of the API. Returns its id.
fn enqueue(ctx: &Ctx, handler: &str, params: Map, fields: Map) -> Result<String, Thrown> {
    let mut job = NewJob::new(handler);
    job.params = value::to_json(&params.into()).map_err(|error| failed(&error))?;
    if let Value::Object(fields) = value::to_json(&fields.into()).map_err(|error| failed(&error))? {
        job.others = fields.into_iter().collect();
    }
    Ok(ctx.enqueue(&job).map_err(refused)?)
}

/// Returns the value of a key; `()` if there is none.
fn get(ctx: &Ctx, key: &str) -> Result<Dynamic, Thrown> {
    let found = ctx.state().get_bytes(key).map_err(refused)?;
    let Some(bytes) = found else {
        return Ok(Dynamic::UNIT);
    };
    let read = serde_json::from_slice::<Value>(&bytes);
    let read = read.map_err(|error| thrown(format!("the state {key:?} is not JSON: {error}")))?;
    Ok(value::from_json(&read))
}

/// Sets a key; `()` removes it.
fn set(ctx: &Ctx, key: &str, new: &Dynamic) -> Result<(), Thrown> {
    let state = ctx.state();
    if new.is_unit() {
        return Ok(state.delete(key).map_err(refused)?);
    }
    let new = value::to_json(new).map_err(|error| failed(&error))?;
    let set = state.set_bytes(key, new.to_string().as_bytes());
    Ok(set.map_err(refused)?)
}

fn refused(error: StoreError) -> EvalAltResult {
    thrown(error.message)
}

fn failed(error: &Error) -> EvalAltResult {
    thrown(match error {
        Error::Failed(failed) => failed.message.clone(),
        _ => String::new(),
    })
}

fn thrown(message: String) -> EvalAltResult {
    EvalAltResult::ErrorRuntime(message.into(), Position::NONE)
}
