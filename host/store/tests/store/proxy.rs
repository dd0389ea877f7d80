//! A proxy in front of the server that breaks a connection where a test chooses, and counts statements.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tempfile::TempDir;

/// The name of the server's socket in its folder.
const SOCKET: &str = ".s.PGSQL.5432";

/// What the server sends when it has answered a statement, before a byte of its own.
const READY: &[u8] = b"Z\0\0\0\x05";

/// Where a connection breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    /// Before the server receives the commit.
    BeforeCommit,
    /// After the server has committed, before it answers.
    AfterCommit,
    /// While the batch reads.
    AtBegin,
}

impl Break {
    /// Returns the client's text that triggers the break.
    fn word(self) -> &'static [u8] {
        match self {
            Self::BeforeCommit | Self::AfterCommit => b"COMMIT\0",
            Self::AtBegin => b"BEGIN; SET LOCAL ",
        }
    }
}

/// A proxy. It ends with the process.
pub(crate) struct Proxy {
    pub(crate) folder: TempDir,
    next: Arc<Mutex<Option<Break>>>,
    clients: Arc<Mutex<Vec<UnixStream>>>,
    answered: Arc<AtomicUsize>,
}

impl Proxy {
    pub(crate) fn before(server: &Path) -> Self {
        let folder = TempDir::new().unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let next: Arc<Mutex<Option<Break>>> = Arc::default();
        let (breaks, server) = (Arc::clone(&next), server.join(SOCKET));
        let clients: Arc<Mutex<Vec<UnixStream>>> = Arc::default();
        let kept = Arc::clone(&clients);
        let answered: Arc<AtomicUsize> = Arc::default();
        let counted = Arc::clone(&answered);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, breaks) = (client.unwrap(), Arc::clone(&breaks));
                kept.lock().push(client.try_clone().unwrap());
                let server = UnixStream::connect(&server).unwrap();
                let counted = Arc::clone(&counted);
                std::thread::spawn(move || carry(&client, &server, &breaks, &counted));
            }
        });
        Self {
            folder,
            next,
            clients,
            answered,
        }
    }

    /// Returns how many statements the server has answered.
    pub(crate) fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// Ends all connections on the side of the clients.
    pub(crate) fn cut(&self) {
        for client in self.clients.lock().drain(..) {
            // It may have ended.
            let _ = client.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Breaks the next connection that gets there, once.
    pub(crate) fn break_next(&self, at: Break) {
        *self.next.lock() = Some(at);
    }

    pub(crate) fn has_broken(&self) -> bool {
        self.next.lock().is_none()
    }
}

/// Forwards bytes both ways until one side ends.
fn carry(
    client: &UnixStream,
    server: &UnixStream,
    breaks: &Mutex<Option<Break>>,
    answered: &Arc<AtomicUsize>,
) {
    let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let deaf = Arc::new(AtomicBool::new(false));
    let answers = {
        let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        let (deaf, answered) = (Arc::clone(&deaf), Arc::clone(answered));
        std::thread::spawn(move || {
            let mut buffer = [0; 8_192];
            // The end of what was read before: the word may be in two parts.
            let mut recent = Vec::new();
            while let Ok(bytes @ 1..) = from.read(&mut buffer) {
                recent.extend_from_slice(&buffer[..bytes]);
                let words = recent.windows(READY.len()).filter(|word| *word == READY);
                answered.fetch_add(words.count(), Ordering::Relaxed);
                recent.drain(..(recent.len() + 1).saturating_sub(READY.len()));
                if !deaf.load(Ordering::Relaxed) && to.write_all(&buffer[..bytes]).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(std::net::Shutdown::Both);
        })
    };
    let mut buffer = [0; 8_192];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        let sent = &buffer[..bytes];
        let mut next = breaks.lock();
        let at = next.take_if(|at| sent.windows(at.word().len()).any(|word| word == at.word()));
        drop(next);
        deaf.store(at.is_some(), Ordering::Relaxed);
        if matches!(at, Some(Break::BeforeCommit | Break::AtBegin)) || to.write_all(sent).is_err() {
            break;
        }
        if at.is_some() {
            // The server ends the connection once it has executed everything it received.
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
    answers.join().unwrap();
}
