//! `wasi:sockets`: connections to the servers that the manifest grants. The broker opens them; the guest sees addresses that
//! mean something in its own run only, and whose names are those of its grants. Nothing listens, and there is no UDP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::vec;

use host_core::egress::{HttpError, HttpErrorKind};
use host_core::tcp_grant::Endpoint;
use tokio::net::UnixStream;
use tokio::sync::oneshot::{self, error::TryRecvError};
use wasmtime::Result;
use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::bindings::sockets::network::{
    ErrorCode, IpAddress, IpAddressFamily, IpSocketAddress, Network,
};
use wasmtime_wasi::p2::bindings::sockets::tcp::{ShutdownType, TcpSocket};
use wasmtime_wasi::p2::bindings::sockets::{
    instance_network, ip_name_lookup, network, tcp, tcp_create_socket,
};
use wasmtime_wasi::p2::{
    DynInputStream, DynOutputStream, DynPollable, Pollable, SocketError, SocketResult, subscribe,
};
use wasmtime_wasi::runtime::{AbortOnDropJoinHandle, spawn};

use self::streams::Streams;
use crate::context::Guest;
use crate::limits::MemoryCharge;

mod streams;

/// The memory of a connection's buffers, in bytes.
const CONNECTION_BYTES: usize = 256 << 10;

/// A resource that the linker takes for another type: guests only get numbers, and each number is looked up as what it is.
fn own<T, As>(table: &mut ResourceTable, value: T) -> SocketResult<Resource<As>>
where
    T: Send + 'static,
    As: 'static,
{
    Ok(Resource::new_own(table.push(value)?.rep()))
}

/// The network of a guest.
struct OwnNetwork;

/// A socket of a guest.
struct Socket {
    family: IpAddressFamily,
    stage: Stage,
    /// The memory that its buffers take.
    #[expect(dead_code, reason = "it gives the memory back")]
    memory: MemoryCharge,
}

enum Stage {
    New,
    Connecting {
        to: SocketAddr,
        opened: oneshot::Receiver<Result<UnixStream, HttpError>>,
        task: AbortOnDropJoinHandle<()>,
    },
    Answered {
        to: SocketAddr,
        opened: Result<UnixStream, HttpError>,
    },
    Connected {
        to: SocketAddr,
        streams: Streams,
    },
    Failed,
}

/// The addresses of a name that are still to come.
struct Addresses(vec::IntoIter<IpAddr>);

#[async_trait]
impl Pollable for Socket {
    async fn ready(&mut self) {
        if let Stage::Connecting { to, opened, .. } = &mut self.stage {
            let (to, opened) = (*to, opened.await.unwrap_or_else(|_| Err(gone())));
            self.stage = Stage::Answered { to, opened };
        }
    }
}

#[async_trait]
impl Pollable for Addresses {
    async fn ready(&mut self) {}
}

fn gone() -> HttpError {
    HttpError::new(HttpErrorKind::Unavailable, "the broker has ended")
}

/// Returns the different names of the servers, in their order.
fn names(servers: &[Endpoint]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for server in servers {
        if !names.contains(&server.host()) {
            names.push(server.host());
        }
    }
    names
}

/// Returns the address in this run of the name at `place`: one of 100.64.0.0/10, which no server has.
fn address(place: usize) -> Option<IpAddr> {
    let number = u16::try_from(place + 1).ok()?;
    let [high, low] = number.to_be_bytes();
    Some(Ipv4Addr::new(100, 64, high, low).into())
}

/// Returns the addresses of a name that a grant has.
fn resolve(servers: &[Endpoint], name: &str) -> Option<IpAddr> {
    if let Ok(literal) = name.trim_start_matches('[').trim_end_matches(']').parse() {
        return Some(literal);
    }
    let lower = name.trim_end_matches('.').to_ascii_lowercase();
    let place = names(servers).into_iter().position(|it| it == lower)?;
    address(place)
}

