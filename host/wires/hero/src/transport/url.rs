//! The address of a Redis, our user there, and the certificates of both sides. Explains failed
//! connections to people. Makes no connections.

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;

use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _,
    ProtocolVersion, RedisConnectionInfo, RedisError, TlsCertificates,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

/// The address of a Redis with our user. Displayed without user and password.
#[derive(Clone)]
pub(crate) struct RedisUrl {
    text: String,
    /// Where it is, or the first Sentinel.
    info: ConnectionInfo,
    sentinels: Option<Sentinels>,
    /// Whether the password may leave this machine in plain text.
    allow_plaintext: bool,
}

/// Who knows where the Redis is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sentinels {
    /// Hosts and ports.
    pub(crate) addresses: Vec<(String, u16)>,
    /// The name of the Redis there.
    pub(crate) master: String,
}

/// The port of a Sentinel that is given without one.
const SENTINEL_PORT: u16 = 26_379;

/// The most Sentinels.
const SENTINELS_MAX: usize = 16;

/// The certificates for TLS, as PEM.
#[derive(Clone, Default)]
pub(crate) struct Certificates {
    /// The authorities for the server's certificate; those the system trusts if `None`.
    pub(crate) authorities: Option<Vec<u8>>,
    /// Our own certificate chain and its key.
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
}

/// Why the address of a Redis or a certificate is refused. Never quotes the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum UrlError {
    /// The text is not the address of a Redis.
    #[error(
        "write redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], rediss:// for TLS, \
         redis+unix:///PATH[?db=DATABASE], or redis-sentinel://HOST[:PORT],…/MASTER[/DATABASE]"
    )]
    Unreadable,
    /// The address asks for TLS without checking the certificate.
    #[error(
        "certificates are always checked, so #insecure is not supported; name the authority with \
         ca_file (HOST_HERO_CA_FILE)"
    )]
    Insecure,
    /// A password would cross the network in plain text.
    #[error(
        "it has a password, which redis:// would send to another machine unencrypted; write \
         rediss:// for TLS, or set allow_plaintext = true \
         (HOST_HERO_ALLOW_PLAINTEXT) if the network is protected otherwise"
    )]
    Plaintext,
    /// A password stands in the command line.
    #[error(
        "it has a password, and other users can read command lines; write the address to a file for \
         --url-file, or to HOST_HERO_URL"
    )]
    OnCommandLine,
    /// There are certificates, but the address does not use TLS.
    #[error("ca_file, cert_file and key_file need TLS; write rediss:// instead of redis://")]
    NoTls,
    /// The file of authorities has no certificate.
    #[error("ca_file has no readable certificates; expected PEM")]
    Authorities,
    /// Our certificate or its key cannot be used.
    #[error("cert_file and key_file must be PEM: a certificate and its private key")]
    Client,
}

impl RedisUrl {
    /// Reads `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]` (`rediss://` means TLS),
    /// `redis+unix:///PATH[?db=DATABASE&user=USER&pass=PASSWORD]`, and
    /// `redis-sentinel://[USER:PASSWORD@]HOST[:PORT][,…]/MASTER[/DATABASE]` (`rediss-sentinel://`).
    pub(crate) fn parse(text: &str) -> Result<Self, UrlError> {
        for (scheme, plain) in [
            ("redis-sentinel://", "redis"),
            ("rediss-sentinel://", "rediss"),
        ] {
            if let Some(rest) = text.strip_prefix(scheme) {
                return Self::behind_sentinels(text, plain, rest);
            }
        }
        let schemes = ["redis://", "rediss://", "redis+unix:///"];
        if !schemes.iter().any(|scheme| text.starts_with(scheme)) {
            return Err(UrlError::Unreadable);
        }
        if text.contains('#') {
            let insecure = text.ends_with("#insecure");
            return Err(if insecure {
                UrlError::Insecure
            } else {
                UrlError::Unreadable
            });
        }
        let info = text
            .into_connection_info()
            .map_err(|_| UrlError::Unreadable)?;
        let settings = info
            .redis_settings()
            .clone()
            .set_protocol(ProtocolVersion::RESP2);
        Ok(Self {
            text: text.to_owned(),
            info: info.set_redis_settings(settings),
            sentinels: None,
            allow_plaintext: false,
        })
    }

