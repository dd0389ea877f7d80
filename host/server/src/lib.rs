//! Assembles the host: configuration, API, deployed components, and all wires over one dispatch loop.
//!
//! It never executes guest code and never links wasmtime: cells are separate processes, and it
//! exchanges the messages of `host_core::cell` with them.

pub mod api;
pub mod artifacts;
pub mod audit;
pub mod auth;
pub mod config;
mod configured;
pub mod deploy;
pub mod executors;
pub mod folder;
pub mod logs;
#[cfg(test)]
mod manifest_doc;
pub mod metrics;
pub mod nodes;
pub mod once;
mod outbox;
pub mod probe;
#[cfg(test)]
mod published;
pub mod retention;
pub mod serve;
pub mod telemetry;
mod trends;
pub mod webhooks;
pub mod worker;
