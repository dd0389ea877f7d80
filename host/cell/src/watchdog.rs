//! The thread beside the runtime: it moves the epoch on while a guest computes, so that each gives
//! way and can be stopped, and ends the process when the orchestrator is gone, whatever a guest
//! does.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use wasmtime::EngineWeak;

/// The time between two ticks of the epoch while guests compute, in milliseconds.
const TICK_MS: u64 = 1;

/// The time between two ticks while guests end or wait sooner than that, in milliseconds.
const SLOW_TICK_MS: u64 = 4;

/// How many ticks the clock goes on after a guest last computed, so that a run after another wakes
/// nobody.
const IDLE_TICKS_MAX: u32 = 20;

/// Whether a guest computes, and whether the clock stands still.
#[derive(Debug)]
pub(crate) struct Activity {
    /// How often a guest was given the thread and has left it again: odd while it has it.
    turns: AtomicU64,
    /// Whether the last one to get it had had it before.
    again: AtomicBool,
    parked: AtomicBool,
    wake: OwnedFd,
}

/// One guest that has the thread, until it is dropped.
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
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            turns: AtomicU64::new(0),
            again: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Notes that a guest has the thread, maybe `again`, and makes the clock move. Called by that
    /// thread only.
    pub(crate) fn start(&self, again: bool) -> Active<'_> {
        self.again.store(again, Ordering::Relaxed);
        self.turns.fetch_add(1, Ordering::SeqCst);
        if self.parked.load(Ordering::SeqCst) && self.parked.swap(false, Ordering::SeqCst) {
            // The counter of an eventfd cannot overflow by one a parking.
            let _woken = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
        Active(self)
    }

    /// Waits for a tick, or for anything at all while no guest runs. With `listening` it also
    /// returns when the orchestrator has said something, and tells so.
    fn wait(&self, orchestrator: &OwnedFd, pause: Pause, listening: bool) -> io::Result<bool> {
        let tick = |ms| Timespec::try_from(Duration::from_millis(ms)).ok();
        let timeout = match pause {
            Pause::Tick => tick(TICK_MS),
            Pause::SlowTick => tick(SLOW_TICK_MS),
            Pause::Parked => None,
        };
        let mut words = PollFlags::RDHUP;
        words.set(PollFlags::IN, listening);
        let mut fds = [
            PollFd::new(orchestrator, words),
            PollFd::new(&self.wake, PollFlags::IN),
        ];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        if fds[0].revents().intersects(gone) {
            std::process::exit(0);
        }
        if fds[1].revents().contains(PollFlags::IN) {
            let mut counter = [0; 8];
            let _drained = rustix::io::read(&self.wake, &mut counter);
        }
        Ok(fds[0].revents().contains(PollFlags::IN))
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.turns.fetch_add(1, Ordering::SeqCst);
    }
}

/// Chooses how long to sleep, from what each tick finds.
#[derive(Debug, Default)]
struct Watch {
    turns: u64,
    idle_ticks: u32,
}

impl Watch {
    fn next(&mut self, turns: u64, again: bool) -> Pause {
        let since = turns - std::mem::replace(&mut self.turns, turns);
        let is_active = turns % 2 == 1;
        if is_active || since > 0 {
            self.idle_ticks = 0;
        } else {
            self.idle_ticks += 1;
        }
        if self.idle_ticks > IDLE_TICKS_MAX {
            Pause::Parked
        } else if is_active && (again || since <= 2) {
            // A guest that has the thread again has burned some fuel; one that has it as the only
            // one has had it for about the whole tick.
            Pause::Tick
        } else {
            Pause::SlowTick
        }
    }
}

/// Starts the thread. `orchestrator` is the cell's socket.
pub(crate) fn start(
    engine: EngineWeak,
    activity: Arc<Activity>,
    orchestrator: OwnedFd,
) -> io::Result<()> {
    let run = move || {
        let mut watch = Watch::default();
        let mut heard = false;
        loop {
            let mut pause = watch.next(
                activity.turns.load(Ordering::SeqCst),
                activity.again.load(Ordering::Relaxed),
            );
            if pause == Pause::Parked {
                activity.parked.store(true, Ordering::SeqCst);
                // A guest that started just before sees to nothing: it found the clock moving.
                if activity.turns.load(Ordering::SeqCst) != watch.turns {
                    activity.parked.store(false, Ordering::SeqCst);
                    pause = Pause::SlowTick;
                }
            }
            // A guest that computes gives way at once to what may be its stop. What was heard may
            // not be read yet, so every other wait is for the clock alone.
            let listening = pause == Pause::Tick && !heard;
            heard = match activity.wait(&orchestrator, pause, listening) {
                Ok(heard) => heard,
                Err(error) => {
                    // Without a clock no guest can be stopped from inside.
                    eprintln!("the cell's watchdog cannot wait: {error}");
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
