//! Attempts, state and errors.

use chrono::{DateTime, Utc};
use guest_sdk::{Category, Ctx, Error, handler};
use serde::Deserialize;

#[derive(Deserialize)]
pub(crate) struct Again {
    retry_at: DateTime<Utc>,
    now: DateTime<Utc>,
}

/// Asks for another attempt at a time that may have passed.
#[handler]
pub(crate) fn again(ctx: &Ctx, params: Again) -> Result<&'static str, Error> {
    if ctx.job().attempt > 1 {
        return Ok("done");
    }
    let left = (params.retry_at - params.now).num_milliseconds().max(0);
    let wait = u32::try_from(left).unwrap_or(u32::MAX);
    Err(Error::retry_after_ms("the server is busy", wait))
}

/// Keeps which ids it has seen, and returns those that are new.
#[handler]
pub(crate) fn seen(ctx: &Ctx, params: Vec<u32>) -> Result<Vec<u32>, Error> {
    let mut known: Vec<u32> = ctx.state().get("seen")?.unwrap_or_default();
    let mut new = Vec::new();
    for id in params {
        if !known.contains(&id) {
            known.push(id);
            new.push(id);
        }
    }
    ctx.state().set("seen", &known)?;
    Ok(new)
}

/// Imports rows, and fails with all that are wrong.
#[handler("import-rows")]
pub(crate) fn import_rows(ctx: &Ctx, params: Vec<String>) -> Result<i64, Error> {
    let (mut sum, mut wrong) = (0, Vec::new());
    for (row, text) in params.iter().enumerate() {
        match text.trim().parse::<i64>() {
            Ok(number) => sum += number,
            Err(error) => {
                ctx.warn(format_args!("row {row}: {error}"));
                wrong.push(row);
            }
        }
    }
    if wrong.is_empty() {
        return Ok(sum);
    }
    let message = format!("{} of {} rows are wrong", wrong.len(), params.len());
    Err(Error::new(Category::DataQuality, "rows", message).details(&wrong))
}
