//! The files of the runners that this host starts: a folder for each attempt with the log, and below it one
//! with the lease and a folder to work in. That goes when the runner has ended; the log, and what the runner
//! put beside it, stay as long as the job is kept.

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use host_core::id::JobId;
use host_core::port::lease::Leases;
use host_runtime::folder::{self, Dir, FOLDER_MODE};
use host_runtime::mailbox::respond;

/// What goes with the runner. Backups leave out what has this ending.
const RUN: &str = "run.partial";
const LEASE: &str = "lease.json";
const WORK: &str = "work";
pub(super) const LOG: &str = "log";

/// The folder of all attempts.
#[derive(Clone, Debug)]
pub(super) struct Files(PathBuf);

/// The folder of one attempt. Its lease and work are removed when this is dropped.
#[derive(Debug)]
pub(super) struct AttemptFiles(PathBuf);

impl Files {
    pub(super) const fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Makes the folder of an attempt, with its lease.
    pub(super) fn make(&self, job: JobId, attempt: u32, lease: &[u8]) -> io::Result<AttemptFiles> {
        let folder = self.0.join(job.to_string()).join(attempt.to_string());
        let mut folders = DirBuilder::new();
        folders.recursive(true).mode(FOLDER_MODE);
        let files = AttemptFiles(std::path::absolute(folder)?);
        files.clean();
        folders.create(files.work())?;
        let run = folder::open(&files.run())?;
        folder::create(&run, Path::new(LEASE))?.write_all(lease)?;
        Ok(files)
    }

    /// Removes the leases and the work that the previous process left.
    pub(super) fn forget_leases(&self) {
        for job in entries(&self.0) {
            for attempt in entries(&job) {
                drop(AttemptFiles(attempt));
            }
        }
    }

    /// Removes the folders of jobs that are not kept any more.
    pub(super) async fn sweep(&self, leases: &dyn Leases) {
        for folder in entries(&self.0) {
            let name = folder.file_name().and_then(|name| name.to_str());
            let Some(job) = name.and_then(|name| name.parse().ok()) else {
                continue;
            };
            let (respond, answer) = respond();
            leases.read(job, respond);
            if let Ok(Ok(None)) = answer.await {
                removed(&folder, fs::remove_dir_all(&folder));
            }
        }
    }
}

impl AttemptFiles {
    /// Opens the folder.
    pub(super) fn open(&self) -> io::Result<Dir> {
        folder::open(&self.0)
    }

    fn run(&self) -> PathBuf {
        self.0.join(RUN)
    }

    pub(super) fn lease(&self) -> PathBuf {
        self.run().join(LEASE)
    }

    pub(super) fn work(&self) -> PathBuf {
        self.run().join(WORK)
    }

    pub(super) fn log(&self) -> PathBuf {
        self.0.join(LOG)
    }

    fn clean(&self) {
        removed(&self.run(), fs::remove_dir_all(self.run()));
    }
}

impl Drop for AttemptFiles {
    fn drop(&mut self) {
        self.clean();
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect()
}

/// Warns if something that was there could not be removed.
fn removed(path: &Path, result: io::Result<()>) {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "cannot remove a file of a runner");
        }
        _ => {}
    }
}
