//! Handlers named `actor.action`, which scripts of actions call.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use guest_sdk::{Ctx, Error, NewJob, export_handlers, handler};
use serde::Deserialize;
use serde_json::{Value, json};

/// The pause after each line of [`tick`].
const TICK_PAUSE: Duration = Duration::from_millis(5);

export_handlers!(define, attempt, spin, fail_first, tick, reach);

/// Returns its params.
#[handler("vm.define")]
fn define(ctx: &Ctx, params: Value) -> Result<Value, Error> {
    ctx.info("defined");
    Ok(params)
}

/// Returns the attempt number and the handler's name.
#[handler("vm.attempt")]
fn attempt(ctx: &Ctx, _params: Value) -> Result<Value, Error> {
    let job = ctx.job();
    Ok(json!({"attempt": job.attempt, "handler": job.handler}))
}

/// Loops forever.
#[handler("vm.spin")]
fn spin(_ctx: &Ctx, _params: Value) -> Result<(), Error> {
    let mut turns = 0_u64;
    loop {
        turns = std::hint::black_box(turns.wrapping_add(1));
    }
}

#[derive(Deserialize)]
struct FailFirst {
    /// How many attempts fail, as a string.
    attempts: String,
}

/// Fails in the first `attempts` attempts.
#[handler("vm.fail_first")]
fn fail_first(ctx: &Ctx, params: FailFirst) -> Result<(), Error> {
    let failing: u32 = params.attempts.parse()?;
    if ctx.job().attempt <= failing {
        return Err(Error::retry_after_ms("not yet", 10));
    }
    Ok(())
}

#[derive(Deserialize)]
struct Tick {
    /// How many lines are written.
    lines: u32,
    /// How many attempts fail after that.
    fail_times: u32,
}

/// Writes the machine's time at intervals, so that the log shows when it ran.
#[handler("vm.tick")]
fn tick(ctx: &Ctx, params: Tick) -> Result<(), Error> {
    for _ in 0..params.lines {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        ctx.info(now.as_millis().to_string());
        ctx.sleep(TICK_PAUSE);
    }
    if ctx.job().attempt <= params.fail_times {
        return Err(Error::retry_after_ms("not yet", 10));
    }
    Ok(())
}

#[derive(Deserialize)]
struct Reach {
    url: String,
}

/// Sends a request, enqueues a job, and counts in its state. Returns what it got.
#[handler("vm.reach")]
fn reach(ctx: &Ctx, params: Reach) -> Result<Value, Error> {
    let status = ctx.http().get(params.url).send()?.status;
    let job = ctx.enqueue(&NewJob::new("vm.attempt"))?;
    let times: u64 = ctx.state().get("times")?.unwrap_or_default();
    ctx.state().set("times", &(times + 1))?;
    Ok(json!({"status": status, "job": job, "times": times}))
}
