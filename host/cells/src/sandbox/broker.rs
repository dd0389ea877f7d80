//! The broker's process from the host's side. It is started for the first run that may send requests, and again
//! after it has ended. It adds secrets to requests.

mod reports;
mod secrets;
mod send;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice, Read as _};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use host_core::cell::Context;
use host_core::egress::{AUTHORITIES_BYTES_MAX, Pass, ToBroker};
use host_core::http_grant::OriginPattern;
use host_core::port::requests::RequestWatch;
use host_core::requests::Requests;
use host_core::secret::Secret;
use host_core::tcp_grant::Endpoint;
use host_core::time::Time;
use host_runtime::ids;
use host_runtime::lifeline::Lifeline;
use ipnet::IpNet;
use parking_lot::Mutex;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};
use sha2::{Digest as _, Sha256};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;
use tokio::time::timeout;

use self::reports::{ReadEnd, Reports};
pub use self::secrets::Secrets;
use crate::sandbox::child::Child;
use crate::sandbox::spawn::Spawner;
use crate::sandbox::stderr;

/// The descriptor of the broker's end of the socket.
const CONTROL_FD: i32 = 3;

/// The descriptor of the file of certificates.
const AUTHORITIES_FD: i32 = 4;

/// How long the broker may leave a message unread.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the broker may say nothing before the host asks for a sign of life, and then each time before the next one.
const PING_EVERY: Duration = Duration::from_secs(2);

/// How many pings the broker may leave unanswered before it is killed.
const UNANSWERED_MAX: u32 = 3;

/// Where the value of a secret is.
#[derive(Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// In this file, up to a final line break.
    File(PathBuf),
    /// This is the value.
    Value(String),
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Value(_) => f.write_str("Value"),
        }
    }
}

/// The servers that requests of guests may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// The servers that manifests may name.
    pub origins: Vec<OriginPattern>,
    /// The servers that manifests may grant connections to.
    pub endpoints: Vec<Endpoint>,
    /// Networks besides public ones.
    pub networks: Vec<IpNet>,
    /// The DNS servers; those of the system if empty.
    pub nameservers: Vec<SocketAddr>,
    /// A file with certificates of authorities to trust besides those of the system.
    pub authorities: Option<PathBuf>,
    pub secrets: BTreeMap<String, SecretSource>,
    /// The secrets that manifests may let handlers see.
    pub visible: BTreeSet<String>,
}

/// Connects runs with the broker. Clones share its process.
#[derive(Clone)]
pub struct Broker(Arc<Shared>);

struct Shared {
    reach: Reach,
    secrets: Secrets,
    spawner: Spawner,
    runtime: Handle,
    running: Mutex<Option<Running>>,
    /// Never locked while the broker starts.
    reports: Mutex<Reports>,
    /// Until when runs may send requests whose passes say so.
    lifeline: OnceLock<Arc<Lifeline>>,
}

/// A process of the broker. It ends when this is dropped.
struct Running {
    control: Arc<OwnedFd>,
    /// The SHA-256 of the file of certificates that it got.
    authorities: Option<[u8; 32]>,
    child: Arc<Child>,
}

impl Broker {
    /// Returns a broker that `spawner` will start. Its errors are logged on the runtime in which this is called.
    pub(crate) fn new(reach: Reach, spawner: Spawner) -> Self {
        Self(Arc::new(Shared {
            secrets: Secrets::new(reach.secrets.clone()),
            reach,
            spawner,
            runtime: Handle::current(),
            running: Mutex::default(),
            reports: Mutex::default(),
            lifeline: OnceLock::new(),
        }))
    }

    /// Has requests end with `lifeline` whose passes say so.
    pub(crate) fn end_with(&self, lifeline: Arc<Lifeline>) {
        // There is one for each host.
        let _ = self.0.lifeline.set(lifeline);
    }

    /// Begins the record of the requests of an attempt that started at `started_at`. Returns its number.
    pub(crate) fn record(&self, started_at: Time, attempt: &Context) -> u64 {
        self.0.reports.lock().begin(started_at, attempt)
    }

