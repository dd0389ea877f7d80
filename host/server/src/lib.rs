//! The orchestrator: accepts jobs, feeds the store, leases jobs to cells and answers over HTTP.
//!
//! It never executes guest code and never links wasmtime: it speaks to cells, which are processes
//! of their own, in the messages of `host_core::cell`.

pub mod api;
pub mod config;
pub mod deploy;
pub mod doctor;
pub mod folder;
pub mod hero_logs;
pub mod lock;
pub mod logs;
pub mod metrics;
pub mod once;
#[cfg(test)]
mod published;
pub mod runners;
pub mod serve;
pub mod worker;