    fn behind_sentinels(text: &str, scheme: &str, rest: &str) -> Result<Self, UrlError> {
        let unreadable = || UrlError::Unreadable;
        let (authority, path) = rest.split_once('/').ok_or_else(unreadable)?;
        let (master, database) = path.split_once('/').unwrap_or((path, "0"));
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if master.is_empty() || !master.chars().all(is_name) {
            return Err(UrlError::Unreadable);
        }
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (format!("{user}@"), hosts),
            None => (String::new(), authority),
        };
        let mut addresses = Vec::new();
        for host in hosts.split(',') {
            let has_port = host
                .rsplit_once(':')
                .is_some_and(|(_, port)| !port.contains(']'));
            let port = if has_port {
                String::new()
            } else {
                format!(":{SENTINEL_PORT}")
            };
            let one = Self::parse(&format!("{scheme}://{user}{host}{port}/{database}"))?;
            let address = match one.info.addr() {
                ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                    (host.clone(), *port)
                }
                _ => return Err(UrlError::Unreadable),
            };
            addresses.push((one, address));
        }
        if addresses.len() > SENTINELS_MAX {
            return Err(UrlError::Unreadable);
        }
        let first = addresses.first().map(|(one, _)| one.info.clone());
        Ok(Self {
            text: text.to_owned(),
            info: first.ok_or_else(unreadable)?,
            sentinels: Some(Sentinels {
                addresses: addresses.into_iter().map(|(_, address)| address).collect(),
                master: master.to_owned(),
            }),
            allow_plaintext: false,
        })
    }

    /// Returns who knows where the Redis is, if the address names them.
    pub(crate) const fn sentinels(&self) -> Option<&Sentinels> {
        self.sentinels.as_ref()
    }

    /// Returns the address with the same user and certificates, but of a Redis or Sentinel there.
    pub(crate) fn at(&self, to_host: &str, to_port: u16) -> Self {
        let addr = match self.info.addr() {
            ConnectionAddr::TcpTls {
                insecure,
                tls_params,
                ..
            } => ConnectionAddr::TcpTls {
                host: to_host.to_owned(),
                port: to_port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(to_host.to_owned(), to_port),
        };
        Self {
            text: self.text.clone(),
            info: self.info.clone().set_addr(addr),
            sentinels: None,
            allow_plaintext: self.allow_plaintext,
        }
    }

    /// Returns the address in the form the Redis client needs, without user and database.
    pub(crate) fn anonymous(&self) -> ConnectionInfo {
        let settings = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP2);
        self.info.clone().set_redis_settings(settings)
    }

    /// Sets the certificates for connections to this address.
    pub(crate) fn with_certificates(
        mut self,
        certificates: Certificates,
    ) -> Result<Self, UrlError> {
        let Certificates {
            authorities,
            client,
        } = certificates;
        if authorities.is_none() && client.is_none() {
            return Ok(self);
        }
        if !self.is_tls() {
            return Err(UrlError::NoTls);
        }
        if let Some(pem) = &authorities {
            let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
            let mut roots = RootCertStore::empty();
            let read = read.map_err(|_| UrlError::Authorities)?;
            let (added, refused) = roots.add_parsable_certificates(read);
            if added == 0 || refused > 0 {
                return Err(UrlError::Authorities);
            }
        }
        if let Some((certificate, key)) = &client {
            check_client(certificate, key).ok_or(UrlError::Client)?;
        }
        let certificates = TlsCertificates {
            client_tls: client.map(|(client_cert, client_key)| ClientTlsConfig {
                client_cert,
                client_key,
            }),
            root_cert: authorities,
        };
        let client =
            Client::build_with_tls(self.info, certificates).map_err(|_| UrlError::Authorities)?;
        self.info = client.get_connection_info().clone();
        Ok(self)
    }

    /// Returns the address in the form the Redis client needs.
    pub(crate) const fn info(&self) -> &ConnectionInfo {
        &self.info
    }

    /// Returns host and port, for people.
    pub(crate) fn address(&self) -> String {
        self.info.addr().to_string()
    }

    pub(crate) fn has_password(&self) -> bool {
        self.info.redis_settings().password().is_some()
    }

    fn is_tcp(&self) -> bool {
        matches!(self.info.addr(), ConnectionAddr::Tcp(..))
    }

    /// Says whether the password may leave this machine in plain text.
    pub(crate) const fn allowing_plaintext(mut self, allow_plaintext: bool) -> Self {
        self.allow_plaintext = allow_plaintext;
        self
    }

    /// Refuses an address whose password would leave this machine in plain text, unless it may.
    pub(crate) fn not_in_plaintext(self) -> Result<Self, UrlError> {
        let is_here = |host: &str| {
            let address: Result<IpAddr, _> = host.parse();
            host == "localhost" || address.is_ok_and(|address| address.is_loopback())
        };
        let first = match self.info.addr() {
            ConnectionAddr::Tcp(host, _) => Some(host.as_str()),
            _ => None,
        };
        let sentinels = self.sentinels.iter().flat_map(|all| &all.addresses);
        let mut hosts = sentinels.map(|(host, _)| host.as_str()).chain(first);
        let leaves = self.is_tcp() && !hosts.all(is_here);
        if leaves && !self.allow_plaintext && self.has_password() {
            return Err(UrlError::Plaintext);
        }
        Ok(self)
    }

    fn is_tls(&self) -> bool {
        matches!(self.info.addr(), ConnectionAddr::TcpTls { .. })
    }

    /// Explains why there is no connection and what to do next, for people, without secrets.
    pub(crate) fn explain(&self, error: &RedisError) -> String {
        let text = error.to_string();
        let address = self.info.addr();
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let next = if self.is_tls() && error.is_timeout() {
            format!(
                "{address} does not answer in TLS; start it, or if it does not speak TLS there, \
                 write redis:// or the port where it does"
            )
        } else if self.is_tls() && has(&["UnknownIssuer", "BadSignature"]) {
            format!(
                "the certificate of {address} has an untrusted issuer; name the authority that \
                 signed it with ca_file in [protocol.hero] or HOST_HERO_CA_FILE"
            )
        } else if self.is_tls() && has(&["not valid for name", "NotValidForName"]) {
            format!(
                "the certificate of {address} is for another name; use a name that it is for in \
                 the address"
            )
        } else if self.is_tls() && has(&["invalid peer certificate"]) {
            format!("the certificate of {address} is not accepted; renew it")
        } else if self.is_tls() && has(&["corrupt message", "InvalidContentType"]) {
            format!(
                "{address} does not speak TLS; write redis://, or the port where it does (tls-port \
                 in its configuration)"
            )
        } else if self.is_tls() && has(&["fatal alert", "handshake"]) {
            format!(
                "the TLS handshake with {address} failed; it must support TLS 1.3, and if it \
                 requires a client certificate, set cert_file and key_file in [protocol.hero]"
            )
        } else {
            return self.refusal(error, &text);
        };
        format!("{next} ({text})")
    }

    /// Explains the answer of Redis to our first commands, if there was one.
    fn refusal(&self, error: &RedisError, text: &str) -> String {
        let address = self.info.addr();
        let has = |word: &str| text.contains(word);
        let dropped = error.is_connection_dropped() && !error.is_connection_refusal();
        let next = if has("WRONGPASS") || has("AuthenticationFailed") {
            "the user or the password in the address is wrong; correct protocol.hero.url"
        } else if has("NOAUTH") {
            "it requires a password; write redis://USER:PASSWORD@… in protocol.hero.url"
        } else if has("NOPERM") {
            "its user lacks permissions; grant them with `ACL SETUSER`"
        } else if self.is_tcp() && (dropped || has("Parse")) {
            "it does not answer like a Redis; if it speaks TLS, write rediss://"
        } else {
            return format!("{address}: {text}");
        };
        format!("{address}: {next} ({text})")
    }
}

/// Checks that the key belongs to the certificate. Returns `None` if either is invalid.
fn check_client(certificate: &[u8], key: &[u8]) -> Option<()> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = parsed.ok().filter(|parsed| !parsed.is_empty())?;
    let key = PrivateKeyDer::from_pem_slice(key).ok()?;
    let config = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
    config.with_client_auth_cert(chain, key).ok()?;
    Some(())
}

impl PartialEq for RedisUrl {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for RedisUrl {}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls() { "rediss" } else { "redis" };
        let database = self.info.redis_settings().db();
        let address = self.info.addr();
        match (&self.sentinels, address) {
            (Some(sentinels), _) => {
                let hosts: Vec<_> = sentinels
                    .addresses
                    .iter()
                    .map(|(host, port)| format!("{host}:{port}"))
                    .collect();
                let (hosts, master) = (hosts.join(","), &sentinels.master);
                write!(f, "{scheme}-sentinel://{hosts}/{master}/{database}")
            }
            (None, ConnectionAddr::Unix(path)) => {
                write!(f, "redis+unix://{}?db={database}", path.display())
            }
            (None, _) => write!(f, "{scheme}://{address}/{database}"),
        }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
