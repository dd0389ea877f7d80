//! The ends of tasks on disk, until the control plane has accepted them, and the dispatches that have
//! ended. Only this user can read the files: they hold task tokens.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use host_runtime::file;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::memory::FINISHED_MAX;
use crate::messages::Secret;

/// The most ends kept on disk. Further ones are kept in memory only.
const PENDING_MAX: usize = 10_000;

/// An end that the control plane has not accepted yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pending {
    /// The dispatch.
    pub(super) key: String,
    pub(super) base: String,
    pub(super) path: String,
    pub(super) token: Secret,
    pub(super) body: String,
    /// When the token ends, by our wall clock, in milliseconds.
    pub(super) until_ms: i64,
}

/// A folder with one file for each pending end. Cloning shares it.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    folder: PathBuf,
    finished: Arc<Mutex<Finished>>,
}

/// The list of dispatches that have ended, in two files: one that grows, and the full one before it.
#[derive(Debug)]
struct Finished {
    file: File,
    lines: usize,
}

/// What an earlier process left on disk.
#[derive(Debug, Default)]
pub(super) struct Restored {
    pub(super) pending: Vec<Pending>,
    /// The dispatches that have ended, oldest first.
    pub(super) finished: Vec<String>,
}

impl Outbox {
    /// Opens the folder and reads what is there. Blocks.
    pub(super) fn open(folder: &Path) -> io::Result<(Self, Restored)> {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(folder)?;
        let mut restored = Restored::default();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                match serde_json::from_slice(&std::fs::read(&path)?) {
                    Ok(pending) => restored.pending.push(pending),
                    Err(error) => {
                        let path = path.display();
                        tracing::warn!(%path, %error, "cannot read the kept end of a task; the file is left in place");
                    }
                }
            }
        }
        restored.finished = keys(&folder.join(OLDER))?;
        let newer = keys(&folder.join(NEWER))?;
        let lines = newer.len();
        restored.finished.extend(newer);
        let finished = Finished {
            file: appended(&folder.join(NEWER))?,
            lines,
        };
        let outbox = Self {
            folder: folder.to_owned(),
            finished: Arc::new(Mutex::new(finished)),
        };
        Ok((outbox, restored))
    }

    /// Keeps an end. It is on disk when this returns. Blocks.
    pub(super) fn put(&self, pending: &Pending) -> io::Result<()> {
        if std::fs::read_dir(&self.folder)?.count() >= PENDING_MAX {
            return Err(io::Error::other("too many ends of tasks are waiting"));
        }
        let path = self.path(&pending.key);
        let text = serde_json::to_vec(pending)?;
        file::replace(&path, |file| file.write_all(&text))
    }

    /// Removes an end that was delivered or can no longer be, and remembers its dispatch. Blocks.
    pub(super) fn done(&self, key: &str) -> io::Result<()> {
        self.finish(key)?;
        match std::fs::remove_file(self.path(key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn finish(&self, key: &str) -> io::Result<()> {
        let mut finished = self.finished.lock();
        if finished.lines >= FINISHED_MAX {
            let newer = self.folder.join(NEWER);
            std::fs::rename(&newer, self.folder.join(OLDER))?;
            finished.file = appended(&newer)?;
            finished.lines = 0;
        }
        let mut line = serde_json::to_vec(key)?;
        line.push(b'\n');
        finished.file.write_all(&line)?;
        finished.lines += 1;
        Ok(())
    }

    fn path(&self, key: &str) -> PathBuf {
        let digest = Sha256::digest(key.as_bytes());
        let name = URL_SAFE_NO_PAD.encode(&digest[..16]);
        self.folder.join(format!("{name}.json"))
    }
}

const NEWER: &str = "finished";
const OLDER: &str = "finished.old";

fn appended(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).open(path)
}

/// Reads a list of dispatches. Skips a line that was not written whole.
fn keys(path: &Path) -> io::Result<Vec<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
