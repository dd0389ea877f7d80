//! Handlers that end in a way of their own.

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

/// Ends its own process, as it thinks.
#[handler]
pub(crate) fn exit(_ctx: &Ctx, _params: Value) -> Result<(), Error> {
    std::process::exit(3)
}

/// Ends at once without any words.
#[handler]
pub(crate) fn abort(_ctx: &Ctx, _params: Value) -> Result<(), Error> {
    std::process::abort()
}

/// Panics, and panics again while it says so.
#[handler]
pub(crate) fn panic_loop(_ctx: &Ctx, _params: Value) -> Result<(), Error> {
    std::panic::set_hook(Box::new(|_| panic!("a panic about a panic")));
    panic!("the first panic")
}
