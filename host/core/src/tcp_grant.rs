//! Which servers a handler may connect to, as a manifest grants it: a name or an address with a port, who ends TLS, and how
//! the broker signs in with secrets that the guest never sees.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::http_grant::{HeaderTemplate, is_host_name, is_ipv6, is_secret_name};
use crate::seconds::Seconds;

/// One server and port: `db.internal:5432`, `10.1.0.7:6379`, `[fd00::7]:5432`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Endpoint {
    /// In lower case; an IPv6 address in brackets.
    host: String,
    port: u16,
}

/// Why a text is not an [`Endpoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EndpointError {
    #[error("expected NAME:PORT, without a scheme, a user or a path")]
    Form,
    #[error("expected a lower-case host name, an IPv4 address or an [IPv6 address]")]
    Host,
    #[error("expected a port of 1–65535")]
    Port,
}

impl Endpoint {
    /// Returns the name or the address; an IPv6 address is in brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let (host, port) = text.rsplit_once(':').ok_or(EndpointError::Form)?;
        if host.contains(['/', '@', '?', '#']) || port.contains(']') {
            return Err(EndpointError::Form);
        }
        let is_number = !port.is_empty() && port.bytes().all(|it| it.is_ascii_digit());
        let number = is_number.then(|| port.parse().ok()).flatten();
        let port = number.filter(|port| *port > 0).ok_or(EndpointError::Port)?;
        let last = host.rsplit('.').next().unwrap_or_default();
        let is_numeric = last.bytes().all(|it| it.is_ascii_digit());
        let is_name =
            is_host_name(host) && (!is_numeric || host.parse::<std::net::Ipv4Addr>().is_ok());
        if !is_name && !is_ipv6(host) {
            return Err(EndpointError::Host);
        }
        let host = host.to_owned();
        Ok(Self { host, port })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl TryFrom<String> for Endpoint {
    type Error = EndpointError;

    fn try_from(text: String) -> Result<Self, EndpointError> {
        text.parse()
    }
}

impl From<Endpoint> for String {
    fn from(endpoint: Endpoint) -> Self {
        endpoint.to_string()
    }
}

/// When the broker begins TLS with the server, and how it asks for it. It always checks the server's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TlsStart {
    /// Never.
    #[default]
    None,
    /// With the first byte.
    Direct,
    /// After an `SSLRequest`.
    Postgres,
    /// After `STARTTLS` of SMTP.
    Smtp,
    /// After `STARTTLS` of IMAP.
    Imap,
}

impl TlsStart {
    /// Returns the word of manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Direct => "direct",
            Self::Postgres => "postgres",
            Self::Smtp => "smtp",
            Self::Imap => "imap",
        }
    }
}

/// The protocol in which the broker signs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoginProtocol {
    Postgres,
    Redis,
    Smtp,
}

impl LoginProtocol {
    /// Returns the word of manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Redis => "redis",
            Self::Smtp => "smtp",
        }
    }
}

/// How the broker signs in before the guest has the connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Login {
    pub protocol: LoginProtocol,
    #[serde(default)]
    pub user: Option<String>,
    #[serde(default)]
    pub password: Option<HeaderTemplate>,
    /// The database of `PostgreSQL`, or its number in Redis.
    #[serde(default)]
    pub database: Option<String>,
    /// The `options` of `PostgreSQL`, such as `-c statement_timeout=5s`.
    #[serde(default)]
    pub options: Option<String>,
    /// Whether a password may be sent as an MD5 hash if `PostgreSQL` asks for it.
    #[serde(default)]
    pub md5: bool,
}

/// Connections that a handler may open to one server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpGrant {
    /// The name by which `host:jobs/sql` knows it; only in grants of `sql`.
    #[serde(default)]
    pub name: Option<String>,
    pub to: Endpoint,
    #[serde(default)]
    pub tls: TlsStart,
    #[serde(default)]
    pub login: Option<Login>,
    /// How many idle connections the broker keeps for further attempts.
    #[serde(default)]
    pub pool: Option<u32>,
    /// The most open connections of all attempts of the revision on this host.
    #[serde(default)]
    pub max_connections: Option<u32>,
    /// The most bytes of one attempt, sent and received, in MiB.
    #[serde(default)]
    pub max_total_mib: Option<u32>,
    /// How long a connection may carry nothing, in seconds.
    #[serde(default)]
    pub idle_seconds: Option<Seconds>,
}

