//! Seals what the host notes in the cache folder, with a key beside the folder. A process that can write in
//! the folder but cannot read the key cannot forge a note.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit as _, Mac as _};
use host_runtime::{file, ids};
use rustix::process::geteuid;
use sha2::Sha256;

/// The length of a key and of a seal, in bytes.
const BYTES: usize = 32;

/// Separates the name of a note from its text. No name has it.
const SEPARATOR: u8 = 0;

/// The seal of one note.
pub(crate) type Seal = [u8; BYTES];

/// Makes and checks seals.
#[derive(Clone)]
pub(crate) struct Sealer {
    keyed: Hmac<Sha256>,
}

impl fmt::Debug for Sealer {
    /// Hides the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

impl Sealer {
    /// Uses the key beside `folder`. Makes a new key if there is none, or if others may have read or made it;
    /// older notes are then void.
    pub(crate) fn beside(folder: &Path) -> io::Result<Self> {
        let path = path_beside(folder);
        let key = match read(&path) {
            Ok(Some(key)) => key,
            Ok(None) => {
                let key = path.display();
                tracing::warn!(%key, "other users may know this key; replacing it and compiling all \
                    components again");
                make(&path)?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(&path)?,
            Err(error) => return Err(error),
        };
        let keyed = Hmac::new_from_slice(&key).map_err(io::Error::other)?;
        Ok(Self { keyed })
    }

    /// Returns the seal of the note `name` with this text.
    pub(crate) fn seal(&self, name: &str, text: &[u8]) -> Seal {
        self.over(name, text).finalize().into_bytes().into()
    }

    /// Returns whether a seal is that of the note `name` with this text.
    pub(crate) fn holds(&self, seal: &[u8], name: &str, text: &[u8]) -> bool {
        self.over(name, text).verify_slice(seal).is_ok()
    }

    fn over(&self, name: &str, text: &[u8]) -> Hmac<Sha256> {
        let mut keyed = self.keyed.clone();
        keyed.update(name.as_bytes());
        keyed.update(&[SEPARATOR]);
        keyed.update(text);
        keyed
    }
}

/// Returns the path of the key, which is not in the folder.
pub(crate) fn path_beside(folder: &Path) -> PathBuf {
    let mut path = OsString::from(folder);
    path.push(".key");
    path.into()
}

/// Reads a key. Returns `None` if another user could know it or have made it.
fn read(path: &Path) -> io::Result<Option<[u8; BYTES]>> {
    if fs::symlink_metadata(path)?.is_symlink() {
        return Ok(None);
    }
    let mut options = File::options();
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = options.read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    let (is_ours, of_others) = (found.uid() == geteuid().as_raw(), found.mode() & 0o077);
    if !found.is_file() || !is_ours || of_others != 0 {
        return Ok(None);
    }
    let mut key = Vec::with_capacity(BYTES + 1);
    file.take(BYTES as u64 + 1).read_to_end(&mut key)?;
    Ok(key.try_into().ok())
}

/// Makes a key, written atomically. If two processes make one concurrently, the notes of one of them are compiled
/// again.
fn make(path: &Path) -> io::Result<[u8; BYTES]> {
    let key = ids::key();
    file::replace(path, |file| file.write_all(&key))?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn only_what_was_sealed_holds() {
        let home = TempDir::new().unwrap();
        let folder = home.path().join("cache");
        let sealer = Sealer::beside(&folder).unwrap();
        let seal = sealer.seal("a", b"text");
        assert!(Sealer::beside(&folder).unwrap().holds(&seal, "a", b"text"));
        let other = Sealer::beside(&home.path().join("other")).unwrap();
        let refused = [
            sealer.holds(&seal, "b", b"text"),
            sealer.holds(&seal, "a", b"texts"),
            sealer.holds(&seal[..31], "a", b"text"),
            sealer.holds(b"", "a", b"text"),
            sealer.holds(&[0; 32], "a", b"text"),
            other.holds(&seal, "a", b"text"),
        ];
        assert_eq!(refused, [false; 6]);
    }

    #[test]
    fn a_key_that_others_could_know_is_replaced() {
        let home = TempDir::new().unwrap();
        let folder = home.path().join("cache");
        let path = path_beside(&folder);
        let known = |spoil: &dyn Fn()| {
            let sealer = Sealer::beside(&folder).unwrap();
            let seal = sealer.seal("a", b"");
            spoil();
            let again = Sealer::beside(&folder).unwrap();
            let mode = fs::symlink_metadata(&path).unwrap().mode();
            assert_eq!(mode & 0o7777, 0o600, "it is a file of its owner");
            again.holds(&seal, "a", b"")
        };
        assert!(known(&|| ()));
        let chmod = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert!(!known(&|| chmod(0o640)), "others may read it");
        assert!(!known(&|| chmod(0o602)), "others may write it");
        assert!(!known(&|| fs::write(&path, [1; 31]).unwrap()), "too short");
        assert!(!known(&|| fs::write(&path, [1; 33]).unwrap()), "too long");
        let moved = home.path().join("moved");
        assert!(!known(&|| {
            fs::rename(&path, &moved).unwrap();
            symlink(&moved, &path).unwrap();
        }));
        if geteuid().is_root() {
            let give = || std::os::unix::fs::chown(&path, Some(1), None).unwrap();
            assert!(!known(&give), "another user made it");
        }
    }
}
