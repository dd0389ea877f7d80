//! The commands of a host: a folder for each feature, with its types, rules, commands, refusals and tables, and with
//! what applies its commands to the rows of a store. Every store runs this code inside its own transaction, so stores
//! differ only in how they keep rows. This crate has no clock, no randomness, no SQL and no wire.

pub mod artifact;
pub mod audit;
pub mod batch;
mod capacity;
mod command;
pub mod component;
mod error;
pub mod job;
pub mod lease;
pub mod limit;
pub mod node;
pub mod queue;
mod refusal;
mod rejection;
pub mod schedule;
pub mod state;
pub mod step;
mod store;
pub mod table;
mod tables;
pub mod token;
mod unit;
pub mod webhook;

pub use capacity::Capacity;
pub(crate) use command::commands;
pub use command::{Ask, Bound, Command, Committed, Discard, Reply};
pub use error::StoreError;
pub(crate) use refusal::refusals;
pub use rejection::{Rejection, kinds};
pub use store::{CHANGES_KEPT, Followed, Heartbeat, Interrupt, Listing, Others, Reader, Store};
pub use tables::TABLES;
pub(crate) use unit::{ATTEMPTS_KEPT, Batch, Stop};
pub use unit::{Bounds, Counts, EndedAttempt, LIVE_JOBS_COUNTED, Rows, Terms, run};
