//! Signs requests by Signature Version 4 of AWS, in the header `authorization`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hmac::{Hmac, KeyInit as _, Mac as _};
use host_core::egress::{HttpError, HttpErrorKind};
use host_core::hex::hex;
use host_core::http_grant::Signing;
use host_core::secret::Secret;
use host_core::time::Time;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Uri};
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::secrets::Secrets;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The services that hash a path as it is sent; others encode it again.
const OBJECT_STORES: [&str; 3] = ["s3", "s3-object-lambda", "s3-outposts"];

/// Headers that are signed besides `host` and those that begin with [`OWN`].
const SIGNED: [&str; 2] = ["content-md5", "content-type"];

const OWN: &str = "x-amz-";

/// Keys of AWS and what they sign for. There is no `Debug`, because it would show them.
pub(crate) struct Signer {
    region: String,
    service: String,
    key_id: String,
    secret_key: String,
    session_token: Option<String>,
    /// The secret in whose place a signature is shown.
    secret_name: String,
}

/// What is signed besides headers. Its URL is normalized.
pub(crate) struct Unsigned<'a> {
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    pub(crate) body: &'a [u8],
}

impl Signer {
    /// Makes the signer of a grant with the current secrets.
    pub(crate) fn new(signing: &Signing, secrets: &Secrets) -> Result<Self, HttpError> {
        let token = signing.session_token.as_ref();
        let mut names = signing.secret_key.secrets();
        Ok(Self {
            region: signing.region.clone(),
            service: signing.service.clone(),
            key_id: secrets.fill(&signing.key_id)?,
            secret_key: secrets.fill(&signing.secret_key)?,
            session_token: token.map(|it| secrets.fill(it)).transpose()?,
            secret_name: names.next().unwrap_or_default().to_owned(),
        })
    }

    /// Adds the headers of a signature as of `at`. Returns the signature, which no guest may see.
    pub(crate) fn sign(
        &self,
        request: &Unsigned<'_>,
        headers: &mut HeaderMap,
        at: Time,
    ) -> Result<Secret, HttpError> {
        let time = basic_time(at);
        let day = &time[..8];
        let scope = format!("{day}/{}/{}/aws4_request", self.region, self.service);
        let body_hash = hex(&Sha256::digest(request.body));
        let is_object_store = OBJECT_STORES.contains(&self.service.as_str());
        insert(headers, "x-amz-date", &time)?;
        if is_object_store {
            insert(headers, "x-amz-content-sha256", &body_hash)?;
        }
        if let Some(token) = &self.session_token {
            insert(headers, "x-amz-security-token", token)?;
        }
        let signed = signed_headers(request.uri, headers);
        let names: Vec<&str> = signed.keys().copied().collect();
        let names = names.join(";");
        let lines = signed
            .iter()
            .fold(String::new(), |mut lines, (name, value)| {
                // Writing to a string does not fail.
                let _ = writeln!(lines, "{name}:{value}");
                lines
            });
        let path = if is_object_store {
            request.uri.path().to_owned()
        } else {
            encode(collapse(request.uri.path()).as_bytes(), b"/")
        };
        let query = canonical_query(request.uri.query().unwrap_or_default());
        let method = request.method;
        let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{body_hash}");
        let hash = hex(&Sha256::digest(canonical));
        let to_sign = format!("{ALGORITHM}\n{time}\n{scope}\n{hash}");
        let first_key = format!("AWS4{}", self.secret_key).into_bytes();
        let parts = [day, &self.region, &self.service, "aws4_request"];
        let key = parts.iter().fold(first_key, |key, part| mac(&key, part));
        let value = hex(&mac(&key, &to_sign));
        let header = format!(
            "{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={value}",
            self.key_id
        );
        insert(headers, AUTHORIZATION.as_str(), &header)?;
        let name = self.secret_name.clone();
        Ok(Secret { name, value })
    }
}

