//! The log of a job on its way to the orchestrator: the part that it has not received yet, and when some
//! of it is sent. Each part is known by its offset, so that it counts once. Pure.

use host_core::time::Time;
use host_runtime::backoff::Backoff;

use super::exchange::Response;
use crate::messages::LOG_BYTES_MAX;

/// The most text of one request, in bytes.
const CHUNK_BYTES_MAX: usize = 128 << 10;

/// How far apart two parts are, in milliseconds.
const PAUSE_MS: u64 = 1_000;

/// How long to wait before a part is sent again.
const BACKOFF: Backoff = Backoff::new(250, 5_000);

/// What stands where the log is cut.
const CUT: &str = "the log is cut here\n";

/// The log of one job.
#[derive(Debug)]
pub(super) struct Upload {
    /// What the orchestrator is not known to have.
    rest: String,
    /// How much it has, in bytes.
    received: u64,
    is_cut: bool,
    /// Whether it takes logs.
    pub(super) is_on: bool,
    is_under_way: bool,
    next_at: Time,
    backoff: Backoff,
}

impl Upload {
    pub(super) const fn new(now: Time, is_on: bool) -> Self {
        Self {
            rest: String::new(),
            received: 0,
            is_cut: false,
            is_on,
            is_under_way: false,
            next_at: now,
            backoff: BACKOFF,
        }
    }

    /// Adds text, up to the limit of a log.
    pub(super) fn write(&mut self, text: &str) {
        if !self.is_on || self.is_cut {
            return;
        }
        let written = self.received + self.rest.len() as u64;
        if written + text.len() as u64 > LOG_BYTES_MAX - CUT.len() as u64 {
            self.is_cut = true;
            self.rest.push_str(CUT);
        } else {
            self.rest.push_str(text);
        }
    }

    /// Returns whether the orchestrator has some text, or is to have some.
    pub(super) const fn has_text(&self) -> bool {
        self.is_on && (self.received > 0 || !self.rest.is_empty())
    }

    /// Returns whether there is something that the orchestrator should have and has not.
    pub(super) const fn is_behind(&self) -> bool {
        self.is_on && !self.rest.is_empty()
    }

    /// Returns when the next part is due; `None` while there is none.
    pub(super) fn due(&self) -> Option<Time> {
        (self.is_behind() && !self.is_under_way).then_some(self.next_at)
    }

    /// Makes the next part due immediately, unless it waits because of a failure.
    pub(super) fn hurry(&mut self, now: Time) {
        if self.backoff.is_reset() {
            self.next_at = now;
        }
    }

    /// Returns the offset and the text of the part that is due.
    pub(super) fn take(&mut self, now: Time) -> Option<(u64, String)> {
        if self.due().is_none_or(|due| now < due) {
            return None;
        }
        self.is_under_way = true;
        let end = self.rest.floor_char_boundary(CHUNK_BYTES_MAX);
        Some((self.received, self.rest[..end].to_owned()))
    }

    /// Takes the answer to a part. The error says why no more is sent.
    pub(super) fn on_response(&mut self, now: Time, response: &Response) -> Result<(), String> {
        if !self.is_under_way {
            return Ok(());
        }
        self.is_under_way = false;
        match response {
            Response::Logged(next) => {
                let bytes = next.saturating_sub(self.received);
                let new = usize::try_from(bytes).unwrap_or(usize::MAX);
                // An orchestrator with another offset has restarted, or is wrong.
                if *next < self.received || !self.rest.is_char_boundary(new.min(self.rest.len())) {
                    self.is_on = false;
                    return Err(format!(
                        "it has the log up to byte {next}, and this runner is at {}",
                        self.received
                    ));
                }
                self.rest.drain(..new.min(self.rest.len()));
                self.received = *next;
                self.backoff.reset();
                self.next_at = now.plus_ms(PAUSE_MS);
            }
            Response::Again => {
                self.next_at = now.plus_ms(self.backoff.next_ms());
            }
            Response::Refused(why) => {
                self.is_on = false;
                return Err(why.clone());
            }
            Response::Accepted(_) | Response::Stale | Response::UnknownField => {
                self.is_on = false;
                return Err("its answer is not a LogAck".to_owned());
            }
        }
        Ok(())
    }

    /// Returns how much the orchestrator has, in bytes.
    pub(super) const fn received(&self) -> u64 {
        self.received
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1_000);

    fn upload() -> Upload {
        Upload::new(NOW, true)
    }

    #[test]
    fn text_is_sent_in_parts_that_follow_each_other() {
        let mut it = upload();
        assert_eq!(it.take(NOW), None);
        it.write("one\n");
        assert_eq!(it.take(NOW), Some((0, "one\n".to_owned())));
        it.write("two\n");
        assert_eq!((it.due(), it.take(NOW)), (None, None), "one at a time");
        it.on_response(NOW, &Response::Logged(4)).unwrap();
        assert_eq!(it.due(), Some(NOW.plus_ms(PAUSE_MS)));
        it.hurry(NOW);
        assert_eq!(it.take(NOW), Some((4, "two\n".to_owned())));
        it.on_response(NOW, &Response::Logged(8)).unwrap();
        assert!(!it.is_behind());
    }

    #[test]
    fn a_part_without_an_answer_is_sent_again_from_what_was_received() {
        let mut it = upload();
        it.write("one\ntwo\n");
        it.take(NOW);
        it.on_response(NOW, &Response::Again).unwrap();
        it.hurry(NOW);
        assert_eq!(it.due(), Some(NOW.plus_ms(BACKOFF.nth_ms(0))));
        let later = NOW.plus_ms(BACKOFF.nth_ms(0));
        assert_eq!(it.take(later), Some((0, "one\ntwo\n".to_owned())));
        it.on_response(later, &Response::Logged(4)).unwrap();
        it.hurry(later);
        assert_eq!(it.take(later), Some((4, "two\n".to_owned())));
        // An answer that comes twice changes nothing.
        it.on_response(later, &Response::Logged(8)).unwrap();
        it.on_response(later, &Response::Logged(8)).unwrap();
        assert_eq!(it.received(), 8);
    }

    #[test]
    fn an_orchestrator_that_takes_no_logs_gets_no_more() {
        for response in [
            Response::Refused("404".to_owned()),
            Response::UnknownField,
            Response::Logged(2),
        ] {
            let mut it = upload();
            it.write("é\n");
            it.take(NOW);
            let answered = it.on_response(NOW, &response);
            it.write("more");
            let is_kept = response == Response::Logged(2);
            assert_eq!(answered.is_ok(), is_kept, "{response:?}");
            assert_eq!(
                (it.is_on, it.is_behind()),
                (is_kept, is_kept),
                "{response:?}"
            );
        }
        let mut it = upload();
        it.write("é\n");
        it.take(NOW);
        let why = it.on_response(NOW, &Response::Logged(1)).unwrap_err();
        assert!(why.contains("up to byte 1"), "{why}");
        assert!(!it.is_on, "no offset within a character is ours");
    }

    #[test]
    fn a_log_has_a_limit_and_says_so() {
        let mut it = upload();
        let line = "x".repeat(99) + "\n";
        for _ in 0..LOG_BYTES_MAX / 100 + 10 {
            it.write(&line);
        }
        assert!(it.rest.len() as u64 <= LOG_BYTES_MAX);
        assert_eq!(it.rest.matches(CUT).count(), 1);
        let (_, part) = it.take(NOW).unwrap();
        assert_eq!(part.len(), CHUNK_BYTES_MAX);
    }
}
