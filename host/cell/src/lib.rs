//! Where guests run: the cell, a child process that executes handlers in sandboxes, and the compile
//! child that turns a component into machine code. The only user of wasmtime.
//!
//! A cell knows its orchestrator only by the messages of `host_core::cell`. It has no store, no
//! wire and no network; what a guest may use up and reach comes with each run.

mod bindings;
pub mod child;
mod clock;
mod compile;
mod component;
mod context;
mod engine;
mod harden;
mod imports;
mod limits;
mod linker;
mod meter;
mod outcome;
pub mod pace;
mod run;
mod said;
mod session;
mod stop;
mod watchdog;

pub use compile::COMPONENT_BYTES_MAX;
pub use engine::engine_hash;
