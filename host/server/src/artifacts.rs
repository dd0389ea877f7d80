//! The files of artifacts, beside the store. A handler's file is held until its attempt has ended; then a row of the store
//! names it, or it is removed. On a shared store there are no files: the rows have the content. Uploads are files like them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use host_core::artifact::{FOLDER, ROW_BYTES_MAX};
use host_core::writes::Hold;
use host_dispatch::Dispatch;
use host_engine::artifact::RemoveUploads;
use host_engine::{Store, StoreError};
use host_runtime::clock::Clock;
use host_runtime::folder::{self, Dir};
use host_runtime::ids;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The end of the names of files that handlers still write. Backups leave them out.
const PARTIAL: &str = ".partial";

/// How often files are looked for that no job has. One is removed when it is found twice.
const SWEEP_INTERVAL: Duration = Duration::from_mins(10);

/// Why an artifact cannot grow.
#[derive(Debug, Error)]
pub(crate) enum Full {
    #[error(
        "the artifacts of this host together have reached their limit of {} MiB; purge jobs, or raise artifacts.max_mib in \
         the configuration", .0 >> 20
    )]
    Host(u64),
    #[error(
        "a host on PostgreSQL keeps an artifact of at most {} MiB in the database; store larger files elsewhere, for example \
         in S3", ROW_BYTES_MAX >> 20
    )]
    Row,
    #[error("cannot write the artifact: {0}")]
    Disk(#[from] io::Error),
}

/// The files of artifacts. Clones share them.
#[derive(Clone, Debug)]
pub struct Artifacts(Arc<Shelf>);

#[derive(Debug)]
struct Shelf {
    /// `None` if the store has the content.
    folder: Option<Dir>,
    bytes_max: u64,
    bytes: AtomicU64,
    /// The files of attempts that have not ended.
    held: Mutex<BTreeSet<Uuid>>,
}

/// A file that a handler writes. It is removed if it is dropped.
#[derive(Debug)]
pub(crate) struct Staged {
    /// `None` once it is finished.
    held: Option<FileHold>,
    sink: Sink,
    hash: Sha256,
    bytes: u64,
}

#[derive(Debug)]
enum Sink {
    File(File),
    Row(Vec<u8>),
}

/// Keeps a file from being removed.
#[derive(Debug)]
struct FileHold {
    shelf: Arc<Shelf>,
    file: Uuid,
}

impl Hold for FileHold {}

impl Drop for FileHold {
    fn drop(&mut self) {
        self.shelf.held.lock().remove(&self.file);
    }
}

/// What a file has.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) file: Uuid,
    pub(crate) bytes: u64,
    pub(crate) sha256: [u8; 32],
    /// What goes into the row.
    pub(crate) row: Option<Vec<u8>>,
    pub(crate) hold: Box<dyn Hold>,
}

impl Artifacts {
    /// Opens the folder in the data directory, unless the store is shared, for at most `bytes_max`.
    pub fn open(data: &Path, is_shared: bool, bytes_max: u64) -> io::Result<Self> {
        let folder = (!is_shared)
            .then(|| folder::enter_or_make(&folder::open(data)?, Path::new(FOLDER)))
            .transpose()?;
        let mut bytes = 0;
        for entry in folder
            .iter()
            .map(Dir::entries)
            .collect::<Result<Vec<_>, _>>()?
        {
            for file in entry {
                bytes += file?.metadata()?.len();
            }
        }
        Ok(Self(Arc::new(Shelf {
            folder,
            bytes_max,
            bytes: AtomicU64::new(bytes),
            held: Mutex::default(),
        })))
    }

    /// Begins a file. Blocks.
    pub(crate) fn begin(&self) -> io::Result<Staged> {
        let file = ids::file();
        let sink = match &self.0.folder {
            None => Sink::Row(Vec::new()),
            Some(folder) => Sink::File(folder::create(folder, &partial(file))?),
        };
        self.0.held.lock().insert(file);
        Ok(Staged {
            held: Some(FileHold {
                shelf: Arc::clone(&self.0),
                file,
            }),
            sink,
            hash: Sha256::new(),
            bytes: 0,
        })
    }

