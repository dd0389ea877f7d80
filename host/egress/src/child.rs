//! The entry point of the broker's process.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::{ResolverBuilder, TokioResolver};
use host_confine::{Confinement, Lifeline};
use ipnet::IpNet;
use tokio::runtime::{Builder, LocalOptions};

use crate::broker::{self, Broker};
use crate::client::Clients;
use crate::dial::Dial;
use crate::trust;

/// The settings of the broker.
#[derive(Debug)]
pub struct Settings {
    /// Networks besides public ones to which requests may go.
    pub networks: Vec<IpNet>,
    /// The DNS servers; those of this system if empty.
    pub nameservers: Vec<SocketAddr>,
    /// Certificates of authorities to trust besides those of this system, in PEM.
    pub authorities: Option<OwnedFd>,
    /// The timer until which requests may be sent whose passes say so.
    pub lifeline: Option<OwnedFd>,
}

/// How many bodies are decoded concurrently. Others wait.
const DECODERS_MAX: usize = 2;

/// Serves the host at the other end of `control`. Returns when the host is gone, or with an error if the broker
/// cannot work.
pub fn run(control: OwnedFd, settings: Settings, confinement: Confinement) -> Result<(), String> {
    let broken = |error: std::io::Error| format!("cannot send requests: {error}");
    host_confine::child().map_err(unconfined)?;
    // These read files, so they come before the restrictions.
    let system = trust::system();
    let tls = trust::tls(&system, settings.authorities)?;
    let resolver = resolver(&settings.nameservers);
    host_confine::broker(confinement).map_err(unconfined)?;
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(DECODERS_MAX)
        .build_local(LocalOptions::default())
        .map_err(broken)?;
    runtime.block_on(async {
        let resolver = resolver
            .map(ResolverBuilder::build)
            .transpose()
            .map_err(|error| format!("cannot resolve names: {error}"))?;
        let clients = Clients::new(Dial::new(resolver, settings.networks), tls);
        let lifeline = settings.lifeline.map(Lifeline::new);
        let served = Broker::new(clients, system, control, lifeline).map_err(broken)?;
        broker::serve(served).await.map_err(broken)
    })
}

#[expect(clippy::needless_pass_by_value, reason = "it is the end of the error")]
fn unconfined(error: std::io::Error) -> String {
    format!("cannot restrict the rights of this process: {error}")
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
