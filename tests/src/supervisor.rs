//! Stands in for systemd: starts a host as a supervised one, and hears what it says of itself.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use crate::Options;

/// More than a host needs to say something.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A socket that is read all the time, so that no host waits for room in it.
pub struct Supervisor {
    path: PathBuf,
    heard: Receiver<String>,
}

impl Supervisor {
    /// Listens in `folder`.
    ///
    /// # Panics
    ///
    /// If there can be no socket.
    pub fn start(folder: &Path) -> Self {
        let path = folder.join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket can be made");
        let (tell, heard) = mpsc::channel();
        std::thread::spawn(move || {
            let mut word = [0; 256];
            while let Ok(bytes) = socket.recv(&mut word) {
                let word = String::from_utf8_lossy(&word[..bytes]);
                if tell.send(word.trim().to_owned()).is_err() {
                    return;
                }
            }
        });
        Self { path, heard }
    }

    /// Lets a host say that it is alive, within `watchdog` at the latest.
    pub fn supervise(&self, options: &mut Options, watchdog: Duration) {
        options.supervised = true;
        options.env.extend([
            ("NOTIFY_SOCKET".to_owned(), self.path.display().to_string()),
            ("WATCHDOG_USEC".to_owned(), watchdog.as_micros().to_string()),
        ]);
    }

    /// Returns what the host says next.
    ///
    /// # Panics
    ///
    /// If it says nothing.
    pub fn hear(&self) -> String {
        self.heard
            .recv_timeout(WAIT_MAX)
            .expect("the host says something")
    }

    /// Forgets what the host has said.
    pub fn forget(&self) {
        while self.heard.try_recv().is_ok() {}
    }
}
