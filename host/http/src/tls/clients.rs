//! Client certificates: one of a known authority, with an alternative name that is allowed.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use host_core::glob;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme,
};
use thiserror::Error;

use super::certificate;

/// The longest pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 253;

/// The names that clients may have: patterns in which `*` matches any text without `/`, and `**` for any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientNames(Arc<[String]>);

/// A text that is not a pattern of names.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "expected names of clients, such as deploy.example.com, *.ci.example.com or spiffe://example.com/**"
)]
pub struct WrongPattern;

impl ClientNames {
    /// Returns the first alternative name of a certificate that is allowed.
    pub(super) fn allowed(&self, certificate: &CertificateDer<'_>) -> Option<String> {
        let mut names = certificate::names(certificate).into_iter();
        names.find(|name| self.0.iter().any(|it| glob::matches(it, name)))
    }
}

impl FromIterator<Pattern> for ClientNames {
    fn from_iter<T: IntoIterator<Item = Pattern>>(patterns: T) -> Self {
        Self(patterns.into_iter().map(|pattern| pattern.0).collect())
    }
}

/// One pattern.
#[derive(Clone, Debug)]
pub struct Pattern(String);

impl FromStr for Pattern {
    type Err = WrongPattern;

    fn from_str(text: &str) -> Result<Self, WrongPattern> {
        // What else has a meaning in a pattern, such as `!`, would allow more than it seems to.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:/@*+~%".contains(&byte);
        if text.is_empty() || text.len() > PATTERN_BYTES_MAX || !text.bytes().all(is_plain) {
            return Err(WrongPattern);
        }
        Ok(Self(text.to_owned()))
    }
}

/// Checks the authority, and then the name.
struct NameVerifier {
    inner: Arc<dyn ClientCertVerifier>,
    names: ClientNames,
}

/// Makes the verifier of client certificates, or says why these are no authorities.
pub(super) fn verifier(
    authorities: Vec<CertificateDer<'static>>,
    names: ClientNames,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority).map_err(|error| error.to_string())?;
    }
    let inner = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(NameVerifier { inner, names }))
}

impl fmt::Debug for NameVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NameVerifier").field(&self.names).finish()
    }
}

impl ClientCertVerifier for NameVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.inner.verify_client_cert(leaf, chain, now)?;
        match self.names.allowed(leaf) {
            Some(_) => Ok(verified),
            None => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, leaf, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, leaf, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
