//! Opens connections: resolves a name once, checks **every** address of it, and connects to a checked one. Counts those
//! that are open.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use hickory_resolver::TokioResolver;
use hyper::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use ipnet::IpNet;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tower_service::Service;

use crate::address::is_allowed;
use crate::permit::Writer;

/// How many addresses of a name are tried.
const TRIES_MAX: usize = 4;

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum DialError {
    /// No DNS server knows the name, or no server answers.
    Unresolved(String),
    /// An address that requests may not go to.
    Refused {
        host: String,
        address: IpAddr,
    },
    Connect(io::Error),
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unresolved(cause) => write!(f, "cannot resolve its name: {cause}"),
            Self::Refused { host, address } => write!(
                f,
                "{host} has the address {address}, which is not public; an operator can allow its network \
                 with grants.networks"
            ),
            Self::Connect(error) => write!(f, "cannot connect: {error}"),
        }
    }
}

impl StdError for DialError {}

/// Counts open connections: each has a share of it.
pub(crate) type Count = Arc<()>;

/// Opens checked connections. Clones share the resolver.
#[derive(Clone)]
pub(crate) struct Dial {
    shared: Arc<Shared>,
    count: Weak<()>,
}

struct Shared {
    /// `None` if this system has no DNS server.
    resolver: Option<TokioResolver>,
    networks: Vec<IpNet>,
}

impl Dial {
    pub(crate) fn new(resolver: Option<TokioResolver>, networks: Vec<IpNet>) -> Self {
        Self {
            shared: Arc::new(Shared { resolver, networks }),
            count: Weak::new(),
        }
    }

    /// Has the connections that it opens counted.
    pub(crate) fn counted(&self, count: &Count) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            count: Arc::downgrade(count),
        }
    }

    async fn connect(self, uri: Uri) -> Result<TokioIo<Counted>, DialError> {
        let host = uri.host().unwrap_or_default();
        let default_port = if uri.scheme_str() == Some("https") {
            443
        } else {
            80
        };
        let port = uri.port_u16().unwrap_or(default_port);
        self.open(host, port).await.map(TokioIo::new)
    }

    /// Connects to a server: a name or an address; an IPv6 address is in brackets. Cancel safe.
    pub(crate) async fn open(&self, host: &str, port: u16) -> Result<Counted, DialError> {
        let addresses = self.shared.addresses(host).await?;
        let mut failed = io::Error::other("its name has no address");
        for address in addresses.into_iter().take(TRIES_MAX) {
            match TcpStream::connect(SocketAddr::new(address, port)).await {
                Ok(stream) => {
                    // Without it small requests only take longer.
                    let _ = stream.set_nodelay(true);
                    let count = self.count.upgrade();
                    return Ok(Counted {
                        stream,
                        writer: Writer::default(),
                        _count: count,
                    });
                }
                Err(error) => failed = error,
            }
        }
        Err(DialError::Connect(failed))
    }
}

impl Shared {
    /// Returns the addresses of `host`, all of which are allowed.
    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DialError> {
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        let addresses = match literal.parse() {
            Ok(address) => vec![address],
            Err(_) => self.resolve(host).await?,
        };
        let refused = addresses
            .iter()
            .find(|it| !is_allowed(**it, &self.networks));
        match refused {
            None => Ok(addresses),
            Some(address) => Err(DialError::Refused {
                host: host.to_owned(),
                address: *address,
            }),
        }
    }

    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, DialError> {
        let unresolved = |cause: String| DialError::Unresolved(cause);
        let Some(resolver) = &self.resolver else {
            let cause = "/etc/resolv.conf names no server";
            return Err(unresolved(cause.to_owned()));
        };
        // A final dot: never a name below a domain of this machine.
        let found = resolver
            .lookup_ip(format!("{host}."))
            .await
            .map_err(|error| unresolved(error.to_string()))?;
        Ok(found.iter().collect())
    }
}

impl Service<Uri> for Dial {
    type Response = TokioIo<Counted>;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

/// A connection that counts until it is dropped, and to which only a run writes that may send.
pub(crate) struct Counted {
    stream: TcpStream,
    writer: Writer,
    _count: Option<Count>,
}

impl Counted {
    /// Returns who writes to it.
    pub(crate) fn writer(&self) -> Writer {
        self.writer.clone()
    }
}

impl Connection for Counted {
    fn connected(&self) -> Connected {
        self.writer.describe(self.stream.connected())
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.writer.check()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writer.check()?;
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