/// Writes the path and the query of a URL with the escapes that signatures have, so that a server which decodes and encodes
/// them computes the same. An escape stays in its segment and in its part of the query.
pub(crate) fn normalize(url: &mut Url) {
    let segments = url.path().split('/');
    let path: Vec<String> = segments.map(|it| encode(&decode(it, false), b"")).collect();
    let query = url.query().map(|query| {
        let parts = query.split('&').filter(|it| !it.is_empty());
        let encoded = |text: &str| encode(&decode(text, true), b"");
        let encoded_parts: Vec<String> = parts
            .map(|part| match part.split_once('=') {
                Some((name, value)) => format!("{}={}", encoded(name), encoded(value)),
                None => encoded(part),
            })
            .collect();
        encoded_parts.join("&")
    });
    url.set_path(&path.join("/"));
    url.set_query(query.as_deref());
}

fn insert(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), HttpError> {
    let refused = |_| {
        let message = "a key for signing has a line break".to_owned();
        HttpError::new(HttpErrorKind::NotGranted, message)
    };
    let mut value = HeaderValue::from_str(value).map_err(refused)?;
    value.set_sensitive(true);
    if let Ok(name) = HeaderName::from_bytes(name.as_bytes()) {
        headers.insert(name, value);
    }
    Ok(())
}

/// Returns the headers that are signed, by name.
fn signed_headers<'a>(uri: &Uri, headers: &'a HeaderMap) -> BTreeMap<&'a str, String> {
    let host = uri.authority().map_or("", |it| it.as_str()).to_owned();
    let mut signed = BTreeMap::from([("host", host)]);
    for name in headers.keys().map(HeaderName::as_str) {
        if name.starts_with(OWN) || SIGNED.contains(&name) {
            let values = headers.get_all(name).iter().map(|value| {
                let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
                let words: Vec<&str> = text.split(' ').filter(|it| !it.is_empty()).collect();
                words.join(" ")
            });
            signed.insert(name, values.collect::<Vec<_>>().join(","));
        }
    }
    signed
}

/// Returns the parts of a normalized query in their order, each with a value.
fn canonical_query(query: &str) -> String {
    let parts = query.split('&').filter(|it| !it.is_empty());
    let mut pairs: Vec<_> = parts
        .map(|it| it.split_once('=').unwrap_or((it, "")))
        .collect();
    pairs.sort_unstable();
    let written: Vec<String> = pairs.iter().map(|(a, b)| format!("{a}={b}")).collect();
    written.join("&")
}

/// Returns a path without empty segments, except the last one.
fn collapse(path: &str) -> String {
    let segments: Vec<&str> = path.split('/').filter(|it| !it.is_empty()).collect();
    let end = if segments.is_empty() || !path.ends_with('/') {
        ""
    } else {
        "/"
    };
    format!("/{}{end}", segments.join("/"))
}

/// Returns an instant as `20150830T123600Z`.
fn basic_time(at: Time) -> String {
    let seconds = at.to_rfc3339();
    let seconds = seconds.split('.').next().unwrap_or_default();
    seconds.replace(['-', ':'], "") + "Z"
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    // HMAC takes keys of any length.
    let keyed = Hmac::<Sha256>::new_from_slice(key).map(|mac| mac.chain_update(text));
    keyed.map_or_else(|_| Vec::new(), |mac| mac.finalize().into_bytes().to_vec())
}

/// Escapes all bytes but unreserved ones and those of `kept`.
fn encode(bytes: &[u8], kept: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) || kept.contains(byte) {
            text.push(char::from(*byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

/// Replaces escapes by their bytes, and in a query `+` by a space. What is not an escape stays.
fn decode(text: &str, is_query: bool) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, after @ ..] = rest {
        let digit = |at: usize| after.get(at).and_then(|it| char::from(*it).to_digit(16));
        let escaped = digit(0).zip(digit(1)).filter(|_| *first == b'%');
        if let Some(byte) = escaped.and_then(|(high, low)| u8::try_from(high << 4 | low).ok()) {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(if is_query && *first == b'+' {
                b' '
            } else {
                *first
            });
            rest = after;
        }
    }
    bytes
}

#[cfg(test)]
mod tests;