    /// Opens the file of an artifact. Blocks.
    pub(crate) fn read(&self, file: Uuid) -> io::Result<File> {
        let folder = self.0.folder.as_ref().ok_or(io::ErrorKind::NotFound)?;
        folder::read(folder, Path::new(&file.to_string()))
    }

    /// Removes what an earlier process has left. Call it before the first attempt. Blocks.
    pub(crate) fn clear(&self, store: &dyn Store) -> Result<(), StoreError> {
        if self.0.folder.is_some() {
            let kept = store.reader()?.artifact_files()?;
            self.remove_unused(&kept, |_| true);
        }
        Ok(())
    }

    /// Removes uploads that no job reads, and files that no row names, periodically.
    pub(crate) async fn sweep(self, dispatch: Dispatch, clock: Clock, stopping: CancellationToken) {
        let mut unused = BTreeSet::new();
        loop {
            tokio::select! {
                () = stopping.cancelled() => return,
                () = tokio::time::sleep(SWEEP_INTERVAL) => {}
            }
            remove_unused_uploads(&dispatch, clock).await;
            if self.0.folder.is_none() {
                continue;
            }
            let kept = match dispatch.scan(|reader| reader.artifact_files()).await {
                Ok(kept) => kept,
                Err(error) => {
                    tracing::warn!(%error, "cannot read which artifacts are kept");
                    continue;
                }
            };
            let this = self.clone();
            let before = std::mem::take(&mut unused);
            let swept = tokio::task::spawn_blocking(move || {
                this.remove_unused(&kept, |file| before.contains(&file))
            });
            unused = swept.await.unwrap_or_default();
        }
    }

    /// Removes files that are neither held nor kept, if they `may_go`. Returns the others.
    fn remove_unused(
        &self,
        kept: &BTreeSet<Uuid>,
        may_go: impl Fn(Uuid) -> bool,
    ) -> BTreeSet<Uuid> {
        let mut unused = BTreeSet::new();
        let entries = self.0.folder.iter().filter_map(|it| it.entries().ok());
        for entry in entries.flatten().flatten() {
            let name = entry.file_name();
            let text = name.to_string_lossy();
            let is_whole = !text.ends_with(PARTIAL);
            let Ok(file) = text.trim_end_matches(PARTIAL).parse() else {
                continue;
            };
            if self.0.held.lock().contains(&file) || is_whole && kept.contains(&file) {
                continue;
            }
            if may_go(file) {
                let bytes = entry.metadata().map_or(0, |found| found.len());
                match entry.remove_file() {
                    Ok(()) => self.0.give_back(bytes),
                    Err(error) => tracing::warn!(%error, %file, "cannot remove an artifact"),
                }
            } else {
                unused.insert(file);
            }
        }
        unused
    }
}

/// How many uploads one command removes.
const REMOVED_MAX: usize = 100;

async fn remove_unused_uploads(dispatch: &Dispatch, clock: Clock) {
    let now = clock.now();
    let scan = dispatch.scan(move |reader| reader.unused_uploads(now));
    let unused = scan.await.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot read which uploads are used");
        Vec::new()
    });
    for some in unused.chunks(REMOVED_MAX) {
        if let Err(error) = dispatch.submit(RemoveUploads(some.to_vec())).await {
            tracing::warn!(%error, "cannot remove unused uploads");
        }
    }
}

