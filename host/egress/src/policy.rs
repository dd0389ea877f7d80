//! Decides whether a request may be sent, and builds what is sent. Decides on the parsed URL, which is
//! also what is sent; nothing else reads the guest's text.

use std::time::Duration;

use bytes::Bytes;
use host_core::egress::{
    BODY_BYTES_MAX, HEADERS_BYTES_MAX, HEADERS_MAX, HttpError, HttpErrorKind, HttpRequest, Pass,
    URL_BYTES_MAX,
};
use host_core::glob;
use host_core::http_grant::{
    AMBIGUOUS, HttpGrant, RESPONSE_KIB_DEFAULT, TIMEOUT_MS_DEFAULT, is_ambiguous, may_be_added,
};
use host_core::requests::{ORIGIN_BYTES_MAX, RequestTarget};
use host_core::secret::Revealed;
use host_core::time::Time;
use host_core::trace::{Parent, TRACEPARENT};
use hyper::header::{
    ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, IF_RANGE, RANGE, USER_AGENT,
};
use hyper::{Method, Uri};
use url::Url;

use crate::coding;
use crate::oauth::{self, TokenPost, TokenRequest};
use crate::secrets::{Secrets, unset};
use crate::sigv4::{self, Signer, Unsigned};

/// What requests say that they come from, unless the handler or the manifest says something else.
const USER_AGENT_DEFAULT: &str = concat!("host/", env!("CARGO_PKG_VERSION"));

/// The longest method that is recorded, in bytes.
const METHOD_BYTES_MAX: usize = 32;

/// A request that may be sent.
pub(crate) struct Order {
    /// The grant that allows it, by its place in the pass.
    pub(crate) grant: usize,
    /// Signs it before it is sent.
    pub(crate) signer: Option<Signer>,
    /// Gets the access token that it carries.
    pub(crate) token: Option<TokenRequest>,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) timeout: Duration,
    pub(crate) response_bytes_max: usize,
    /// The secrets that its response must not have.
    pub(crate) secrets: Revealed,
    /// Whether only the start of a larger body is read.
    pub(crate) cuts_body: bool,
    /// Whether the handler gets the body without its content coding.
    pub(crate) decodes_body: bool,
}

impl Order {
    /// Signs it as of `at`, if its grant says so.
    pub(crate) fn sign(&mut self, at: Time) -> Result<(), HttpError> {
        let Some(signer) = &self.signer else {
            return Ok(());
        };
        let request = Unsigned {
            method: &self.method,
            uri: &self.uri,
            body: &self.body,
        };
        let signature = signer.sign(&request, &mut self.headers, at)?;
        // A server may answer with what it was sent.
        self.secrets.add(signature);
        Ok(())
    }
}

impl Order {
    /// Returns the request of the token that this one needs, as of `at`. It may take as long as this one.
    pub(crate) fn token_order(&self, token: &TokenRequest, at: Time) -> Result<Self, HttpError> {
        let TokenPost {
            uri,
            mut headers,
            body,
        } = token.post(at)?;
        headers.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_DEFAULT));
        Ok(Self {
            grant: self.grant,
            signer: None,
            token: None,
            method: Method::POST,
            uri,
            headers,
            body,
            timeout: self.timeout,
            response_bytes_max: oauth::ANSWER_BYTES_MAX,
            // A guest sees nothing of the answer.
            secrets: Revealed::default(),
            cuts_body: false,
            decodes_body: false,
        })
    }

    /// Returns this request with a token.
    pub(crate) fn with_token(&self, token: &str) -> Result<Self, HttpError> {
        let mut headers = self.headers.clone();
        headers.insert(AUTHORIZATION, oauth::bearer(token)?);
        Ok(Self {
            grant: self.grant,
            signer: None,
            token: None,
            method: self.method.clone(),
            uri: self.uri.clone(),
            headers,
            body: self.body.clone(),
            timeout: self.timeout,
            response_bytes_max: self.response_bytes_max,
            secrets: self.secrets.clone(),
            cuts_body: self.cuts_body,
            decodes_body: self.decodes_body,
        })
    }
}

