//! Where jobs, components and logs are kept: one trait, several backends, one conformance suite.
//!
//! Every backend runs the rules of `host-core` inside its own transaction. This crate knows no
//! wire, no cell and no clock.

pub mod error;
pub mod store;
