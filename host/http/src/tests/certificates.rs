//! Real certificates for tests: an authority, and what it signs.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, Issuer, KeyPair, SanType,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;

use crate::tls::{ClientNames, Clients, TlsFiles};

/// The first and the last year of a certificate.
pub(crate) type Years = (i32, i32);

pub(crate) const VALID: Years = (2020, 2100);
pub(crate) const EXPIRED: Years = (2000, 2001);
pub(crate) const NOT_YET: Years = (2099, 2100);

/// An authority with a folder for what it signs.
pub(crate) struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        // As no other is called.
        let name = folder.path().display().to_string();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { folder, issuer }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn der(&self) -> CertificateDer<'static> {
        self.issuer.der().clone()
    }

    /// Signs a certificate for `name`, a DNS name or a URI, and writes it to `NAME.pem` and its key to
    /// `NAME.key`.
    pub(crate) fn sign(&self, (file, name): (&str, &str), (from, until): Years) {
        let mut params = CertificateParams::new([]).unwrap();
        params.subject_alt_names = vec![if name.contains("://") {
            SanType::URI(name.try_into().unwrap())
        } else {
            SanType::DnsName(name.try_into().unwrap())
        }];
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        let issuer: &Issuer<'_, KeyPair> = &self.issuer;
        let signed = params.signed_by(&key, issuer).unwrap();
        let write = |end: &str, text: String| {
            std::fs::write(self.path(&format!("{file}.{end}")), text).unwrap();
        };
        write("pem", signed.pem());
        write("key", key.serialize_pem());
    }

    /// Signs the certificate of a server for `localhost`.
    pub(crate) fn server(&self) -> TlsFiles {
        self.sign(("server", "localhost"), VALID);
        TlsFiles {
            certificate: self.path("server.pem"),
            key: self.path("server.key"),
            clients: None,
        }
    }

    /// The same for a server that requires certificates of clients.
    pub(crate) fn mutual_server(&self, names: &[&str]) -> TlsFiles {
        let names: ClientNames = names.iter().map(|name| name.parse().unwrap()).collect();
        let clients = Some(Clients {
            authorities: self.path("ca.pem"),
            names,
        });
        TlsFiles {
            clients,
            ..self.server()
        }
    }
}

/// Reads what [`Authority::sign`] has written.
pub(crate) fn pair(
    folder: &Authority,
    file: &str,
) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let path = |end: &str| folder.path(&format!("{file}.{end}"));
    let certificate = CertificateDer::from_pem_file(path("pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(path("key")).unwrap();
    (vec![certificate], key)
}

/// Copies a pair over another, as a renewal does.
pub(crate) fn replace(folder: &Authority, file: &str, by: &Path) {
    for end in ["pem", "key"] {
        let to = folder.path(&format!("{file}.{end}"));
        std::fs::copy(by.with_extension(end), to).unwrap();
    }
}