/// Returns the place of the grant for an address and a port. The error is the sentence for the log.
fn grant(servers: &[Endpoint], to: SocketAddr) -> Result<u32, String> {
    let literal = match to.ip() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    let named = names(servers).into_iter().enumerate();
    let known = named.filter(|(place, _)| address(*place) == Some(to.ip()));
    let host = known.map(|(_, name)| name).next().unwrap_or(&literal);
    let is_granted = |server: &Endpoint| server.host() == host && server.port() == to.port();
    let place = servers.iter().position(is_granted);
    place.and_then(|it| u32::try_from(it).ok()).ok_or_else(|| {
        let port = to.port();
        format!(
            "the manifest grants this handler no connection to {host}:{port}; add [[handlers.NAME.tcp]] with to = \
             \"{host}:{port}\" to it, and the server to grants.tcp of the host"
        )
    })
}

impl Guest {
    /// Writes why to the log of the job, and returns the code that the guest gets.
    fn refuse(&mut self, error: &HttpError) -> SocketError {
        self.egress.warnings().add(error);
        code(error.kind).into()
    }

    /// Does so for a server that no grant has, unless it may be one of HTTP: libraries look up names and try to connect before
    /// they send a request in another way.
    fn refuse_unknown(&mut self, kind: HttpErrorKind, message: String) -> SocketError {
        if self.egress.may_request() {
            return code(kind).into();
        }
        self.refuse(&HttpError::new(kind, message))
    }
}

const fn code(kind: HttpErrorKind) -> ErrorCode {
    match kind {
        HttpErrorKind::NotGranted
        | HttpErrorKind::AddressNotAllowed
        | HttpErrorKind::CertificateRefused
        | HttpErrorKind::LoginRefused => ErrorCode::AccessDenied,
        HttpErrorKind::NameNotFound => ErrorCode::NameUnresolvable,
        HttpErrorKind::ConnectionRefused => ErrorCode::ConnectionRefused,
        HttpErrorKind::TimedOut => ErrorCode::Timeout,
        HttpErrorKind::LimitReached => ErrorCode::NewSocketLimit,
        HttpErrorKind::InvalidRequest
        | HttpErrorKind::RequestTooLarge
        | HttpErrorKind::ResponseIncomplete
        | HttpErrorKind::ResponseEncoded
        | HttpErrorKind::Unreachable
        | HttpErrorKind::TooLarge
        | HttpErrorKind::StatementRefused
        | HttpErrorKind::Unavailable => ErrorCode::RemoteUnreachable,
    }
}

impl network::Host for Guest {
    fn convert_error_code(&mut self, error: SocketError) -> Result<ErrorCode> {
        error.downcast()
    }

    fn network_error_code(&mut self, _: Resource<wasmtime::Error>) -> Result<Option<ErrorCode>> {
        Ok(None)
    }
}

impl network::HostNetwork for Guest {
    fn drop(&mut self, network: Resource<Network>) -> Result<()> {
        let (_, table) = self.socket_parts();
        table.delete(Resource::<OwnNetwork>::new_own(network.rep()))?;
        Ok(())
    }
}

impl instance_network::Host for Guest {
    fn instance_network(&mut self) -> Result<Resource<Network>> {
        let (_, table) = self.socket_parts();
        Ok(Resource::new_own(table.push(OwnNetwork)?.rep()))
    }
}

impl ip_name_lookup::Host for Guest {
    fn resolve_addresses(
        &mut self,
        _: Resource<Network>,
        name: String,
    ) -> SocketResult<Resource<ip_name_lookup::ResolveAddressStream>> {
        let Some(address) = resolve(self.egress.servers(), &name) else {
            // Libraries also look up the name of this machine, which is not a host name.
            if format!("{name}:1").parse::<Endpoint>().is_err() {
                return Err(ErrorCode::NameUnresolvable.into());
            }
            let shown: String = name.chars().take(253).collect();
            let message = format!(
                "the manifest grants this handler no connection to {shown}; add [[handlers.NAME.tcp]] with to = \
                 \"{shown}:PORT\" to it, and the server to grants.tcp of the host"
            );
            return Err(self.refuse_unknown(HttpErrorKind::NameNotFound, message));
        };
        let (_, table) = self.socket_parts();
        own(table, Addresses(vec![address].into_iter()))
    }
}

