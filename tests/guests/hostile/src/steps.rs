//! Handlers with steps: one that does in each attempt what its params say, and the example of the documentation.

use std::time::Duration;

use guest_sdk::{Ctx, Error, NewJob, handler};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
pub(crate) struct Plan {
    /// What each attempt does; the last one counts for all that follow.
    attempts: Vec<Vec<Action>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    /// Begins a step of this name, which enqueues a job in the queue `step-NAME`.
    Step(String),
    /// The same, but it fails then.
    FailIn(String),
    /// Begins a step within another one.
    Nest(String),
    /// Returns so many bytes from a step.
    Return(usize),
    /// Enqueues a job in the queue `outside`.
    Enqueue,
    Fail,
    WaitForStop,
}

/// Does what its plan says, and returns what the steps return: the number of the attempt that has done them.
#[handler]
pub(crate) fn steps(ctx: &Ctx, plan: Plan) -> Result<Vec<Value>, Error> {
    let place = ctx.job().attempt as usize - 1;
    let actions = plan.attempts.get(place).or(plan.attempts.last());
    let mut results = Vec::new();
    for action in actions.into_iter().flatten() {
        results.extend(act(ctx, action)?);
    }
    Ok(results)
}

fn act(ctx: &Ctx, action: &Action) -> Result<Option<Value>, Error> {
    let attempt = ctx.job().attempt;
    match action {
        Action::Step(name) => {
            let result = ctx.step(name, || {
                enqueue(ctx, &format!("step-{name}"))?;
                ctx.state().set("last", name)?;
                Ok(json!(attempt))
            });
            return result.map(Some);
        }
        Action::FailIn(name) => {
            let failed = ctx.step(name, || {
                enqueue(ctx, &format!("step-{name}"))?;
                Err::<(), _>(Error::fatal("wanted", format!("in attempt {attempt}")))
            });
            return Ok(failed.err().map(|error| json!(format!("{error:?}"))));
        }
        Action::Nest(name) => {
            ctx.step(name, || ctx.step(name, || Ok(())))?;
        }
        Action::Return(bytes) => {
            ctx.step("large", || Ok("x".repeat(*bytes)))?;
        }
        Action::Enqueue => enqueue(ctx, "outside")?,
        Action::Fail => return Err(Error::retry("it fails, as it was asked to")),
        Action::WaitForStop => {
            while ctx.cancelled().is_none() {
                ctx.sleep(Duration::from_millis(10));
            }
            return Err(Error::cancelled(&()));
        }
    }
    Ok(None)
}

fn enqueue(ctx: &Ctx, queue: &str) -> Result<(), Error> {
    ctx.enqueue(&NewJob::new("ship-row").params(&0)?.queue(queue))?;
    Ok(())
}

/// Takes a number for an order once, and enqueues a job for each of its rows once.
#[handler]
pub(crate) fn order(ctx: &Ctx, rows: Vec<u32>) -> Result<String, Error> {
    let number: u32 = ctx.step("number", || {
        let number = ctx.state().get("orders")?.unwrap_or(0) + 1;
        ctx.state().set("orders", &number)?;
        Ok(number)
    })?;
    ctx.resume("ship", |cursor| {
        let shipped = cursor.position().copied().unwrap_or(0);
        for (at, row) in rows.iter().enumerate().skip(shipped) {
            ctx.enqueue(&NewJob::new("ship-row").params(row)?)?;
            cursor.checkpoint(&(at + 1))?;
        }
        Ok(())
    })?;
    Ok(format!("order {number}"))
}

/// Returns its row.
#[handler("ship-row")]
pub(crate) fn ship_row(_ctx: &Ctx, row: u32) -> Result<u32, Error> {
    Ok(row)
}
