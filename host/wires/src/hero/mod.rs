//! Hero over Redis: jobs as hashes, queues as lists; both roles as pure sessions.
#![doc = include_str!("SPEC.md")]

mod active;
mod adapter;
mod address;
mod api;
mod checks;
mod circles;
pub mod client;
mod commands;
mod config;
mod connect;
mod connection_log;
mod convert;
mod executions;
pub mod gate;
mod instance;
mod job;
mod job_hash;
mod job_view;
mod lane_states;
mod lanes;
pub mod log_files;
mod messages;
mod orchestrator;
mod refusals;
mod rights;
mod session;
mod settings;
mod task;
mod transport;
mod worker;

#[cfg(test)]
mod model;

pub use adapter::HERO;
pub use address::{Certificates, RedisUrl, UrlError};
pub use config::{DispatcherConfig, WorkerConfig};
pub use job::{
    DEPENDENCIES_MAX, RETRIES_MAX, SCRIPT_BYTES_MAX, TIMEOUT_SECONDS_MAX, log_path_below,
};
pub use log_files::{LogFileError, LogRoot};
pub use messages::{
    Call, CallTag, Command, Lane, PopSide, Script, Value, WAITING, claim_key, dead_letters,
    job_key, out, processing, reply_queue, stop_queue, work_queue,
};
pub use orchestrator::{Dispatcher, DispatcherAct, Execution};
pub use refusals::Refusal;
pub use settings::HeroConfig;
pub use task::{SCRIPT, Task};
pub use worker::{Answered, Worker, WorkerAct};

const NAME: &str = "hero";
