//! `enqueue`, `state_get`, `state_set` and `hold`: what scripts ask of the host's store, under the grants of this handler.
//! What a script writes counts once it has ended, so it does not matter how often it runs again for its calls. It holds a
//! key once.

use std::time::Duration;

use guest_sdk::{Ctx, NewJob, StoreError};
use rhai::{Dynamic, Engine, EvalAltResult, Map};
use serde_json::Value;

use crate::calls::Calls;
use crate::value::{self, thrown};

type Thrown = Box<EvalAltResult>;

/// Adds the functions to an engine.
pub(crate) fn register(engine: &mut Engine, ctx: &Ctx, calls: &Calls) {
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
    let (asked, repeats) = (ctx.clone(), calls.clone());
    engine.register_fn("hold", move |limit: &str, ms: i64| {
        if repeats.is_repeating() {
            return Ok(());
        }
        hold(&asked, limit, ms)
    });
}

/// Holds the job's key of a limit for some milliseconds.
fn hold(ctx: &Ctx, limit: &str, ms: i64) -> Result<(), Thrown> {
    let ms = u64::try_from(ms).map_err(|_| thrown(format!("hold: {ms} ms is no time")))?;
    let held = ctx.hold(limit, Duration::from_millis(ms));
    Ok(held.map_err(throw)?)
}

/// Enqueues a job with other fields of the API. Returns its id.
fn enqueue(ctx: &Ctx, handler: &str, params: Map, fields: Map) -> Result<String, Thrown> {
    let mut job = NewJob::new(handler);
    job.params = value::argument(&params.into())?;
    if let Value::Object(fields) = value::argument(&fields.into())? {
        job.others = fields.into_iter().collect();
    }
    Ok(ctx.enqueue(&job).map_err(throw)?)
}

/// Returns the value of a key, `()` if it is not set.
fn get(ctx: &Ctx, key: &str) -> Result<Dynamic, Thrown> {
    let found = ctx.state().get_bytes(key).map_err(throw)?;
    let Some(bytes) = found else {
        return Ok(Dynamic::UNIT);
    };
    let read = serde_json::from_slice::<Value>(&bytes)
        .map_err(|error| thrown(format!("the state {key:?} is not JSON: {error}")))?;
    Ok(value::from_json(&read))
}

/// Sets a key; `()` removes it.
fn set(ctx: &Ctx, key: &str, new: &Dynamic) -> Result<(), Thrown> {
    let state = ctx.state();
    if new.is_unit() {
        return Ok(state.delete(key).map_err(throw)?);
    }
    let new = value::argument(new)?;
    let set = state.set_bytes(key, new.to_string().as_bytes());
    Ok(set.map_err(throw)?)
}

fn throw(error: StoreError) -> EvalAltResult {
    thrown(error.message)
}
