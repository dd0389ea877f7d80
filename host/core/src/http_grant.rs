//! What a handler may ask of HTTP servers, as a manifest grants it: origins, methods, paths, and headers
//! with secrets that the guest never sees.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::glob;
use crate::seconds::Seconds;

mod oauth;
mod signing;

pub use self::oauth::{ClientAuth, OAuth, TokenUrl};
pub use self::signing::{SignScheme, Signing};

/// The longest name of a host, in bytes, as DNS limits it.
const HOST_BYTES_MAX: usize = 253;

/// The start of a pattern for all names below one.
const BELOW: &str = "*.";

/// The start of the place of a secret in a header.
const SECRET: &str = "{secret:";

/// The longest name of a secret, in bytes.
const SECRET_NAME_BYTES_MAX: usize = 64;

/// One origin, or all origins whose names are below one: `https://api.example.com`,
/// `https://*.example.com:8443`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OriginPattern {
    is_tls: bool,
    /// Whether `host` matches the names below it.
    is_wild: bool,
    /// In lower case; an IPv6 address in brackets.
    host: String,
    port: u16,
}

/// Why a text is not an [`OriginPattern`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OriginError {
    #[error("expected https://NAME or http://NAME")]
    Scheme,
    #[error("expected only a name and a port after the scheme, without a path or a user")]
    NotAnOrigin,
    #[error("expected a lower-case host name, an IPv4 address or an [IPv6 address]")]
    Host,
    #[error("expected a port of 1–65535")]
    Port,
}

impl OriginPattern {
    /// Returns whether the pattern includes the origin. `host` is in lower case; an IPv6 address is in brackets.
    pub fn includes(&self, is_tls: bool, host: &str, port: u16) -> bool {
        let is_host = if self.is_wild {
            is_below(host, &self.host)
        } else {
            host == self.host
        };
        is_host && self.is_tls == is_tls && self.port == port
    }

    /// Returns whether the pattern includes every origin that `other` does.
    pub fn covers(&self, other: &Self) -> bool {
        let is_same = self.host == other.host && self.is_wild == other.is_wild;
        let is_host = is_same || self.is_wild && is_below(&other.host, &self.host);
        is_host && self.is_tls == other.is_tls && self.port == other.port
    }
}

/// Returns whether the host name `name` is below `above`. An address is below nothing.
fn is_below(name: &str, above: &str) -> bool {
    name.strip_suffix(above)
        .is_some_and(|label| label.len() > 1 && label.ends_with('.'))
}

impl FromStr for OriginPattern {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        let (scheme, rest) = text.split_once("://").ok_or(OriginError::Scheme)?;
        let (is_tls, default_port) = match scheme {
            "https" => (true, 443),
            "http" => (false, 80),
            _ => return Err(OriginError::Scheme),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#', '@', '\\']) {
            return Err(OriginError::NotAnOrigin);
        }
        let is_port = |port: &str| !port.is_empty() && port.bytes().all(|it| it.is_ascii_digit());
        // An IPv6 address has colons too, all of them in brackets.
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                let port = is_port(port).then(|| port.parse().ok()).flatten();
                (
                    host,
                    port.filter(|port| *port > 0).ok_or(OriginError::Port)?,
                )
            }
            _ => (rest, default_port),
        };
        let (is_wild, host) = match host.strip_prefix(BELOW) {
            Some(above) => (true, above),
            None => (false, host),
        };
        if !is_host_name(host) && (is_wild || !is_ipv6(host)) {
            return Err(OriginError::Host);
        }
        // `*.7` would match addresses.
        let last = host.rsplit('.').next().unwrap_or_default();
        let is_numeric = last.bytes().all(|it| it.is_ascii_digit());
        if is_numeric && (is_wild || host.parse::<std::net::Ipv4Addr>().is_err()) {
            return Err(OriginError::Host);
        }
        Ok(Self {
            is_tls,
            is_wild,
            host: host.to_owned(),
            port,
        })
    }
}

