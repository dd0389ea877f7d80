//! Hero over Redis: jobs as hashes, queues as lists; both roles as pure sessions.
#![doc = include_str!("SPEC.md")]

mod address;
pub mod client;
mod config;
mod convert;
mod dispatcher;
pub mod gate;
mod job;
pub mod log_files;
mod refusal;
mod rights;
mod serve;
mod transport;
mod wire;
mod worker;

#[cfg(test)]
mod model;


pub use address::{Certificates, RedisUrl, UrlError};
pub use config::{DispatcherConfig, WorkerConfig};
pub use dispatcher::{Dispatcher, DispatcherAct, Execution, SCRIPT, Task};
pub use job::{
    DEPENDENCIES_MAX, RETRIES_MAX, SCRIPT_BYTES_MAX, TIMEOUT_SECONDS_MAX, log_path_below,
};
pub use refusal::Refusal;
pub use serve::{Desk, DispatcherPorts, Employer, News, WorkerPorts, serve};
pub use transport::is_durable;
pub use wire::{
    Call, CallTag, Command, Lane, PopSide, Script, Value, WAITING, claim_key, dead_letters,
    job_key, out, processing, reply_queue, stop_queue, work_queue,
};
pub use worker::{Worker, WorkerAct};

/// The wire's name.
const WIRE: &str = "hero";
