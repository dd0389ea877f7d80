//! The orchestrator: accepts jobs, feeds the store, leases jobs to cells and answers over HTTP.
//!
//! It never executes guest code and never links wasmtime: it speaks to cells, which are processes
//! of their own, in the messages of `host_core::cell`.

pub mod api;
pub mod cells;
pub mod clock;
pub mod config;
pub mod dispatch;
pub mod doctor;
pub mod foreign;
pub mod handlers;
pub mod hero_logs;
pub mod ids;
pub mod lock;
pub mod logs;
pub mod metrics;
pub mod once;
#[cfg(test)]
mod published;
pub mod runners;
pub mod serve;
pub mod tasks;
pub mod worker;
