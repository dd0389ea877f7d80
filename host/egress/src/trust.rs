//! Which servers are trusted: those with certificates of authorities of this system, or of a file.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use host_core::egress::AUTHORITIES_BYTES_MAX;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// Returns the authorities of this system.
pub(crate) fn system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // What cannot be read is missing at the first connection, whose error says so.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Trusts the authorities of this system, and those of the file.
pub(crate) fn tls(system: &RootCertStore, file: Option<OwnedFd>) -> Result<ClientConfig, String> {
    let mut roots = system.clone();
    if let Some(file) = file {
        let unread = |error: &dyn std::fmt::Display| {
            format!("cannot use the certificates of egress.ca_file: {error}")
        };
        let mut pem = Vec::new();
        let reading = File::from(file)
            .take(AUTHORITIES_BYTES_MAX)
            .read_to_end(&mut pem);
        reading.map_err(|error| unread(&error))?;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|error| unread(&error))?;
            roots.add(certificate).map_err(|error| unread(&error))?;
        }
        if roots.len() == system.len() {
            return Err(unread(&"it has none in PEM"));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("cannot use TLS: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
