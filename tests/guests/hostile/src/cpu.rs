//! Handlers that do not end by themselves.

use std::hint::black_box;
use std::time::Duration;

use guest_sdk::{Ctx, Error, handler};
use serde_json::Value;

const COPY_BYTES: usize = 64 << 20;

/// Loops forever without any host call.
#[handler]
pub(crate) fn busy_loop(_ctx: &Ctx, _params: Value) -> Result<(), Error> {
    let mut turns = 0_u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

/// Does the same as `busy_loop`. Its manifest grants little fuel.
#[handler]
pub(crate) fn burn(ctx: &Ctx, params: Value) -> Result<(), Error> {
    busy_loop(ctx, params)
}

/// Makes cheap host calls forever.
#[handler]
pub(crate) fn host_calls(ctx: &Ctx, _params: Value) -> Result<(), Error> {
    loop {
        black_box(ctx.remaining());
        black_box(ctx.cancelled());
    }
}

/// Makes one host call that takes 49 days.
#[handler]
pub(crate) fn sleep_forever(ctx: &Ctx, _params: Value) -> Result<(), Error> {
    ctx.sleep(Duration::from_millis(u32::MAX.into()));
    Ok(())
}

/// Sleeps forever with the standard library's `sleep`.
#[handler]
pub(crate) fn wasi_sleep_forever(_ctx: &Ctx, _params: Value) -> Result<(), Error> {
    #[expect(clippy::disallowed_methods, reason = "the attack itself")]
    std::thread::sleep(Duration::MAX);
    Ok(())
}

/// Copies 64 MiB again and again. Each copy is one instruction, which cannot be interrupted.
#[handler]
pub(crate) fn memcpy_loop(_ctx: &Ctx, _params: Value) -> Result<(), Error> {
    let from = vec![1_u8; COPY_BYTES];
    let mut to = vec![0_u8; COPY_BYTES];
    loop {
        black_box(&mut to).copy_from_slice(black_box(&from));
    }
}
