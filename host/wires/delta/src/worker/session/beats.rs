//! Heartbeats: they extend the lease, and their answers may ask to stop.

use host_core::port::Stop;
use host_core::time::Time;
use host_runtime::backoff::Backoff;

use super::super::exchange::{Kind, Response};
use super::super::words::Dialect;
use super::{
    ANSWER_MS, Actions, BACKOFF_MS, BACKOFF_MS_MAX, CANCEL_MARGIN_MS, CANCEL_MS, Effect,
    LeaseSession, Why,
};
use crate::messages::read::Status;

/// Returns the waits before a heartbeat that was not accepted is sent again: none is longer than the interval.
pub(super) fn backoff(interval_ms: u64) -> Backoff {
    Backoff::new(BACKOFF_MS, BACKOFF_MS_MAX.min(interval_ms))
}

impl LeaseSession {
    /// Returns how long a heartbeat may wait for a cancel.
    fn wait_seconds(&self) -> Option<u64> {
        let most = self.lease.wait_seconds.filter(|_| self.mode.is_network)?;
        let wait = most.min(self.lease.interval_ms / 1_000);
        (wait > 0 && self.stop.is_none()).then_some(wait)
    }

    pub(super) fn send_beat(&mut self, now: Time, todo: &mut Actions) {
        let wait = self.wait_seconds().filter(|_| self.started_at.is_some());
        let (dialect, wall) = (self.mode.dialect, self.wall(now));
        self.next_beat = now.plus_ms(self.lease.interval_ms);
        self.beat_sent_at = Some(now);
        todo.effect(Effect::Send {
            kind: Kind::Heartbeat,
            body: self.speaker.heartbeat(dialect, &wall, &self.stage, wait),
            timeout_ms: ANSWER_MS + wait.unwrap_or_default() * 1_000,
        });
    }

    pub(super) fn on_heartbeat_response(
        &mut self,
        now: Time,
        response: &Response,
        todo: &mut Actions,
    ) {
        let Some(sent_at) = self.beat_sent_at.take() else {
            return;
        };
        match response {
            Response::Accepted(reply) if self.repeats_end() => {
                // The lease is not extended: an end that is not accepted is not repeated for ever.
                if reply.cancel_ms.is_some() {
                    self.cancel_instead(todo);
                }
            }
            // What ends the lease is on its way, and decides.
            _ if self.end.is_some() => {}
            Response::Accepted(reply) => {
                let ttl_ms = reply.ttl_ms.unwrap_or(self.lease.ttl_ms);
                self.live_until = sent_at.plus_ms(ttl_ms);
                self.beat_backoff.reset();
                match (reply.cancel_ms, &self.started_at) {
                    (Some(_), None) => {
                        self.finish(now, Status::Canceled, "stopped before it began", todo);
                    }
                    (Some(ms), Some(_)) => self.cancel(ms, todo),
                    (None, Some(_)) => {}
                    (None, None) => {
                        // Only now it is known how long the lease lives: an acknowledgement that is
                        // sent again need not extend it.
                        self.started_at = Some((now, self.wall(now)));
                        // A cancel is heard from the first instant.
                        if self.wait_seconds().is_some() {
                            self.next_beat = now;
                        }
                        self.next_step(now, todo);
                    }
                }
            }
            Response::Stale => self.lose("the orchestrator says that the lease is stale", todo),
            Response::UnknownField if self.mode.dialect == Dialect::Documented => {
                self.mode.dialect = Dialect::Strict;
                self.send_beat(now, todo);
            }
            // A heartbeat that is refused does not keep the lease; it ends by its time.
            Response::UnknownField
            | Response::Refused(_)
            | Response::Again
            | Response::Logged(_) => {
                self.next_beat = now.plus_ms(self.beat_backoff.next_ms());
            }
        }
    }

    fn cancel(&mut self, deadline_ms: u64, todo: &mut Actions) {
        if self.stop.is_some() {
            return;
        }
        self.stop = Some(Why::Cancelled);
        let deadline_ms = if deadline_ms == 0 {
            CANCEL_MS
        } else {
            deadline_ms
        };
        let grace_ms = deadline_ms.saturating_sub(CANCEL_MARGIN_MS);
        if let Some(tag) = self.guest {
            todo.effect(Effect::Stop(tag, grace_ms, Stop::Cancelled));
        }
    }
}
