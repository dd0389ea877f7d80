//! The processes that handle guests: the cell, which executes handlers in sandboxes, and the compile
//! child, which compiles a component to machine code. The only crate that uses wasmtime.
//!
//! A cell and the host exchange only the messages of `host_core::cell`. A cell has no store, no wire and no
//! network. Each run brings its own limits and grants.

mod bindings;
pub mod child;
mod clock;
mod compile;
mod component;
mod context;
mod desk;
mod egress;
mod engine;
mod fd_stream;

mod imports;
mod limits;
mod linker;
mod meter;
mod outcome;
#[cfg(feature = "pace")]
pub mod pace;
mod run;
mod run_output;
mod scratch;
mod session;
mod stdio;
mod stop;
mod trial;
mod watchdog;

pub use compile::COMPONENT_BYTES_MAX;
pub use engine::engine_hash;
