//! Handlers that attack the host in every way a guest can. Tests run each one beside well-behaved jobs
//! and check how it ends.

mod artifacts;
mod cpu;
mod ending;
mod flood;
mod imports;
mod memory;
mod raw;
mod reach;
mod scratch;
mod secret;
mod sockets;
mod steps;
mod store;
mod web;

use guest_sdk::export::Description;
use guest_sdk::{Ctx, Error};

/// Defines `describe` and `call` for a list of handlers. The SDK's `export_handlers!` cannot be used,
/// because it serializes every result, and some results here must stay invalid.
macro_rules! handlers {
    ($($file:ident::$handler:ident),+ $(,)?) => {
        fn describe() -> Vec<Description> {
            let mut all = vec![$($file::$handler::describe()),+];
            all.extend(raw::describe());
            all
        }

        fn call(ctx: &Ctx, params: &str) -> Result<String, Error> {
            let name = ctx.job().handler.as_str();
            $(
                if name == $file::$handler::NAME {
                    return $file::$handler::call(ctx, params);
                }
            )+
            raw::call(name, params).unwrap_or_else(|| Err(guest_sdk::export::not_found(name)))
        }
    };
}

handlers!(
    steps::steps,
    steps::order,
    steps::ship_row,
    cpu::busy_loop,
    cpu::burn,
    cpu::host_calls,
    cpu::sleep_forever,
    cpu::wasi_sleep_forever,
    cpu::memcpy_loop,
    memory::memory_bomb,
    memory::memory_many,
    memory::memory_refused,
    memory::deep_recursion,
    memory::deep_frames,
    memory::remember,
    flood::log_flood,
    flood::log_huge_line,
    flood::log_fields,
    flood::stdout_flood,
    flood::stdout_ansi,
    flood::progress_flood,
    flood::random_flood,
    flood::pollable_flood,
    flood::giant_error,
    ending::trap,
    ending::exit,
    ending::abort,
    ending::panic_loop,
    reach::read_files,
    artifacts::artifacts,
    artifacts::open_files,
    scratch::scratch,
    reach::connect,
    sockets::many,
    sockets::queries,
    sockets::statements,
    sockets::stream,
    sockets::talk,
    reach::clock,
    secret::reveal,
    store::ask,
    web::request,
    web::wasi_request,
    web::wasi_flood,
);

#[cfg(target_family = "wasm")]
mod exported {
    //! The component's exports, made in the same way as in the SDK.

    use guest_sdk::export::Description;
    use guest_sdk::export::wasm::{Exported, Handlers};
    use guest_sdk::{Ctx, Error};

    struct Component;

    impl Handlers for Component {
        fn describe() -> Vec<Description> {
            super::describe()
        }

        fn call(ctx: &Ctx, params: &str) -> Result<String, Error> {
            super::call(ctx, params)
        }
    }

    type Hostile = Exported<Component>;
    guest_sdk::bindings::export_job!(Hostile with_types_in guest_sdk::bindings);
}

/// Replaces the exports in a native build, so that lints check the whole crate.
#[cfg(not(target_family = "wasm"))]
#[doc(hidden)]
pub fn native(ctx: &Ctx, params: &str) -> (usize, Result<String, Error>) {
    (describe().len(), call(ctx, params))
}
