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

use host_core::egress::{CONTROL_BYTES_MAX, HttpError, HttpRequest, Pass, ToBroker};
use host_core::requests::Asked;
use host_core::trace::Parent;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use rustls::RootCertStore;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::task::spawn_local;

use self::reports::Reports;
use crate::client::{Clients, HttpClient, Revision};
use crate::policy::{self, Order, Secrets};
use crate::trust;

/// The most requests of one handler at once, over all its runs.
const HANDLER_AT_ONCE_MAX: usize = 128;

/// How many handlers are counted before those without requests are forgotten.
const HANDLERS_KEPT: usize = 1_024;

/// How much bodies may take in memory, all together, in KiB.
const BODIES_KIB_MAX: usize = 256 << 10;

/// What all runs share.
pub(crate) struct Broker {
    secrets: RefCell<Secrets>,
    /// The authorities of this system.
    system: RootCertStore,
    clients: RefCell<Clients>,
    /// The requests at once of each handler, by component and name.
    handlers: RefCell<HashMap<(String, String), Weak<Semaphore>>>,
    bodies: Semaphore,
    reports: Reports,
}

impl Broker {
    /// Makes the broker of the host at the other end of `control`.
    pub(crate) fn new(
        clients: Clients,
        system: RootCertStore,
        control: OwnedFd,
    ) -> io::Result<Self> {
        Ok(Self {
            secrets: RefCell::default(),
            system,
            clients: RefCell::new(clients),
            handlers: RefCell::default(),
            bodies: Semaphore::new(BODIES_KIB_MAX),
            reports: Reports::new(control)?,
        })
    }

    pub(crate) fn decide(
        &self,
        pass: &Pass,
        request: HttpRequest,
        trace: Option<Parent>,
        asked: &mut Asked,
    ) -> Result<Order, HttpError> {
        policy::decide(pass, &self.secrets.borrow(), request, trace, asked)
    }

    pub(crate) fn client(&self, revision: &Revision) -> HttpClient {
        self.clients.borrow_mut().of(revision)
    }

    /// Waits until the handler has fewer requests at once than it may. Cancel safe.
    pub(crate) async fn enter(&self, pass: &Pass) -> Option<OwnedSemaphorePermit> {
        let semaphore = {
            let mut handlers = self.handlers.borrow_mut();
            if handlers.len() >= HANDLERS_KEPT {
                handlers.retain(|_, semaphore| semaphore.strong_count() > 0);
            }
            let key = (pass.component.clone(), pass.handler.clone());
            let known = handlers.entry(key).or_default();
            known.upgrade().unwrap_or_else(|| {
                let new = Arc::new(Semaphore::new(HANDLER_AT_ONCE_MAX));
                *known = Arc::downgrade(&new);
                new
            })
        };
        // It is never closed.
        semaphore.acquire_owned().await.ok()
    }

    /// Waits until bodies of `bytes` fit into memory. Cancel safe.
    pub(crate) async fn reserve(&self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        let kib = u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX);
        self.bodies.acquire_many(kib).await.ok()
    }
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
                broker.secrets.borrow_mut().insert(name, value);
            }
            ToBroker::Authorities => match trust::tls(&broker.system, fds.pop()) {
                Ok(tls) => broker.clients.borrow_mut().trust(tls),
                Err(error) => eprintln!("{error}; the old ones stay in use"),
            },
            ToBroker::Run(pass) => {
                let socket = fds.pop().map(UnixStream::from);
                let socket =
                    socket.ok_or_else(|| io::Error::other("a run came without its socket"))?;
                spawn_local(run::serve(Rc::clone(&broker), pass, socket));
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