/// The default of [`TcpGrant::max_connections`].
pub const CONNECTIONS_DEFAULT: u32 = 8;

/// The highest [`TcpGrant::max_connections`] and [`TcpGrant::pool`].
pub const CONNECTIONS_MAX: u32 = 128;

/// The default of [`TcpGrant::idle_seconds`], in milliseconds.
pub const IDLE_MS_DEFAULT: u64 = 60_000;

/// The longest user, password, database or options, in bytes.
const LOGIN_BYTES_MAX: usize = 1_024;

impl TcpGrant {
    /// Returns the names of the secrets in its login.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let password = self.login.iter().flat_map(|login| &login.password);
        password.flat_map(HeaderTemplate::secrets)
    }

    /// Returns how many connections all attempts together may have open.
    pub fn connections_max(&self) -> u32 {
        let least = self.pool.unwrap_or_default().max(CONNECTIONS_DEFAULT);
        self.max_connections.unwrap_or(least)
    }

    /// Returns what is wrong with it: the key, its value, and what is expected. `kind` is `tcp` or `sql`.
    pub fn flaw(&self, kind: GrantKind) -> Option<(&'static str, String, String)> {
        self.flaw_of_kind(kind)
            .or_else(|| self.flaw_of_numbers())
            .or_else(|| {
                self.login
                    .as_ref()
                    .and_then(|login| self.flaw_of_login(login))
            })
    }

    fn flaw_of_kind(&self, kind: GrantKind) -> Option<(&'static str, String, String)> {
        let text =
            |it: Option<&str>| it.map_or_else(|| "nothing".to_owned(), |it| format!("{it:?}"));
        let name = self.name.as_deref();
        let protocol = self.login.as_ref().map(|login| login.protocol);
        match kind {
            GrantKind::Tcp if name.is_some() => {
                let expected = "no name: only grants of sql have one".to_owned();
                Some(("name", text(name), expected))
            }
            GrantKind::Sql if !name.is_some_and(is_secret_name) => {
                let expected = "a name of 1–64 letters, digits, `-` and `_`".to_owned();
                Some(("name", text(name), expected))
            }
            GrantKind::Sql if protocol != Some(LoginProtocol::Postgres) => {
                let given = text(protocol.map(LoginProtocol::as_str));
                Some((
                    "login",
                    given,
                    "a login with protocol = \"postgres\"".to_owned(),
                ))
            }
            GrantKind::Tcp | GrantKind::Sql => None,
        }
    }

    fn flaw_of_numbers(&self) -> Option<(&'static str, String, String)> {
        use crate::http_grant::TOTAL_MIB_MAX;
        let max = self.connections_max();
        for (key, value, least, most) in [
            ("max_connections", self.max_connections, 1, CONNECTIONS_MAX),
            ("pool", self.pool, 0, max),
            ("max_total_mib", self.max_total_mib, 1, TOTAL_MIB_MAX),
        ] {
            if let Some(other) = value.filter(|value| !(least..=most).contains(value)) {
                return Some((key, other.to_string(), format!("{least}–{most}")));
            }
        }
        let idle = self.idle_seconds.filter(|it| it.ms == 0)?;
        let value = f64::from(idle).to_string();
        Some(("idle_seconds", value, "0.001 or more".to_owned()))
    }

    fn flaw_of_login(&self, login: &Login) -> Option<(&'static str, String, String)> {
        let is_fit = |text: &String| {
            (1..=LOGIN_BYTES_MAX).contains(&text.len()) && !text.contains(['\0', '\r', '\n'])
        };
        for (key, value) in [
            ("login.user", &login.user),
            ("login.database", &login.database),
            ("login.options", &login.options),
        ] {
            if let Some(other) = value.as_ref().filter(|it| !is_fit(it)) {
                let expected = format!("1–{LOGIN_BYTES_MAX} bytes in one line");
                return Some((key, format!("{other:?}"), expected));
            }
        }
        let is_postgres = login.protocol == LoginProtocol::Postgres;
        let is_redis = login.protocol == LoginProtocol::Redis;
        if login.user.is_none() && !is_redis {
            return Some(("login.user", "nothing".to_owned(), "a user".to_owned()));
        }
        if login.password.is_none() && !is_postgres {
            return Some((
                "login.password",
                "nothing".to_owned(),
                "a password".to_owned(),
            ));
        }
        let is_number = |it: &String| it.parse::<u16>().is_ok();
        if let Some(other) = login
            .database
            .as_ref()
            .filter(|it| is_redis && !is_number(it))
        {
            let expected = "the number of a database of Redis".to_owned();
            return Some(("login.database", format!("{other:?}"), expected));
        }
        let fits = match self.tls {
            TlsStart::None | TlsStart::Direct => true,
            TlsStart::Postgres => is_postgres,
            TlsStart::Smtp => login.protocol == LoginProtocol::Smtp,
            TlsStart::Imap => false,
        };
        if !fits {
            let expected = format!("a tls that suits a login of {}", login.protocol.as_str());
            return Some(("tls", format!("{:?}", self.tls.as_str()), expected));
        }
        let is_pooled = self.pool.is_some_and(|pool| pool > 0);
        (is_pooled && !is_postgres && !is_redis).then(|| {
            let expected = "no pool: only logins of postgres and redis can be kept".to_owned();
            ("pool", self.pool.unwrap_or_default().to_string(), expected)
        })
    }
}

