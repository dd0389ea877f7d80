//! What a certificate says: how long it is valid, for which names, and how strong its key is.

use std::net::IpAddr;

use host_core::time::Time;
use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::PublicKey;

/// The least bits of an RSA key.
const RSA_BITS_MIN: usize = 2_048;

/// The certificate of this end.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) from: Time,
    pub(super) until: Time,
    /// The same, for people.
    pub(super) from_text: String,
    pub(super) until_text: String,
    /// DNS names in lower case, and addresses.
    pub(super) names: Vec<String>,
    /// The bits of the key, if they are too few.
    pub(super) weak_bits: Option<usize>,
}

impl Leaf {
    pub(super) fn read(der: &CertificateDer<'_>) -> Result<Self, String> {
        let (_, read) = X509Certificate::from_der(der).map_err(|error| error.to_string())?;
        let validity = read.validity();
        let time = |seconds: i64| Time(seconds.saturating_mul(1_000));
        let key = read.public_key().parsed();
        let weak_bits = match key {
            Ok(PublicKey::RSA(rsa)) => Some(rsa.key_size()).filter(|bits| *bits < RSA_BITS_MIN),
            _ => None,
        };
        Ok(Self {
            from: time(validity.not_before.timestamp()),
            until: time(validity.not_after.timestamp()),
            from_text: validity.not_before.to_string(),
            until_text: validity.not_after.to_string(),
            names: alternative(&read),
            weak_bits,
        })
    }

    /// Returns whether it is for `name`, as TLS clients match names.
    pub(super) fn is_for(&self, name: &str) -> bool {
        let name = name.trim_matches(['[', ']']).to_ascii_lowercase();
        self.names
            .iter()
            .any(|known| match known.strip_prefix("*.") {
                None => *known == name,
                // Matches one label.
                Some(below) => name.split_once('.').is_some_and(|(_, rest)| rest == below),
            })
    }
}

/// Returns the names of a client's certificate.
pub(super) fn names(der: &CertificateDer<'_>) -> Vec<String> {
    X509Certificate::from_der(der).map_or_else(|_| Vec::new(), |(_, read)| alternative(&read))
}

/// Returns the alternative names that have a form as text.
fn alternative(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else {
        return Vec::new();
    };
    let names = extension.value.general_names.iter();
    names
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            GeneralName::RFC822Name(name) | GeneralName::URI(name) => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) => address(bytes).map(|it| it.to_string()),
            _ => None,
        })
        .collect()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let v6 = || <[u8; 16]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| v6()).ok()
}
