//! Which cores a worker and its cells run on. While requests stream in, each worth little, they all
//! keep to one: to be woken on another costs more than the request, and whoever sends the stream needs
//! the other cores more than it needs the answers. As soon as one of them wants more than its share of
//! that core, or no stream is left, they run where they can.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use host_core::port::{Executor, ForeignJob, Reply, Stop, Tag};
use rustix::process::{Pid, getpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tokio::sync::Notify;
use tokio::time::sleep;

use host_cells::process::Cells;
use host_runtime::clock::Clock;

/// How often is looked while requests come.
const WINDOW: Duration = Duration::from_millis(10);

/// Which streams are meant, in requests per second: slower ones are woken for seldom, faster ones need
/// cores.
const RATE_MIN: f64 = 800.0;
const RATE_MAX: f64 = 5_000.0;

/// For which part of a window a thread may compute, and for which it may compute or wait for the core
/// in two windows in a row: no deadline is kept closer than they take.
const RUN_MAX: f64 = 0.4;
const AWAKE_MAX: f64 = 0.9;

/// For how long the core is left alone after it was too small, and after that happens again at once.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// After how long on one core it was large enough.
const LONG: Duration = Duration::from_secs(1);

/// Where the kernel tells the times of the thread that reads.
const OWN_TIMES: &str = "/proc/thread-self/schedstat";

/// A worker's thread and its cells, and the cores they may run on.
pub(super) struct OneCore {
    clock: Clock,
    cells: Cells,
    requests: AtomicU64,
    begun: Notify,
    all: CpuSet,
    one: CpuSet,
    nice: i32,
}

impl OneCore {
    /// Finds the core: the last of those that this thread may run on, so that all workers of a pool
    /// find the same. `None` if there is no other, or if the kernel does not tell when it is too small.
    /// Called before [`super::go_first`].
    pub(super) fn find(clock: Clock, cells: Cells) -> Option<Self> {
        times(OWN_TIMES)?;
        let all = sched_getaffinity(None).ok()?;
        if all.count() < 2 {
            return None;
        }
        let last = (0..CpuSet::MAX_CPU).rev().find(|core| all.is_set(*core))?;
        let mut one = CpuSet::new();
        one.set(last);
        Some(Self {
            clock,
            cells,
            requests: AtomicU64::new(0),
            begun: Notify::new(),
            all,
            one,
            nice: getpriority_process(None).ok()?,
        })
    }

    /// Looks at the stream as long as there is one, and moves this thread and all cells as it is best.
    /// Never returns.
    pub(super) async fn watch(self: Arc<Self>) {
        let mut plan = Plan::default();
        loop {
            self.begun.notified().await;
            let mut before = self.snapshot();
            loop {
                sleep(WINDOW).await;
                let now = self.snapshot();
                let seen = now.since(&before);
                let together = plan.since.is_some();
                if plan.next(now.at, &seen) != together {
                    tracing::debug!(?seen, together = !together, "cores are chosen");
                    self.choose(!together);
                }
                before = now;
                if seen.rate <= 0.0 && plan.since.is_none() {
                    break;
                }
            }
        }
    }

    fn snapshot(&self) -> Snapshot {
        let own = times(OWN_TIMES).map(|times| (None, times));
        let pids = self.cells.pids();
        let cells = pids.into_iter().filter_map(|pid| {
            // Its first thread is the one that runs guests.
            let times = times(&format!("/proc/{pid}/task/{pid}/schedstat"))?;
            Some((Some(pid), times))
        });
        Snapshot {
            at: self.clock.uptime(),
            requests: self.requests.load(Ordering::Relaxed),
            threads: own.into_iter().chain(cells).collect(),
        }
    }

    /// Moves this thread and those of the cells that run guests; what is refused stays where it is.
    /// On one core this thread has no precedence: it would have it over the orchestrator too, whose
    /// threads are there now and then.
    fn choose(&self, together: bool) {
        let cores = if together { &self.one } else { &self.all };
        super::be_nice(if together {
            self.nice
        } else {
            super::ANSWERING_NICE
        });
        let cells = self.cells.pids().into_iter();
        let cells = cells.filter_map(|pid| Pid::from_raw(pid.cast_signed()));
        for thread in std::iter::once(None).chain(cells.map(Some)) {
            if let Err(error) = sched_setaffinity(thread, cores) {
                tracing::debug!(%error, ?thread, "a thread cannot be moved");
            }
        }
    }
}

/// Returns what lets a thread run where this one may now, whichever core the thread that starts it
/// keeps to by then.
pub(super) fn anywhere() -> impl Fn() + Send + Sync + 'static {
    let all = sched_getaffinity(None);
    move || {
        let freed = all.and_then(|all| sched_setaffinity(None, &all));
        if let Err(error) = freed {
            tracing::debug!(%error, "a thread keeps to the core it was started on");
        }
    }
}

