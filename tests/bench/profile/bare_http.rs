//! Bare hyper: a server on threads of its own that answers each request with the same text.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::{Context, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::process;

/// The name of its threads.
const THREAD: &str = "bare-http";

/// Serves until it is dropped.
pub(super) struct BareServer {
    address: String,
    runtime: Option<Runtime>,
}

impl BareServer {
    pub(super) fn start(answer: String) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name(THREAD)
            .enable_all()
            .build()
            .context("cannot start a runtime")?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").context("no port is free")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?.to_string();
        runtime.spawn(serve(listener, Arc::from(answer)));
        Ok(Self {
            address,
            runtime: Some(runtime),
        })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the CPU time of its threads, in microseconds.
    pub(super) fn cpu_us() -> Result<f64> {
        let threads = process::threads(std::process::id())?;
        let ours = threads.iter().filter(|thread| thread.name == THREAD);
        Ok(ours.map(|thread| thread.cpu_us).sum())
    }
}

impl Drop for BareServer {
    fn drop(&mut self) {
        // A runtime must not wait for its threads inside another.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve(listener: std::net::TcpListener, answer: Arc<str>) -> Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let answer = Arc::clone(&answer);
        tokio::spawn(async move {
            let service = service_fn(move |_: Request<Incoming>| {
                let answer = Full::new(Bytes::copy_from_slice(answer.as_bytes()));
                async move { Ok::<_, Infallible>(Response::new(answer)) }
            });
            // A client that is done closes its connection.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
