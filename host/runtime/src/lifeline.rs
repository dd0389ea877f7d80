//! How long the cells of this host may run guests: until an instant that the host extends as long as it is a
//! member of its store's nodes. Cells share this kernel timer, so they end in time even if the host is
//! stopped or stuck.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

/// How long after the timer ran out the end of a cell is still attributed to it, in milliseconds.
const CUT_MS: u64 = 5_000;

/// The timer has not run out yet.
const NEVER: u64 = u64::MAX;

/// The time until which guests may run.
#[derive(Debug)]
pub struct Lifeline {
    timer: OwnedFd,
    /// When it ends, by [`Lifeline::now`], in milliseconds.
    end_ms: AtomicU64,
    /// When guests were last allowed again after it had run out.
    back_ms: AtomicU64,
}

impl Lifeline {
    /// Makes a lifeline that ends at `end`.
    pub fn new(end: Duration) -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let line = Self {
            timer: timerfd_create(TimerfdClockId::Boottime, flags)?,
            end_ms: AtomicU64::new(ms(end)),
            back_ms: AtomicU64::new(NEVER),
        };
        line.set(end)?;
        Ok(line)
    }

    /// Returns the time since the machine started. It counts the time that the machine slept.
    pub fn now() -> Duration {
        let now = clock_gettime(ClockId::Boottime);
        Duration::try_from(now).unwrap_or_default()
    }

    /// Moves the end to `end`. Returns whether it had passed.
    pub fn extend(&self, end: Duration) -> io::Result<bool> {
        let now = ms(Self::now());
        let had_passed = now >= self.end_ms.swap(ms(end), Ordering::SeqCst);
        if had_passed {
            self.back_ms.store(now, Ordering::SeqCst);
        }
        self.set(end)?;
        Ok(had_passed)
    }

    /// Returns whether it has run out.
    pub fn has_passed(&self) -> bool {
        ms(Self::now()) >= self.end_ms.load(Ordering::SeqCst)
    }

    /// Returns whether it has run out, now or a moment ago: then it may be why a cell dies now.
    pub fn is_cut(&self) -> bool {
        let now = ms(Self::now());
        let back = self.back_ms.load(Ordering::SeqCst);
        self.has_passed() || (back != NEVER && now < back + CUT_MS)
    }

    fn set(&self, end: Duration) -> io::Result<()> {
        // Zero would turn the timer off.
        let end = end.max(Duration::from_nanos(1));
        let at = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec::try_from(end).map_err(io::Error::other)?,
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &at)?;
        Ok(())
    }
}

impl AsFd for Lifeline {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(NEVER - CUT_MS)
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    /// What a cell sees: whether the timer has run out.
    fn has_fired(line: &Lifeline) -> bool {
        let mut fds = [PollFd::new(line, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
    }

    #[test]
    fn cells_see_the_end_and_that_it_has_moved() {
        let hour = Duration::from_hours(1);
        let line = Lifeline::new(Lifeline::now() + hour).unwrap();
        assert!(!has_fired(&line) && !line.is_cut());
        for (past, had_passed) in [(Duration::ZERO, false), (Lifeline::now(), true)] {
            assert_eq!(line.extend(past).unwrap(), had_passed);
            assert!(has_fired(&line) && line.is_cut());
        }
        for had_passed in [true, false] {
            let later = Lifeline::now() + hour;
            assert_eq!(line.extend(later).unwrap(), had_passed, "it passed once");
            assert!(!has_fired(&line), "new cells may run guests");
            assert!(line.is_cut(), "a cell that ended before is still reported");
        }
    }
}
