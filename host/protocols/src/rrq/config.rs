//! How a pool of foreign runners is reached, in checked values. `section` reads them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use host_core::name::Name;
use host_core::policy::{Backoff, OnGraceExpired, Policy};

/// How long a cancelled guest may take to stop by itself, in milliseconds.
pub(super) const CANCEL_GRACE_MS: u64 = 500;

/// Which release of the wire the other side speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Dialect {
    /// As documented, releases 0.9.10 to 0.9.14: a connection for each request, the address in the
    /// environment alone.
    Documented,
    /// Releases from 0.9.15: one connection with many requests, the address as an argument too.
    #[default]
    Current,
}

/// Returns the rules of a job that foreign runners execute, where its sender names no others.
/// `max_attempts` counts the first attempt too, as the wire's `max_retries` does.
pub(super) fn policy() -> Policy {
    Policy {
        backoff: Backoff {
            base_ms: 5_000,
            max_ms: 3_600_000,
        },
        cancel_grace_ms: Some(CANCEL_GRACE_MS),
        on_grace_expired: OnGraceExpired::Discarded,
        ..Policy::default()
    }
}

/// One named pool of foreign runners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PoolConfig {
    /// The executor's name: what stands before `#` in a handler's name.
    pub(super) name: Name,
    /// Where its runners come from.
    pub(super) source: Source,
    /// The most requests of one runner at once; above `IN_FLIGHT_MAX` it is cut.
    pub(super) in_flight_max: usize,
    /// What they speak.
    pub(super) dialect: Dialect,
}

/// Where runners come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// We start them.
    Launched(Launch),
    /// Somebody else did; they listen here.
    External(SocketAddr),
}

/// How runners are started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Launch {
    /// The program and its arguments; at least the program.
    pub(super) command: Vec<String>,
    /// How many.
    pub(super) pool_size: usize,
    /// The first one's port, the others have the next ones; `None` picks free ports.
    pub(super) tcp_port: Option<u16>,
    /// Where they run.
    pub(super) cwd: Option<PathBuf>,
    /// Their whole environment, beside the variable with their address.
    pub(super) env: BTreeMap<String, String>,
}

impl PoolConfig {
    /// Returns how many runners there are.
    pub(super) fn runners(&self) -> usize {
        match &self.source {
            Source::Launched(launch) => launch.pool_size.max(1),
            Source::External(_) => 1,
        }
    }
}
