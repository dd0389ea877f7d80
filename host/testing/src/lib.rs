//! Doubles for tests: the ports of `host_core` with a host in memory behind them, cells that start no process,
//! a store that is simple enough to be obviously correct, and a server of PostgreSQL. Crates use it
//! in tests only; each feature brings what its crate's interface needs.

#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test ends where it fails"
)]

mod assignment;
mod audit;
mod clock;
mod executor;
mod histories;
mod kept_logs;
mod lease_host;
mod log;
mod random;
mod refusals;
pub mod store;
pub mod transcript;

#[cfg(feature = "cells")]
pub mod cells;
#[cfg(feature = "database")]
pub mod database;

use host_core::cell::Compiled;

pub use assignment::assignment;
pub use audit::{ExecuteAudit, LeaseAudit};
pub use clock::{TestClock, TokioClock};
pub use executor::{FakeExecutor, Run};
pub use histories::histories;
pub use kept_logs::KeptLogs;
pub use lease_host::{LeaseHost, LeaseNode};
pub use log::Log;
pub use random::Random;
pub use refusals::Refusals;

/// Returns what is known of a compiled component whose hash consists of this byte.
pub fn compiled(byte: u8) -> Compiled {
    Compiled {
        sha256: [byte; 32],
        bytes: 1,
        stubbed: Vec::new(),
    }
}
