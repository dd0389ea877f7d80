//! How the broker gets access tokens of OAuth 2.0 for the requests of a grant, which the guest never sees.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{HeaderTemplate, OriginError, OriginPattern};

/// The longest URL, scope and audience, in bytes.
const TEXT_BYTES_MAX: usize = 1_024;

/// Where tokens come from: `https://login.example.com/oauth/token`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenUrl(String);

impl TokenUrl {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the server, which the configuration must grant too.
    pub fn origin(&self) -> Result<OriginPattern, OriginError> {
        let after_scheme = self.0.find("://").map_or(0, |it| it + 3);
        let end = self.0[after_scheme..].find(['/', '?']);
        let origin = &self.0[..end.map_or(self.0.len(), |it| after_scheme + it)];
        let parsed: OriginPattern = origin.parse()?;
        if parsed.is_wild {
            return Err(OriginError::Host);
        }
        Ok(parsed)
    }
}

impl FromStr for TokenUrl {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        let url = Self(text.to_owned());
        url.origin()?;
        let is_plain = text.bytes().all(|it| it.is_ascii_graphic()) && !text.contains(['#', '\\']);
        (is_plain && text.len() <= TEXT_BYTES_MAX)
            .then_some(url)
            .ok_or(OriginError::NotAnOrigin)
    }
}

impl TryFrom<String> for TokenUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let flaw = |_| {
            format!(
                "expected the URL of a token endpoint such as https://login.example.com/oauth/token, got {text:?}"
            )
        };
        text.parse().map_err(flaw)
    }
}

impl From<TokenUrl> for String {
    fn from(url: TokenUrl) -> Self {
        url.0
    }
}

impl fmt::Display for TokenUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a client's id and secret are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuth {
    /// In the header `authorization`, which every server must take.
    #[default]
    Basic,
    /// In the body.
    Body,
}

/// How tokens are got: with a client's credentials, or with the key of a service account of Google Cloud.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OAuth {
    pub token_url: TokenUrl,
    #[serde(default)]
    pub client_id: Option<HeaderTemplate>,
    #[serde(default)]
    pub client_secret: Option<HeaderTemplate>,
    #[serde(default)]
    pub client_auth: ClientAuth,
    /// The key's file, in JSON.
    #[serde(default)]
    pub service_account: Option<HeaderTemplate>,
    #[serde(default)]
    pub scope: Option<String>,
    #[serde(default)]
    pub audience: Option<String>,
}

impl OAuth {
    /// Returns the names of the secrets.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let given = [&self.client_secret, &self.service_account, &self.client_id];
        let templates = given.into_iter().flatten();
        templates.flat_map(HeaderTemplate::secrets)
    }

    /// Returns whether it sets the header.
    pub fn sets(header: &str) -> bool {
        header == "authorization"
    }

    /// Returns what is wrong with it: the key, its value, and what is expected.
    pub fn flaw(&self) -> Option<(&'static str, String, String)> {
        let is_client = self.client_id.is_some() && self.client_secret.is_some();
        let has_any = self.client_id.is_some() || self.client_secret.is_some();
        if is_client == self.service_account.is_some() || has_any != is_client {
            let expected = "client_id and client_secret, or service_account".to_owned();
            return Some(("http.oauth", "a table".to_owned(), expected));
        }
        let (key, secret) = match &self.service_account {
            Some(account) => ("http.oauth.service_account", Some(account)),
            None => ("http.oauth.client_secret", self.client_secret.as_ref()),
        };
        if secret.is_some_and(|it| it.secrets().next().is_none()) {
            let expected = "{secret:NAME}: a manifest is no place for a key".to_owned();
            return Some((key, "a text".to_owned(), expected));
        }
        for (key, text) in [
            ("http.oauth.scope", &self.scope),
            ("http.oauth.audience", &self.audience),
        ] {
            let is_long = |it: &&String| !(1..=TEXT_BYTES_MAX).contains(&it.len());
            if let Some(other) = text.as_ref().filter(is_long) {
                let expected = format!("1–{TEXT_BYTES_MAX} bytes");
                return Some((key, format!("{} bytes", other.len()), expected));
            }
        }
        None
    }
}
