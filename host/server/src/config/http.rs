//! Where the API listens, who may connect there, and what each listener serves.

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::auth::AuthMode;
use host_http::door::{DOORS, Door};
use host_http::proxies::Proxies;
use host_http::tls::{Clients, Pattern, TlsFiles};
use host_wire_kit::section::{ConfigError, NamedTable, Section, refused};
use host_wire_kit::settings::Setting;
use host_wire_kit::{settings, table_settings};
use ipnet::IpNet;

settings! {
    pub(super) SETTINGS:
    LISTEN = "http.listen" ["listen"], Text("ADDR"), "127.0.0.1:7700",
        "Where the API listens: an address and a port (0 takes a free one), or `off`. Beyond loopback it needs TLS and client authentication";
    DASHBOARD = "http.dashboard", Switch, "true",
        "Whether `http.listen` also serves the dashboard, to be opened in a browser";
    SOCKET = "http.socket" ["socket"], Text("PATH"), "none",
        "A local socket for the API, which only the host's user may use; clients name it as unix://PATH";
    ALLOWED_HOSTS = "http.allowed_hosts", List("NAMES"), "none",
        "Names, without ports, by which clients address this host or a proxy in front of it, besides those in its certificate: requests to any of its listeners may have them as `Host`, and pages served under them may use the API. A list, or comma-separated names, at most 64";
    TLS_CERT_FILE = "http.tls_cert_file", Text("FILE"), "none",
        "The host's certificate in PEM, followed by those of intermediate authorities. With it, listeners speak TLS. A renewed file is used within seconds, without a restart";
    TLS_KEY_FILE = "http.tls_key_file", Text("FILE"), "none",
        "The private key of this certificate in PEM, without a passphrase";
    CLIENT_CA_FILE = "http.client_ca_file", Text("FILE"), "none",
        "Certificates of authorities in PEM. With it, TLS listeners accept only clients with a certificate of one of them and a name of client_names";
    CLIENT_NAMES = "http.client_names", List("PATTERNS"), "none",
        "The alternative names (DNS name, URI, address, e-mail) that client certificates may have; `*` matches any text without `/`, `**` for any. At most 256";
    TRUSTED_PROXIES = "http.trusted_proxies", List("NETWORKS"), "none",
        "Networks of proxies that may serve TLS in front of this host, like 10.1.0.0/16: their `X-Forwarded-For` and `X-Forwarded-Proto` are believed, and a listener beyond loopback without TLS accepts only them. At most 256";
}

table_settings! {
    pub(super) TABLE_SETTINGS:
    "listeners[].address", "required",
        "Where one more listener of the API listens: an address and a port. `http.listen` is a listener that serves everything";
    "listeners[].tls", "`true` with `http.tls_cert_file`",
        "Whether it speaks TLS";
    "listeners[].serves", "all of them",
        "What it serves, of `api` (with `/healthz` and `/readyz`), `callbacks` (where foreign workers report), `metrics` (with `/healthz` and `/readyz`) and `pages` (for browsers). Nothing else exists there";
}

/// The most names of hosts.
const ALLOWED_HOSTS_MAX: usize = 64;

/// The most patterns of clients, and networks of proxies, each.
const ITEMS_MAX: usize = 256;

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

/// Reads the section and the listeners.
pub(super) fn http(values: &Section<'_>, auth: AuthMode) -> Result<Http, ConfigError> {
    let tls = tls(values)?;
    let wanted = "networks like 10.1.0.0/16";
    let proxies: Vec<IpNet> = values.parsed(&TRUSTED_PROXIES, ITEMS_MAX, wanted)?;
    let mut http = Http {
        main: None,
        others: Vec::new(),
        socket: values.path(&SOCKET),
        allowed_hosts: allowed_hosts(values)?,
        proxies: proxies.into_iter().collect(),
        tls,
    };
    let has_pages = values.switch(&DASHBOARD)?;
    let doors = DOORS.into_iter();
    let doors = doors.filter(|door| has_pages || *door != Door::Pages);
    if let Some((origin, address)) = values.address(&LISTEN)? {
        let listener = Listener {
            address,
            is_tls: http.tls.is_some(),
            serves: doors.collect(),
        };
        http.check(&listener, auth, origin)?;
        http.main = Some(listener);
    }
    for (_, table) in values.tables("listeners") {
        let listener = listener(table, http.tls.is_some())?;
        http.check(&listener, auth, table.origin("address"))?;
        http.others.push(listener);
        if http.others.len() > LISTENERS_MAX {
            let message = format!("expected at most {LISTENERS_MAX} listeners");
            let origin = table.origin("");
            return Err(ConfigError::Hidden { origin, message });
        }
    }
    Ok(http)
}

