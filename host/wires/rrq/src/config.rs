//! The checked settings of a pool of foreign runners. `section` reads them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use host_core::name::Name;
use host_core::policy::{Backoff, OnGraceExpired, Policy};
use serde::Deserialize;

/// How long a cancelled guest may take to stop by itself, in milliseconds.
pub(super) const CANCEL_GRACE_MS: u64 = 500;

/// The release of RRQ that the other side uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Dialect {
    /// Releases 0.9.10 to 0.9.14, as documented: one connection for each request, and the address
    /// only in the environment.
    Documented,
    /// Releases from 0.9.15: one connection for many requests, and the address also as an argument.
    #[default]
    Current,
}

/// The time limit of a job that sets none, in milliseconds: that of the wire's own orchestrator.
const TIMEOUT_MS: u64 = 300_000;

/// Returns the policy of a job for foreign runners whose sender sets none. `max_attempts` includes
/// the first attempt, as the wire's `max_retries` does.
pub(super) fn policy() -> Policy {
    Policy {
        backoff: Backoff {
            base_ms: 5_000,
            max_ms: 3_600_000,
        },
        timeout_ms: Some(TIMEOUT_MS),
        cancel_grace_ms: Some(CANCEL_GRACE_MS),
        on_grace_expired: OnGraceExpired::Discarded,
        ..Policy::default()
    }
}

/// One named pool of foreign runners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PoolConfig {
    /// The executor's name, which stands before `#` in a handler's name.
    pub(super) name: Name,
    /// Where its runners come from.
    pub(super) source: Source,
    /// The most concurrent requests of one runner. Limited to `IN_FLIGHT_MAX`.
    pub(super) in_flight_max: usize,
    pub(super) dialect: Dialect,
}

/// Where runners come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The host starts them.
    Launched(Launch),
    /// Started by others. They listen at this address.
    External(SocketAddr),
}

/// How runners are started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Launch {
    /// The program and its arguments. Never empty.
    pub(super) command: Vec<String>,
    /// The number of runners.
    pub(super) pool_size: usize,
    /// The port of the first runner; the others use the ports after it. `None` uses free ports.
    pub(super) tcp_port: Option<u16>,
    /// The folder the runners run in.
    pub(super) cwd: Option<PathBuf>,
    /// The whole environment of the runners, except for the variable with their address.
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
