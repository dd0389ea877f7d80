//! Stores for jobs and components: one trait, several backends and one conformance suite.
//!
//! Every backend applies the rules of `host-core` inside its own transaction, through the shared `engine`.
//! This crate knows no wire, no cell and no clock. SQLite is the default; PostgreSQL lets several hosts share
//! a store.

mod aside;
pub mod copy;
pub mod engine;
pub mod error;
mod finding;
mod held_keys;
mod judge;
pub mod logs;
mod parts;
pub mod postgres;
mod ready;
mod record;
mod scan;
pub mod sqlite;
mod start;
pub mod store;
pub mod table;
pub mod tables;

pub use aside::{Keep, SetAside};
pub use error::StoreError;
pub use finding::Finding;
pub use sqlite::backup;
pub use sqlite::check::check;
pub use sqlite::logs::check as check_logs;
pub use store::{Followed, Heartbeat, Interrupt, Listing, Others, Reader, Store};
pub use table::{Range, Record};