    /// Tells `watch` of all requests that end from now on.
    pub(crate) fn watch(&self, watch: Arc<dyn RequestWatch>) {
        self.0.reports.lock().watch(watch);
    }

    /// Ends a record. Has all requests whose answers a cell has got.
    pub(crate) fn recorded(&self, now: Time, number: u64) -> Requests {
        self.0.reports.lock().end(now, number)
    }

    /// Returns what requests may reach.
    pub fn reach(&self) -> &Reach {
        &self.0.reach
    }

    /// Returns the secrets of the configuration.
    pub fn secrets(&self) -> &Secrets {
        &self.0.secrets
    }

    /// Opens a socket over which a run may send requests. Blocks while the broker starts.
    pub(crate) fn open(&self, mut pass: Pass) -> io::Result<OwnedFd> {
        let (ours, theirs) = UnixStream::pair()?;
        if let Some(report_as) = &mut pass.report_as
            && pass.trace.is_some_and(|trace| trace.is_sampled)
            && self.0.reports.lock().have_spans()
        {
            report_as.first_span = Some(ids::span());
        }
        let over = self.0.reports.lock().over();
        let message = encode(&ToBroker::Run { pass, over })?;
        let mut running = self.0.running.lock();
        if let Some(running) = &*running
            && send(&running.control, &message, &[theirs.as_fd()]).is_ok()
        {
            return Ok(ours.into());
        }
        // It has ended, or does not read.
        let started = self.0.start()?;
        send(&started.control, &message, &[theirs.as_fd()])?;
        self.follow(&started);
        *running = Some(started);
        Ok(ours.into())
    }
}

impl Broker {
    /// Returns whether there are files to read again.
    pub(crate) fn has_files(&self) -> bool {
        let mut sources = self.0.reach.secrets.values();
        self.0.reach.authorities.is_some()
            || sources.any(|source| matches!(source, SecretSource::File(_)))
    }

    /// Reads the files of secrets and of certificates again, and tells the broker what has changed. Says again what is
    /// wrong with them if a caller `asks`. Blocks.
    pub(crate) fn reload(&self, asks: bool) {
        let changed = self.0.secrets.reload(asks);
        let mut running = self.0.running.lock();
        let Some(running) = &mut *running else {
            // The next one gets what there is then.
            return;
        };
        for Secret { name, value } in changed {
            running.notify(&ToBroker::Secret { name, value }, &[]);
        }
        if let Some(path) = &self.0.reach.authorities {
            running.trust(path, asks);
        }
    }

    /// Reads what a new broker reports, until it ends. Kills it if it gives no sign of life.
    fn follow(&self, started: &Running) {
        let (shared, control) = (Arc::clone(&self.0), Arc::clone(&started.control));
        let child = Arc::downgrade(&started.child);
        shared.reports.lock().follow(&control);
        let reading = async move {
            // SAFETY: the descriptor is owned, and stays open and the same until the last share of it is dropped.
            let control = unsafe { AsyncFd::register_with_interest(control, Interest::READABLE) }?;
            let mut unanswered = 0;
            loop {
                let Ok(readable) = timeout(PING_EVERY, control.readable()).await else {
                    if unanswered == UNANSWERED_MAX
                        && let Some(child) = child.upgrade()
                    {
                        tracing::error!(
                            "the broker hangs; killing it; it starts again when needed"
                        );
                        // It may have ended.
                        let _ = child.start_kill();
                    }
                    unanswered += 1;
                    ping(control.get_ref());
                    continue;
                };
                let mut readable = readable?;
                unanswered = 0;
                let read = shared.reports.lock().read(control.get_ref());
                match read {
                    ReadEnd::More => {}
                    ReadEnd::Empty => readable.clear_ready(),
                    ReadEnd::Closed => return io::Result::Ok(()),
                }
            }
        };
        self.0.runtime.spawn(async move {
            if let Err(error) = reading.await {
                tracing::error!(%error, "cannot read what the broker reports");
            }
        });
    }
}

