//! One runner: the state of its process and connection, and how long to wait before the next try.
//! Decides nothing about requests.

use std::collections::BTreeSet;

use host_core::port::Tag;
use host_core::suspicion::Group;
use host_core::time::Time;
use host_runtime::backoff::Backoff;

use host_wire_kit::session::Link;

/// How long a started runner may take until it listens, in milliseconds.
pub(super) const CONNECT_MS_MAX: u64 = 15_000;

/// How long to wait after each failed connection.
pub(super) const CONNECT: Backoff = Backoff::new(20, 500);

/// How long to wait before each restart.
pub(super) const LAUNCH: Backoff = Backoff::new(100, 30_000);

/// The state of a runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No process runs. A timer starts the next one.
    Down,
    /// The process is being started.
    Launching,
    /// The process runs, but may not listen yet.
    Connecting { give_up_at: Time, tries: u32 },
    /// The runner accepts requests; over `main` if one connection carries them all.
    Up { main: Option<Link> },
    /// The runner was asked to end.
    Ending,
}

/// What a runner is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// It always runs and takes any request.
    Regular,
    /// It runs only when there are suspects, and takes one group of them. Or it has been replaced and only ends what
    /// it has.
    Extra,
}

#[derive(Debug)]
pub(super) struct Runner {
    pub(super) duty: Duty,
    pub(super) state: State,
    /// The requests in flight.
    pub(super) runs: BTreeSet<Tag>,
    /// The group of suspects that the requests in flight are; empty if they are none.
    pub(super) group: Group,
    /// Whether the runner gets no new requests and is restarted when its requests have ended.
    pub(super) draining: bool,
    /// Since when the runner is stuck. Another takes its place while its other requests end.
    pub(super) stuck_since: Option<Time>,
    /// When a request was lost that was not alone, and how many there were.
    pub(super) lost: Option<(Time, usize)>,
    /// How many times in a row the runner ended without having answered a request.
    pub(super) failures: u32,
    pub(super) timer: Option<Time>,
}

impl Runner {
    pub(super) fn new(duty: Duty) -> Self {
        Self {
            duty,
            state: State::Down,
            runs: BTreeSet::new(),
            group: Group::default(),
            draining: false,
            stuck_since: None,
            lost: None,
            failures: 0,
            timer: None,
        }
    }

    const fn is_open(&self) -> bool {
        matches!(self.state, State::Up { .. }) && !self.draining
    }

    /// Returns whether suspects may be sent to the runner: in a pool whose processes the host starts to extra runners
    /// only, so that nothing else has to wait.
    pub(super) fn takes_suspects(&self, managed: bool) -> bool {
        self.is_open() && managed == (self.duty == Duty::Extra)
    }

    /// Returns how many more requests of any job the runner accepts.
    pub(super) fn free(&self, in_flight_max: usize) -> usize {
        match self.duty {
            Duty::Regular if self.is_open() && self.group.is_empty() => {
                in_flight_max.saturating_sub(self.runs.len())
            }
            Duty::Regular | Duty::Extra => 0,
        }
    }

    /// Returns whether the runner is an extra one that neither runs nor is about to.
    pub(super) const fn is_spare(&self) -> bool {
        matches!(self.duty, Duty::Extra)
            && matches!(self.state, State::Down)
            && self.timer.is_none()
    }
}
