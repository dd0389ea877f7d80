//! Copies the files of a data directory: those of SQLite as they are at one moment, others byte by byte.
//! What belongs to a running process or can be made again is left out.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use host_store::StoreError;
use host_store::backup::{self, Copied};

/// The file of the jobs and components.
pub(super) const STORE: &str = "host.db";

/// The other files of SQLite.
const LOGS: &str = "logs.db";

/// What is not copied: locks, compiled components and their key, and the space that a store sets aside.
const LEFT_OUT: &[&str] = &[
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
    made.map_err(|error| broken("make the directory", dir, &error))
}

/// Copies a store to one file.
pub(super) fn copy_store(
    from: &Path,
    to: &Path,
    told: &mut dyn FnMut(&str, Copied),
) -> Result<(), StoreError> {
    let name = from.file_name().unwrap_or_default().to_string_lossy();
    backup::copy(from, to, |copied| told(&name, copied))
}

/// Copies a data directory into `to`. The store comes last: a copy without it is no data directory.
pub(super) fn copy(
    from: &Path,
    to: &Path,
    told: &mut dyn FnMut(&str, Copied),
) -> Result<(), StoreError> {
    rest(from, to, 0).map_err(|error| broken("copy the files of", from, &error))?;
    if from.join(LOGS).exists() {
        copy_store(&from.join(LOGS), &to.join(LOGS), told)?;
    }
    copy_store(&from.join(STORE), &to.join(STORE), told)
}

/// Copies all files that are not SQLite's.
fn rest(from: &Path, to: &Path, depth: u32) -> io::Result<()> {
    if depth > DEPTH_MAX {
        return Err(io::Error::other("it has too many folders in each other"));
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let text = name.to_string_lossy();
        let is_of_sqlite = depth == 0 && [STORE, LOGS].contains(&&*text);
        let is_left_out = depth == 0 && LEFT_OUT.contains(&&*text)
            || ENDINGS_LEFT_OUT.iter().any(|ending| text.ends_with(ending))
            || text.contains(DAMAGED);
        if is_of_sqlite || is_left_out {
            continue;
        }
        let kind = entry.file_type()?;
        let target = to.join(&name);
        if kind.is_dir() {
            make(&target)?;
            rest(&entry.path(), &target, depth + 1)?;
        } else if kind.is_file() {
            match fs::copy(entry.path(), &target) {
                Ok(_) => File::open(&target)?.sync_all()?,
                // It belonged to work that has ended.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn make(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

fn broken(operation: &'static str, path: &Path, error: &io::Error) -> StoreError {
    StoreError::Broken {
        operation,
        message: format!("{}: {error}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{copy, make_empty};

    #[test]
    fn what_belongs_to_wires_is_copied_and_what_can_be_made_again_is_not() {
        let dir = tempfile::TempDir::new().unwrap();
        let (from, to) = (dir.path().join("data"), dir.path().join("copy"));
        fs::create_dir_all(from.join("cache")).unwrap();
        fs::create_dir_all(from.join("reports")).unwrap();
        for path in [
            "host.lock",
            "cells.lock",
            "host.db-reserve",
            "cache.key",
            "cache/a.cwasm",
            "logs.db.damaged-1",
            "key",
            "reports/one",
        ] {
            fs::write(from.join(path), path).unwrap();
        }
        drop(host_store::sqlite::SqliteStore::open(&from.join("host.db")).unwrap());
        make_empty(&to).unwrap();
        copy(&from, &to, &mut |_, _| {}).unwrap();
        let mut names: Vec<_> = fs::read_dir(&to)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["host.db", "key", "reports"]);
        assert_eq!(fs::read(to.join("reports/one")).unwrap(), b"reports/one");
        assert!(make_empty(&to).is_err(), "it is not empty");
    }
}