impl Http {
    /// Refuses a listener that others can reach if its clients cannot be known or their words can be read.
    fn check(
        &self,
        listener: &Listener,
        auth: AuthMode,
        origin: String,
    ) -> Result<(), ConfigError> {
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
        Err(ConfigError::Exposed {
            origin,
            address: listener.address,
            missing: missing.join(", and "),
        })
    }
}

/// Reads one of the further listeners.
fn listener(table: &NamedTable, has_tls: bool) -> Result<Listener, ConfigError> {
    let hidden = |key: &str, message: &str| ConfigError::Hidden {
        origin: table.origin(key),
        message: message.to_owned(),
    };
    let wanted = "expected an address with a port, like 127.0.0.1:7701";
    let text = table.text("address")?;
    let text = text.ok_or_else(|| hidden("address", wanted))?;
    let address = text.parse();
    let address = address.map_err(|_| refused(table.origin("address"), text, wanted))?;
    let is_tls = table.switch("tls")?.unwrap_or(has_tls);
    if is_tls && !has_tls {
        let message = "needs http.tls_cert_file and http.tls_key_file";
        return Err(hidden("tls", message));
    }
    let names = DOORS.map(Door::as_str).join(", ");
    let wanted = format!("expected an array of some of {names}");
    let serves = match table.strings("serves", &wanted)? {
        None => DOORS.into(),
        Some(words) => {
            let doors = words.iter().map(|word| {
                let door = word.parse();
                door.map_err(|()| refused(table.origin("serves"), word, wanted.clone()))
            });
            doors.collect::<Result<Vec<_>, _>>()?
        }
    };
    if serves.is_empty() {
        return Err(hidden("serves", &wanted));
    }
    Ok(Listener {
        address,
        is_tls,
        serves,
    })
}

/// Reads where certificates and keys are. Keys that belong together must be together.
fn tls(values: &Section<'_>) -> Result<Option<TlsFiles>, ConfigError> {
    let needs = |setting: &Setting, other: &Setting| ConfigError::Hidden {
        origin: values.find(setting).unwrap_or_default().0,
        message: format!("needs {} too", other.key),
    };
    let certificate = values.path(&TLS_CERT_FILE);
    let key = values.path(&TLS_KEY_FILE);
    let authorities = values.path(&CLIENT_CA_FILE);
    let wanted = "names of clients like *.ci.example.com or spiffe://example.com/**";
    let names: Vec<Pattern> = values.parsed(&CLIENT_NAMES, ITEMS_MAX, wanted)?;
    let clients = match (authorities, names.is_empty()) {
        (None, true) => None,
        (Some(_), true) => return Err(needs(&CLIENT_CA_FILE, &CLIENT_NAMES)),
        (None, false) => return Err(needs(&CLIENT_NAMES, &CLIENT_CA_FILE)),
        (Some(authorities), false) => Some(Clients {
            authorities,
            names: names.into_iter().collect(),
        }),
    };
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles {
            certificate,
            key,
            clients,
        })),
        (Some(_), None) => Err(needs(&TLS_CERT_FILE, &TLS_KEY_FILE)),
        (None, Some(_)) => Err(needs(&TLS_KEY_FILE, &TLS_CERT_FILE)),
        (None, None) if clients.is_some() => Err(needs(&CLIENT_CA_FILE, &TLS_CERT_FILE)),
        (None, None) => Ok(None),
    }
}

/// Reads the names by which clients address the host.
fn allowed_hosts(values: &Section<'_>) -> Result<Vec<String>, ConfigError> {
    let names = values.list(&ALLOWED_HOSTS);
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let is_name = |name: &str| name.len() <= 253 && name.bytes().all(letter);
    if !names.iter().all(|name| is_name(name)) {
        let wanted = "expected names without scheme, port and `*`, like jobs.example.com";
        return Err(values.refuse(&ALLOWED_HOSTS, wanted));
    }
    if names.len() > ALLOWED_HOSTS_MAX {
        let wanted = format!("expected at most {ALLOWED_HOSTS_MAX} names");
        return Err(values.refuse(&ALLOWED_HOSTS, wanted));
    }
    Ok(names.into_iter().map(str::to_owned).collect())
}