pub(crate) fn is_host_name(host: &str) -> bool {
    let is_label = |label: &str| {
        let allowed =
            |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b"-_".contains(&it);
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(allowed)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    host.len() <= HOST_BYTES_MAX && host.split('.').all(is_label)
}

/// Returns whether `host` is an IPv6 address in brackets, as URLs are normalized.
pub(crate) fn is_ipv6(host: &str) -> bool {
    let inner = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    inner.is_some_and(|inner| {
        let parsed = inner.parse::<std::net::Ipv6Addr>();
        parsed.is_ok_and(|address| address.to_string() == inner)
    })
}

impl fmt::Display for OriginPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, default_port) = if self.is_tls {
            ("https", 443)
        } else {
            ("http", 80)
        };
        let wild = if self.is_wild { BELOW } else { "" };
        write!(f, "{scheme}://{wild}{}", self.host)?;
        if self.port == default_port {
            Ok(())
        } else {
            write!(f, ":{}", self.port)
        }
    }
}

impl TryFrom<String> for OriginPattern {
    type Error = OriginError;

    fn try_from(text: String) -> Result<Self, OriginError> {
        text.parse()
    }
}

impl From<OriginPattern> for String {
    fn from(pattern: OriginPattern) -> Self {
        pattern.to_string()
    }
}

/// A value of a header, with places for secrets: `Bearer {secret:stripe}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HeaderTemplate(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Part {
    Text(String),
    Secret(String),
}

/// Why a text is not a [`HeaderTemplate`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TemplateError {
    #[error("a header's value may have only printable ASCII characters")]
    Character,
    #[error(
        "expected {{secret:NAME}} with a name of 1–{SECRET_NAME_BYTES_MAX} letters, digits, `-` and `_`"
    )]
    Secret,
}

impl HeaderTemplate {
    /// Returns the names of the secrets.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Secret(name) => Some(&**name),
            Part::Text(_) => None,
        })
    }

    /// Returns the value. The error is the name of the first secret that `secret` does not have.
    pub fn fill<'a>(&self, secret: impl Fn(&str) -> Option<&'a str>) -> Result<String, &str> {
        let mut value = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => value.push_str(text),
                Part::Secret(name) => value.push_str(secret(name).ok_or(&**name)?),
            }
        }
        Ok(value)
    }
}

/// Returns whether `name` can be the name of a secret.
pub fn is_secret_name(name: &str) -> bool {
    let allowed = |it: u8| it.is_ascii_alphanumeric() || b"-_".contains(&it);
    (1..=SECRET_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(allowed)
}

impl FromStr for HeaderTemplate {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        if !text.bytes().all(|it| (b' '..=b'~').contains(&it)) {
            return Err(TemplateError::Character);
        }
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once(SECRET) {
            let (name, after) = after.split_once('}').ok_or(TemplateError::Secret)?;
            if !is_secret_name(name) {
                return Err(TemplateError::Secret);
            }
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(Part::Secret(name.to_owned()));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self(parts))
    }
}

impl TryFrom<String> for HeaderTemplate {
    type Error = TemplateError;

    fn try_from(text: String) -> Result<Self, TemplateError> {
        text.parse()
    }
}

impl fmt::Display for HeaderTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            Part::Text(text) => f.write_str(text),
            Part::Secret(name) => write!(f, "{SECRET}{name}}}"),
        })
    }
}

impl From<HeaderTemplate> for String {
    fn from(template: HeaderTemplate) -> Self {
        template.to_string()
    }
}

