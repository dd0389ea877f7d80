//! The broker: what all runs share, and the conversation with the host.

mod reports;
mod run;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use host_confine::Lifeline;
use host_core::egress::{
    BODY_BYTES_MAX, CONTROL_BYTES_MAX, HttpError, HttpRequest, Pass, ToBroker,
};
use host_core::http_grant::RESPONSE_KIB_MAX;
use host_core::requests::RequestTarget;
use host_core::trace::Parent;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use rustls::RootCertStore;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::task::spawn_local;

use self::reports::Reports;
use crate::allowance::Attempts;
use crate::client::{Clients, HttpClient};
use crate::oauth::Tokens;
use crate::permit::Permit;
use crate::policy::{self, Order};
use crate::secrets::Secrets;
use crate::tcp::{Connections, GrantPlace, Session};
use crate::trust;

/// The most concurrent requests of one handler, over all its runs.
const HANDLER_AT_ONCE_MAX: usize = 128;

/// The most concurrent requests of one component, over all its handlers. Each has a connection.
const COMPONENT_AT_ONCE_MAX: usize = 256;

/// How much bodies may take in memory, all together, in KiB.
const BODIES_KIB_MAX: usize = 256 << 10;

/// How much of that the bodies of one component may take, in KiB, so that it leaves room for others.
const COMPONENT_KIB_MAX: usize = BODIES_KIB_MAX / 8;

// One request must fit.
const _: () = assert!(COMPONENT_KIB_MAX >= (BODY_BYTES_MAX >> 10) + RESPONSE_KIB_MAX as usize);

/// How many users of [`Shares`] are kept before those that use nothing are forgotten.
const SHARES_KEPT: usize = 1_024;

/// Why the kernel has left out what came with a message.
const NO_DESCRIPTOR: &str = "this process has reached its limit of open files";

/// What each of several users may use at a time.
struct Shares {
    each: usize,
    by_user: RefCell<HashMap<(String, String), Weak<Semaphore>>>,
}

impl Shares {
    fn new(each: usize) -> Self {
        Self {
            each,
            by_user: RefCell::default(),
        }
    }

    /// Waits until a user may use so much more. Cancel safe.
    async fn take(&self, user: (&str, &str), count: u32) -> Option<OwnedSemaphorePermit> {
        let semaphore = {
            let mut by_user = self.by_user.borrow_mut();
            if by_user.len() >= SHARES_KEPT {
                by_user.retain(|_, semaphore| semaphore.strong_count() > 0);
            }
            let known = by_user
                .entry((user.0.to_owned(), user.1.to_owned()))
                .or_default();
            known.upgrade().unwrap_or_else(|| {
                let new = Arc::new(Semaphore::new(self.each));
                *known = Arc::downgrade(&new);
                new
            })
        };
        // It is never closed.
        semaphore.acquire_many_owned(count).await.ok()
    }
}

/// The state that all runs share.
pub(crate) struct Broker {
    secrets: RefCell<Secrets>,
    pub(crate) tokens: Tokens,
    /// The authorities of this system.
    system: RootCertStore,
    clients: RefCell<Clients>,
    attempts: Attempts,
    /// The concurrent requests of each handler, by component and name.
    handlers: Shares,
    /// The concurrent requests of each component.
    components: Shares,
    /// The concurrent connections of each component.
    connections: Shares,
    sockets: Connections,
    bodies: Semaphore,
    /// The bodies of each component, in KiB.
    component_bodies: Shares,
    reports: Reports,
    /// Until when requests may be sent whose passes say so.
    lifeline: Option<Arc<Lifeline>>,
}

impl Broker {
    /// Makes the broker of the host at the other end of `control`.
    pub(crate) fn new(
        clients: Clients,
        system: RootCertStore,
        control: OwnedFd,
        lifeline: Option<Lifeline>,
    ) -> io::Result<Self> {
        Ok(Self {
            secrets: RefCell::default(),
            tokens: Tokens::default(),
            system,
            clients: RefCell::new(clients),
            attempts: Attempts::default(),
            handlers: Shares::new(HANDLER_AT_ONCE_MAX),
            components: Shares::new(COMPONENT_AT_ONCE_MAX),
            connections: Shares::new(COMPONENT_AT_ONCE_MAX),
            sockets: Connections::new(),
            bodies: Semaphore::new(BODIES_KIB_MAX),
            component_bodies: Shares::new(COMPONENT_KIB_MAX),
            reports: Reports::new(control)?,
            lifeline: lifeline.map(Arc::new),
        })
    }

