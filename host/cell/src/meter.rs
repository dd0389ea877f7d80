//! Measures what one run uses. It reads the thread's CPU clock around each poll of the run's future, so that
//! other runs do not count, and notifies the watchdog when each poll starts and ends.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use host_core::outcome::Meter;
use rustix::time::{ClockId, clock_gettime};

use crate::watchdog::Activity;

/// The use of a run so far.
#[derive(Debug, Default)]
pub(crate) struct Used {
    fuel: AtomicU64,
    cpu_ns: AtomicU64,
    peak_memory_bytes: AtomicU64,
}

impl Used {
    /// Sets the fuel and the memory. The CPU time is counted by [`Metered`].
    pub(crate) fn set(&self, fuel: u64, peak_memory_bytes: u64) {
        self.fuel.store(fuel, Ordering::Relaxed);
        self.peak_memory_bytes
            .store(peak_memory_bytes, Ordering::Relaxed);
    }

    pub(crate) fn meter(&self) -> Meter {
        Meter {
            fuel: self.fuel.load(Ordering::Relaxed),
            cpu_us: self.cpu_ns.load(Ordering::Relaxed) / 1_000,
            peak_memory_bytes: self.peak_memory_bytes.load(Ordering::Relaxed),
        }
    }
}

/// A future that adds the CPU time of its polls to a counter.
pub(crate) struct Metered<'a, F> {
    future: Pin<&'a mut F>,
    activity: &'a Activity,
    used: &'a Used,
}

impl<'a, F: Future> Metered<'a, F> {
    pub(crate) const fn new(
        future: Pin<&'a mut F>,
        activity: &'a Activity,
        used: &'a Used,
    ) -> Self {
        Self {
            future,
            activity,
            used,
        }
    }
}

impl<F: Future> Future for Metered<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let before = thread_cpu_ns();
        let cpu_ns = self.used.cpu_ns.load(Ordering::Relaxed);
        let active = self.activity.start(cpu_ns > 0);
        let poll = self.future.as_mut().poll(context);
        drop(active);
        let cpu_ns = cpu_ns + thread_cpu_ns().saturating_sub(before);
        self.used.cpu_ns.store(cpu_ns, Ordering::Relaxed);
        poll
    }
}

/// Returns the CPU time of this thread, in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    seconds * 1_000_000_000 + nanos
}
