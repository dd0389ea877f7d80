//! Connections without requests: each is closed after a while, and soon if there are many connections.

use std::collections::{BTreeMap, BTreeSet};

use host_core::time::Time;

use host_wire_kit::driver::CONNECTIONS_MAX;
use host_wire_kit::session::Link;

/// After how long a connection without requests is closed by default, in milliseconds.
pub(crate) const IDLE_MS: u64 = 24 * 3_600_000;

/// The same while there are many connections, in milliseconds.
const CROWDED_MS: u64 = 10_000;

/// From how many connections on there are many.
pub(super) const CROWDED: usize = CONNECTIONS_MAX / 4 * 3;

#[derive(Debug)]
pub(super) struct Idle {
    limit_ms: u64,
    since: BTreeMap<Link, Time>,
    order: BTreeSet<(Time, Link)>,
}

impl Idle {
    pub(super) fn new(limit_ms: u64) -> Self {
        Self {
            limit_ms,
            since: BTreeMap::new(),
            order: BTreeSet::new(),
        }
    }

    /// Records that a connection has no requests from now on.
    pub(super) fn begin(&mut self, now: Time, link: Link) {
        self.end(link);
        self.since.insert(link, now);
        self.order.insert((now, link));
    }

    /// Records that a connection has requests, or is closed.
    pub(super) fn end(&mut self, link: Link) {
        if let Some(since) = self.since.remove(&link) {
            self.order.remove(&(since, link));
        }
    }

    pub(super) fn clear(&mut self) {
        self.since.clear();
        self.order.clear();
    }

    /// Returns when a connection is idle for too long, if there are so many connections.
    pub(super) fn due(&self, connections: usize) -> Option<Time> {
        let (since, _) = self.order.first()?;
        let limit_ms = if connections >= CROWDED {
            self.limit_ms.min(CROWDED_MS)
        } else {
            self.limit_ms
        };
        Some(since.plus_ms(limit_ms))
    }

    /// Returns the connection that has been idle longest, if that is too long.
    pub(super) fn next_over(&self, now: Time, connections: usize) -> Option<Link> {
        let is_over = self.due(connections).is_some_and(|due| due <= now);
        let (_, link) = self.order.first()?;
        is_over.then_some(*link)
    }
}
