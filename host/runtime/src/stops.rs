//! The signals of a process that runs until it is stopped. A dedicated thread receives them, so that no busy or
//! blocked task delays them, and ends the process by force if it does not end by itself in time. No other signal
//! ends the process, except those that report a fault of its own.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thiserror::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::log::OutputFiles;

/// How long a process may need to end after it was asked a second time.
const AT_ONCE: Duration = Duration::from_secs(2);

/// How many signals may wait. More of them mean the same.
const SIGNALS_WAITING_MAX: usize = 8;

/// The exit code of a process that was ended by force.
const FORCED: i32 = 1;

/// Why signals cannot be received.
#[derive(Debug, Error)]
#[error("cannot listen for signals: {0}")]
pub struct StopsError(#[from] io::Error);

/// The meaning of `SIGHUP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hangup {
    /// To read files again and to open the files of the log again.
    Reload,
    /// To stop: the terminal is gone.
    Stop,
}

/// Receives `SIGTERM`, `SIGINT` and `SIGQUIT`. After the first, the process lives at most for its grace period and the
/// time that it needs to end; after the second, for 2 seconds.
#[derive(Debug)]
pub struct Stops {
    asked: mpsc::Receiver<()>,
    ending: watch::Sender<bool>,
}

impl Stops {
    /// Starts the thread. `end_timeout` is how long the process may need to end after its grace
    /// period, or after it has nothing left to do. Without a grace period, the first signal sets no
    /// limit.
    pub fn listen(
        grace: Option<Duration>,
        end_timeout: Duration,
        hangup: Hangup,
    ) -> Result<Self, StopsError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (signals, asked) = mpsc::channel(SIGNALS_WAITING_MAX);
        let (ending, is_ending) = watch::channel(false);
        let mut received = {
            let _runtime = runtime.enter();
            Received::listen()?
        };
        let files = Arc::new(OutputFiles::find());
        let work = async move {
            let mut limit = Limit::new(grace, end_timeout);
            let mut is_ending = is_ending;
            loop {
                let forced = async {
                    match limit.end_by {
                        Some(end_by) => tokio::time::sleep_until(end_by).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    is_hangup = received.next() => match hangup {
                        Hangup::Reload if is_hangup => {
                            let files = Arc::clone(&files);
                            tokio::task::spawn_blocking(move || files.reopen());
                            continue;
                        }
                        _ => limit.count_request(),
                    },
                    changed = is_ending.changed() => match changed {
                        Ok(()) => {
                            limit.shorten(end_timeout);
                            continue;
                        }
                        // The process no longer waits for signals.
                        Err(_) => return,
                    },
                    () = forced => exit(),
                }
                // A process that does not read its signals is still ended.
                // A full channel has a signal already.
                let _ = signals.try_send(());
            }
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || runtime.block_on(work))?;
        Ok(Self { asked, ending })
    }

    /// Waits for the next signal. Cancel safe.
    pub async fn wait_for_stop(&mut self) {
        if self.asked.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Starts the time that the process has to end, because it has nothing left to do.
    pub fn end_soon(&self) {
        self.ending.send_replace(true);
    }
}

/// The signals that mean something to the process.
struct Received {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hangup: Signal,
}

impl Received {
    fn listen() -> io::Result<Self> {
        let without_meaning = [
            libc::SIGUSR1,
            libc::SIGUSR2,
            libc::SIGALRM,
            libc::SIGSTKFLT,
            libc::SIGXCPU,
            libc::SIGXFSZ,
            libc::SIGVTALRM,
            libc::SIGPROF,
            libc::SIGIO,
            libc::SIGPWR,
        ];
        // Output from the background must not suspend the process. With a handler, the write would be repeated without
        // end.
        // SAFETY: ignoring a signal installs no handler.
        unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
        let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
        for number in without_meaning.into_iter().chain(real_time) {
            // Once it has been received, it no longer has the effect that the system gives it. Programs that this
            // process starts do not inherit that.
            drop(signal(SignalKind::from_raw(number))?);
        }
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal. Returns whether it is `SIGHUP`. Cancel safe.
    async fn next(&mut self) -> bool {
        tokio::select! {
            _ = self.terminate.recv() => false,
            _ = self.interrupt.recv() => false,
            _ = self.quit.recv() => false,
            _ = self.hangup.recv() => true,
        }
    }
}

/// When the process must have ended.
struct Limit {
    grace: Option<Duration>,
    end_timeout: Duration,
    signals: u32,
    end_by: Option<Instant>,
}

impl Limit {
    const fn new(grace: Option<Duration>, end_timeout: Duration) -> Self {
        Self {
            grace,
            end_timeout,
            signals: 0,
            end_by: None,
        }
    }

    fn count_request(&mut self) {
        self.signals += 1;
        match (self.signals, self.grace) {
            (1, Some(grace)) => self.shorten(grace.saturating_add(self.end_timeout)),
            (1, None) => {}
            _ => self.shorten(AT_ONCE),
        }
    }

    fn shorten(&mut self, left: Duration) {
        if let Some(end_by) = Instant::now().checked_add(left) {
            self.end_by = Some(self.end_by.map_or(end_by, |old| old.min(end_by)));
        }
    }
}

/// Ends the process without waiting for anything: no destructor runs and no lock is taken.
fn exit() -> ! {
    let message = "host: shutdown took too long; ending the process by force\n";
    let stderr = io::stderr();
    // A pipe without a reader would block.
    let mut writable = [PollFd::new(&stderr, PollFlags::OUT)];
    let now = Timespec::default();
    if stderr.is_terminal() || matches!(poll(&mut writable, Some(&now)), Ok(1..)) {
        let _ = rustix::io::write(&stderr, message.as_bytes());
    }
    // SAFETY: ends the process; none of its code runs after this.
    unsafe { libc::_exit(FORCED) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Duration = Duration::from_secs(8);

    #[test]
    fn a_second_signal_leaves_2_seconds() {
        assert_eq!(AT_ONCE, Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn each_signal_leaves_less_time() {
        let begun = Instant::now();
        let left = |limit: &Limit| limit.end_by.map(|end_by| end_by - begun);
        let mut limit = Limit::new(Some(Duration::from_secs(30)), END);
        assert_eq!(left(&limit), None);
        limit.count_request();
        assert_eq!(left(&limit), Some(Duration::from_secs(30) + END));
        limit.count_request();
        assert_eq!(left(&limit), Some(AT_ONCE));
        limit.shorten(END);
        assert_eq!(left(&limit), Some(AT_ONCE));

        let mut endless = Limit::new(None, END);
        endless.count_request();
        assert_eq!(left(&endless), None);
        endless.count_request();
        assert_eq!(left(&endless), Some(AT_ONCE));
    }
}
