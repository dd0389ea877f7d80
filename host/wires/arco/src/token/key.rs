//! The keys of task tokens: read from files or variables, or made at the first start.

use std::fmt;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use host_core::port::lease::Secret;
use host_runtime::file;
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};

/// The shortest key, in bytes.
pub(crate) const KEY_BYTES_MIN: usize = 32;

/// What the shared secret is used for: it gives other keys for other uses.
const SHARED_USE: &[u8] = b"arco task tokens";

/// The key that signs, and the previous one, whose tokens are still accepted.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Keys {
    current: Vec<u8>,
    previous: Option<Vec<u8>>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.previous.is_some() {
            "two keys"
        } else {
            "one key"
        })
    }
}

impl Keys {
    /// Makes keys of the contents of files or variables; a newline at the end does not count. Returns `None`
    /// if one is too short.
    pub(crate) fn new(current: &[u8], previous: Option<&[u8]>) -> Option<Self> {
        Some(Self {
            current: trimmed(current)?,
            previous: match previous {
                None => None,
                Some(previous) => Some(trimmed(previous)?),
            },
        })
    }

    /// Makes the key that all nodes of a store derive from their secret. Tokens of the key that this host
    /// has signed with before, alone, are still accepted.
    pub(crate) fn shared(secret: &Secret, own: Option<Self>) -> Self {
        let mut mac = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret));
        mac.update(SHARED_USE);
        Self {
            current: mac.sign().as_ref().to_vec(),
            previous: own.map(|own| own.current),
        }
    }

    /// Returns the current key, then the previous one.
    pub(super) fn all(&self) -> impl Iterator<Item = &[u8]> {
        [Some(&self.current), self.previous.as_ref()]
            .into_iter()
            .flatten()
            .map(Vec::as_slice)
    }

    /// Reads the key in `path`, or makes one that only this user can read.
    pub(crate) fn kept_in(path: &Path) -> io::Result<Self> {
        match std::fs::read(path) {
            Ok(bytes) => read_kept(path, &bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let mut bytes = [0; KEY_BYTES_MIN];
                let filled = SystemRandom::new().fill(&mut bytes);
                filled.map_err(|_| io::Error::other("the system has no random numbers"))?;
                let text = URL_SAFE_NO_PAD.encode(bytes);
                file::replace(path, |file| file.write_all(text.as_bytes()))?;
                read_kept(path, text.as_bytes())
            }
            Err(error) => Err(error),
        }
    }
}

fn read_kept(path: &Path, bytes: &[u8]) -> io::Result<Keys> {
    let mode = std::fs::metadata(path)?.permissions().mode();
    if mode & 0o077 != 0 {
        let message =
            "other users can read it; set its mode to 0600, or remove it to get a new key";
        return Err(io::Error::other(message));
    }
    let short = || io::Error::other("it has fewer than 32 bytes; remove it to get a new key");
    Keys::new(bytes, None).ok_or_else(short)
}

fn trimmed(bytes: &[u8]) -> Option<Vec<u8>> {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    (bytes.len() >= KEY_BYTES_MIN).then(|| bytes.to_vec())
}
