//! Copies a SQLite file as of one moment, while others write to it. It knows no tables, so it works for every
//! file of this crate.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;

use host_engine::StoreError;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::{FILES, connect, doing, name_of, wal};

/// How many pages of 4 KiB are copied in one step. The copy is synced after each step, so that the host's own
/// syncs never wait long for it.
const STEP_PAGES: i32 = 128;

/// The progress of a copy, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    pub pages: u64,
    pub pages_total: u64,
}

/// A SQLite file as it was when it was opened here. All of its names have been used then: what reads it may lack the
/// rights to open it.
pub struct Original {
    path: PathBuf,
    source: Connection,
}

impl Original {
    /// Opens a store, if its log is intact.
    pub fn open_store(path: &Path) -> Result<Self, StoreError> {
        wal::check(path)?;
        Self::open(path)
    }

    /// Opens the file at `path`, which must not be a link. It is read as all commits before this call have left it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if path
            .symlink_metadata()
            .is_ok_and(|found| found.is_symlink())
        {
            return Err(StoreError::Broken {
                operation: "copy the file",
                message: format!("{} is a link", path.display()),
            });
        }
        let failed = doing("copy the file");
        let source = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        // Within a read transaction all steps see the same moment. Without it, SQLite would start over after each
        // commit of another process.
        let opened = source
            .execute_batch("BEGIN")
            .and_then(|()| source.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |_| Ok(())));
        opened.map_err(|error| name_damage(path, failed(error)))?;
        Ok(Self {
            path: path.to_owned(),
            source,
        })
    }

    /// Copies the file to `to`, which must not exist. The copy is one file and on disk when this returns. It has no
    /// part of a later batch.
    ///
    /// Calls `on_step` after each step, which may pause there. Writers of the original continue, but its log grows
    /// until it is dropped.
    pub fn copy(&self, to: &Path, mut on_step: impl FnMut(Copied)) -> Result<(), StoreError> {
        let failed = |error: std::io::Error| StoreError::Broken {
            operation: "write the copy",
            message: format!("{}: {error}", to.display()),
        };
        let mut partial = to.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let remove = || {
            for suffix in FILES {
                let mut path = partial.as_os_str().to_owned();
                path.push(suffix);
                // Most of them never existed.
                let _ = fs::remove_file(path);
            }
        };
        // A dangling link exists, too.
        if to.symlink_metadata().is_ok() {
            return Err(failed(std::io::ErrorKind::AlreadyExists.into()));
        }
        remove();
        let copied = self.copy_pages(&partial, &mut on_step).and_then(|()| {
            File::open(&partial)
                .and_then(|file| file.sync_all())
                .map_err(failed)?;
            fs::rename(&partial, to).map_err(failed)?;
            let parent = to.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = File::open(parent.unwrap_or(Path::new(".")));
            folder.and_then(|folder| folder.sync_all()).map_err(failed)
        });
        copied.map_err(|error| {
            remove();
            name_damage(&self.path, error)
        })
    }

    fn copy_pages(&self, to: &Path, on_step: &mut impl FnMut(Copied)) -> Result<(), StoreError> {
        let failed = doing("copy the file");
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut copy = connect(to, flags)?;
        private(to)?;
        // A copy that fails is removed, so it needs no journal.
        copy.execute_batch(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -4096;",
        )
        .map_err(&failed)?;
        {
            let backup = Backup::new(&self.source, &mut copy).map_err(&failed)?;
            let file = File::open(to).map_err(|error| unsynced(to, &error))?;
            loop {
                let step = backup.step(STEP_PAGES).map_err(&failed)?;
                file.sync_data().map_err(|error| unsynced(to, &error))?;
                let progress = backup.progress();
                let number = |pages: i32| u64::try_from(pages).unwrap_or_default();
                let total = number(progress.pagecount);
                on_step(Copied {
                    pages: total.saturating_sub(number(progress.remaining)),
                    pages_total: total,
                });
                match step {
                    StepResult::Done => break,
                    StepResult::More => thread::yield_now(),
                    _ => {
                        return Err(StoreError::Broken {
                            operation: "copy the file",
                            message: "another program has locked it".to_owned(),
                        });
                    }
                }
            }
        }
        alone(&copy).map_err(&failed)
    }
}

/// Names the file at `path` as what is damaged.
fn name_damage(path: &Path, error: StoreError) -> StoreError {
    match error {
        StoreError::Damaged { message, .. } => StoreError::Damaged {
            what: name_of(path),
            message,
        },
        error => error,
    }
}

/// Makes the copy a single file, without a log beside it.
fn alone(copy: &Connection) -> rusqlite::Result<()> {
    copy.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))
}

/// Makes the copy readable only by its owner: it holds params, results and logs.
pub(super) fn private(path: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(|error| {
        StoreError::Broken {
            operation: "make the copy private",
            message: format!("{}: {error}", path.display()),
        }
    })
}

fn unsynced(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Broken {
        operation: "sync the copy",
        message: format!("{}: {error}", path.display()),
    }
}
