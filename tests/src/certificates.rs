//! Certificates for tests: an authority, and what it signs.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use tempfile::TempDir;

/// An authority, and a folder with its certificate `ca.pem` and those that it signs.
pub struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Default for Authority {
    /// # Panics
    ///
    /// If there is no room for its files.
    fn default() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let mut params = CertificateParams::new([]).expect("no names are valid names");
        let name = folder.path().display().to_string();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).expect("room for files");
        Self { folder, issuer }
    }
}

impl Authority {
    /// Returns the path of one of its files.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns such a path as text.
    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Signs a certificate for `names`, valid in these years, and writes it to `FILE.pem` and its key to
    /// `FILE.key`.
    ///
    /// # Panics
    ///
    /// If a name is not valid.
    pub fn sign(&self, file: &str, names: &[&str], (from, until): (i32, i32)) {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("valid names");
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let issuer: &Issuer<'_, KeyPair> = &self.issuer;
        let signed = params.signed_by(&key, issuer).expect("a certificate");
        let write = |end: &str, text: &str| {
            std::fs::write(self.path(&format!("{file}.{end}")), text).expect("room for files");
        };
        write("pem", &signed.pem());
        write("key", &key.serialize_pem());
    }

    /// Replaces a pair by that of another authority or name, as a renewal does.
    ///
    /// # Panics
    ///
    /// If there is no such pair.
    pub fn replace(&self, file: &str, by: &Path) {
        for end in ["pem", "key"] {
            // Never half a file.
            let half = self.path("half");
            std::fs::copy(by.with_extension(end), &half).expect("the file exists");
            let whole = self.path(&format!("{file}.{end}"));
            std::fs::rename(half, whole).expect("the file exists");
        }
    }
}

/// Years in which the tests run.
pub const VALID: (i32, i32) = (2020, 2100);
