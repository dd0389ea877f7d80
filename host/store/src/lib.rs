//! Where jobs and components are kept: one trait, several backends, one conformance suite.
//!
//! Every backend runs the rules of `host-core` inside its own transaction, through the one
//! `engine`. This crate knows no wire, no cell and no clock.

mod engine;
pub mod error;
pub mod memory;
pub mod sqlite;
pub mod store;

pub use error::StoreError;
pub use sqlite::check::{Finding, check};
pub use sqlite::logs;
pub use store::{Reader, Store};