impl ip_name_lookup::HostResolveAddressStream for Guest {
    fn resolve_next_address(
        &mut self,
        stream: Resource<ip_name_lookup::ResolveAddressStream>,
    ) -> SocketResult<Option<IpAddress>> {
        let (_, table) = self.socket_parts();
        let addresses = table.get_mut(&Resource::<Addresses>::new_borrow(stream.rep()))?;
        Ok(addresses.0.next().map(IpAddress::from))
    }

    fn subscribe(
        &mut self,
        stream: Resource<ip_name_lookup::ResolveAddressStream>,
    ) -> Result<Resource<DynPollable>> {
        let (_, table) = self.socket_parts();
        subscribe(table, Resource::<Addresses>::new_borrow(stream.rep()))
    }

    fn drop(&mut self, stream: Resource<ip_name_lookup::ResolveAddressStream>) -> Result<()> {
        let (_, table) = self.socket_parts();
        table.delete(Resource::<Addresses>::new_own(stream.rep()))?;
        Ok(())
    }
}

impl tcp_create_socket::Host for Guest {
    fn create_tcp_socket(&mut self, family: IpAddressFamily) -> SocketResult<Resource<TcpSocket>> {
        let (egress, table) = self.socket_parts();
        let mut memory = MemoryCharge::nothing(egress.memory());
        memory
            .add(CONNECTION_BYTES)
            .map_err(|_| ErrorCode::OutOfMemory)?;
        let stage = Stage::New;
        let socket = Socket {
            family,
            stage,
            memory,
        };
        own(table, socket)
    }
}

impl Guest {
    fn socket(&mut self, this: &Resource<TcpSocket>) -> SocketResult<&mut Socket> {
        let (_, table) = self.socket_parts();
        Ok(table.get_mut(&Resource::<Socket>::new_borrow(this.rep()))?)
    }
}

impl tcp::Host for Guest {}

impl tcp::HostTcpSocket for Guest {
    async fn start_bind(
        &mut self,
        _: Resource<TcpSocket>,
        _: Resource<Network>,
        _: IpSocketAddress,
    ) -> SocketResult<()> {
        Ok(())
    }

    fn finish_bind(&mut self, _: Resource<TcpSocket>) -> SocketResult<()> {
        Ok(())
    }

    fn start_connect(
        &mut self,
        this: Resource<TcpSocket>,
        _: Resource<Network>,
        remote_address: IpSocketAddress,
    ) -> SocketResult<()> {
        let to = SocketAddr::from(remote_address);
        if !matches!(self.socket(&this)?.stage, Stage::New) {
            return Err(ErrorCode::InvalidState.into());
        }
        let granted = grant(self.egress.servers(), to);
        let grant =
            granted.map_err(|message| self.refuse_unknown(HttpErrorKind::NotGranted, message))?;
        let linked = self.egress.link();
        let link = linked.map_err(|error| self.refuse(&error))?;
        let (sender, opened) = oneshot::channel();
        let task = spawn(async move {
            // The guest may have given up.
            let _ = sender.send(link.connect(grant).await);
        });
        self.socket(&this)?.stage = Stage::Connecting { to, opened, task };
        Ok(())
    }

