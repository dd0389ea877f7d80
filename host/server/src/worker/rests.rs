//! When a worker's thread rests between two looks at its sockets. To be woken for each request of a
//! stream costs more than the request; what has come in a short rest is worked off at once. Knows
//! no socket: it counts requests, and rests only where that does not make them fewer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use host_protocols::port::{Executor, ForeignJob, Reply, Stop, Tag};

use crate::clock::Clock;

/// Which streams are rested in, in requests per second: in slower ones a rest would be long, in faster
/// ones each look finds several requests anyway.
const RATE_MIN: f64 = 800.0;
const RATE_MAX: f64 = 5_000.0;

/// How many requests a rest is long enough for: more would be answered in bursts, which are in each
/// other's way.
const REST_REQUESTS: f64 = 1.0;

/// The longest rest: nothing that is promised in time is promised closer.
const REST_MAX: Duration = Duration::from_millis(1);

/// For how long requests are counted to know their rate.
const WINDOW: Duration = Duration::from_millis(25);

/// After how many expected requests a trial shows whether rests cost throughput, after how many it
/// may have shown it already, and which part of them must have come.
const TRIAL_REQUESTS: f64 = 128.0;
const EARLY_REQUESTS: f64 = 16.0;
const TRIAL_PART_MIN: f64 = 0.92;
const EARLY_PART_MIN: f64 = 0.5;

/// For how long is rested before the rate without rests is measured again.
const RESTING_MAX: Duration = Duration::from_secs(1);

/// For how long is not rested after a trial has failed, and after several in a row.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The rests of one thread.
pub(super) struct Rests {
    clock: Clock,
    requests: AtomicU64,
    pace: Mutex<Pace>,
}

impl Rests {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            requests: AtomicU64::new(0),
            pace: Mutex::default(),
        }
    }

    /// Rests if it is time for that. Called whenever the thread has nothing to do.
    pub(super) fn take(&self) {
        let requests = self.requests.load(Ordering::Relaxed);
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rest) = pace.next(self.clock.uptime(), requests) {
            #[expect(clippy::disallowed_methods, reason = "a bounded rest is the purpose")]
            std::thread::sleep(rest);
        }
    }
}

/// Counts what it starts.
pub(super) struct Counted {
    pub(super) executor: Arc<dyn Executor>,
    pub(super) rests: Arc<Rests>,
}

impl Executor for Counted {
    fn start(&self, job: ForeignJob, reply: Reply) {
        self.rests.requests.fetch_add(1, Ordering::Relaxed);
        self.executor.start(job, reply);
    }

    fn stop(&self, tag: Tag, grace_ms: u64, why: Stop) {
        self.executor.stop(tag, grace_ms, why);
    }
}

/// Decides, from how many requests there have been by when.
#[derive(Debug, Default)]
struct Pace {
    phase: Phase,
    /// When counting began, and how many requests there had been by then.
    since: Duration,
    requests_before: u64,
    /// When rests may be tried again, and how long that takes after the next failure.
    try_at: Duration,
    pause: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Phase {
    /// There are no rests: this is what the stream is like without.
    #[default]
    Awake,
    /// There are, to compare with the rate before.
    Trial { rate: f64 },
    /// They cost nothing.
    Resting { rate: f64, until: Duration },
}

impl Pace {
    /// Returns how long to rest at `now`, after `requests` requests in all.
    fn next(&mut self, now: Duration, requests: u64) -> Option<Duration> {
        let span = now.saturating_sub(self.since);
        let came = count(requests - self.requests_before);
        let seen = match self.phase {
            Phase::Trial { rate } => self.judge(now, came, rate, rate * span.as_secs_f64()),
            _ if span < WINDOW => None,
            _ => Some(self.go_on(now, came / span.as_secs_f64())),
        };
        if let Some(phase) = seen {
            self.phase = phase;
            (self.since, self.requests_before) = (now, requests);
        }
        match self.phase {
            Phase::Awake => None,
            Phase::Trial { rate } | Phase::Resting { rate, .. } => {
                Some(Duration::from_secs_f64(REST_REQUESTS / rate).min(REST_MAX))
            }
        }
    }

    /// Returns what a trial has shown, once it has: how many came of those `expected` at `rate`.
    fn judge(&mut self, now: Duration, came: f64, rate: f64, expected: f64) -> Option<Phase> {
        let fails = expected >= EARLY_REQUESTS && came < expected * EARLY_PART_MIN;
        if !fails && expected < TRIAL_REQUESTS {
            return None;
        }
        if !fails && came >= expected * TRIAL_PART_MIN {
            self.pause = PAUSE_MIN;
            let until = now + RESTING_MAX;
            return Some(Phase::Resting { rate, until });
        }
        self.try_at = now + self.pause;
        self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        Some(Phase::Awake)
    }

    /// Returns what follows after a while at `rate`.
    fn go_on(&mut self, now: Duration, rate: f64) -> Phase {
        let is_right = (RATE_MIN..=RATE_MAX).contains(&rate);
        match self.phase {
            Phase::Resting { until, .. } if is_right && now < until => {
                Phase::Resting { rate, until }
            }
            Phase::Resting { .. } => Phase::Awake,
            _ if is_right && now >= self.try_at => Phase::Trial { rate },
            _ => {
                if rate < RATE_MIN {
                    self.pause = PAUSE_MIN;
                }
                Phase::Awake
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
fn count(requests: u64) -> f64 {
    requests as f64
}

#[cfg(test)]
mod tests;