/// The list of a manifest that has a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantKind {
    Tcp,
    Sql,
}

impl GrantKind {
    /// Returns the key of the list.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Sql => "sql",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_server_and_a_port() {
        for text in [
            "db.internal:5432",
            "10.1.0.7:1",
            "[fd00::7]:65535",
            "localhost:80",
            "my_db:1",
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        for (text, error) in [
            ("db.internal", EndpointError::Form),
            ("postgres://db:5432", EndpointError::Form),
            ("user@db:5432", EndpointError::Form),
            ("db:5432/shop", EndpointError::Port),
            ("db:", EndpointError::Port),
            ("db:0", EndpointError::Port),
            ("db:65536", EndpointError::Port),
            ("db:+1", EndpointError::Port),
            ("DB:1", EndpointError::Host),
            ("*.db:1", EndpointError::Host),
            ("10.1:1", EndpointError::Host),
            ("[::01]:1", EndpointError::Host),
            (":1", EndpointError::Host),
        ] {
            assert_eq!(text.parse::<Endpoint>(), Err(error), "{text}");
        }
    }

    fn flaw(text: &str, kind: GrantKind) -> Option<(&'static str, String, String)> {
        serde_json::from_str::<TcpGrant>(text).unwrap().flaw(kind)
    }

    #[test]
    fn a_grant_says_what_is_wrong_with_it() {
        let login = r#""login": {"protocol": "postgres", "user": "u", "password": "{secret:p}"}"#;
        let sql =
            format!(r#"{{"name": "shop", "to": "db:1", "tls": "postgres", "pool": 4, {login}}}"#);
        assert_eq!(flaw(&sql, GrantKind::Sql), None);
        assert_eq!(flaw(r#"{"to": "db:1"}"#, GrantKind::Tcp), None);
        for (text, key) in [
            (&*sql, "name"),
            (r#"{"to": "db:1", "max_connections": 0}"#, "max_connections"),
            (r#"{"to": "db:1", "pool": 9, "max_connections": 8}"#, "pool"),
            (r#"{"to": "db:1", "idle_seconds": 0}"#, "idle_seconds"),
            (
                r#"{"to": "db:1", "login": {"protocol": "redis"}}"#,
                "login.password",
            ),
            (
                r#"{"to": "db:1", "login": {"protocol": "smtp", "password": "p"}}"#,
                "login.user",
            ),
            (
                r#"{"to": "db:1", "login": {"protocol": "redis", "password": "p", "database": "x"}}"#,
                "login.database",
            ),
            (
                r#"{"to": "db:1", "tls": "smtp", "login": {"protocol": "redis", "password": "p"}}"#,
                "tls",
            ),
            (
                r#"{"to": "db:1", "pool": 1, "login": {"protocol": "smtp", "user": "u", "password": "p"}}"#,
                "pool",
            ),
        ] {
            assert_eq!(flaw(text, GrantKind::Tcp).unwrap().0, key, "{text}");
        }
        assert_eq!(flaw(r#"{"to": "db:1"}"#, GrantKind::Sql).unwrap().0, "name");
        let no_login = r#"{"name": "shop", "to": "db:1"}"#;
        assert_eq!(flaw(no_login, GrantKind::Sql).unwrap().0, "login");
    }
}
