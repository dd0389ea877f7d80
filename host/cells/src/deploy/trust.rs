//! Whose components this host runs: those that a trusted key has signed, or all if no key is configured. Signatures are
//! those of minisign.

use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use host_engine::component::Signature;
use minisign_verify::{PublicKey, Signature as Decoded};
use thiserror::Error;

/// The longest signature, in bytes.
pub const SIGNATURE_BYTES_MAX: usize = 4 << 10;

/// The most trusted keys.
pub const KEYS_MAX: usize = 64;

/// A public key of minisign.
#[derive(Clone, Debug)]
pub struct Key {
    id: String,
    key: PublicKey,
}

/// A text that is no public key of minisign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a public key of minisign is one line that begins with RW")]
pub struct NoKey;

impl FromStr for Key {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        let key = PublicKey::from_base64(text).map_err(|_| NoKey)?;
        let id = id(text).ok_or(NoKey)?;
        Ok(Self { id, key })
    }
}

/// Reads the id of a key from a line that minisign has written, as minisign shows it.
fn id(line: &str) -> Option<String> {
    let bytes = STANDARD.decode(line).ok()?;
    let id = bytes.get(2..10)?.try_into().ok()?;
    Some(format!("{:016X}", u64::from_le_bytes(id)))
}

/// Why a component is not trusted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Untrusted {
    #[error("it is not signed, and this host runs only components that a trusted key has signed")]
    Unsigned,
    #[error("its signature is not a minisign signature of the file's hash")]
    Unreadable,
    #[error("it is signed by the key {0}, which is not in deploy.trusted_keys")]
    OtherKey(String),
    #[error("its signature by the key {0} does not match its bytes")]
    Wrong(String),
}

/// The trusted keys. Without any, all components are trusted.
#[derive(Clone, Debug, Default)]
pub struct Trust(Arc<[Key]>);

impl FromIterator<Key> for Trust {
    fn from_iter<T: IntoIterator<Item = Key>>(keys: T) -> Self {
        Self(keys.into_iter().collect())
    }
}

impl Trust {
    /// Returns whether components must be signed.
    pub fn requires_signatures(&self) -> bool {
        !self.0.is_empty()
    }

    /// Checks the signature of a component and returns it; `None` if components need none.
    pub fn check(
        &self,
        bytes: &[u8],
        signature: Option<&str>,
    ) -> Result<Option<Signature>, Untrusted> {
        if !self.requires_signatures() {
            return Ok(None);
        }
        let text = signature.ok_or(Untrusted::Unsigned)?;
        let decoded = Some(text)
            .filter(|text| text.len() <= SIGNATURE_BYTES_MAX)
            .and_then(|text| Decoded::decode(text).ok());
        let key = text.lines().nth(1).and_then(id);
        let (Some(decoded), Some(key)) = (decoded, key) else {
            return Err(Untrusted::Unreadable);
        };
        let trusted = self.0.iter().find(|trusted| trusted.id == key);
        let Some(trusted) = trusted else {
            return Err(Untrusted::OtherKey(key));
        };
        match trusted.key.verify(bytes, &decoded, false) {
            Ok(()) => Ok(Some(Signature {
                key,
                text: text.to_owned(),
            })),
            Err(minisign_verify::Error::UnexpectedAlgorithm) => Err(Untrusted::Unreadable),
            Err(_) => Err(Untrusted::Wrong(key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use minisign::KeyPair;

    use super::*;

    fn pair() -> KeyPair {
        KeyPair::generate_unencrypted_keypair().unwrap()
    }

    fn sign(pair: &KeyPair, bytes: &[u8]) -> String {
        let signed = minisign::sign(None, &pair.sk, Cursor::new(bytes), None, None);
        signed.unwrap().to_string()
    }

    fn trust(pairs: &[&KeyPair]) -> Trust {
        let keys = pairs
            .iter()
            .map(|pair| pair.pk.to_base64().parse().unwrap());
        keys.collect()
    }

    #[test]
    fn a_component_is_trusted_if_a_trusted_key_has_signed_these_bytes() {
        let (one, two, other) = (pair(), pair(), pair());
        let trust = trust(&[&one, &two]);
        for signer in [&one, &two] {
            let text = sign(signer, b"component");
            let checked = trust.check(b"component", Some(&text)).unwrap().unwrap();
            assert_eq!(checked.text, text);
            assert_eq!(checked.key.len(), 16);
            let wrong = trust.check(b"another", Some(&text));
            assert_eq!(wrong, Err(Untrusted::Wrong(checked.key)));
        }
        let text = sign(&other, b"component");
        let untrusted = trust.check(b"component", Some(&text));
        assert!(
            matches!(untrusted, Err(Untrusted::OtherKey(_))),
            "{untrusted:?}"
        );
        assert_eq!(trust.check(b"component", None), Err(Untrusted::Unsigned));
    }

    #[test]
    fn no_changed_signature_counts() {
        let one = pair();
        let trust = trust(&[&one]);
        let text = sign(&one, b"component");
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            let Ok(changed) = String::from_utf8(changed) else {
                continue;
            };
            // The first line is a comment that nothing vouches for.
            let is_comment = at <= text.find('\n').unwrap();
            let checked = trust.check(b"component", Some(&changed));
            assert!(is_comment || checked.is_err(), "{at}: {changed}");
        }
        for unreadable in ["", "x", "a\nb\nc\nd", &"\n".repeat(SIGNATURE_BYTES_MAX + 1)] {
            let checked = trust.check(b"component", Some(unreadable));
            assert_eq!(checked, Err(Untrusted::Unreadable), "{unreadable:?}");
        }
    }

    #[test]
    fn without_keys_nothing_needs_a_signature() {
        let text = sign(&pair(), b"component");
        for signature in [None, Some(text.as_str()), Some("nonsense")] {
            assert_eq!(Trust::default().check(b"component", signature), Ok(None));
        }
        for bad in ["", "RW", "untrusted comment: x", &text] {
            assert!(bad.parse::<Key>().is_err(), "{bad}");
        }
    }
}
