//! The log of a job that was leased over the network: it goes to the orchestrator as it is written, and
//! the end waits a moment for the rest of it.

use host_core::cell::LogLine;
use host_core::time::Time;

use super::super::exchange::Response;
use super::super::log_text;
use super::{ANSWER_MS, Actions, CANCEL_MARGIN_MS, Effect, LeaseSession};

/// How long an end waits for the log before it, in milliseconds.
const REST_MS: u64 = 5_000;

impl LeaseSession {
    /// Handles lines that a guest has written.
    pub(super) fn wrote(
        &mut self,
        now: Time,
        started_at: Time,
        lines: &[LogLine],
        todo: &mut Actions,
    ) {
        self.upload.write(&log_text::text(started_at, lines));
        self.send_log(now, todo);
    }

    pub(super) fn send_log(&mut self, now: Time, todo: &mut Actions) {
        if let Some((offset, text)) = self.upload.take(now) {
            todo.effect(Effect::Upload {
                offset,
                text,
                timeout_ms: ANSWER_MS,
            });
        }
    }

    /// Returns until when the end waits, if some of the log is not received.
    pub(super) fn log_wait(&mut self, now: Time) -> Option<Time> {
        if !self.upload.is_behind() {
            return None;
        }
        self.upload.hurry(now);
        // The answer to a cancel has a deadline.
        let ms = if self.stop.is_some() {
            CANCEL_MARGIN_MS / 2
        } else {
            REST_MS
        };
        let left_ms = self.live_until.since_ms(now);
        Some(now.plus_ms(ms.min(left_ms / 4)))
    }

    pub(super) fn on_log_response(&mut self, now: Time, response: &Response, todo: &mut Actions) {
        let has_sent_end = self.end.is_some() && self.end_at.is_none();
        if *response == Response::Stale && !has_sent_end {
            return self.lose("the orchestrator says that the lease is stale", todo);
        }
        if let Err(why) = self.upload.on_response(now, response)
            && !has_sent_end
        {
            todo.effect(Effect::WarnOfLog(why));
        }
        self.stage.log_bytes = self.upload.received();
        if self.end_at.is_none() {
            return;
        }
        self.upload.hurry(now);
        if self.upload.is_behind() {
            return self.send_log(now, todo);
        }
        self.end_at = None;
        self.send_end(todo);
    }
}