    /// Lets a run with this pass send as long as its cell keeps the other end of `socket`. The error says why it cannot.
    pub(crate) fn permit(&self, pass: &Pass, socket: UnixStream) -> Result<Permit, &'static str> {
        if pass.has_lifeline && self.lifeline.is_none() {
            return Err("the host has passed no lifeline");
        }
        let lifeline = self.lifeline.clone().filter(|_| pass.has_lifeline);
        Ok(Permit::new(socket, lifeline))
    }

    pub(crate) fn decide(
        &self,
        pass: &Pass,
        request: HttpRequest,
        trace: Option<Parent>,
        asked: &mut RequestTarget,
    ) -> Result<Order, HttpError> {
        policy::decide(pass, &self.secrets.borrow(), request, trace, asked)
    }

    /// Returns the client of the run's revision.
    pub(crate) fn client(&self, pass: &Pass) -> HttpClient {
        let revision = (pass.component.clone(), pass.revision);
        self.clients.borrow_mut().get(&revision)
    }

    /// Waits until the component and the grant have fewer connections than they may, and opens one. Cancel safe.
    pub(crate) async fn connect(
        &self,
        pass: &Pass,
        place: GrantPlace,
        permit: &Arc<Permit>,
    ) -> Result<Session, HttpError> {
        let share = self.connections.take((&pass.component, ""), 1).await;
        let opener = self.clients.borrow_mut().opener(&pass.component);
        let session = self
            .sockets
            .open(pass, place, &self.secrets, opener, permit)
            .await;
        session.map(|session| session.with_share(share))
    }

    /// Waits until the handler and its component have fewer concurrent requests than they may, and until bodies of `bytes`
    /// fit into memory. Cancel safe.
    pub(crate) async fn enter(&self, pass: &Pass, bytes: usize) -> Entered<'_> {
        Entered {
            _handler: self
                .handlers
                .take((&pass.component, &pass.handler), 1)
                .await,
            _component: self.components.take((&pass.component, ""), 1).await,
            _room: self.room(pass, bytes).await,
        }
    }

    /// Waits until bodies or rows of `bytes` fit into memory. Cancel safe.
    pub(crate) async fn room(&self, pass: &Pass, bytes: usize) -> Room<'_> {
        let kib = u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX);
        Room {
            _component: self.component_bodies.take((&pass.component, ""), kib).await,
            // It is never closed.
            _all: self.bodies.acquire_many(kib).await.ok(),
        }
    }
}

/// Memory that bodies or rows may take, until this is dropped.
pub(crate) struct Room<'a> {
    _component: Option<OwnedSemaphorePermit>,
    _all: Option<SemaphorePermit<'a>>,
}

/// What a request takes of what all share, until it is dropped.
pub(crate) struct Entered<'a> {
    _handler: Option<OwnedSemaphorePermit>,
    _component: Option<OwnedSemaphorePermit>,
    _room: Room<'a>,
}

/// Serves the host until it closes the socket.
pub(crate) async fn serve(broker: Broker) -> io::Result<()> {
    let broker = Rc::new(broker);
    let mut buffer = vec![0; CONTROL_BYTES_MAX];
    loop {
        let mut readable = broker.reports.control().readable().await?;
        let received = readable.try_io(|control| receive(control.get_ref(), &mut buffer));
        let Ok(received) = received else { continue };
        let (bytes, mut fds) = received?;
        if bytes == 0 {
            return Ok(());
        }
        let message = postcard::from_bytes(&buffer[..bytes]);
        match message.map_err(io::Error::other)? {
            ToBroker::Secret { name, value } => {
                broker.secrets.borrow_mut().set(name, value);
                broker.tokens.expire();
            }
            ToBroker::Authorities => {
                let tls = match fds.pop() {
                    Some(file) => trust::tls(&broker.system, Some(file)),
                    None => Err(format!(
                        "cannot read the certificates of egress.ca_file: {NO_DESCRIPTOR}"
                    )),
                };
                match tls {
                    Ok(tls) => broker.clients.borrow_mut().trust(tls),
                    Err(error) => {
                        host_confine::report(format_args!("{error}; the old ones stay in use"));
                    }
                }
            }
            ToBroker::Ping => broker.reports.alive(),
            ToBroker::Run { pass, over } => {
                broker.attempts.end(&over);
                match fds.pop() {
                    Some(socket) => {
                        let socket = UnixStream::from(socket);
                        spawn_local(run::serve(Rc::clone(&broker), pass, socket));
                    }
                    // Its requests fail as if the broker had ended.
                    None => host_confine::report(format_args!(
                        "cannot serve a run of {}: {NO_DESCRIPTOR}",
                        pass.handler
                    )),
                }
            }
        }
    }
}

/// Receives one message and its descriptors.
fn receive(control: &OwnedFd, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut room = [IoSliceMut::new(buffer)];
    let received = recvmsg(control, &mut room, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Err(io::Error::other("a message of the host is too long"));
    }
    Ok((received.bytes, fds))
}
