//! One task and its stages. Pure.

use host_core::outcome::Progress;
use host_core::port::Tag;
use host_core::time::Time;
use host_runtime::backoff::Backoff;
use host_wire_kit::session::Link;

use crate::worker::log::Log;
use crate::worker::order::{Order, Skew};
use crate::worker::outbox::Pending;

/// The waits before a callback is sent again, unless its answer asks for a longer one.
const BACKOFF: Backoff = Backoff::new(200, 10_000);

/// One task.
#[derive(Debug)]
pub(super) struct Task {
    /// `None` if an earlier process executed it.
    pub(super) order: Option<Order>,
    /// The dispatch that waits for its end.
    pub(super) link: Option<Link>,
    pub(super) stage: Stage,
    /// The callback that has no answer yet. While the end is reported, heartbeats are beside it.
    pub(super) request: Option<Tag>,
    /// When it continues without an event.
    pub(super) wake_at: Option<Time>,
    pub(super) skew: Skew,
    pub(super) backoff: Backoff,
    pub(super) log: Log,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// Its start is being reported.
    Starting {
        give_up: Time,
        again_at: Time,
        sent_wall: Time,
    },
    Running(Run),
    Reporting(Report),
    /// Its log is being sent.
    Logging,
}

/// An execution in our sandbox.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) tag: Tag,
    pub(super) progress: Option<Progress>,
    /// When the next heartbeat goes out.
    pub(super) next_at: Time,
    /// When the latest one went out.
    pub(super) sent_at: Time,
    /// When the control plane gives the attempt up if it accepts no heartbeat before.
    pub(super) silent_at: Time,
    pub(super) is_cancelled: bool,
    /// Why the guest must end immediately.
    pub(super) ends: Option<StopCause>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopCause {
    /// The control plane has given the attempt up, or will soon; nothing more is sent.
    GivenUp,
    /// The worker stops.
    ShutDown,
}

/// The end of a task that the control plane has not accepted yet.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) pending: Pending,
    /// Whether the end is being written to disk or removed from it.
    pub(super) is_storing: bool,
    pub(super) is_over: bool,
    /// Whether it replaces one whose body was refused.
    pub(super) is_replaced: bool,
    /// The heartbeats that keep the attempt alive until its end is accepted; `None` if there are none.
    pub(super) beats: Option<Beats>,
    pub(super) again_at: Time,
    /// When to stop sending it, if the worker stops.
    pub(super) give_up: Option<Time>,
}

/// Heartbeats beside the report of an end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beats {
    /// When the next one goes out.
    pub(super) next_at: Time,
    /// The one that has no answer yet.
    pub(super) request: Option<Tag>,
}

impl Task {
    pub(super) fn of(order: Order, link: Link, now: Time) -> Self {
        let give_up = now.plus_ms(order.timeout_ms);
        let stage = Stage::Starting {
            give_up,
            again_at: now,
            sent_wall: now,
        };
        Self::new(Some(order), Some(link), stage)
    }

    /// Makes a task of an end that was left on disk.
    pub(super) fn restored(pending: Pending) -> Self {
        Self::new(None, None, Stage::Reporting(Report::of(pending, None)))
    }

    fn new(order: Option<Order>, link: Option<Link>, stage: Stage) -> Self {
        Self {
            order,
            link,
            stage,
            request: None,
            wake_at: None,
            skew: Skew::default(),
            backoff: BACKOFF,
            log: Log::default(),
        }
    }

    /// Returns when it continues without an event.
    pub(super) fn due(&self) -> Option<Time> {
        let waits = self.request.is_none();
        match &self.stage {
            Stage::Starting { again_at, .. } => waits.then_some(*again_at),
            Stage::Running(run) if run.ends.is_some() => None,
            Stage::Running(run) if waits => Some(run.next_at.min(run.silent_at)),
            Stage::Running(run) => Some(run.silent_at),
            Stage::Reporting(report) => {
                let again_at = (waits && !report.is_storing).then_some(report.again_at);
                let beat_at = report
                    .beats
                    .filter(|beats| beats.request.is_none())
                    .map(|beats| beats.next_at);
                let all = [again_at, beat_at, report.give_up];
                all.into_iter().flatten().min()
            }
            Stage::Logging => None,
        }
    }
}

impl Report {
    pub(super) const fn of(pending: Pending, give_up: Option<Time>) -> Self {
        Self {
            pending,
            is_storing: false,
            is_over: false,
            is_replaced: false,
            beats: None,
            again_at: Time(0),
            give_up,
        }
    }
}
