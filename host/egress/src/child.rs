//! The entry point of the broker's process.

use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::{ResolverBuilder, TokioResolver};
use host_confine::Confinement;
use ipnet::IpNet;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::{Builder, LocalOptions};

use crate::broker::{self, Broker};
use crate::client::Clients;
use crate::dial::Dial;

/// The largest file of certificates, in bytes.
const AUTHORITIES_BYTES_MAX: u64 = 4 << 20;

/// What the broker is started with.
#[derive(Debug)]
pub struct Settings {
    /// Networks besides public ones to which requests may go.
    pub networks: Vec<IpNet>,
    /// The DNS servers; those of this system if empty.
    pub nameservers: Vec<SocketAddr>,
    /// Certificates of authorities to trust besides those of this system, in PEM.
    pub authorities: Option<OwnedFd>,
}

/// Serves the host at the other end of `control`. Returns when the host is gone, or with an error if the broker
/// cannot work.
pub fn run(control: OwnedFd, settings: Settings, confinement: Confinement) -> Result<(), String> {
    let broken = |error: std::io::Error| format!("cannot send requests: {error}");
    host_confine::child().map_err(unconfined)?;
    // These read files, so they come before the restrictions.
    let tls = tls(settings.authorities)?;
    let resolver = resolver(&settings.nameservers);
    host_confine::broker(confinement).map_err(unconfined)?;
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(broken)?;
    runtime.block_on(async {
        let resolver = resolver.map(ResolverBuilder::build).transpose();
        let resolver = resolver.map_err(|error| format!("cannot resolve names: {error}"))?;
        let clients = Clients::new(Dial::new(resolver, settings.networks), tls);
        let served = Broker::new(clients, control).map_err(broken)?;
        broker::serve(served).await.map_err(broken)
    })
}

#[expect(clippy::needless_pass_by_value, reason = "it is the end of the error")]
fn unconfined(error: std::io::Error) -> String {
    format!("cannot restrict the rights of this process: {error}")
}

/// Trusts the authorities of this system, and those of the file.
fn tls(file: Option<OwnedFd>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    // What cannot be read is missing at the first connection, whose error says so.
    let system = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(system.certs);
    if let Some(file) = file {
        let unread = |error: &dyn std::fmt::Display| {
            format!("cannot read the certificates of egress.ca_file: {error}")
        };
        let mut pem = Vec::new();
        let reading = File::from(file)
            .take(AUTHORITIES_BYTES_MAX)
            .read_to_end(&mut pem);
        reading.map_err(|error| unread(&error))?;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|error| unread(&error))?;
            roots.add(certificate).map_err(|error| unread(&error))?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("cannot use TLS: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// Prepares the resolver of names. Returns `None` if this system has no server for them.
pub(crate) fn resolver(
    nameservers: &[SocketAddr],
) -> Option<ResolverBuilder<TokioRuntimeProvider>> {
    if nameservers.is_empty() {
        return TokioResolver::builder_tokio().ok();
    }
    let servers = nameservers.iter().map(|server| {
        let on_port = |mut connection: ConnectionConfig| {
            connection.port = server.port();
            connection
        };
        NameServerConfig::new(
            server.ip(),
            true,
            vec![
                on_port(ConnectionConfig::udp()),
                on_port(ConnectionConfig::tcp()),
            ],
        )
    });
    let config = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
    let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    Some(builder.with_options(ResolverOpts::default()))
}
