//! The broker's process from the host's side. It is started for the first run that may send requests, and again
//! after it has ended. It holds the secrets; the host only passes them on.

mod reports;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice, Read as _};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use host_core::egress::{Pass, SECRET_BYTES_MAX, ToBroker};
use host_core::http_grant::OriginPattern;
use host_core::requests::Requests;
use host_core::time::Time;
use ipnet::IpNet;
use parking_lot::Mutex;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;

use self::reports::{Read, Reports};
use crate::sandbox::child::Child;
use crate::sandbox::spawn::Spawner;
use crate::sandbox::stderr;

/// The descriptor of the broker's end of the socket.
const CONTROL_FD: i32 = 3;

/// The descriptor of the file of certificates.
const AUTHORITIES_FD: i32 = 4;

/// How long the broker may leave a message unread.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

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

/// What requests of guests may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// The servers that manifests may name.
    pub origins: Vec<OriginPattern>,
    /// Networks besides public ones.
    pub networks: Vec<IpNet>,
    /// The DNS servers; those of the system if empty.
    pub nameservers: Vec<SocketAddr>,
    /// A file with certificates of authorities to trust besides those of the system.
    pub authorities: Option<PathBuf>,
    pub secrets: BTreeMap<String, SecretSource>,
}

/// Connects runs with the broker. Clones share its process.
#[derive(Clone)]
pub struct Broker(Arc<Shared>);

struct Shared {
    reach: Reach,
    spawner: Spawner,
    runtime: Handle,
    running: Mutex<Option<Running>>,
    /// Never locked while the broker starts.
    reports: Mutex<Reports>,
}

/// A process of the broker. It ends when this is dropped.
struct Running {
    control: Arc<OwnedFd>,
    _child: Child,
}

impl Broker {
    /// Returns a broker that `spawner` will start. Its errors are logged on the runtime in which this is called.
    pub(crate) fn new(reach: Reach, spawner: Spawner) -> Self {
        Self(Arc::new(Shared {
            reach,
            spawner,
            runtime: Handle::current(),
            running: Mutex::default(),
            reports: Mutex::default(),
        }))
    }

    /// Begins the record of the requests of an attempt that started at `started_at`. Returns its number.
    pub(crate) fn record(&self, started_at: Time) -> u64 {
        self.0.reports.lock().begin(started_at)
    }

    /// Ends a record. Has all requests whose answers a cell has got.
    pub(crate) fn recorded(&self, now: Time, number: u64) -> Requests {
        self.0.reports.lock().end(now, number)
    }

    /// Returns what requests may reach.
    pub fn reach(&self) -> &Reach {
        &self.0.reach
    }

    /// Opens a socket over which a run may send requests. Blocks while the broker starts.
    pub(crate) fn open(&self, pass: Pass) -> io::Result<OwnedFd> {
        let (ours, theirs) = UnixStream::pair()?;
        let message = encode(&ToBroker::Run(pass))?;
        let mut running = self.0.running.lock();
        if let Some(running) = &*running
            && send(&running.control, &message, &[theirs.as_fd()]).is_ok()
        {
            return Ok(ours.into());
        }
        // It has ended, or does not read.
        let started = self.0.start()?;
        send(&started.control, &message, &[theirs.as_fd()])?;
        self.follow(&started.control);
        *running = Some(started);
        Ok(ours.into())
    }
}

impl Broker {
    /// Reads what a new broker reports, until it ends.
    fn follow(&self, control: &Arc<OwnedFd>) {
        let (shared, control) = (Arc::clone(&self.0), Arc::clone(control));
        shared.reports.lock().follow(&control);
        let reading = async move {
            // SAFETY: the descriptor is owned, and stays open and the same until the last share of it is dropped.
            let control = unsafe { AsyncFd::register_with_interest(control, Interest::READABLE) }?;
            loop {
                let mut readable = control.readable().await?;
                let read = shared.reports.lock().read(control.get_ref());
                match read {
                    Read::More => {}
                    Read::Empty => readable.clear_ready(),
                    Read::Closed => return io::Result::Ok(()),
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
        let mut handed = vec![theirs];
        if let Some(path) = &reach.authorities {
            words.push(format!("--authorities={AUTHORITIES_FD}"));
            let open = File::open(path);
            let open = open.map_err(|error| unreadable(&path.display().to_string(), &error))?;
            handed.push(open.into());
        }
        let mut child = self.spawner.spawn_broker(words, handed)?;
        if let Some(errors) = child.stderr.take() {
            self.runtime.spawn(stderr::log("egress", errors));
        }
        for (name, source) in &reach.secrets {
            match value(source) {
                Ok(value) => {
                    let name = name.clone();
                    send(&control, &encode(&ToBroker::Secret { name, value })?, &[])?;
                }
                // Requests that need it say that it is missing.
                Err(error) => tracing::error!(secret = name, %error, "cannot read a secret"),
            }
        }
        tracing::info!("the broker sends requests of handlers");
        Ok(Running {
            control: Arc::new(control),
            _child: child,
        })
    }
}

fn unreadable(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot read {what}: {error}"))
}

/// Reads the value of a secret.
fn value(source: &SecretSource) -> io::Result<String> {
    let path = match source {
        SecretSource::Value(value) => return Ok(value.clone()),
        SecretSource::File(path) => path,
    };
    let mut value = String::new();
    let limit = SECRET_BYTES_MAX as u64 + 1;
    File::open(path)?.take(limit).read_to_string(&mut value)?;
    if value.len() > SECRET_BYTES_MAX {
        let message = format!("it has more than {SECRET_BYTES_MAX} bytes");
        return Err(io::Error::other(message));
    }
    value.truncate(value.trim_end_matches(['\r', '\n']).len());
    Ok(value)
}

fn encode(message: &ToBroker) -> io::Result<Vec<u8>> {
    postcard::to_stdvec(message).map_err(io::Error::other)
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
