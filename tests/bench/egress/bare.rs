//! The bare client: the libraries of the broker, without a handler, in a process of its own.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::numbers::count;
use crate::process;

/// The options of a process that only makes requests.
#[derive(clap::Args)]
pub(crate) struct BareClient {
    /// The URL to request
    #[arg(long = "bare-url", hide = true, default_value = "")]
    pub(crate) url: String,
    /// The certificate of the server's authority, in PEM
    #[arg(long = "bare-authority", hide = true, default_value = ".")]
    pub(crate) authority: PathBuf,
    /// How many requests to make
    #[arg(long = "bare-requests", hide = true, default_value_t = 0)]
    pub(crate) requests: usize,
}

impl BareClient {
    /// Makes the requests in a process of its own. Returns the CPU time of each, in microseconds.
    pub(crate) fn measure_apart(&self) -> Result<f64> {
        let ran = Command::new(std::env::current_exe()?)
            .arg("--bare-url")
            .arg(&self.url)
            .arg("--bare-authority")
            .arg(&self.authority)
            .arg("--bare-requests")
            .arg(self.requests.to_string())
            .output()
            .context("cannot start the bare client")?;
        let errors = String::from_utf8_lossy(&ran.stderr);
        ensure!(ran.status.success(), "the bare client failed: {errors}");
        let text = String::from_utf8(ran.stdout)?;
        text.trim()
            .parse()
            .with_context(|| format!("the bare client said {text:?}"))
    }

    /// Makes the requests here, one after the other on one connection. Returns the CPU time of each.
    pub(crate) fn measure(&self) -> Result<f64> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_file(&self.authority)?)?;
            let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()?
                .with_root_certificates(roots)
                .with_no_client_auth();
            let mut tcp = HttpConnector::new();
            tcp.enforce_http(false);
            tcp.set_nodelay(true);
            let connector = HttpsConnectorBuilder::new()
                .with_tls_config(tls)
                .https_only()
                .enable_http1()
                .wrap_connector(tcp);
            let client = Client::builder(TokioExecutor::new()).build(connector);
            let get = async || {
                let request = Request::get(&self.url).body(Empty::<Bytes>::new())?;
                let response = client.request(request).await?;
                ensure!(
                    response.status() == 200,
                    "the server answered {}",
                    response.status()
                );
                response.into_body().collect().await?;
                anyhow::Ok(())
            };
            // The first opens the connection.
            get().await?;
            let before = process::cpu_us(std::process::id())?;
            for _ in 0..self.requests {
                get().await?;
            }
            let used = process::cpu_us(std::process::id())? - before;
            Ok(used / count(self.requests.max(1)))
        })
    }
}
