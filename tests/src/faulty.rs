//! A proxy in front of a `PostgreSQL` server that breaks connections on request.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tempfile::TempDir;

/// The name of a server's socket in its folder.
const SOCKET: &str = ".s.PGSQL.5432";

/// The end of a client's batch.
const COMMIT: &[u8] = b"COMMIT\0";

/// Faults of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// All connections end now.
    Drop,
    /// The next connection that commits ends before the server receives the commit.
    CutBeforeCommit,
    /// The next connection that commits ends before the client gets the answer.
    CutAfterCommit,
    /// The next commit reaches the server, and no answers arrive from then on, until connections are healed.
    DeafAfterCommit,
    /// No answers of the server arrive, until connections are healed; then they end.
    Deafen,
    /// Everything arrives this many milliseconds late, until connections are healed.
    Delay(u32),
}

#[derive(Default)]
struct State {
    commit: Mutex<Option<Fault>>,
    /// The delay in milliseconds; [`DEAF`] if nothing arrives.
    delay_ms: AtomicU32,
    open: Mutex<Vec<Weak<Pair>>>,
}

const DEAF: u32 = u32::MAX;

/// Both ends of a connection.
struct Pair {
    client: UnixStream,
    server: UnixStream,
}

impl Pair {
    fn end(&self) {
        for side in [&self.client, &self.server] {
            // It may have ended already.
            let _ = side.shutdown(Shutdown::Both);
        }
    }
}

/// The proxy. It ends with the process.
pub struct Faulty {
    folder: TempDir,
    state: Arc<State>,
}

impl Faulty {
    /// Starts a proxy in front of the server with a socket in `server`.
    ///
    /// # Panics
    ///
    /// If it cannot listen.
    pub fn before(server: &Path) -> Self {
        let folder = TempDir::new().expect("a folder can be made");
        let listener =
            UnixListener::bind(folder.path().join(SOCKET)).expect("a socket can be made");
        let state: Arc<State> = Arc::default();
        let (shared, server) = (Arc::clone(&state), server.join(SOCKET));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                accept(client, &server, &shared);
            }
        });
        Self { folder, state }
    }

    /// Returns the folder of its socket.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Injects a fault.
    pub fn inject(&self, fault: Fault) {
        match fault {
            Fault::Drop => self.end_all(),
            Fault::CutBeforeCommit | Fault::CutAfterCommit | Fault::DeafAfterCommit => {
                *lock(&self.state.commit) = Some(fault);
            }
            Fault::Deafen => self.state.delay_ms.store(DEAF, Ordering::Relaxed),
            Fault::Delay(ms) => self.state.delay_ms.store(ms, Ordering::Relaxed),
        }
    }

    /// Heals connections. Those that missed something end.
    pub fn heal(&self) {
        *lock(&self.state.commit) = None;
        if self.state.delay_ms.swap(0, Ordering::Relaxed) == DEAF {
            self.end_all();
        }
    }

    fn end_all(&self) {
        for pair in lock(&self.state.open).drain(..) {
            if let Some(pair) = pair.upgrade() {
                pair.end();
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(client: UnixStream, server: &PathBuf, state: &Arc<State>) {
    // Without a server, the client sees the connection end.
    let Ok(server) = UnixStream::connect(server) else {
        return;
    };
    let pair = Arc::new(Pair { client, server });
    let mut open = lock(&state.open);
    open.retain(|pair| pair.strong_count() > 0);
    open.push(Arc::downgrade(&pair));
    drop(open);
    for to_server in [true, false] {
        let (pair, state) = (Arc::clone(&pair), Arc::clone(state));
        std::thread::spawn(move || {
            carry(&pair, &state, to_server);
            pair.end();
        });
    }
}

/// Forwards bytes one way until one side ends or a fault is injected.
fn carry(pair: &Pair, state: &State, to_server: bool) {
    let (mut from, mut to) = if to_server {
        (&pair.client, &pair.server)
    } else {
        (&pair.server, &pair.client)
    };
    let mut buffer = [0; 8_192];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        let sent = &buffer[..bytes];
        let delay_ms = state.delay_ms.load(Ordering::Relaxed);
        if delay_ms == DEAF && !to_server {
            continue;
        }
        if (1..DEAF).contains(&delay_ms) {
            pause(delay_ms);
        }
        let commits = to_server && sent.windows(COMMIT.len()).any(|word| word == COMMIT);
        let fault = commits.then(|| lock(&state.commit).take()).flatten();
        match fault {
            // The client gets nothing more; the server executes everything it received.
            Some(Fault::CutAfterCommit) => drop(pair.client.shutdown(Shutdown::Both)),
            Some(Fault::DeafAfterCommit) => state.delay_ms.store(DEAF, Ordering::Relaxed),
            _ => {}
        }
        if fault == Some(Fault::CutBeforeCommit) || to.write_all(sent).is_err() {
            return;
        }
        if fault == Some(Fault::CutAfterCommit) {
            let _ = pair.server.shutdown(Shutdown::Write);
            return wait_for_end(&pair.server);
        }
    }
}

/// Drains the server's output, so that it can finish.
fn wait_for_end(mut server: &UnixStream) {
    let mut buffer = [0; 8_192];
    while let Ok(1..) = server.read(&mut buffer) {}
}

#[expect(
    clippy::disallowed_methods,
    reason = "the delay is the requested fault"
)]
fn pause(ms: u32) {
    std::thread::sleep(Duration::from_millis(ms.into()));
}
