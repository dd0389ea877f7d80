//! How hosts are reached that want TLS and a token. All others are reached by their address alone.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, RwLock};

use anyhow::{Context, Result};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// What a host wants, besides its address.
#[derive(Clone)]
pub(crate) struct Way {
    tls: TlsConnector,
    token: String,
}

/// By the address of the host.
static WAYS: RwLock<BTreeMap<String, Way>> = RwLock::new(BTreeMap::new());

/// A stream of bytes, encrypted or not.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Way {
    /// Makes the way to a host whose certificate this authority has signed.
    pub(crate) fn new(authority: &Path, token: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(authority)?)?;
        let config = ClientConfig::builder().with_root_certificates(roots);
        Ok(Self {
            tls: TlsConnector::from(Arc::new(config.with_no_client_auth())),
            token: token.to_owned(),
        })
    }

    /// From now on, connections to `address` go this way.
    pub(crate) fn to(self, address: &str) {
        let mut ways = WAYS
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        ways.insert(address.to_owned(), self);
    }
}

/// Connects to a host, and returns the header that each request to it needs, which may be empty.
pub(crate) async fn open(address: &str) -> Result<(Box<dyn Stream>, String)> {
    let way = {
        let ways = WAYS
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        ways.get(address).cloned()
    };
    let stream = TcpStream::connect(address)
        .await
        .with_context(|| format!("cannot connect to {address}"))?;
    stream.set_nodelay(true).context("cannot set nodelay")?;
    let Some(Way { tls, token }) = way else {
        return Ok((Box::new(stream), String::new()));
    };
    let name = ServerName::try_from("localhost").context("a name")?;
    let stream = tls
        .connect(name, stream)
        .await
        .with_context(|| format!("no TLS with {address}"))?;
    Ok((
        Box::new(stream),
        format!("authorization: Bearer {token}\r\n"),
    ))
}