/// Requests that a handler may make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpGrant {
    /// The servers.
    pub to: OriginPattern,
    /// The methods, in upper case; all if empty.
    #[serde(default)]
    pub methods: Vec<String>,
    /// Patterns of paths, each a [`glob`]. All if empty.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Headers that are added to each request, in lower case. The guest neither sees nor sets them.
    #[serde(default)]
    pub headers: BTreeMap<String, HeaderTemplate>,
    /// How each request is signed.
    #[serde(default)]
    pub sign: Option<Signing>,
    /// How the broker gets the access token that each request carries.
    #[serde(default)]
    pub oauth: Option<OAuth>,
    /// The most requests of one attempt.
    #[serde(default)]
    pub max_requests: Option<u32>,
    /// The largest body of a response, in KiB.
    #[serde(default)]
    pub max_response_kib: Option<u32>,
    /// The most bytes of all bodies of one attempt, sent and received, in MiB.
    #[serde(default)]
    pub max_total_mib: Option<u32>,
    /// Time limit of each request, in seconds.
    #[serde(default)]
    pub timeout_seconds: Option<Seconds>,
}

/// The default of [`HttpGrant::max_requests`].
pub const REQUESTS_DEFAULT: u32 = 1_000;

/// The highest [`HttpGrant::max_requests`].
pub const REQUESTS_MAX: u32 = 100_000;

/// The default of [`HttpGrant::max_response_kib`].
pub const RESPONSE_KIB_DEFAULT: u32 = 1_024;

/// The highest [`HttpGrant::max_response_kib`]: with its overhead it fits in a frame.
pub const RESPONSE_KIB_MAX: u32 = 16 << 10;

/// The default of [`HttpGrant::max_total_mib`].
pub const TOTAL_MIB_DEFAULT: u32 = 1_024;

/// The highest [`HttpGrant::max_total_mib`].
pub const TOTAL_MIB_MAX: u32 = 1 << 20;

/// The default of [`HttpGrant::timeout_seconds`], in milliseconds.
pub const TIMEOUT_MS_DEFAULT: u64 = 30_000;

impl HttpGrant {
    /// Returns the names of the secrets that its requests need.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let in_headers = self.headers.values().flat_map(HeaderTemplate::secrets);
        let in_signatures = self.sign.iter().flat_map(Signing::secrets);
        let for_tokens = self.oauth.iter().flat_map(OAuth::secrets);
        in_headers.chain(in_signatures).chain(for_tokens)
    }

    /// Returns whether the broker sets the header, so that the guest cannot.
    pub fn sets(&self, header: &str) -> bool {
        self.headers.contains_key(header) || self.key_that_sets(header).is_some()
    }

    /// Returns the key other than `headers` by which the broker sets the header.
    fn key_that_sets(&self, header: &str) -> Option<&'static str> {
        if self.sign.is_some() && Signing::sets(header) {
            return Some("sign");
        }
        (self.oauth.is_some() && OAuth::sets(header)).then_some("oauth")
    }

    /// Returns what is wrong with it: the key, its value, and what is expected.
    pub fn flaw(&self) -> Option<(&'static str, String, String)> {
        let is_method = |method: &String| {
            (1..=32).contains(&method.len()) && method.bytes().all(|it| it.is_ascii_uppercase())
        };
        let is_path = |path: &String| {
            path.starts_with('/')
                && path.len() <= 1_024
                && path.bytes().all(|it| it.is_ascii_graphic())
        };
        if let Some(other) = self.methods.iter().find(|it| !is_method(it)) {
            let expected = "the upper-case name of a method".to_owned();
            return Some(("http.methods", format!("{other:?}"), expected));
        }
        if let Some(other) = self.paths.iter().find(|it| !is_path(it)) {
            let expected = "a pattern that starts with `/`".to_owned();
            return Some(("http.paths", format!("{other:?}"), expected));
        }
        let lacking = |path: &String| glob::check(path).err().map(|lack| (path.clone(), lack));
        if let Some((path, lack)) = self.paths.iter().find_map(lacking) {
            let expected = format!("a pattern with {lack}");
            return Some(("http.paths", format!("{path:?}"), expected));
        }
        if let Some(other) = self.headers.keys().find(|it| !may_be_added(it)) {
            let expected = "the lower-case name of a header that may be set".to_owned();
            return Some(("http.headers", format!("{other:?}"), expected));
        }
        if let Some(flaw) = self.sign.as_ref().and_then(Signing::flaw) {
            return Some(flaw);
        }
        if self.sign.is_some() && self.oauth.is_some() {
            let expected = "`sign` or `oauth`, not both".to_owned();
            return Some(("http.oauth", "a table".to_owned(), expected));
        }
        if let Some(flaw) = self.oauth.as_ref().and_then(OAuth::flaw) {
            return Some(flaw);
        }
        let mut headers = self.headers.keys();
        let set_twice = headers.find_map(|header| Some((header, self.key_that_sets(header)?)));
        if let Some((header, key)) = set_twice {
            let expected = format!("no header that `{key}` sets");
            return Some(("http.headers", format!("{header:?}"), expected));
        }
        for (key, value, max) in [
            ("http.max_requests", self.max_requests, REQUESTS_MAX),
            (
                "http.max_response_kib",
                self.max_response_kib,
                RESPONSE_KIB_MAX,
            ),
            ("http.max_total_mib", self.max_total_mib, TOTAL_MIB_MAX),
        ] {
            if let Some(other) = value.filter(|value| !(1..=max).contains(value)) {
                return Some((key, other.to_string(), format!("1–{max}")));
            }
        }
        let timeout = self.timeout_seconds.filter(|it| it.ms == 0)?;
        let value = f64::from(timeout).to_string();
        Some(("http.timeout_seconds", value, "0.001 or more".to_owned()))
    }
}

