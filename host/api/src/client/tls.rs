//! TLS of the client: whom it trusts, who it is, and what to do if the two ends do not agree.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{AlertDescription, CertificateError};
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

/// Files in PEM of a client that uses TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities that it trusts instead of those of the system.
    pub authorities: Option<PathBuf>,
    /// Its own certificate, followed by those of intermediate authorities.
    pub certificate: Option<PathBuf>,
    /// The key of this certificate; without one, it is in the file of the certificate.
    pub key: Option<PathBuf>,
}

/// A file that cannot be used: why, and what to do.
pub(super) type Unusable = (String, &'static str);

impl TlsFiles {
    /// Reads the files.
    pub(super) fn config(&self) -> Result<TlsConfig, Unusable> {
        let roots = match &self.authorities {
            Some(path) => certificates(path)?,
            None => system(),
        };
        let client = match (&self.certificate, &self.key) {
            (None, None) => None,
            (Some(certificate), key) => {
                let chain = certificates(certificate)?;
                let key = private_key(key.as_ref().unwrap_or(certificate))?;
                Some(ClientCert::new_with_certs(&chain, key))
            }
            (None, Some(_)) => {
                let cause = "a key needs its certificate".to_owned();
                return Err((cause, "name it with --client-cert or HOST_CLIENT_CERT"));
            }
        };
        Ok(TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&roots))
            .client_cert(client)
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
            .build())
    }
}

/// Returns the authorities that this system trusts. It may have none.
fn system() -> Vec<Certificate<'static>> {
    let found = rustls_native_certs::load_native_certs().certs.into_iter();
    found
        .map(|der| Certificate::from_der(&der).to_owned())
        .collect()
}

fn read(path: &Path) -> Result<Vec<PemItem<'static>>, Unusable> {
    let failed = |error: &dyn Display| {
        let cause = format!("cannot read {}: {error}", path.display());
        (cause, "name a file in PEM, which begins with -----BEGIN")
    };
    let pem = std::fs::read(path).map_err(|error| failed(&error))?;
    let items = parse_pem(&pem).map(|item| item.map_err(|error| failed(&error)));
    items.collect()
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, Unusable> {
    let items = read(path)?.into_iter();
    let certificates: Vec<_> = items
        .filter_map(|item| match item {
            PemItem::Certificate(certificate) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        let cause = format!("{} has no certificate in PEM", path.display());
        return Err((
            cause,
            "name the file that begins with -----BEGIN CERTIFICATE",
        ));
    }
    Ok(certificates)
}

fn private_key(path: &Path) -> Result<PrivateKey<'static>, Unusable> {
    let key = read(path)?.into_iter().find_map(|item| match item {
        PemItem::PrivateKey(key) => Some(key),
        _ => None,
    });
    key.ok_or_else(|| {
        let cause = format!("{} has no private key in PEM", path.display());
        (
            cause,
            "name the key's file with --client-key or HOST_CLIENT_KEY",
        )
    })
}

/// Returns why TLS failed and what to do, if it did.
pub(super) fn explain(error: &ureq::Error, server: &str) -> Option<(String, String)> {
    let found = match error {
        ureq::Error::Rustls(error) => error,
        ureq::Error::Protocol(error) if server.starts_with("http://") => {
            let cause = format!("{server} does not answer with HTTP: {error}");
            return Some((
                cause,
                "write https:// if the host has a certificate".to_owned(),
            ));
        }
        ureq::Error::Io(error) => inner(error)?,
        _ => return None,
    };
    let (cause, next) = match found {
        rustls::Error::InvalidCertificate(error) => certificate(error),
        rustls::Error::AlertReceived(alert) => explain_alert(*alert),
        rustls::Error::InvalidMessage(_) => (
            "it does not speak TLS".to_owned(),
            "write http:// if the host has no certificate".to_owned(),
        ),
        rustls::Error::InconsistentKeys(_) => (
            "--client-key is not the key of --client-cert".to_owned(),
            "name the key that belongs to the certificate".to_owned(),
        ),
        other => (
            other.to_string(),
            "`host doctor` on its machine checks its certificate".to_owned(),
        ),
    };
    Some((format!("cannot use TLS with {server}: {cause}"), next))
}

fn inner(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Explains why this end does not accept the host's certificate.
fn certificate(error: &CertificateError) -> (String, String) {
    let renew = "renew it on the host, and check the clocks of both machines".to_owned();
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            ("its certificate has expired".to_owned(), renew)
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            ("its certificate is not valid yet".to_owned(), renew)
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            let cause = match error {
                CertificateError::NotValidForNameContext { presented, .. } => {
                    let names = presented
                        .iter()
                        .map(|name| named(name))
                        .collect::<Vec<_>>()
                        .join(", ");
                    format!("its certificate is for other names: {names}")
                }
                _ => "its certificate is for another name".to_owned(),
            };
            let next =
                "use a name of its certificate in --server, or add this one to the certificate";
            (cause, next.to_owned())
        }
        CertificateError::UnknownIssuer => (
            "its certificate is not signed by an authority that this machine trusts".to_owned(),
            "name the certificate of its authority with --ca-file or HOST_CA_FILE".to_owned(),
        ),
        CertificateError::BadSignature => (
            "its certificate is signed by another authority with the name of a trusted one"
                .to_owned(),
            "name the certificate of its authority with --ca-file or HOST_CA_FILE".to_owned(),
        ),
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => (
            "its certificate is that of an authority".to_owned(),
            "sign a certificate for the host with it; if it signs itself, create it again with \
             `openssl req -x509 -addext basicConstraints=critical,CA:FALSE …`"
                .to_owned(),
        ),
        other => (
            format!("its certificate is not accepted: {other}"),
            "`host doctor` on its machine checks it".to_owned(),
        ),
    }
}

/// Returns the name in a description such as `DnsName("localhost")`.
fn named(described: &str) -> &str {
    let quoted = described.split('"').nth(1);
    quoted.unwrap_or(described)
}

/// Explains why the host does not accept this end.
fn explain_alert(alert: AlertDescription) -> (String, String) {
    let (cause, next) = match alert {
        AlertDescription::CertificateRequired => (
            "it requires a certificate of its clients",
            "name yours with --client-cert and --client-key, or HOST_CLIENT_CERT and HOST_CLIENT_KEY",
        ),
        AlertDescription::AccessDenied => (
            "it allows no client with the name in this certificate",
            "have the name added to http.client_names of the host, or use another certificate",
        ),
        AlertDescription::UnknownCA | AlertDescription::DecryptError => (
            "it does not know the authority of this client's certificate",
            "use a certificate of an authority in http.client_ca_file of the host",
        ),
        AlertDescription::CertificateExpired => (
            "this client's certificate has expired or is not valid yet",
            "renew it, and check the clocks of both machines",
        ),
        other => {
            let cause = format!("it refused the connection ({other:?})");
            let next = "if it requires a certificate of its clients, name yours with --client-cert and \
                        --client-key; its log at the level debug says more";
            return (cause, next.to_owned());
        }
    };
    (cause.to_owned(), next.to_owned())
}
