//! Handles missing or damaged files of a data directory before the host starts.

use std::path::{Path, PathBuf};
use std::{fs, io};

use host_engine::StoreError;
use host_store::sqlite::logs::LogStore;

/// The file of the jobs and components.
pub const STORE: &str = "host.db";

/// The file of the guests' logs.
pub const LOGS: &str = "logs.db";

/// The suffixes of SQLite's files beside a file.
const BESIDE: [&str; 3] = ["", "-wal", "-shm"];

/// The suffix of an incomplete copy of the store.
const PARTIAL: &str = "host.db.partial";

/// How many damaged files are kept.
const ASIDE_MAX: u32 = 100;

/// Returns the evidence that the data directory had a store, if the store is missing or empty now.
pub(super) fn store_is_gone(data: &Path) -> Option<String> {
    let bytes = fs::metadata(data.join(STORE)).map_or(0, |file| file.len());
    if bytes > 0 {
        return None;
    }
    let is_restored = data.join(PARTIAL).exists();
    let has_logs = data.join(LOGS).exists();
    let compiled = fs::read_dir(data.join("cache")).is_ok_and(|mut files| files.next().is_some());
    let left: Vec<_> = [
        is_restored.then_some("a part of a copy that was not finished (host.db.partial)"),
        has_logs.then_some("the logs of its jobs (logs.db)"),
        compiled.then_some("compiled components (cache)"),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!left.is_empty()).then(|| left.join(" and "))
}

/// Warns that the data directory has jobs, although a database keeps the jobs of the host.
pub(super) fn warn_of_unused(data: &Path) {
    let path = data.join(STORE);
    if path.exists() {
        let store = path.display();
        tracing::warn!(%store, "a database keeps the jobs; those of the data directory do not run");
    }
}

/// Opens the logs. A damaged file is set aside, because no job needs it.
pub(super) fn open_logs(data: &Path, bytes_max: u64) -> Result<LogStore, StoreError> {
    let path = data.join(LOGS);
    match LogStore::open_bounded(&path, bytes_max) {
        Err(StoreError::Damaged { message, .. }) => {
            let aside = set_aside(&path).map_err(|error| StoreError::Broken {
                operation: "set the damaged logs aside",
                message: error.to_string(),
            })?;
            tracing::error!(
                error = message,
                kept = %aside.display(),
                "the logs of jobs are damaged: setting the file aside and starting a new one"
            );
            LogStore::open_bounded(&path, bytes_max)
        }
        opened => opened,
    }
}

/// Renames a SQLite file, and returns the new name.
fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let named = |n: u32, suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".damaged-{n}{suffix}"));
        PathBuf::from(name)
    };
    let free = (1..=ASIDE_MAX).find(|n| !named(*n, "").exists());
    let n = free.ok_or_else(|| io::Error::other("too many damaged files; remove some"))?;
    for suffix in BESIDE {
        let mut old = path.as_os_str().to_owned();
        old.push(suffix);
        match fs::rename(&old, named(n, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(named(n, ""))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_store_that_is_gone_is_missed_only_where_it_was() {
        let folder = TempDir::new().unwrap();
        let data = folder.path();
        assert_eq!(store_is_gone(data), None, "a new directory");
        fs::create_dir(data.join("cache")).unwrap();
        assert_eq!(store_is_gone(data), None, "an empty cache");
        fs::write(data.join(LOGS), "x").unwrap();
        fs::write(data.join("cache/a.cwasm"), "x").unwrap();
        let left = store_is_gone(data).unwrap();
        assert!(left.contains("logs") && left.contains("cache"), "{left}");
        fs::write(data.join(STORE), "").unwrap();
        assert!(store_is_gone(data).is_some(), "an empty file");
        fs::write(data.join(STORE), "x").unwrap();
        assert_eq!(store_is_gone(data), None);
    }

    #[test]
    fn a_copy_that_was_not_finished_is_no_new_directory() {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join(PARTIAL), "x").unwrap();
        let left = store_is_gone(folder.path()).unwrap();
        assert!(left.contains(PARTIAL), "{left}");
    }

    #[test]
    fn damaged_logs_are_set_aside() {
        let folder = TempDir::new().unwrap();
        let data = folder.path();
        for n in 1..=2 {
            fs::write(data.join(LOGS), vec![b'x'; 10_000]).unwrap();
            drop(open_logs(data, 1 << 20).unwrap());
            let kept = fs::read(data.join(format!("logs.db.damaged-{n}"))).unwrap();
            assert_eq!(kept.len(), 10_000);
        }
        drop(open_logs(data, 1 << 20).unwrap());
        assert!(
            !data.join("logs.db.damaged-3").exists(),
            "the new file is whole"
        );
    }
}
