//! Which requests are sent again, when, and for how long.

use std::time::{Duration, Instant};

use host_api::client::Error;

/// The host did not carry these out, as docs/errors.md says. After the others with these statuses it may have.
const WITHOUT_EFFECT: [&str; 6] = [
    "too_many_wrong_tokens",
    "rate_limited",
    "share_used",
    "busy",
    "store_away",
    "cascade_unfinished",
];
const PASSING: [u16; 3] = [429, 503, 504];

const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The end of a wait, if it has one.
#[derive(Debug)]
pub(crate) struct Deadline(Option<Instant>);

/// The pauses between repetitions: each longer than the one before, until patience is over.
#[derive(Debug)]
pub(crate) struct Patience {
    end: Deadline,
    next: Duration,
}

impl Deadline {
    pub(crate) fn after(timeout: Option<Duration>) -> Self {
        Self(timeout.and_then(|timeout| now().checked_add(timeout)))
    }

    pub(crate) fn left(&self) -> Duration {
        let left = self.0.map(|end| end.saturating_duration_since(now()));
        left.unwrap_or(Duration::MAX)
    }
}

impl Patience {
    pub(crate) fn new(patience: Duration) -> Self {
        Self {
            end: Deadline::after(Some(patience)),
            next: PAUSE,
        }
    }

    /// Pauses if a request that failed may be sent again.
    pub(crate) fn pause_after(&mut self, error: &Error, repeatable: bool) -> bool {
        may_repeat_after(error, repeatable).is_some_and(|at_least| self.pause(at_least))
    }

    /// Pauses, or returns that patience would be over.
    pub(crate) fn pause(&mut self, at_least: Duration) -> bool {
        let time = self.next.max(at_least);
        if time > self.end.left() {
            return false;
        }
        self.next = (self.next * 2).min(PAUSE_MAX);
        pause(time);
        true
    }
}

/// Returns after how long a request that failed may be sent again, if it may.
fn may_repeat_after(error: &Error, repeatable: bool) -> Option<Duration> {
    match error {
        Error::NotConnected(_) => Some(Duration::ZERO),
        Error::NoAnswer { .. } if repeatable => Some(Duration::ZERO),
        Error::Refused {
            status,
            problem,
            retry_after,
        } if PASSING.contains(status) => {
            let code = problem.code.as_deref().unwrap_or_default();
            let is_safe = repeatable || WITHOUT_EFFECT.contains(&code);
            is_safe.then(|| Duration::from_secs(retry_after.unwrap_or_default()))
        }
        _ => None,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a program of its own has a clock of its own"
)]
fn now() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the host is left alone for a while"
)]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use host_api::client::Problem;

    use super::*;

    fn refusal(status: u16, code: &str, retry_after: Option<u64>) -> Error {
        let code = Some(code.to_owned());
        let problem = Problem {
            code,
            ..Problem::default()
        };
        Error::Refused {
            status,
            problem,
            retry_after,
        }
    }

    #[test]
    fn only_what_is_safe_is_sent_again() {
        let lost = || Error::NoAnswer {
            cause: String::new(),
            only_reads: false,
        };
        for (error, repeatable, expected) in [
            (Error::NotConnected(String::new()), false, Some(0)),
            (lost(), false, None),
            (lost(), true, Some(0)),
            (refusal(429, "rate_limited", Some(7)), false, Some(7)),
            (refusal(503, "busy", Some(1)), false, Some(1)),
            (refusal(503, "stopping", Some(1)), false, None),
            (refusal(503, "stopping", Some(1)), true, Some(1)),
            (refusal(504, "outcome_unknown", None), true, Some(0)),
            (refusal(409, "unique_key_taken", None), true, None),
            (Error::EmptyName, true, None),
        ] {
            let after = may_repeat_after(&error, repeatable);
            assert_eq!(after.map(|after| after.as_secs()), expected, "{error}");
        }
        let mut impatient = Patience::new(Duration::from_secs(1));
        assert!(!impatient.pause_after(&refusal(429, "rate_limited", Some(7)), true));
    }
}
