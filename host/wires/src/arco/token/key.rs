//! The keys of task tokens: from a file, a variable, or made at the first start.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use host_core::port::lease::Secret;
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};

/// The shortest key, in bytes.
pub(in crate::arco) const KEY_BYTES_MIN: usize = 32;

/// What the shared secret is used for: it gives other keys for other uses.
const SHARED_USE: &[u8] = b"arco task tokens";

/// The key that signs, and the one before it, whose tokens are still taken.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::arco) struct Keys {
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
    /// Takes the contents of files or variables, without a newline at the end. Returns nothing if one
    /// is too short.
    pub(in crate::arco) fn new(current: &[u8], previous: Option<&[u8]>) -> Option<Self> {
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
    pub(in crate::arco) fn shared(secret: &Secret, own: Option<Self>) -> Self {
        let mut mac = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret));
        mac.update(SHARED_USE);
        Self {
            current: mac.sign().as_ref().to_vec(),
            previous: own.map(|own| own.current),
        }
    }

    /// Returns the current key and then the one before.
    pub(super) fn all(&self) -> impl Iterator<Item = &[u8]> {
        [Some(&self.current), self.previous.as_ref()]
            .into_iter()
            .flatten()
            .map(Vec::as_slice)
    }

    /// Reads the key that this host has made, or makes it: readable by this user alone.
    pub(in crate::arco) fn kept_in(path: &Path) -> io::Result<Self> {
        match std::fs::read(path) {
            Ok(bytes) => read_kept(path, &bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let mut bytes = [0; KEY_BYTES_MIN];
                let filled = SystemRandom::new().fill(&mut bytes);
                filled.map_err(|_| io::Error::other("the system gives no randomness"))?;
                let text = URL_SAFE_NO_PAD.encode(bytes);
                write(path, text.as_bytes())?;
                read_kept(path, text.as_bytes())
            }
            Err(error) => Err(error),
        }
    }
}

fn read_kept(path: &Path, bytes: &[u8]) -> io::Result<Keys> {
    let mode = std::fs::metadata(path)?.permissions().mode();
    if mode & 0o077 != 0 {
        let message = "other users can read it; make it mode 0600, or remove it to get a new key";
        return Err(io::Error::other(message));
    }
    let short = || io::Error::other("it has less than 32 bytes; remove it to get a new key");
    Keys::new(bytes, None).ok_or_else(short)
}

/// Writes a new file whole: a host that is killed here leaves no half of a key.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

fn trimmed(bytes: &[u8]) -> Option<Vec<u8>> {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    (bytes.len() >= KEY_BYTES_MIN).then(|| bytes.to_vec())
}
