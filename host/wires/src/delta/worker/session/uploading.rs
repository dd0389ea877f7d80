//! The log of a job that was leased over the network: it goes to the orchestrator as it is written, and
//! the end waits a moment for the rest of it.

use host_core::cell::LogLine;
use host_core::time::Time;

use super::super::exchange::Response;
use super::super::log_text;
use super::{ANSWER_MS, Act, CANCEL_MARGIN_MS, Session};

/// How long an end waits for the log before it, in milliseconds.
const REST_MS: u64 = 5_000;

impl Session {
    /// Takes lines that a guest has written.
    pub(super) fn wrote(&mut self, now: Time, started_at: Time, lines: &[LogLine]) -> Vec<Act> {
        self.upload.write(&log_text::text(started_at, lines));
        self.send_log(now).into_iter().collect()
    }

    pub(super) fn send_log(&mut self, now: Time) -> Option<Act> {
        let (offset, text) = self.upload.take(now)?;
        Some(Act::Upload {
            offset,
            text,
            timeout_ms: ANSWER_MS,
        })
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

    pub(super) fn on_log_response(&mut self, now: Time, response: &Response) -> Vec<Act> {
        let has_sent_end = self.end.is_some() && self.end_at.is_none();
        if *response == Response::Stale && !has_sent_end {
            return self.lose("the orchestrator says that the lease is stale");
        }
        self.upload.on_response(now, response);
        self.stage.log_bytes = self.upload.received();
        if self.end_at.is_none() {
            return Vec::new();
        }
        self.upload.hurry(now);
        if self.upload.is_behind() {
            return self.send_log(now).into_iter().collect();
        }
        self.end_at = None;
        self.send_end(now).into_iter().collect()
    }

    /// Returns whether the orchestrator takes logs, as far as is known.
    pub(in super::super) const fn takes_logs(&self) -> bool {
        self.upload.is_on()
    }
}
