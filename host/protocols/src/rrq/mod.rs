//! The RRQ runner protocol, both sides of it.
//!
#![doc = include_str!("SPEC.md")]

mod config;
mod convert;
mod field;
mod frame;
pub mod fuzz;
mod orchestrator;
mod pool;
mod read;
mod refusal;
mod serve;
mod wire;
mod worker;

#[cfg(test)]
mod pair;
#[cfg(test)]
mod transcript;

pub use config::{Dialect, Launch, RunnerConfig, Source, policy};
pub use frame::{Frames, PAYLOAD_BYTES_MAX};
pub use orchestrator::{Orchestrator, RunnerAsk, RunnerSaid, SeatView};
pub use pool::{Employer, Output, PoolPorts, RunnerPool, SeatHealth};
pub use serve::{ListenError, WorkerPorts, bind, read_address, serve};
pub use worker::{IN_FLIGHT_MAX, MARGIN_MS_MAX, MARGIN_MS_MIN, Worker, WorkerAsk, WorkerSaid};

/// The wire's name.
const WIRE: &str = "rrq";
