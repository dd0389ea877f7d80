//! The wires: one folder per protocol, and what the stream protocols share.
//!
//! A session decides, as a pure function of its state, a message and the time; the driver moves
//! bytes. Nothing here knows the store, the cells or the server: the only door inward is `port`.

pub mod adapter;
pub mod driver;
pub mod hero;
mod json;
pub mod port;
pub mod rrq;
pub mod runner;
pub mod session;

use adapter::Adapter;

/// Every wire: configuration, command line and metrics go by this list.
pub const ADAPTERS: &[&Adapter] = &[&hero::ADAPTER, &rrq::ADAPTER];

#[cfg(test)]
mod tests;
