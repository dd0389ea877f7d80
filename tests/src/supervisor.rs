//! Stands in for systemd: supervises a host and receives its notifications.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use crate::Options;

/// Longer than a host needs between notifications.
const WAIT_MAX: Duration = Duration::from_mins(2);

/// A socket that is read all the time, so that hosts never block on it.
pub struct Supervisor {
    path: PathBuf,
    received: Receiver<String>,
}

impl Supervisor {
    /// Listens in `folder`.
    ///
    /// # Panics
    ///
    /// If the socket cannot be made.
    pub fn start(folder: &Path) -> Self {
        let path = folder.join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket can be made");
        let (sender, received) = mpsc::channel();
        std::thread::spawn(move || {
            let mut word = [0; 256];
            while let Ok(bytes) = socket.recv(&mut word) {
                let word = String::from_utf8_lossy(&word[..bytes]);
                if sender.send(word.trim().to_owned()).is_err() {
                    return;
                }
            }
        });
        Self { path, received }
    }

    /// Makes a host report that it is alive, at least once per `watchdog`.
    pub fn supervise(&self, options: &mut Options, watchdog: Duration) {
        options.supervised = true;
        options.env.extend([
            ("NOTIFY_SOCKET".to_owned(), self.path.display().to_string()),
            ("WATCHDOG_USEC".to_owned(), watchdog.as_micros().to_string()),
        ]);
    }

    /// Returns the host's next notification.
    ///
    /// # Panics
    ///
    /// If none comes.
    pub fn next(&self) -> String {
        self.received
            .recv_timeout(WAIT_MAX)
            .expect("the host sends a notification")
    }

    /// Forgets earlier notifications.
    pub fn forget(&self) {
        while self.received.try_recv().is_ok() {}
    }
}
