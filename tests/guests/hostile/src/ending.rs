//! Handlers that neither return nor loop: they trap, exit, abort or panic.

use guest_sdk::{Ctx, Error, handler};
use serde_json::Value;

/// Executes an instruction that always traps.
#[handler]
pub(crate) fn trap(_ctx: &Ctx, _params: Value) -> Result<(), Error> {
    #[cfg(target_family = "wasm")]
    core::arch::wasm32::unreachable();
    #[cfg(not(target_family = "wasm"))]
    std::process::abort();
}

/// Calls `exit`.
#[handler]
pub(crate) fn exit(_ctx: &Ctx, _params: Value) -> Result<(), Error> {
    std::process::exit(3)
}

/// Aborts without a message.
#[handler]
pub(crate) fn abort(_ctx: &Ctx, _params: Value) -> Result<(), Error> {
    std::process::abort()
}

/// Panics, and panics again in its panic hook.
#[handler]
pub(crate) fn panic_loop(_ctx: &Ctx, _params: Value) -> Result<(), Error> {
    std::panic::set_hook(Box::new(|_| panic!("a panic in the panic hook")));
    panic!("the first panic")
}
