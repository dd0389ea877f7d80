//! Heartbeats: they extend the lease, and their answers may ask to stop.

use host_core::port::Stop;
use host_core::time::Time;

use super::super::exchange::{Kind, Response};
use super::super::words::Dialect;
use super::{
    ANSWER_MS, Act, BACKOFF_MS, BACKOFF_MS_MAX, CANCEL_MARGIN_MS, CANCEL_MS, Pending, Session,
    WAIT_SECONDS_MAX, Why,
};
use crate::delta::messages::read::Status;
use crate::kit::backoff::Backoff;

/// Returns the waits before a heartbeat that was not accepted is sent again: none is longer than the interval.
pub(super) fn backoff(interval_ms: u64) -> Backoff {
    Backoff::new(BACKOFF_MS, BACKOFF_MS_MAX.min(interval_ms))
}

impl Session {
    pub(super) fn send_beat(&mut self, now: Time, wall: &str) -> Act {
        let wait = self.lease.interval_ms / 1_000;
        let is_running = self.started_at.is_some() && self.stop.is_none();
        let waits = self.is_network && wait > 0 && is_running;
        let wait = waits.then_some(wait.min(WAIT_SECONDS_MAX));
        let body = self
            .speaker
            .heartbeat(self.dialect, wall, &self.stage, wait);
        let timeout_ms = ANSWER_MS + wait.unwrap_or_default() * 1_000;
        self.next_beat = now.plus_ms(self.lease.interval_ms);
        let kind = Kind::Heartbeat;
        self.beat = Some(Pending::new(now, kind, String::new(), timeout_ms));
        Act::Send {
            kind,
            body,
            timeout_ms,
        }
    }

    pub(super) fn on_heartbeat_response(
        &mut self,
        now: Time,
        wall: &str,
        response: &Response,
    ) -> Vec<Act> {
        let Some(beat) = self.beat.take() else {
            return Vec::new();
        };
        match response {
            // What ends the lease is on its way, and decides.
            _ if self.end.is_some() => Vec::new(),
            Response::Accepted(reply) => {
                let ttl_ms = reply.ttl_ms.unwrap_or(self.lease.ttl_ms);
                self.live_until = beat.sent_at.plus_ms(ttl_ms);
                self.beat_backoff.reset();
                match (reply.cancel_ms, &self.started_at) {
                    (Some(_), None) => {
                        self.finish(now, wall, Status::Canceled, "stopped before it began")
                    }
                    (Some(ms), Some(_)) => self.cancel(ms),
                    (None, Some(_)) => Vec::new(),
                    (None, None) => {
                        // Only now it is known how long the lease lives: an acknowledgement that is
                        // sent again need not extend it.
                        self.started_at = Some((now, wall.to_owned()));
                        self.next_step(now, wall)
                    }
                }
            }
            Response::Stale => self.lose("the orchestrator says that the lease is stale"),
            Response::UnknownField if self.dialect == Dialect::Documented => {
                self.dialect = Dialect::Strict;
                vec![self.send_beat(now, wall)]
            }
            // A heartbeat that is refused does not keep the lease; it ends by its time.
            Response::UnknownField
            | Response::Refused(_)
            | Response::Again
            | Response::Logged(_) => {
                self.next_beat = now.plus_ms(self.beat_backoff.next_ms());
                Vec::new()
            }
        }
    }

    fn cancel(&mut self, deadline_ms: u64) -> Vec<Act> {
        if self.stop.is_some() {
            return Vec::new();
        }
        self.stop = Some(Why::Cancelled);
        let deadline_ms = if deadline_ms == 0 {
            CANCEL_MS
        } else {
            deadline_ms
        };
        let grace_ms = deadline_ms.saturating_sub(CANCEL_MARGIN_MS);
        let stop = self
            .guest
            .map(|tag| Act::Stop(tag, grace_ms, Stop::Cancelled));
        stop.into_iter().collect()
    }
}
