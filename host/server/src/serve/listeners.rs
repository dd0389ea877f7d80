//! The listeners of the API: opens them before the host starts, and serves them when it is ready.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use host_http::door::{DOORS, Door};
use host_http::guard::AllowedHosts;
use host_http::serve::Transport;
use host_http::tls::Tls;
use host_runtime::clock::Clock;
use host_runtime::socket::LocalListener;
use host_runtime::tasks::Tasks;
use tokio::net::TcpListener;

use super::{ServeError, certificates, system};
use crate::api::{Doorway, ServedApi};
use crate::config::{Config, Http, Listener};
use crate::metrics::Metrics;

/// Open listeners that accept nothing yet.
pub(super) struct Listeners {
    tls: Option<Tls>,
    /// That of `http.listen`.
    main: Option<Bound>,
    others: Vec<Bound>,
    socket: Option<LocalListener>,
}

/// Where the API is served.
#[derive(Debug)]
pub(super) struct Addresses {
    pub(super) http: Option<SocketAddr>,
    /// The other listeners, by what they serve.
    pub(super) others: Vec<(String, SocketAddr)>,
    pub(super) socket: Option<PathBuf>,
}

struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    is_tls: bool,
    serves: Vec<Door>,
}

impl Bound {
    async fn open(config: &Listener) -> Result<Self, ServeError> {
        let address = config.address;
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| ServeError::Listen { address, error })?;
        let address = listener
            .local_addr()
            .map_err(system("read the address of a socket"))?;
        Ok(Self {
            listener,
            address,
            is_tls: config.is_tls,
            serves: config.serves.clone(),
        })
    }

    /// Returns the URL by which processes of this machine reach it.
    fn url(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address.ip() {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{address}")
    }

    fn serves(&self) -> String {
        let names: Vec<_> = self.serves.iter().map(|door| door.as_str()).collect();
        names.join("+")
    }
}

impl Listeners {
    pub(super) async fn open(http: &Http) -> Result<Self, ServeError> {
        let tls = http
            .tls
            .clone()
            .map(Tls::load)
            .transpose()
            .map_err(ServeError::Tls)?;
        let main = match &http.main {
            Some(main) => Some(Bound::open(main).await?),
            None => None,
        };
        let mut others = Vec::new();
        for listener in &http.others {
            others.push(Bound::open(listener).await?);
        }
        let bind = |path: &PathBuf| {
            LocalListener::bind(path).map_err(|error| ServeError::Socket {
                path: path.clone(),
                error,
            })
        };
        let socket = http.socket.as_ref().map(bind).transpose()?;
        Ok(Self {
            tls,
            main,
            others,
            socket,
        })
    }

    /// Returns the address of the API for other nodes.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.main.as_ref().map(|main| main.address)
    }

    /// Returns the URL where workers report: without TLS if possible, because those that this host starts are
    /// on the same machine.
    pub(super) fn callbacks(&self) -> Option<String> {
        let all = self.others.iter().chain(&self.main);
        let serving = all.filter(|it| it.serves.contains(&Door::Callbacks));
        let nearest = serving.min_by_key(|it| (it.is_tls, !it.address.ip().is_loopback()));
        nearest.map(Bound::url)
    }

    /// Serves all of them.
    pub(super) fn serve(
        self,
        api: &ServedApi,
        config: &Config,
        (metrics, clock): (&Metrics, Clock),
        tasks: &Tasks,
    ) -> Result<Addresses, ServeError> {
        if let Some(tls) = &self.tls {
            certificates::watch(tls.clone(), metrics, clock, tasks)?;
        }
        let names = config.hosts();
        let socket_count = usize::from(self.socket.is_some());
        let listeners = config.http.listeners().count() + socket_count;
        let doorway = |address: SocketAddr, is_tls: bool, serves: &[Door]| Doorway {
            hosts: AllowedHosts::loopback_and(address)
                .and_proxies(&names)
                .and_certificate(self.tls.clone()),
            doors: serves.into(),
            transport: Transport {
                tls: self.tls.clone().filter(|_| is_tls),
                proxies: config.http.proxies.clone(),
                listeners,
            },
        };
        let http = self.address();
        let mut others = Vec::new();
        for bound in self.others.into_iter().chain(self.main) {
            if Some(bound.address) != http {
                others.push((bound.serves(), bound.address));
            }
            let doorway = doorway(bound.address, bound.is_tls, &bound.serves);
            tasks.spawn(api.clone().serve(bound.listener, doorway));
        }
        let socket = self.socket.map(|listener| {
            let path = listener.path().to_owned();
            let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let doorway = doorway(http.unwrap_or(nowhere), false, &DOORS);
            tasks.spawn(api.clone().serve(listener, doorway));
            path
        });
        Ok(Addresses {
            http,
            others,
            socket,
        })
    }
}
