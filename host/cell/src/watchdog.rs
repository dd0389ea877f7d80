//! The thread beside the runtime: it moves the epoch on while guests run, so that each gives way
//! and can be stopped, and ends the process when the orchestrator is gone, whatever a guest does.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use wasmtime::EngineWeak;

/// The time between two ticks of the epoch, in nanoseconds.
const TICK_NS: i64 = 1_000_000;

/// How many ticks the clock goes on after the last run, so that a run after another wakes nobody.
const IDLE_TICKS_MAX: u32 = 20;

/// How many guests run, and whether the clock stands still.
#[derive(Debug)]
pub(crate) struct Activity {
    running: AtomicU32,
    parked: AtomicBool,
    wake: OwnedFd,
}

/// One guest that runs, until it is dropped.
#[derive(Debug)]
pub(crate) struct Active(Arc<Activity>);

impl Activity {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            running: AtomicU32::new(0),
            parked: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Counts a guest that starts and makes the clock move.
    pub(crate) fn start(self: &Arc<Self>) -> Active {
        self.running.fetch_add(1, Ordering::SeqCst);
        if self.parked.swap(false, Ordering::SeqCst) {
            // The counter of an eventfd cannot overflow by one a parking.
            let _woken = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
        Active(Arc::clone(self))
    }

    /// Waits for a tick, or for anything at all while no guest runs.
    fn wait(&self, orchestrator: &OwnedFd, parked: bool) -> io::Result<()> {
        let tick = Timespec {
            tv_sec: 0,
            tv_nsec: TICK_NS,
        };
        let mut fds = [
            PollFd::new(orchestrator, PollFlags::RDHUP),
            PollFd::new(&self.wake, PollFlags::IN),
        ];
        match poll(&mut fds, if parked { None } else { Some(&tick) }) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        if fds[0].revents().intersects(gone) {
            std::process::exit(0);
        }
        let mut counter = [0; 8];
        let _drained = rustix::io::read(&self.wake, &mut counter);
        Ok(())
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Starts the thread. `orchestrator` is the cell's socket.
pub(crate) fn start(
    engine: EngineWeak,
    activity: Arc<Activity>,
    orchestrator: OwnedFd,
) -> io::Result<()> {
    let watch = move || {
        let mut idle_ticks = 0;
        loop {
            if activity.running.load(Ordering::SeqCst) > 0 {
                idle_ticks = 0;
            } else {
                idle_ticks += 1;
            }
            let mut park = idle_ticks > IDLE_TICKS_MAX;
            if park {
                activity.parked.store(true, Ordering::SeqCst);
                // A guest that started just before sees to nothing: it found the clock moving.
                if activity.running.load(Ordering::SeqCst) > 0 {
                    activity.parked.store(false, Ordering::SeqCst);
                    park = false;
                }
            }
            if let Err(error) = activity.wait(&orchestrator, park) {
                // Without a clock no guest can be stopped from inside.
                eprintln!("the cell's watchdog cannot wait: {error}");
                std::process::exit(1);
            }
            let Some(engine) = engine.upgrade() else {
                return;
            };
            engine.increment_epoch();
        }
    };
    std::thread::Builder::new()
        .name("watchdog".to_owned())
        .spawn(watch)
        .map(drop)
}