impl Shelf {
    fn take(&self, bytes: u64) -> Result<(), Full> {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > self.bytes_max {
            self.give_back(bytes);
            return Err(Full::Host(self.bytes_max));
        }
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn partial(file: Uuid) -> PathBuf {
    format!("{file}{PARTIAL}").into()
}

impl Staged {
    /// Returns whether the content is kept in memory, for a row.
    pub(crate) const fn is_row(&self) -> bool {
        matches!(self.sink, Sink::Row(_))
    }

    /// Appends to the file. After an error it has too little, and must be dropped. Blocks.
    pub(crate) fn append(&mut self, content: &[u8]) -> Result<(), Full> {
        let bytes = content.len() as u64;
        if self.is_row() {
            if self.bytes + bytes > ROW_BYTES_MAX {
                return Err(Full::Row);
            }
        } else if let Some(held) = &self.held {
            held.shelf.take(bytes)?;
        }
        self.bytes += bytes;
        match &mut self.sink {
            Sink::Row(row) => row.extend(content),
            Sink::File(file) => file.write_all(content)?,
        }
        self.hash.update(content);
        Ok(())
    }

    /// Gives the file its name, on disk. Blocks.
    pub(crate) fn finish(mut self) -> io::Result<Content> {
        let row = match &mut self.sink {
            Sink::Row(row) => Some(std::mem::take(row)),
            Sink::File(written) => {
                written.sync_all()?;
                None
            }
        };
        if let (None, Some(FileHold { shelf, file })) = (&row, &self.held)
            && let Some(folder) = &shelf.folder
        {
            folder.rename(partial(*file), folder, file.to_string())?;
            folder.open(".")?.sync_all()?;
        }
        let held = self.held.take().ok_or(io::ErrorKind::NotFound)?;
        Ok(Content {
            file: held.file,
            bytes: self.bytes,
            sha256: self.hash.clone().finalize().into(),
            row,
            hold: Box::new(held),
        })
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let (Some(FileHold { shelf, file }), Sink::File(_)) = (&self.held, &self.sink)
            && let Some(folder) = &shelf.folder
        {
            // If it stays, it is found later.
            if folder.remove_file(partial(*file)).is_ok() {
                shelf.give_back(self.bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const MIB: usize = 1 << 20;

    fn files(data: &TempDir) -> Vec<String> {
        let entries = std::fs::read_dir(data.path().join(FOLDER)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    fn write(artifacts: &Artifacts, content: &[u8]) -> Staged {
        let mut staged = artifacts.begin().unwrap();
        staged.append(content).unwrap();
        staged
    }

    #[test]
    fn a_file_that_is_not_finished_is_removed_and_takes_no_room() {
        let data = TempDir::new().unwrap();
        let artifacts = Artifacts::open(data.path(), false, MIB as u64).unwrap();
        let staged = write(&artifacts, &vec![0; MIB]);
        let mut other = artifacts.begin().unwrap();
        assert!(matches!(other.append(b"x"), Err(Full::Host(_))));
        drop((staged, other));
        assert_eq!(files(&data), [""; 0]);
        assert_eq!(
            write(&artifacts, &vec![0; MIB]).finish().unwrap().bytes,
            MIB as u64
        );
        let again = Artifacts::open(data.path(), false, MIB as u64).unwrap();
        let mut full = again.begin().unwrap();
        assert!(
            matches!(full.append(b"x"), Err(Full::Host(_))),
            "it counts after a start"
        );
    }

    #[test]
    fn a_file_is_removed_when_it_is_found_twice_without_a_job_or_an_attempt() {
        let data = TempDir::new().unwrap();
        let artifacts = Artifacts::open(data.path(), false, 2 * MIB as u64).unwrap();
        let (kept, none) = (
            write(&artifacts, b"kept").finish().unwrap(),
            BTreeSet::new(),
        );
        let running = write(&artifacts, &vec![0; MIB]).finish().unwrap();
        let begun = write(&artifacts, b"begun");
        let rows = BTreeSet::from([kept.file]);
        drop(kept.hold);
        assert_eq!(artifacts.remove_unused(&rows, |_| true), none);
        assert_eq!(files(&data).len(), 3, "all are kept or held");
        drop((running.hold, begun));
        let unused = artifacts.remove_unused(&rows, |_| false);
        assert_eq!(unused, BTreeSet::from([running.file]));
        assert_eq!(
            artifacts.remove_unused(&rows, |it| unused.contains(&it)),
            none
        );
        assert_eq!(files(&data), [kept.file.to_string()]);
        assert_eq!(artifacts.0.bytes.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn a_shared_store_takes_content_up_to_a_limit() {
        let data = TempDir::new().unwrap();
        let artifacts = Artifacts::open(data.path(), true, 0).unwrap();
        let mut staged = write(&artifacts, &vec![7; MIB]);
        assert!(matches!(staged.append(b"x"), Err(Full::Row)));
        let content = write(&artifacts, b"abc").finish().unwrap();
        assert_eq!(content.row.as_deref(), Some(&b"abc"[..]));
        assert_eq!(content.sha256[..4], [0xba, 0x78, 0x16, 0xbf]);
        assert!(!data.path().join(FOLDER).exists());
    }
}
