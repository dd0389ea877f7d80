//! The orchestrator put together: configuration, the API, what is deployed, and every wire of the
//! list over one dispatch loop.
//!
//! It never executes guest code and never links wasmtime: it speaks to cells, which are processes
//! of their own, in the messages of `host_core::cell`.

pub mod api;
pub mod config;
pub mod deploy;
pub mod executors;
pub mod folder;
pub mod logs;
pub mod metrics;
pub mod once;
#[cfg(test)]
mod published;
pub mod serve;
pub mod worker;
