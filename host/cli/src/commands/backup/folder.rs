//! Copies the files of a data directory: those of SQLite as they are at one moment, others byte by byte.
//! What belongs to a running process or can be made again is left out.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use host_engine::StoreError;
use host_runtime::folder::{self, Dir};
use host_runtime::owner::Owner;
use host_server::auth::ADMIN_TOKEN;
use host_store::backup::{Copied, Original};

use crate::commands::{LOGS, STORE};

/// What is not copied: the first token, locks, compiled components and their key, and the space that a store sets
/// aside.
const LEFT_OUT: &[&str] = &[
    ADMIN_TOKEN,
    "host.lock",
    "cells.lock",
    "cache",
    "cache.key",
    "host.db-reserve",
];

/// What is not copied, by the end of the name: what SQLite keeps beside its files.
const ENDINGS_LEFT_OUT: &[&str] = &["-wal", "-shm", "-journal", ".partial"];

/// Names of files that a host has set aside have this in them.
const DAMAGED: &str = ".damaged-";

/// How many folders deep a data directory is.
const DEPTH_MAX: u32 = 8;

/// Makes a directory that only its owner can read. It may be there already, if it is empty.
pub(super) fn make_empty(dir: &Path) -> Result<(), StoreError> {
    let made = make(dir).and_then(|()| match fs::read_dir(dir)?.next() {
        None => Ok(()),
        Some(_) => Err(io::Error::from(io::ErrorKind::DirectoryNotEmpty)),
    });
    made.map_err(|error| broken("create the directory", dir, &error))
}

/// The way of a copy, with the rights that root uses at its ends.
pub(super) struct Way<'a> {
    pub(super) from: &'a Path,
    pub(super) reader: Owner,
    pub(super) to: &'a Path,
    pub(super) writer: Owner,
}