impl Running {
    /// Passes on the file of certificates if it has changed.
    fn trust(&mut self, path: &Path, asks: bool) {
        match digest(path) {
            Ok((_, digest)) if Some(digest) == self.authorities => {}
            Ok((file, digest)) => {
                self.authorities = Some(digest);
                tracing::info!(path = %path.display(), "the certificates of authorities have changed");
                self.notify(&ToBroker::Authorities, &[file.as_fd()]);
            }
            Err(error) => {
                if self.authorities.take().is_some() || asks {
                    let path = path.display();
                    tracing::error!(%path, %error, "cannot read the certificates of authorities");
                }
            }
        }
    }

    fn notify(&self, message: &ToBroker, fds: &[BorrowedFd<'_>]) {
        let sent = encode(message).and_then(|bytes| send(&self.control, &bytes, fds));
        if let Err(error) = sent {
            // It has ended, or the next run notices that it does not read.
            tracing::warn!(%error, "cannot send the broker a changed file or secret");
        }
    }
}

/// Opens a file of certificates. Returns it with the SHA-256 of its content.
fn digest(path: &Path) -> io::Result<(File, [u8; 32])> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(AUTHORITIES_BYTES_MAX)
        .read_to_end(&mut bytes)?;
    Ok((File::open(path)?, Sha256::digest(&bytes).into()))
}

impl Shared {
    fn start(&self) -> io::Result<Running> {
        let reach = &self.reach;
        let (control, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        set_socket_timeout(&control, Timeout::Send, Some(SEND_TIMEOUT))?;
        let mut words = vec!["egress".to_owned(), format!("--fd={CONTROL_FD}")];
        words.extend(reach.networks.iter().map(|it| format!("--network={it}")));
        words.extend(
            reach
                .nameservers
                .iter()
                .map(|it| format!("--nameserver={it}")),
        );
        let (mut handed, mut authorities) = (vec![theirs], None);
        if let Some(path) = &reach.authorities {
            words.push(format!("--authorities={AUTHORITIES_FD}"));
            let open = digest(path);
            let (file, digest) =
                open.map_err(|error| unreadable(&path.display().to_string(), &error))?;
            handed.push(file.into());
            authorities = Some(digest);
        }
        if let Some(lifeline) = self.lifeline.get() {
            let has_authorities = i32::from(authorities.is_some());
            words.push(format!("--lifeline={}", AUTHORITIES_FD + has_authorities));
            handed.push(lifeline.as_fd().try_clone_to_owned()?);
        }
        let mut child = self.spawner.spawn_broker(words, handed)?;
        if let Some(errors) = child.stderr.take() {
            self.runtime.spawn(stderr::log("egress", errors));
        }
        for name in self.secrets.names() {
            // Requests that need one without a value say that it is missing.
            if let Some(value) = self.secrets.value(name) {
                let name = name.clone();
                send(&control, &encode(&ToBroker::Secret { name, value })?, &[])?;
            }
        }
        tracing::info!("the broker sends requests of handlers");
        Ok(Running {
            control: Arc::new(control),
            authorities,
            child: Arc::new(child),
        })
    }
}

fn unreadable(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot read {what}: {error}"))
}

fn encode(message: &ToBroker) -> io::Result<Vec<u8>> {
    postcard::to_stdvec(message).map_err(io::Error::other)
}

/// Asks for a sign of life. If that cannot be sent, it counts as unanswered.
fn ping(control: &OwnedFd) {
    if let Ok(message) = encode(&ToBroker::Ping) {
        let mut no_fds = SendAncillaryBuffer::default();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        // Without an answer, the broker gives up.
        let _ = sendmsg(control, &[IoSlice::new(&message)], &mut no_fds, flags);
    }
}

/// Sends one packet, with descriptors. Blocks for at most [`SEND_TIMEOUT`].
fn send(control: &OwnedFd, message: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    let bytes = [IoSlice::new(message)];
    sendmsg(control, &bytes, &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}
