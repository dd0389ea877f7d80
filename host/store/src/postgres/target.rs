//! The address of a database and the credentials for it. Passwords are never shown. Makes no connections.

mod passfile;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use self::passfile::PasswordQuery;

/// How a connection uses TLS, as in libpq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Security {
    Disable,
    /// With TLS only if the server refuses otherwise.
    Allow,
    /// With TLS if the server supports it. Its certificate is not checked.
    Prefer,
    /// With TLS. The certificate is checked only if authorities are given.
    Require,
    /// With TLS. The certificate must be signed by an authority.
    VerifyCa,
    /// With TLS. The certificate must also be for the server's name.
    VerifyFull,
}

impl Security {
    pub(super) fn mode(self) -> SslMode {
        match self {
            Self::Disable => SslMode::Disable,
            Self::Prefer => SslMode::Prefer,
            Self::Allow | Self::Require | Self::VerifyCa | Self::VerifyFull => SslMode::Require,
        }
    }
}

impl FromStr for Security {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        Ok(match text {
            "disable" => Self::Disable,
            "allow" => Self::Allow,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            _ => return Err(TargetError::SslMode),
        })
    }
}

/// The address of a database. Displayed without user and password.
#[derive(Clone)]
pub struct Target {
    pub(super) config: Config,
    pub(super) security: Security,
    /// The file of authorities for the server's certificate. `None` for the system's.
    pub(super) authorities: Option<PathBuf>,
    /// Where the address comes from: a flag, a variable or a key.
    origin: Option<String>,
}

/// Why an address is refused. Never quotes it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TargetError {
    /// The text is not the address of a database.
    #[error(
        "write postgres://[USER[:PASSWORD]@]HOST[:PORT][,HOST…]/DATABASE[?OPTION=VALUE&…], with the \
         options of libpq"
    )]
    Unreadable,
    /// The mode of TLS is unknown.
    #[error("sslmode: expected disable, allow, prefer, require, verify-ca or verify-full")]
    SslMode,
    /// The file with the address cannot be used.
    #[error("the file {}: {problem}", path.display())]
    UrlFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The password file cannot be used.
    #[error("the password file {}: {problem}", path.display())]
    PassFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl Target {
    /// Returns whether a text looks like the address of a database rather than a folder.
    pub fn is_url(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// Returns whether an address has a password. An invalid one has none.
    pub fn has_password(url: &str) -> bool {
        let read = Self::parse(url, None);
        read.is_ok_and(|target| target.config.get_password().is_some())
    }

    /// Refuses a file with an address that others may read. A link is judged by its target.
    pub fn check_file(path: &Path) -> Result<(), TargetError> {
        let metadata = std::fs::metadata(path).map_err(|_| "cannot be read");
        let checked = metadata.and_then(|metadata| passfile::private(&metadata));
        checked.map_err(|problem| TargetError::UrlFile {
            path: path.to_owned(),
            problem,
        })
    }

    /// Reads an address. If it has no password, looks for one in `passfile`.
    pub fn parse(url: &str, passfile: Option<&Path>) -> Result<Self, TargetError> {
        if !Self::is_url(url) {
            return Err(TargetError::Unreadable);
        }
        let (address, options) = url.split_once('?').unwrap_or((url, ""));
        let (mut security, mut authorities) = (Security::Prefer, None);
        let mut others = Vec::new();
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("sslmode", mode)) => security = mode.parse()?,
                Some(("sslrootcert", path)) => authorities = Some(decoded(path)?.into()),
                _ => others.push(option),
            }
        }
        let address = if others.is_empty() {
            address.to_owned()
        } else {
            format!("{address}?{}", others.join("&"))
        };
        let mut config: Config = address.parse().map_err(|_| TargetError::Unreadable)?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(TargetError::Unreadable);
        }
        if config.get_application_name().is_none() {
            config.application_name("host");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(super::CONNECT_TIMEOUT);
        }
        config.tcp_user_timeout(super::SILENCE_MAX);
        config.keepalives_idle(super::SILENCE_MAX);
        let mut target = Self {
            config,
            security,
            authorities,
            origin: None,
        };
        if target.config.get_password().is_none()
            && let Some(path) = passfile
            && let Some(password) = passfile::password(path, &target.asked())?
        {
            target.config.password(password);
        }
        Ok(target)
    }

    /// Records where the address comes from, so that errors can name it.
    #[must_use]
    pub fn named_by(mut self, origin: &str) -> Self {
        self.origin = Some(origin.to_owned());
        self
    }

    /// Returns the address and where it comes from.
    pub(super) fn with_origin(&self) -> String {
        match &self.origin {
            Some(origin) => format!("{self} (from {origin})"),
            None => self.to_string(),
        }
    }

    /// Returns the name of the database, which is that of the user if the address has none.
    pub(super) fn database(&self) -> &str {
        let name = self.config.get_dbname().or(self.config.get_user());
        name.unwrap_or_default()
    }

    /// Returns what to look up in a password file, for each server in turn.
    fn asked(&self) -> Vec<PasswordQuery> {
        let user = self.config.get_user().unwrap_or_default();
        let servers = self.servers().into_iter();
        let asked = servers.map(|(host, port)| PasswordQuery {
            host,
            port: port.to_string(),
            database: self.database().to_owned(),
            user: user.to_owned(),
        });
        asked.collect()
    }

    fn servers(&self) -> Vec<(String, u16)> {
        let ports = self.config.get_ports();
        let named = self.config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        let mut hosts: Vec<String> = named.collect();
        if hosts.is_empty() {
            let addresses = self.config.get_hostaddrs().iter();
            hosts = addresses.map(ToString::to_string).collect();
        }
        let port = |n: usize| *ports.get(n).or(ports.last()).unwrap_or(&DEFAULT_PORT);
        let numbered = hosts.into_iter().enumerate();
        numbered.map(|(n, host)| (host, port(n))).collect()
    }
}

/// The default port.
const DEFAULT_PORT: u16 = 5_432;

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        for (n, (host, port)) in self.servers().iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            if host.starts_with('/') {
                write!(f, "{comma}{}:{port}", host.replace('/', "%2F"))?;
            } else {
                write!(f, "{comma}{host}:{port}")?;
            }
        }
        write!(f, "/{}", self.config.get_dbname().unwrap_or_default())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

/// Decodes `%XX`.
fn decoded(text: &str) -> Result<String, TargetError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' {
            let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
            let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
            bytes.push(byte.ok_or(TargetError::Unreadable)?);
            rest = &after[2..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8(bytes).map_err(|_| TargetError::Unreadable)
}
