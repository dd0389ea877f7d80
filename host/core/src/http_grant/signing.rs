//! How the broker signs requests of a grant, with keys that the guest never sees.

use serde::{Deserialize, Serialize};

use super::HeaderTemplate;

/// The headers that signing sets, in lower case.
const HEADERS: [&str; 4] = [
    "authorization",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-security-token",
];

/// The longest region and service, in bytes.
const WORD_BYTES_MAX: usize = 64;

/// A way of signing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignScheme {
    /// Signature Version 4 of AWS, in the header `authorization`.
    #[serde(rename = "aws-sigv4")]
    AwsSigV4,
}

impl SignScheme {
    /// Returns its name in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AwsSigV4 => "aws-sigv4",
        }
    }
}

/// How requests are signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signing {
    pub scheme: SignScheme,
    /// The region of the server, such as `eu-central-1`.
    pub region: String,
    /// The name of the service in signatures, such as `s3`, `ses` or `sqs`.
    pub service: String,
    pub key_id: HeaderTemplate,
    pub secret_key: HeaderTemplate,
    /// The token of temporary keys.
    #[serde(default)]
    pub session_token: Option<HeaderTemplate>,
}

impl Signing {
    /// Returns the names of the secrets.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let keys = [&self.key_id, &self.secret_key];
        let templates = keys.into_iter().chain(&self.session_token);
        templates.flat_map(HeaderTemplate::secrets)
    }

    /// Returns whether signing sets the header.
    pub fn sets(header: &str) -> bool {
        HEADERS.contains(&header)
    }

    /// Returns what is wrong with it: the key, its value, and what is expected.
    pub fn flaw(&self) -> Option<(&'static str, String, String)> {
        let is_word = |word: &str| {
            let is_allowed = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
            (1..=WORD_BYTES_MAX).contains(&word.len()) && word.bytes().all(is_allowed)
        };
        for (key, word) in [
            ("http.sign.region", &self.region),
            ("http.sign.service", &self.service),
        ] {
            if !is_word(word) {
                let expected = format!("1–{WORD_BYTES_MAX} lower-case letters, digits and hyphens");
                return Some((key, format!("{word:?}"), expected));
            }
        }
        let is_open = self.secret_key.secrets().next().is_none();
        is_open.then(|| {
            let expected = "{secret:NAME}: a manifest is no place for a key".to_owned();
            ("http.sign.secret_key", "a text".to_owned(), expected)
        })
    }
}
