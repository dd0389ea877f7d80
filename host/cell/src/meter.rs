//! Measures the CPU time of one run. It reads the thread's CPU clock around each poll of the run's
//! future, so that other runs do not count, and tells the watchdog when each poll starts and ends.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::time::{ClockId, clock_gettime};

use crate::watchdog::Activity;

/// A future that adds the CPU time of its polls to a counter.
pub(crate) struct Metered<'a, F> {
    future: Pin<&'a mut F>,
    activity: &'a Activity,
    cpu_ns: &'a mut u64,
}

impl<'a, F: Future> Metered<'a, F> {
    pub(crate) const fn new(
        future: Pin<&'a mut F>,
        activity: &'a Activity,
        cpu_ns: &'a mut u64,
    ) -> Self {
        Self {
            future,
            activity,
            cpu_ns,
        }
    }
}

impl<F: Future> Future for Metered<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let before = thread_cpu_ns();
        let active = self.activity.start(*self.cpu_ns > 0);
        let poll = self.future.as_mut().poll(context);
        drop(active);
        *self.cpu_ns += thread_cpu_ns().saturating_sub(before);
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
