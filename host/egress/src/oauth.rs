//! Access tokens of OAuth 2.0: what asks for one, what the server answers, and the tokens that are kept. No guest sees a token.

mod service_account;
mod tokens;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use host_core::egress::{HttpError, HttpErrorKind, HttpResponse};
use host_core::http_grant::{ClientAuth, OAuth};
use host_core::time::Time;
use hyper::Uri;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::Value;
use tokio::time::{Duration, Instant};
use url::form_urlencoded;

use self::service_account::ServiceAccount;
pub(crate) use self::tokens::Tokens;
use crate::secrets::{Secrets, unset};

/// The largest answer of a token endpoint, in bytes.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 << 10;

/// How long a token is used whose server does not say how long it is valid, in seconds.
const LIFETIME_SECONDS_DEFAULT: u64 = 300;

/// The longest time that a token is used, in seconds, whatever its server says.
const LIFETIME_SECONDS_MAX: u64 = 86_400;

/// How long before its end a token is replaced at the latest, in seconds.
const MARGIN_SECONDS_MAX: u64 = 60;

/// The longest token, in bytes: it must fit into the headers of a request.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// A request for tokens, with its secrets. There is no `Debug`, because it would show them.
pub(crate) struct TokenRequest {
    pub(crate) oauth: OAuth,
    credentials: Credentials,
}

enum Credentials {
    Client { id: String, secret: String },
    ServiceAccount(ServiceAccount),
}

/// What is posted to a token endpoint.
pub(crate) struct TokenPost {
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A token, and until when it is used.
pub(crate) struct Token {
    pub(crate) value: String,
    pub(crate) until: Instant,
}

impl TokenRequest {
    /// Fills in the current secrets.
    pub(crate) fn new(oauth: &OAuth, secrets: &Secrets) -> Result<Self, HttpError> {
        let credentials = match (
            &oauth.service_account,
            &oauth.client_id,
            &oauth.client_secret,
        ) {
            (Some(account), _, _) => {
                let file = secrets.fill(account)?;
                Credentials::ServiceAccount(ServiceAccount::parse(&file).map_err(unset)?)
            }
            (None, Some(id), Some(secret)) => Credentials::Client {
                id: secrets.fill(id)?,
                secret: secrets.fill(secret)?,
            },
            _ => return Err(unset("the grant has no credentials".to_owned())),
        };
        Ok(Self {
            oauth: oauth.clone(),
            credentials,
        })
    }

    /// Writes what is posted as of `at`.
    pub(crate) fn post(&self, at: Time) -> Result<TokenPost, HttpError> {
        let OAuth {
            token_url,
            client_auth,
            scope,
            audience,
            ..
        } = &self.oauth;
        let mut form = form_urlencoded::Serializer::new(String::new());
        let mut headers = HeaderMap::new();
        let (scope, audience) = (scope.as_deref(), audience.as_deref());
        match &self.credentials {
            Credentials::Client { id, secret } => {
                form.append_pair("grant_type", "client_credentials");
                let texts = [("scope", scope), ("audience", audience)];
                for (key, text) in texts.into_iter().filter_map(|(key, it)| Some((key, it?))) {
                    form.append_pair(key, text);
                }
                match client_auth {
                    ClientAuth::Basic => {
                        let encode = |it: &str| -> String {
                            form_urlencoded::byte_serialize(it.as_bytes()).collect()
                        };
                        let pair = STANDARD.encode(format!("{}:{}", encode(id), encode(secret)));
                        headers.insert(AUTHORIZATION, sensitive(&format!("Basic {pair}"))?);
                    }
                    ClientAuth::Body => {
                        form.append_pair("client_id", id);
                        form.append_pair("client_secret", secret);
                    }
                }
            }
            Credentials::ServiceAccount(account) => {
                let assertion = account
                    .assertion(token_url.as_str(), scope, audience, at)
                    .map_err(unset)?;
                form.append_pair("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer");
                form.append_pair("assertion", &assertion);
            }
        }
        for (name, value) in [
            (ACCEPT, "application/json"),
            (ACCEPT_ENCODING, "identity"),
            (CONTENT_TYPE, "application/x-www-form-urlencoded"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let uri: Result<Uri, _> = token_url.as_str().parse();
        Ok(TokenPost {
            uri: uri.map_err(|_| unset(format!("the URL {token_url} cannot be sent")))?,
            headers,
            body: form.finish().into(),
        })
    }

    /// Reads the token from an answer that came at `now`.
    pub(crate) fn read(
        &self,
        answer: Result<HttpResponse, HttpError>,
        now: Instant,
    ) -> Result<Token, HttpError> {
        let url = &self.oauth.token_url;
        let response = answer.map_err(|error| {
            let message = format!("cannot get an access token from {url}: {}", error.message);
            HttpError::new(error.kind, message)
        })?;
        let document: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let refused = |why: &str| {
            let status = response.status;
            let kind = if status == 429 || status >= 500 {
                HttpErrorKind::Unreachable
            } else {
                HttpErrorKind::LoginRefused
            };
            let message = format!("{url} answered with status {status} and no access token{why}");
            HttpError::new(kind, message)
        };
        if response.status != 200 {
            let code = document["error"].as_str().filter(|it| is_code(it));
            return Err(refused(
                &code.map(|it| format!(": {it}")).unwrap_or_default(),
            ));
        }
        let kind = document["token_type"].as_str().unwrap_or("bearer");
        if !kind.eq_ignore_ascii_case("bearer") {
            return Err(refused(": its type is not Bearer"));
        }
        let value = document["access_token"].as_str().unwrap_or_default();
        let is_token = value.bytes().all(|it| it.is_ascii_graphic());
        if value.is_empty() || value.len() > TOKEN_BYTES_MAX || !is_token {
            return Err(refused(""));
        }
        let lifetime = match &document["expires_in"] {
            Value::String(text) => text.parse().ok(),
            other => other.as_u64(),
        };
        let seconds = lifetime
            .unwrap_or(LIFETIME_SECONDS_DEFAULT)
            .min(LIFETIME_SECONDS_MAX);
        let margin = MARGIN_SECONDS_MAX.min(seconds / 10);
        Ok(Token {
            value: value.to_owned(),
            until: now + Duration::from_secs(seconds - margin),
        })
    }
}

/// Returns the header of a request with a token.
pub(crate) fn bearer(token: &str) -> Result<HeaderValue, HttpError> {
    sensitive(&format!("Bearer {token}"))
}

fn sensitive(text: &str) -> Result<HeaderValue, HttpError> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| unset("a credential has a line break".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns whether a text is a code of an error, and not a sentence that could quote a credential.
fn is_code(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_lowercase() || it == b'_')
}
