//! URLs of requests, parsed strictly: a scheme, a host, a port and a path, and nothing that could make two
//! readers see different hosts. Pure.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use hyper::Uri;
use serde::de::{Deserialize, Deserializer, Error as _};
use thiserror::Error;

/// The longest URL, in bytes.
const URL_BYTES_MAX: usize = 2_048;

/// The server. Two origins are equal if scheme, host and port are written in the same way: an address is not
/// equal to a name, nor an IPv4 address to the same one written as IPv6.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    scheme: Scheme,
    host: Host,
    port: u16,
}

/// Whether the connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Scheme {
    Http,
    Https,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Host {
    Address(IpAddr),
    Name(String),
}

/// An origin and the path below which requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    origin: Origin,
    /// Empty, or a slash and segments without a slash at the end.
    path: String,
}

/// Why a text is not a usable URL. The text is not shown, because it may contain a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UrlError {
    #[error("it is not an http:// or https:// URL")]
    NotHttp,
    #[error("it is longer than {URL_BYTES_MAX} bytes")]
    TooLong,
    #[error("it has a user name or password; remove them")]
    UserInfo,
    #[error("its host is not a name or an address")]
    Host,
    #[error("its port is not a number from 1 to 65535")]
    Port,
    #[error("it has a query or a fragment; remove them")]
    Query,
    #[error(
        "its path has other characters than letters, digits, `-`, `.`, `_`, `~` and `/`, or the segment `..`"
    )]
    Path,
}

impl Origin {
    /// Returns whether the host is this machine.
    pub fn is_loopback(&self) -> bool {
        match &self.host {
            Host::Address(address) => address.is_loopback(),
            Host::Name(name) => name == "localhost",
        }
    }

    /// Returns whether requests could be read on a network.
    pub fn is_exposed(&self) -> bool {
        self.scheme == Scheme::Http && !self.is_loopback()
    }

    /// Returns host and port for a socket.
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host(), self.port)
    }

    /// Returns the host, an IPv6 address in brackets.
    pub fn host(&self) -> String {
        match &self.host {
            Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
            Host::Address(IpAddr::V4(address)) => address.to_string(),
            Host::Name(name) => name.clone(),
        }
    }
}

impl BaseUrl {
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns whether it is only an origin.
    pub fn is_origin(&self) -> bool {
        self.path.is_empty()
    }

    /// Adds a path, which starts with a slash.
    pub(super) fn join(&self, path: &str) -> Option<Uri> {
        format!("{self}{path}").parse().ok()
    }
}

/// The error does not show the text, which may contain a password.
impl<'de> Deserialize<'de> for BaseUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let url = text.parse();
        url.map_err(|error: UrlError| D::Error::custom(format_args!("invalid URL: {error}")))
    }
}

impl FromStr for BaseUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(UrlError::NotHttp);
        };
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(UrlError::NotHttp),
        };
        if rest.contains(['?', '#']) {
            return Err(UrlError::Query);
        }
        // Some programs treat a backslash as a slash, so the host would end there.
        let end = rest.find(['/', '\\']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(UrlError::UserInfo);
        }
        Ok(Self {
            origin: read_origin(scheme, authority)?,
            path: read_path(path)?,
        })
    }
}

fn read_origin(scheme: Scheme, authority: &str) -> Result<Origin, UrlError> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (address, port) = rest.split_once(']').ok_or(UrlError::Host)?;
        let address: Ipv6Addr = address.parse().map_err(|_| UrlError::Host)?;
        let port = match port {
            "" => None,
            _ => Some(port.strip_prefix(':').ok_or(UrlError::Host)?),
        };
        return Ok(Origin {
            scheme,
            host: Host::Address(address.into()),
            port: read_port(scheme, port)?,
        });
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    Ok(Origin {
        scheme,
        host: read_host(host)?,
        port: read_port(scheme, port)?,
    })
}

fn read_host(text: &str) -> Result<Host, UrlError> {
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Ok(Host::Address(address.into()));
    }
    let mut labels = text.split('.');
    let is_label = |label: &str| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(is_inner)
    };
    // Resolvers accept `0x7f.1`, `2130706433` and the like as addresses.
    let last = text.rsplit('.').next().unwrap_or_default();
    let is_number = last.as_bytes().first().is_some_and(u8::is_ascii_digit);
    if text.len() > 253 || is_number || !labels.all(is_label) {
        return Err(UrlError::Host);
    }
    Ok(Host::Name(text.to_ascii_lowercase()))
}

fn read_port(scheme: Scheme, text: Option<&str>) -> Result<u16, UrlError> {
    match text {
        None => Ok(match scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }),
        Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            let port = text.parse().map_err(|_| UrlError::Port)?;
            if port == 0 {
                Err(UrlError::Port)
            } else {
                Ok(port)
            }
        }
        Some(_) => Err(UrlError::Port),
    }
}

fn read_path(text: &str) -> Result<String, UrlError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    if !text.bytes().all(is_plain) || text.split('/').any(|segment| segment == "..") {
        return Err(UrlError::Path);
    }
    Ok(text.trim_end_matches('/').to_owned())
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        write!(f, "{scheme}://{}", self.authority())
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.path)
    }
}