    fn finish_connect(
        &mut self,
        this: Resource<TcpSocket>,
    ) -> SocketResult<(Resource<DynInputStream>, Resource<DynOutputStream>)> {
        let socket = self.socket(&this)?;
        let (to, opened) = match std::mem::replace(&mut socket.stage, Stage::Failed) {
            Stage::Answered { to, opened } => (to, opened),
            Stage::Connecting {
                to,
                mut opened,
                task,
            } => match opened.try_recv() {
                Ok(opened) => (to, opened),
                Err(TryRecvError::Closed) => (to, Err(gone())),
                Err(TryRecvError::Empty) => {
                    socket.stage = Stage::Connecting { to, opened, task };
                    return Err(ErrorCode::WouldBlock.into());
                }
            },
            other @ (Stage::New | Stage::Connected { .. } | Stage::Failed) => {
                socket.stage = other;
                return Err(ErrorCode::NotInProgress.into());
            }
        };
        let stream = opened.map_err(|error| self.refuse(&error))?;
        let (streams, input, output) = Streams::new(stream);
        self.socket(&this)?.stage = Stage::Connected { to, streams };
        let (_, table) = self.socket_parts();
        let this = Resource::<Socket>::new_borrow(this.rep());
        let input = table.push_child(Box::new(input) as DynInputStream, &this)?;
        let output = table.push_child(Box::new(output) as DynOutputStream, &this)?;
        Ok((input, output))
    }

    async fn start_listen(&mut self, _: Resource<TcpSocket>) -> SocketResult<()> {
        let message = "a handler cannot listen: it may only connect to servers";
        Err(self.refuse(&HttpError::new(HttpErrorKind::NotGranted, message)))
    }

    fn finish_listen(&mut self, _: Resource<TcpSocket>) -> SocketResult<()> {
        Err(ErrorCode::NotInProgress.into())
    }

    fn accept(
        &mut self,
        _: Resource<TcpSocket>,
    ) -> SocketResult<(
        Resource<TcpSocket>,
        Resource<DynInputStream>,
        Resource<DynOutputStream>,
    )> {
        Err(ErrorCode::InvalidState.into())
    }

    fn local_address(&mut self, this: Resource<TcpSocket>) -> SocketResult<IpSocketAddress> {
        match self.socket(&this)?.stage {
            Stage::Connected { .. } => Ok(SocketAddr::from(([100, 64, 0, 0], 1)).into()),
            _ => Err(ErrorCode::InvalidState.into()),
        }
    }

    fn remote_address(&mut self, this: Resource<TcpSocket>) -> SocketResult<IpSocketAddress> {
        match self.socket(&this)?.stage {
            Stage::Connected { to, .. } => Ok(to.into()),
            _ => Err(ErrorCode::InvalidState.into()),
        }
    }

    fn is_listening(&mut self, _: Resource<TcpSocket>) -> Result<bool> {
        Ok(false)
    }

    fn address_family(&mut self, this: Resource<TcpSocket>) -> Result<IpAddressFamily> {
        let (_, table) = self.socket_parts();
        Ok(table
            .get(&Resource::<Socket>::new_borrow(this.rep()))?
            .family)
    }

    fn set_listen_backlog_size(&mut self, _: Resource<TcpSocket>, _: u64) -> SocketResult<()> {
        Err(ErrorCode::NotSupported.into())
    }

    // The broker decides about the connection. Libraries set these as a matter of course, so they may.

    fn keep_alive_enabled(&mut self, _: Resource<TcpSocket>) -> SocketResult<bool> {
        Ok(false)
    }

    fn set_keep_alive_enabled(&mut self, _: Resource<TcpSocket>, _: bool) -> SocketResult<()> {
        Ok(())
    }

    fn keep_alive_idle_time(&mut self, _: Resource<TcpSocket>) -> SocketResult<u64> {
        Err(ErrorCode::NotSupported.into())
    }

    fn set_keep_alive_idle_time(&mut self, _: Resource<TcpSocket>, _: u64) -> SocketResult<()> {
        Ok(())
    }

    fn keep_alive_interval(&mut self, _: Resource<TcpSocket>) -> SocketResult<u64> {
        Err(ErrorCode::NotSupported.into())
    }

    fn set_keep_alive_interval(&mut self, _: Resource<TcpSocket>, _: u64) -> SocketResult<()> {
        Ok(())
    }