/// Decides whether a run with this pass may send the request, as the span that `trace` names. Writes to `asked` what is
/// recorded of it.
pub(crate) fn decide(
    pass: &Pass,
    secrets: &Secrets,
    request: HttpRequest,
    trace: Option<Parent>,
    asked: &mut RequestTarget,
) -> Result<Order, HttpError> {
    let mut url = url(&request.url)?;
    let origin = url.origin().ascii_serialization();
    asked.origin = Some(origin).filter(|it| it.len() <= ORIGIN_BYTES_MAX);
    let method = method(&request.method)?;
    asked.method = Some(method.to_string()).filter(|it| it.len() <= METHOD_BYTES_MAX);
    let (index, grant, pattern) = grant(pass, &method, &url)?;
    asked.path_pattern = pattern.cloned();
    if request.body.len() > BODY_BYTES_MAX {
        let message = format!(
            "the request's body has {} bytes, more than {BODY_BYTES_MAX}",
            request.body.len()
        );
        return Err(HttpError::new(HttpErrorKind::RequestTooLarge, message));
    }
    let mut headers = headers(&request.headers, grant)?;
    let hidden = secrets.reveal(pass);
    if !hidden.is_empty() {
        check_searchable(&headers)?;
    }
    headers.extend(added(grant, secrets)?);
    let decodes_body = accept_codings(&mut headers, !hidden.is_empty(), pass.cuts_bodies);
    let product = HeaderValue::from_static(USER_AGENT_DEFAULT);
    headers.entry(USER_AGENT).or_insert(product);
    if let Some(Ok(value)) = trace.map(|it| HeaderValue::from_str(&it.to_string())) {
        headers.insert(TRACEPARENT, value);
    }
    let signing = grant.sign.as_ref();
    let signer = signing.map(|it| Signer::new(it, secrets)).transpose()?;
    let oauth = grant.oauth.as_ref();
    let token = oauth.map(|it| TokenRequest::new(it, secrets)).transpose()?;
    if signer.is_some() {
        sigv4::normalize(&mut url);
    }
    let uri = url.as_str().parse();
    let timeout_ms = grant.timeout_seconds.map_or(TIMEOUT_MS_DEFAULT, |it| it.ms);
    let asked_ms = request.timeout_ms.map_or(u64::MAX, u64::from);
    let response_kib = grant.max_response_kib.unwrap_or(RESPONSE_KIB_DEFAULT);
    Ok(Order {
        grant: index,
        signer,
        token,
        method,
        uri: uri.map_err(|_| invalid("the URL cannot be sent"))?,
        headers,
        body: request.body.into(),
        timeout: Duration::from_millis(timeout_ms.min(asked_ms)),
        response_bytes_max: (response_kib as usize) << 10,
        secrets: hidden,
        cuts_body: pass.cuts_bodies,
        decodes_body,
    })
}

/// Says which content codings the response may have, unless the handler does. Returns whether its body is decoded.
fn accept_codings(headers: &mut HeaderMap, has_secrets: bool, cuts_body: bool) -> bool {
    // What a body costs compressed could say what it has in common with a secret.
    let accepted = match has_secrets {
        true => "identity",
        false if cuts_body || headers.contains_key(ACCEPT_ENCODING) => return false,
        // A part of a coded body is no coded body.
        false if headers.contains_key(RANGE) => return false,
        false => coding::ACCEPTED,
    };
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(accepted));
    !cuts_body
}

fn url(text: &str) -> Result<Url, HttpError> {
    if text.len() > URL_BYTES_MAX {
        let message = format!(
            "the URL has {} bytes, more than {URL_BYTES_MAX}",
            text.len()
        );
        return Err(invalid(message));
    }
    if !text.bytes().all(|it| it > b' ' && it != 0x7f) {
        return Err(invalid("the URL has a space or a control character"));
    }
    let parsed = Url::parse(text).map_err(|error| invalid(format!("invalid URL: {error}")));
    let mut url = parsed?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("the URL must start with https:// or http://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("the URL must not contain a user or a password"));
    }
    url.set_fragment(None);
    Ok(url)
}

fn method(name: &str) -> Result<Method, HttpError> {
    let method =
        Method::from_bytes(name.as_bytes()).map_err(|_| invalid("invalid name of a method"))?;
    if method == Method::CONNECT || method == Method::TRACE {
        return Err(invalid(format!("{method} cannot be sent")));
    }
    Ok(method)
}

