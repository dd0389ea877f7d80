//! Where the API listens, who may connect there, and what each listener serves.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::auth::AuthMode;
use host_http::door::{DOORS, Door};
use host_http::proxies::Proxies;
use host_http::tls::{Clients, Pattern, TlsFiles};
use host_wire_kit::section::{At, ConfigError, List, Listen};
use host_wire_kit::settings;
use ipnet::IpNet;

settings! {
    pub(super) struct HttpKeys "http." {
        /// Where the API listens: an address and a port (0 takes a free one), or `off`. Beyond loopback it needs TLS and client authentication
        listen ["listen"] "ADDR": Option<At<Listen>> = "127.0.0.1:7700",
        /// Whether `http.listen` also serves the dashboard, to be opened in a browser
        dashboard: Option<bool> = "true",
        /// A local socket for the API, which only the host's user may use; clients name it as unix://PATH
        socket ["socket"] "PATH": Option<PathBuf>,
        /// Names, without ports, by which clients address this host or a proxy in front of it, besides those in its certificate: requests to any of its listeners may have them as `Host`, and pages served under them may use the API. A list, or comma-separated names, at most 64
        allowed_hosts "NAMES": At<List<String, 64>>,
        /// The host's certificate in PEM, followed by those of intermediate authorities. With it, listeners speak TLS. A renewed file is used within seconds, without a restart
        tls_cert_file "FILE": Option<At<PathBuf>>,
        /// The private key of this certificate in PEM, without a passphrase
        tls_key_file "FILE": Option<At<PathBuf>>,
        /// Certificates of authorities in PEM. With it, TLS listeners accept only clients with a certificate of one of them and a name of client_names
        client_ca_file "FILE": Option<At<PathBuf>>,
        /// The alternative names (DNS name, URI, address, e-mail) that client certificates may have; `*` matches any text without `/`, `**` for any. At most 256
        client_names "PATTERNS": At<List<String>>,
        /// Networks of proxies that may serve TLS in front of this host, like 10.1.0.0/16: their `X-Forwarded-For` and `X-Forwarded-Proto` are believed, and a listener beyond loopback without TLS accepts only them. At most 256
        trusted_proxies "NETWORKS": At<List<String>>,
    }

    pub(super) struct ListenerKeys "listeners[]." {
        /// Where one more listener of the API listens: an address and a port. `http.listen` is a listener that serves everything
        address: Option<At<String>> = "required",
        /// Whether it speaks TLS
        tls: Option<bool> = "`true` with `http.tls_cert_file`",
        /// What it serves, of `api` (with `/healthz` and `/readyz`), `callbacks` (where foreign workers report), `metrics` (with `/healthz` and `/readyz`) and `pages` (for browsers). Nothing else exists there
        serves: Option<Vec<At<String>>> = "all of them",
    }
}

/// Where the API listens by default.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7700);

/// The most listeners besides that of `http.listen`.
const LISTENERS_MAX: usize = 16;

/// The listeners of the API.
#[derive(Clone, Debug)]
pub struct Http {
    /// That of `http.listen`, which serves everything; `None` if it is off.
    pub main: Option<Listener>,
    /// Further ones.
    pub others: Vec<Listener>,
    /// The local socket on which the API also listens.
    pub socket: Option<PathBuf>,
    /// The names by which clients may address it besides its own.
    pub allowed_hosts: Vec<String>,
    /// The TLS files, if any listener may use TLS.
    pub tls: Option<TlsFiles>,
    /// The trusted proxies.
    pub proxies: Proxies,
}

/// One listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    pub address: SocketAddr,
    pub is_tls: bool,
    /// What it serves.
    pub serves: Vec<Door>,
}

impl Http {
    /// Returns all listeners.
    pub fn listeners(&self) -> impl Iterator<Item = &Listener> {
        self.main.iter().chain(&self.others)
    }
}

/// Checks the section and the listeners.
pub(super) fn http(
    keys: &HttpKeys,
    listeners: &[At<ListenerKeys>],
    auth: AuthMode,
) -> Result<Http, ConfigError> {
    let proxies: Vec<IpNet> = keys.trusted_proxies.parse("networks like 10.1.0.0/16")?;
    let mut http = Http {
        main: None,
        others: Vec::new(),
        socket: keys.socket.clone(),
        allowed_hosts: allowed_hosts(&keys.allowed_hosts)?,
        proxies: proxies.into_iter().collect(),
        tls: tls(keys)?,
    };
    let has_pages = keys.dashboard.unwrap_or(true);
    let doors = DOORS
        .into_iter()
        .filter(|door| has_pages || *door != Door::Pages);
    let default = At {
        origin: String::new(),
        value: Listen(Some(LISTEN)),
    };
    let listen = keys.listen.as_ref().unwrap_or(&default);
    if let Some(address) = listen.value.0 {
        let listener = Listener {
            address,
            is_tls: http.tls.is_some(),
            serves: doors.collect(),
        };
        http.check(&listener, auth, &listen.origin)?;
        http.main = Some(listener);
    }
    for table in listeners {
        let wanted = "an address with a port, like 127.0.0.1:7701";
        let missing = || table.hidden_key("address", format!("expected {wanted}"));
        let address = table.address.as_ref().ok_or_else(missing)?;
        let listener = listener(table, address.parse(wanted)?, http.tls.is_some())?;
        http.check(&listener, auth, &address.origin)?;
        http.others.push(listener);
        if http.others.len() > LISTENERS_MAX {
            return Err(table.hidden(format!("expected at most {LISTENERS_MAX} listeners")));
        }
    }
    Ok(http)
}

