//! The values of the secrets of the configuration. A file is read when its value is first needed, and again when it
//! changes; one that cannot be read then changes nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::Arc;

use host_core::egress::SECRET_BYTES_MAX;
use host_core::secret::Secret;
use parking_lot::Mutex;

use super::SecretSource;

/// The secrets. Clones share them.
#[derive(Clone)]
pub struct Secrets(Arc<Shared>);

struct Shared {
    sources: BTreeMap<String, SecretSource>,
    known: Mutex<BTreeMap<String, SecretFile>>,
}

/// The value of a file.
#[derive(Default)]
struct SecretFile {
    /// The last one that could be read.
    value: Option<String>,
    /// Why the file cannot be read now, so that it is said once.
    flaw: Option<String>,
}

impl Secrets {
    pub fn new(sources: BTreeMap<String, SecretSource>) -> Self {
        let known = Mutex::default();
        Self(Arc::new(Shared { sources, known }))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.sources.keys()
    }

    /// Returns the value of a secret, `None` if no secret has this name. Blocks.
    pub fn value(&self, name: &str) -> Option<String> {
        match self.0.sources.get(name)? {
            SecretSource::Value(value) => Some(value.clone()),
            SecretSource::File(_) => {
                let mut known = self.0.known.lock();
                if let Some(value) = known.get(name).and_then(|known| known.value.clone()) {
                    return Some(value);
                }
                self.check_file(&mut known, name, false);
                known.get(name)?.value.clone()
            }
        }
    }

    /// Reads all files again that were needed. Returns the secrets that have changed. Says again what is wrong with
    /// the others if a caller `asks`. Blocks.
    pub(crate) fn reload(&self, asks: bool) -> Vec<Secret> {
        let mut known = self.0.known.lock();
        let names: Vec<String> = known.keys().cloned().collect();
        let changed = names.into_iter().filter_map(|name| {
            self.check_file(&mut known, &name, asks).then(|| Secret {
                value: known[&name].value.clone().unwrap_or_default(),
                name,
            })
        });
        changed.collect()
    }

    /// Reads a file. Returns whether the value has changed.
    fn check_file(&self, known: &mut BTreeMap<String, SecretFile>, name: &str, asks: bool) -> bool {
        let Some(SecretSource::File(path)) = self.0.sources.get(name) else {
            return false;
        };
        let known = known.entry(name.to_owned()).or_default();
        let flaw = match File::open(path).and_then(read) {
            Ok(value) => {
                known.flaw = None;
                let has_changed = known.value.as_ref() != Some(&value);
                if has_changed && known.value.is_some() {
                    tracing::info!(secret = name, "a new value of a secret is in use");
                }
                known.value = Some(value);
                return has_changed;
            }
            Err(error) => error.to_string(),
        };
        if asks || known.flaw.as_ref() != Some(&flaw) {
            let (path, is_kept) = (path.display(), known.value.is_some());
            tracing::error!(secret = name, %path, error = flaw, is_kept, "cannot read a secret");
        }
        known.flaw = Some(flaw);
        false
    }
}

/// Reads the value of a secret, up to a final line break.
fn read(file: File) -> io::Result<String> {
    let mut value = String::new();
    let limit = SECRET_BYTES_MAX as u64 + 1;
    file.take(limit).read_to_string(&mut value)?;
    if value.len() > SECRET_BYTES_MAX {
        let message = format!("it has more than {SECRET_BYTES_MAX} bytes");
        return Err(io::Error::other(message));
    }
    value.truncate(value.trim_end_matches(['\r', '\n']).len());
    if value.is_empty() {
        // Perhaps a user is about to write it.
        return Err(io::Error::other("it is empty"));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changes_is_read_again_and_a_bad_one_keeps_the_old_value() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("key");
        let secrets = Secrets::new(BTreeMap::from([
            ("file".to_owned(), SecretSource::File(path.clone())),
            ("value".to_owned(), SecretSource::Value("v".to_owned())),
        ]));
        assert_eq!(secrets.value("file"), None, "there is no file yet");
        std::fs::write(&path, "one\n").unwrap();
        assert_eq!(secrets.value("file").as_deref(), Some("one"));
        assert_eq!(secrets.value("value").as_deref(), Some("v"));
        assert_eq!(secrets.value("other"), None);
        assert_eq!(secrets.reload(false), []);
        std::fs::write(&path, "two").unwrap();
        let changed = secrets.reload(false);
        assert_eq!((&*changed[0].name, &*changed[0].value), ("file", "two"));
        let long = vec![b'x'; SECRET_BYTES_MAX + 1];
        for bad in [&b""[..], b"\xff\xfe", &long] {
            std::fs::write(&path, bad).unwrap();
            assert_eq!(secrets.reload(false), []);
            assert_eq!(secrets.value("file").as_deref(), Some("two"));
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(secrets.reload(true), []);
        std::fs::write(&path, "three").unwrap();
        assert_eq!(secrets.reload(false).len(), 1);
    }
}
