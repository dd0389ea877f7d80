//! A TLS server that answers each request with the same small body, on a thread of its own. Its CPU time is
//! not measured.

use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, crypto::ring};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::certificates::Authority;

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 21\r\n\r\n\
                        {\"name\":\"a\",\"rows\":7}";

/// Serves until the process ends.
pub struct TlsServer {
    port: u16,
}

impl TlsServer {
    /// Starts it with the certificate `server` of the authority.
    pub fn start(authority: &Authority) -> Result<Self> {
        let chain = CertificateDer::pem_file_iter(authority.path("server.pem"))?;
        let key = PrivateKeyDer::from_pem_file(authority.path("server.key"))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain.collect::<Result<_, _>>()?, key)?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").context("no port is free")?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        std::thread::spawn(move || {
            runtime.block_on(serve(listener, TlsAcceptor::from(Arc::new(config))))
        });
        Ok(Self { port })
    }

    /// Returns its origin, which names its address.
    pub fn origin(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Returns the URL that it answers.
    pub fn url(&self) -> String {
        format!("{}/v1/rows", self.origin())
    }
}

async fn serve(listener: std::net::TcpListener, acceptor: TlsAcceptor) -> Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            if let Err(error) = answer(stream, acceptor).await {
                eprintln!("a connection of the TLS server broke: {error:#}");
            }
        });
    }
}

/// Answers the requests of a connection, none of which has a body.
async fn answer(stream: TcpStream, acceptor: TlsAcceptor) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = acceptor.accept(stream).await?;
    let mut request = Vec::with_capacity(4 << 10);
    loop {
        while !request.ends_with(b"\r\n\r\n") {
            // A client that is done may close without a word.
            if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                return Ok(());
            }
        }
        request.clear();
        stream.write_all(ANSWER).await?;
    }
}