    fn keep_alive_count(&mut self, _: Resource<TcpSocket>) -> SocketResult<u32> {
        Err(ErrorCode::NotSupported.into())
    }

    fn set_keep_alive_count(&mut self, _: Resource<TcpSocket>, _: u32) -> SocketResult<()> {
        Ok(())
    }

    fn hop_limit(&mut self, _: Resource<TcpSocket>) -> SocketResult<u8> {
        Err(ErrorCode::NotSupported.into())
    }

    fn set_hop_limit(&mut self, _: Resource<TcpSocket>, _: u8) -> SocketResult<()> {
        Ok(())
    }

    fn receive_buffer_size(&mut self, _: Resource<TcpSocket>) -> SocketResult<u64> {
        Ok(CONNECTION_BYTES as u64 / 2)
    }

    fn set_receive_buffer_size(&mut self, _: Resource<TcpSocket>, _: u64) -> SocketResult<()> {
        Ok(())
    }

    fn send_buffer_size(&mut self, _: Resource<TcpSocket>) -> SocketResult<u64> {
        Ok(CONNECTION_BYTES as u64 / 2)
    }

    fn set_send_buffer_size(&mut self, _: Resource<TcpSocket>, _: u64) -> SocketResult<()> {
        Ok(())
    }

    fn subscribe(&mut self, this: Resource<TcpSocket>) -> Result<Resource<DynPollable>> {
        let (_, table) = self.socket_parts();
        subscribe(table, Resource::<Socket>::new_borrow(this.rep()))
    }

    fn shutdown(&mut self, this: Resource<TcpSocket>, kind: ShutdownType) -> SocketResult<()> {
        match &mut self.socket(&this)?.stage {
            Stage::Connected { streams, .. } => {
                if matches!(kind, ShutdownType::Receive | ShutdownType::Both) {
                    streams.close_input();
                }
                if matches!(kind, ShutdownType::Send | ShutdownType::Both) {
                    streams.close_output();
                }
                Ok(())
            }
            _ => Err(ErrorCode::InvalidState.into()),
        }
    }

    fn drop(&mut self, this: Resource<TcpSocket>) -> Result<()> {
        let (_, table) = self.socket_parts();
        table.delete(Resource::<Socket>::new_own(this.rep()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers() -> Vec<Endpoint> {
        let texts = [
            "db.internal:5432",
            "cache:6379",
            "db.internal:5433",
            "10.1.0.7:25",
            "[fd00::7]:1",
        ];
        texts.iter().map(|it| it.parse().unwrap()).collect()
    }

    #[test]
    fn only_names_of_grants_have_addresses() {
        let servers = servers();
        let first = Some(IpAddr::from([100, 64, 0, 1]));
        for name in ["db.internal", "DB.Internal", "db.internal."] {
            assert_eq!(resolve(&servers, name), first, "{name}");
        }
        assert_eq!(
            resolve(&servers, "cache"),
            Some(IpAddr::from([100, 64, 0, 2]))
        );
        for name in ["", ".", "localhost", "internal", "db.internal.example.com"] {
            assert_eq!(resolve(&servers, name), None, "{name}");
        }
    }

    #[test]
    fn only_servers_of_grants_are_reached() {
        let servers = servers();
        for (to, place) in [
            ("100.64.0.1:5432", 0),
            ("100.64.0.2:6379", 1),
            ("100.64.0.1:5433", 2),
            ("10.1.0.7:25", 3),
            ("[fd00::7]:1", 4),
        ] {
            assert_eq!(grant(&servers, to.parse().unwrap()), Ok(place), "{to}");
        }
        for to in [
            "100.64.0.1:22",
            "100.64.0.9:5432",
            "10.1.0.8:25",
            "127.0.0.1:5432",
            "[::1]:1",
        ] {
            let refused = grant(&servers, to.parse().unwrap()).unwrap_err();
            assert!(refused.contains("[[handlers.NAME.tcp]]"), "{refused}");
        }
    }
}