impl Http {
    /// Refuses a listener that others can reach if its clients cannot be known or their words can be read.
    fn check(&self, listener: &Listener, auth: AuthMode, origin: &str) -> Result<(), ConfigError> {
        if listener.address.ip().is_loopback() {
            return Ok(());
        }
        let mut missing = Vec::new();
        if !listener.is_tls && self.proxies.is_empty() {
            missing.push("http.tls_cert_file and http.tls_key_file (or http.trusted_proxies)");
        }
        // Workers that call back prove with each message what they may.
        let proves = listener.serves.iter().all(|door| *door == Door::Callbacks);
        let mutual = self.tls.as_ref().is_some_and(|tls| tls.clients.is_some());
        let knows = proves || auth == AuthMode::Tokens || (listener.is_tls && mutual);
        if !knows {
            missing.push("auth.mode = \"tokens\" (or http.client_ca_file and http.client_names)");
        }
        if missing.is_empty() {
            return Ok(());
        }
        let message = format!(
            "{} is not a loopback address, so this listener needs TLS and client authentication; missing: {}",
            listener.address,
            missing.join(", and ")
        );
        Err(ConfigError::hidden(origin, message))
    }
}

/// Checks one of the further listeners.
fn listener(
    table: &At<ListenerKeys>,
    address: SocketAddr,
    has_tls: bool,
) -> Result<Listener, ConfigError> {
    let is_tls = table.tls.unwrap_or(has_tls);
    if is_tls && !has_tls {
        let message = "needs http.tls_cert_file and http.tls_key_file";
        return Err(table.hidden_key("tls", message));
    }
    let names = DOORS.map(Door::as_str).join(", ");
    let wanted = format!("an array of some of {names}");
    let serves = match &table.serves {
        None => DOORS.into(),
        Some(words) => {
            let doors = words.iter().map(|word| word.parse(&wanted));
            doors.collect::<Result<Vec<_>, _>>()?
        }
    };
    if serves.is_empty() {
        return Err(table.hidden_key("serves", format!("expected {wanted}")));
    }
    Ok(Listener {
        address,
        is_tls,
        serves,
    })
}

/// Returns where certificates and keys are. Keys that belong together must be together.
fn tls(keys: &HttpKeys) -> Result<Option<TlsFiles>, ConfigError> {
    let needs = |origin: &str, other: &str| {
        Err(ConfigError::hidden(
            origin,
            format!("needs http.{other} too"),
        ))
    };
    let names = &keys.client_names;
    let wanted = "names of clients like *.ci.example.com or spiffe://example.com/**";
    let patterns: Vec<Pattern> = names.parse(wanted)?;
    let clients = match (&keys.client_ca_file, patterns.is_empty()) {
        (None, true) => None,
        (Some(authorities), true) => return needs(&authorities.origin, "client_names"),
        (None, false) => return needs(&names.origin, "client_ca_file"),
        (Some(authorities), false) => Some(Clients {
            authorities: authorities.value.clone(),
            names: patterns.into_iter().collect(),
        }),
    };
    match (
        &keys.tls_cert_file,
        &keys.tls_key_file,
        &keys.client_ca_file,
    ) {
        (Some(certificate), Some(key), _) => Ok(Some(TlsFiles {
            certificate: certificate.value.clone(),
            key: key.value.clone(),
            clients,
        })),
        (Some(certificate), None, _) => needs(&certificate.origin, "tls_key_file"),
        (None, Some(key), _) => needs(&key.origin, "tls_cert_file"),
        (None, None, Some(authorities)) => needs(&authorities.origin, "tls_cert_file"),
        (None, None, None) => Ok(None),
    }
}

/// Returns the names by which clients address the host.
fn allowed_hosts(names: &At<List<String, 64>>) -> Result<Vec<String>, ConfigError> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let is_name = |name: &str| name.len() <= 253 && name.bytes().all(letter);
    match names.iter().find(|name| !is_name(name)) {
        Some(other) => {
            let wanted = "expected names without scheme, port and `*`, like jobs.example.com";
            Err(names.refuse_item(other, wanted))
        }
        None => Ok(names.to_vec()),
    }
}