/// What is wrong with an ambiguous path, as the end of a sentence about it.
pub const AMBIGUOUS: &str = "can be read in several ways: it may have no empty segment, no `\\`, no `;`, no dot at the end of a segment, no space \
     at either end of one, and no escapes of these, of `/`, `%`, letters, digits, `-`, `_`, `~` and control characters, or of bytes \
     that are not UTF-8";

/// Returns whether servers may read a path as another one: decoded once or several times, without what follows a `;`, without
/// dots and spaces at the ends of segments, without empty segments, or with `\` as `/`.
pub fn is_ambiguous(path: &str) -> bool {
    let mut segments = path.strip_prefix('/').unwrap_or(path).split('/');
    // It is empty if the path ends with a slash.
    let last = segments.next_back().unwrap_or_default();
    segments.any(|segment| segment.is_empty() || is_ambiguous_segment(segment))
        || is_ambiguous_segment(last)
}

fn is_ambiguous_segment(segment: &str) -> bool {
    let Some(decoded) = decode_exactly(segment.as_bytes()) else {
        return true;
    };
    let has_space = decoded.starts_with(b" ") || decoded.ends_with(b" ");
    has_space || decoded.ends_with(b".") || str::from_utf8(&decoded).is_err()
}

/// Decodes a segment. Returns `None` if a byte or an escape in it has several meanings.
fn decode_exactly(mut segment: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(segment.len());
    while let [byte, after @ ..] = segment {
        segment = after;
        let meant = if *byte == b'%' {
            let (digits, after) = after.split_first_chunk::<2>()?;
            segment = after;
            let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
            let digits = str::from_utf8(digits).ok().filter(|_| is_hex)?;
            let meant = u8::from_str_radix(digits, 16).ok()?;
            let is_unreserved = meant.is_ascii_alphanumeric() || b"-._~".contains(&meant);
            if is_unreserved || b"/%".contains(&meant) {
                return None;
            }
            meant
        } else {
            *byte
        };
        if b"\\;".contains(&meant) || meant.is_ascii_control() {
            return None;
        }
        decoded.push(meant);
    }
    Some(decoded)
}

/// Returns whether a request may have a header with the name `name`, in lower case. The others belong to the
/// connection.
pub fn may_be_added(name: &str) -> bool {
    const OURS: [&str; 12] = [
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "traceparent",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    let is_token =
        |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&it);
    (1..=128).contains(&name.len()) && name.bytes().all(is_token) && !OURS.contains(&name)
}

#[cfg(test)]
mod tests;
