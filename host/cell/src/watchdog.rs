//! The watchdog thread. While a guest computes, it advances the epoch, so that guests yield and can be
//! stopped. When the host is gone or guests may no longer run, it ends the process, whatever they do.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use host_confine::Lifeline;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use wasmtime::EngineWeak;

/// The time between two ticks of the epoch while guests compute, in milliseconds.
const TICK_MS: u64 = 1;

/// The time between two ticks while guests end or wait within less than this time, in milliseconds.
const SLOW_TICK_MS: u64 = 4;

/// How many ticks the clock continues after a guest last computed, so that the next run need not wake
/// this thread.
const IDLE_TICKS_MAX: u32 = 20;

/// Whether a guest computes, and whether the clock is parked.
#[derive(Debug)]
pub(crate) struct Activity {
    /// Counts starts and ends of polls: odd while a guest is being polled.
    turns: AtomicU64,
    /// Whether the guest of the last poll had used CPU time before.
    resumed: AtomicBool,
    parked: AtomicBool,
    wake: OwnedFd,
    /// Until when guests may run, if not without end.
    lifeline: Option<Lifeline>,
}

/// Marks a guest as being polled, until it is dropped.
#[derive(Debug)]
pub(crate) struct Active<'a>(&'a Activity);

/// How long the thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    Tick,
    SlowTick,
    Parked,
}

impl Activity {
    pub(crate) fn new(lifeline: Option<Lifeline>) -> io::Result<Self> {
        Ok(Self {
            turns: AtomicU64::new(0),
            resumed: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            lifeline,
        })
    }

    /// Ends the process if guests may no longer run.
    pub(crate) fn check_lifeline(&self) {
        if self.lifeline.as_ref().is_some_and(Lifeline::has_passed) {
            std::process::exit(0);
        }
    }

    /// Marks a guest as being polled and starts the clock if it is parked. `resumed` is whether the guest has
    /// used CPU time before. Called only by the thread that polls guests. Ends the process if guests may no longer run.
    pub(crate) fn start(&self, resumed: bool) -> Active<'_> {
        self.check_lifeline();
        self.resumed.store(resumed, Ordering::Relaxed);
        self.turns.fetch_add(1, Ordering::SeqCst);
        if self.parked.load(Ordering::SeqCst) && self.parked.swap(false, Ordering::SeqCst) {
            // The counter of the eventfd cannot overflow: it grows by one each time the clock is parked.
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
        Active(self)
    }

    /// Waits for the next tick, or until woken if the clock is parked. With `listening` it also returns when
    /// the host has sent data. Returns whether it has.
    fn wait(&self, orchestrator: &OwnedFd, pause: Pause, listening: bool) -> io::Result<bool> {
        let tick = |ms| Timespec::try_from(Duration::from_millis(ms)).ok();
        let timeout = match pause {
            Pause::Tick => tick(TICK_MS),
            Pause::SlowTick => tick(SLOW_TICK_MS),
            Pause::Parked => None,
        };
        let mut events = PollFlags::RDHUP;
        events.set(PollFlags::IN, listening);
        let ending = self.lifeline.as_ref().map(Lifeline::as_fd);
        let mut fds = [
            PollFd::new(orchestrator, events),
            PollFd::new(&self.wake, PollFlags::IN),
            PollFd::from_borrowed_fd(ending.unwrap_or(self.wake.as_fd()), PollFlags::IN),
        ];
        let watched = if ending.is_some() { 3 } else { 2 };
        match poll(&mut fds[..watched], timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        if fds[0].revents().intersects(gone) {
            std::process::exit(0);
        }
        if ending.is_some() && fds[2].revents().contains(PollFlags::IN) {
            std::process::exit(0);
        }
        if fds[1].revents().contains(PollFlags::IN) {
            let mut counter = [0; 8];
            let _ = rustix::io::read(&self.wake, &mut counter);
        }
        Ok(fds[0].revents().contains(PollFlags::IN))
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.turns.fetch_add(1, Ordering::SeqCst);
    }
}

/// Chooses how long to sleep, from what guests did since the last tick.
#[derive(Debug, Default)]
struct TickPolicy {
    turns: u64,
    idle_ticks: u32,
}

impl TickPolicy {
    fn next(&mut self, turns: u64, resumed: bool) -> Pause {
        let since = turns - std::mem::replace(&mut self.turns, turns);
        let is_active = turns % 2 == 1;
        if is_active || since > 0 {
            self.idle_ticks = 0;
        } else {
            self.idle_ticks += 1;
        }
        if self.idle_ticks > IDLE_TICKS_MAX {
            Pause::Parked
        } else if is_active && (resumed || since <= 2) {
            // A resumed guest computes for long. If there was only one poll since the last tick, its
            // guest has computed for about the whole tick.
            Pause::Tick
        } else {
            Pause::SlowTick
        }
    }
}

/// Starts the thread, which ends the process when the cell's socket to the host closes, or when guests may no longer run.
pub(crate) fn start(
    engine: EngineWeak,
    activity: Arc<Activity>,
    orchestrator: OwnedFd,
) -> io::Result<()> {
    let run = move || {
        let mut policy = TickPolicy::default();
        let mut was_readable = false;
        loop {
            let mut pause = policy.next(
                activity.turns.load(Ordering::SeqCst),
                activity.resumed.load(Ordering::Relaxed),
            );
            if pause == Pause::Parked {
                activity.parked.store(true, Ordering::SeqCst);
                // A guest whose poll has just started did not wake the clock, because it was not parked yet.
                if activity.turns.load(Ordering::SeqCst) != policy.turns {
                    activity.parked.store(false, Ordering::SeqCst);
                    pause = Pause::SlowTick;
                }
            }
            // If a message arrives while a guest computes, the guest yields immediately, because the message may
            // be a stop. It may still be unread at the next wait, which is therefore for the clock alone.
            let listening = pause == Pause::Tick && !was_readable;
            was_readable = match activity.wait(&orchestrator, pause, listening) {
                Ok(is_readable) => is_readable,
                Err(error) => {
                    // Without ticks no guest can be stopped.
                    host_confine::report(format_args!(
                        "the cell's watchdog cannot wait for its socket: {error}"
                    ));
                    std::process::exit(1);
                }
            };
            let Some(engine) = engine.upgrade() else {
                return;
            };
            engine.increment_epoch();
        }
    };
    std::thread::Builder::new()
        .name("watchdog".to_owned())
        .spawn(run)
        .map(drop)
}

#[cfg(test)]
mod tests;