/// Returns the first grant that allows the request, its place, and the pattern that allows the path.
fn grant<'a>(
    pass: &'a Pass,
    method: &Method,
    url: &Url,
) -> Result<(usize, &'a HttpGrant, Option<&'a String>), HttpError> {
    let refused = |message| HttpError::new(HttpErrorKind::NotGranted, message);
    let (is_tls, host) = (url.scheme() == "https", url.host_str().unwrap_or_default());
    let port = url.port_or_known_default().unwrap_or_default();
    let Pass {
        component, handler, ..
    } = pass;
    let grants = pass.grants.iter().enumerate();
    let to_server: Vec<_> = grants
        .filter(|(_, grant)| grant.to.includes(is_tls, host, port))
        .collect();
    if to_server.is_empty() {
        let origin = url.origin().ascii_serialization();
        let named: Vec<_> = pass.grants.iter().map(|it| it.to.to_string()).collect();
        return Err(refused(format!(
            "the manifest of {component} grants {handler} no requests to {origin}, only to {}",
            named.join(", ")
        )));
    }
    let is_ambiguous = is_ambiguous(url.path());
    let allows = |(place, grant): (usize, &'a HttpGrant)| {
        let is_method =
            grant.methods.is_empty() || grant.methods.iter().any(|it| it == method.as_str());
        let mut patterns = grant.paths.iter().filter(|_| !is_ambiguous);
        let pattern = patterns.find(|it| glob::matches(it, url.path()));
        let is_path = grant.paths.is_empty() || pattern.is_some();
        (is_path && is_method).then_some((place, grant, pattern))
    };
    let allowing = to_server.into_iter().find_map(allows);
    allowing.ok_or_else(|| {
        let path = url.path();
        if is_ambiguous {
            return refused(format!("the path {path} {AMBIGUOUS}"));
        }
        refused(format!(
            "the manifest of {component} grants {handler} requests to {host}, but not {method} {path}"
        ))
    })
}

/// Checks the guest's headers.
fn headers(given: &[(String, String)], grant: &HttpGrant) -> Result<HeaderMap, HttpError> {
    let bytes: usize = given
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if given.len() > HEADERS_MAX || bytes > HEADERS_BYTES_MAX {
        return Err(invalid(format!(
            "too many headers: at most {HEADERS_MAX} with {HEADERS_BYTES_MAX} bytes"
        )));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let name = name.to_ascii_lowercase();
        if !may_be_added(&name) {
            return Err(invalid(format!("the header {name:?} cannot be set")));
        }
        if grant.sets(&name) {
            return Err(invalid(format!(
                "the manifest sets the header {name}, so the handler cannot"
            )));
        }
        let value = HeaderValue::from_str(value)
            .map_err(|_| invalid(format!("invalid value of the header {name}")))?;
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| invalid(format!("invalid name of a header: {name:?}")))?;
        headers.append(name, value);
    }
    Ok(headers)
}

/// Refuses headers that ask for a part of a response: secrets could not be found in it.
fn check_searchable(headers: &HeaderMap) -> Result<(), HttpError> {
    match [RANGE, IF_RANGE]
        .iter()
        .find(|it| headers.contains_key(*it))
    {
        Some(name) => Err(invalid(format!(
            "the header {name} cannot be set: responses are searched for the secrets that the manifest grants, and a part of \
             a response may have a part of a secret"
        ))),
        None => Ok(()),
    }
}

/// Returns the headers that the grant adds.
fn added(grant: &HttpGrant, secrets: &Secrets) -> Result<HeaderMap, HttpError> {
    let mut headers = HeaderMap::new();
    for (name, template) in &grant.headers {
        let text = secrets.fill(template)?;
        let mut value = HeaderValue::from_str(&text)
            .map_err(|_| unset(format!("the secret in the header {name} has a line break")))?;
        value.set_sensitive(true);
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| unset(format!("invalid name of a header: {name:?}")))?;
        headers.insert(name, value);
    }
    Ok(headers)
}

fn invalid(message: impl Into<String>) -> HttpError {
    HttpError::new(HttpErrorKind::InvalidRequest, message)
}

#[cfg(test)]
mod tests;