impl Way<'_> {
    /// Copies a data directory. The store comes last: a copy without it is not a data directory.
    pub(super) fn copy(&self, on_progress: &mut dyn FnMut(&str, Copied)) -> Result<(), StoreError> {
        // As of now: each artifact that a job has by then is among the files that are copied next.
        let store = self.from.join(STORE);
        let original = self.read(|| Original::open_store(&store))?;
        let folders = self
            .reader
            .act(|| folder::open(self.from))
            .and_then(|from| {
                let to = self.writer.act(|| folder::open(self.to))?;
                Ok((from?, to?))
            });
        folders
            .and_then(|(from, to)| self.copy_rest(&from, &to, 0))
            .map_err(|error| broken("copy the files of", self.from, &error))?;
        let logs = self.from.join(LOGS);
        let open_logs = || match logs.symlink_metadata() {
            Ok(_) => Original::open(&logs).map(Some),
            Err(_) => Ok(None),
        };
        if let Some(original) = self.read(open_logs)? {
            self.copy_file(&original, &self.to.join(LOGS), LOGS, on_progress)?;
        }
        self.copy_file(&original, &self.to.join(STORE), STORE, on_progress)
    }

    /// Copies a store to one file.
    pub(super) fn copy_store(
        &self,
        from: &Path,
        to: &Path,
        on_progress: &mut dyn FnMut(&str, Copied),
    ) -> Result<(), StoreError> {
        let name = from.file_name().unwrap_or_default().to_string_lossy();
        let original = self.read(|| Original::open_store(from))?;
        self.copy_file(&original, to, &name, on_progress)
    }

    fn read<T>(&self, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        let read = self.reader.act(work);
        read.map_err(|error| broken("read as the owner of", self.from, &error))?
    }

    fn copy_file(
        &self,
        original: &Original,
        to: &Path,
        name: &str,
        on_progress: &mut dyn FnMut(&str, Copied),
    ) -> Result<(), StoreError> {
        let copy = || original.copy(to, |copied| on_progress(name, copied));
        let copied = self.writer.act(copy);
        copied.map_err(|error| broken("write as the owner of", self.to, &error))?
    }

    /// Copies all files that are not SQLite's, for the owner alone. Follows no link, and writes over nothing.
    fn copy_rest(&self, from: &Dir, to: &Dir, depth: u32) -> io::Result<()> {
        if depth > DEPTH_MAX {
            return Err(io::Error::other("directories are nested too deeply"));
        }
        for entry in from.entries()? {
            let entry = entry?;
            let name = entry.file_name();
            let text = name.to_string_lossy();
            if is_left_out(&text, depth) {
                continue;
            }
            let kind = entry.file_type()?;
            let name = Path::new(&name);
            if kind.is_dir() {
                let from = self.reader.act(|| folder::enter(from, name))??;
                let to = self.writer.act(|| folder::enter_or_make(to, name))??;
                self.copy_rest(&from, &to, depth + 1)?;
            } else if kind.is_file() {
                match self.reader.act(|| folder::read(from, name))? {
                    Ok(mut original) => {
                        let mut copy = self.writer.act(|| folder::create(to, name))??;
                        io::copy(&mut original, &mut copy)?;
                        copy.sync_all()?;
                    }
                    // It belonged to work that has ended.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => {
                        let cause = format!("{}: {error}", name.display());
                        return Err(io::Error::new(error.kind(), cause));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns whether a file is not copied byte by byte: those of SQLite are copied by it.
fn is_left_out(name: &str, depth: u32) -> bool {
    depth == 0 && ([STORE, LOGS].contains(&name) || LEFT_OUT.contains(&name))
        || ENDINGS_LEFT_OUT.iter().any(|ending| name.ends_with(ending))
        || name.contains(DAMAGED)
}

fn make(dir: &Path) -> io::Result<()> {
    let mut folders = DirBuilder::new();
    folders
        .recursive(true)
        .mode(folder::FOLDER_MODE)
        .create(dir)
}

fn broken(operation: &'static str, path: &Path, error: &io::Error) -> StoreError {
    StoreError::Broken {
        operation,
        message: format!("{}: {error}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use std::path::Path;

    use host_store::sqlite::SqliteStore;

    use host_engine::StoreError;
    use host_runtime::owner::Owner;

    use super::{Way, make_empty};

    fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
        let owner = |folder| Owner::find(folder).unwrap();
        let way = Way {
            from,
            reader: owner(from),
            to,
            writer: owner(to),
        };
        way.copy(&mut |_, _| {})
    }

    #[test]
    fn what_belongs_to_wires_and_operators_is_copied_and_what_can_be_made_again_is_not() {
        let dir = tempfile::TempDir::new().unwrap();
        let (from, to) = (dir.path().join("data"), dir.path().join("copy"));
        fs::create_dir_all(from.join("cache")).unwrap();
        fs::create_dir_all(from.join("reports")).unwrap();
        for path in [
            "admin.token",
            "host.lock",
            "cells.lock",
            "host.db-reserve",
            "cache.key",
            "draining",
            "cache/a.cwasm",
            "logs.db.damaged-1",
            "key",
            "reports/one",
            "reports/run.partial",
        ] {
            fs::write(from.join(path), path).unwrap();
        }
        made(&from);
        make_empty(&to).unwrap();
        copy(&from, &to).unwrap();
        let mut names: Vec<_> = fs::read_dir(&to)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["draining", "host.db", "key", "reports"]);
        assert_eq!(fs::read(to.join("reports/one")).unwrap(), b"reports/one");
        assert!(make_empty(&to).is_err(), "it is not empty");
    }

    /// Makes a store in the folder.
    fn made(folder: &Path) {
        drop(SqliteStore::open(&folder.join("host.db")).unwrap());
    }

    /// The backup may come from someone else.
    #[test]
    fn a_copy_is_for_its_owner_alone_and_follows_no_link() {
        let dir = tempfile::TempDir::new().unwrap();
        let (from, to) = (dir.path().join("data"), dir.path().join("copy"));
        fs::create_dir_all(from.join("reports")).unwrap();
        fs::write(from.join("reports/program"), "x").unwrap();
        for (path, mode) in [("reports/program", 0o4755), ("reports", 0o777)] {
            fs::set_permissions(from.join(path), Permissions::from_mode(mode)).unwrap();
        }
        symlink("/etc/passwd", from.join("link")).unwrap();
        symlink("/etc", from.join("folder")).unwrap();
        made(&from);
        make_empty(&to).unwrap();
        copy(&from, &to).unwrap();
        let mode = |path| fs::symlink_metadata(to.join(path)).unwrap().mode() & 0o7777;
        assert_eq!(mode("reports/program"), 0o600);
        assert_eq!(mode("reports"), 0o700);
        assert_eq!(mode("host.db"), 0o600);
        assert!(!to.join("link").exists() && !to.join("folder").exists());
        for name in ["logs.db", "host.db"] {
            let linked = dir.path().join(format!("linked-{name}"));
            fs::create_dir(&linked).unwrap();
            if name != "host.db" {
                made(&linked);
            }
            symlink(from.join("host.db"), linked.join(name)).unwrap();
            let copied = dir.path().join(format!("copied-{name}"));
            make_empty(&copied).unwrap();
            let refused = copy(&linked, &copied).unwrap_err();
            assert!(refused.to_string().contains("is a link"), "{refused}");
            assert!(copied.join(name).symlink_metadata().is_err());
        }
    }

    #[test]
    fn a_copy_is_written_over_nothing_and_through_no_link() {
        let dir = tempfile::TempDir::new().unwrap();
        let from = dir.path().join("data");
        fs::create_dir_all(from.join("reports")).unwrap();
        fs::write(from.join("reports/one"), "new").unwrap();
        made(&from);
        let victim = dir.path().join("victim");
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("one"), "old").unwrap();
        for (name, target, link) in [
            ("a", victim.clone(), "reports"),
            ("b", victim.join("one"), "reports/one"),
            ("c", dir.path().join("nowhere"), "host.db"),
        ] {
            let to = dir.path().join(name);
            fs::create_dir_all(to.join(link).parent().unwrap()).unwrap();
            symlink(target, to.join(link)).unwrap();
            copy(&from, &to).unwrap_err();
            assert_eq!(fs::read(victim.join("one")).unwrap(), b"old");
            assert!(to.join(link).is_symlink());
            assert!(!to.join("host.db").exists());
        }
    }
}