/// Counts the requests it passes on.
pub(super) struct Counted {
    pub(super) executor: Arc<dyn Executor>,
    pub(super) one_core: Arc<OneCore>,
}

impl Executor for Counted {
    fn start(&self, job: ForeignJob, reply: Reply) {
        self.one_core.requests.fetch_add(1, Ordering::Relaxed);
        self.one_core.begun.notify_one();
        self.executor.start(job, reply);
    }

    fn stop(&self, tag: Tag, grace_ms: u64, why: Stop) {
        self.executor.stop(tag, grace_ms, why);
    }
}

/// For how long a thread has computed and has waited for a core, both since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    run: Duration,
    wait: Duration,
}

/// Reads what the kernel has counted for a thread, `None` if it counts nothing.
fn times(path: &str) -> Option<Times> {
    let text = fs::read_to_string(path).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse);
    let mut next = || Some(Duration::from_nanos(numbers.next()?.ok()?));
    Some(Times {
        run: next()?,
        wait: next()?,
    })
}

/// What there is to see at one time: cells by their process id, this thread by none.
struct Snapshot {
    at: Duration,
    requests: u64,
    threads: Vec<(Option<u32>, Times)>,
}

impl Snapshot {
    fn since(&self, before: &Self) -> Seen {
        let span = self.at.saturating_sub(before.at).as_secs_f64();
        let mut seen = Seen {
            rate: count(self.requests - before.requests) / span,
            ..Seen::default()
        };
        for (id, now) in &self.threads {
            let Some((_, then)) = before.threads.iter().find(|(known, _)| known == id) else {
                continue;
            };
            let part = |now: Duration, then| now.saturating_sub(then).as_secs_f64() / span;
            let run = part(now.run, then.run);
            seen.run = seen.run.max(run);
            seen.awake = seen.awake.max(run + part(now.wait, then.wait));
        }
        seen
    }
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
fn count(requests: u64) -> f64 {
    requests as f64
}

/// What one window was like: requests per second, and for which part of it the busiest thread has
/// computed, and has computed or waited for a core.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seen {
    rate: f64,
    run: f64,
    awake: f64,
}

/// Decides, from one window after the other.
#[derive(Debug, Default)]
struct Plan {
    /// Since when all keep to one core.
    since: Option<Duration>,
    /// Whether that core was too small for a thread in the last window.
    was_crowded: bool,
    /// When it may be tried again, and how long that takes after the next failure.
    try_at: Duration,
    pause: Duration,
}

impl Plan {
    /// Tells whether all keep to one core after a window that ended at `now`.
    fn next(&mut self, now: Duration, seen: &Seen) -> bool {
        let Some(since) = self.since else {
            let is_right = (RATE_MIN..=RATE_MAX).contains(&seen.rate) && seen.run <= RUN_MAX;
            if is_right && now >= self.try_at {
                self.since = Some(now);
                self.was_crowded = false;
            }
            return self.since.is_some();
        };
        let is_crowded = seen.awake > AWAKE_MAX;
        let was_crowded = std::mem::replace(&mut self.was_crowded, is_crowded);
        let is_small = seen.run > RUN_MAX || (is_crowded && was_crowded);
        if is_small {
            self.pause = if now.saturating_sub(since) < LONG {
                (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX)
            } else {
                PAUSE_MIN
            };
            self.try_at = now + self.pause;
        }
        // A stream may have short breaks, and be faster without anybody in its way.
        let goes_on = (RATE_MIN / 2.0..=RATE_MAX * 2.0).contains(&seen.rate);
        if is_small || !goes_on {
            self.since = None;
        }
        self.since.is_some()
    }
}

#[cfg(test)]
mod tests;
