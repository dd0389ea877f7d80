//! Compiled components that hosts of all suites share: the hosts have one key, and compiled code is linked
//! into the caches of others. Otherwise tests would mostly compile.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::guests::built;

/// The key that seals what the hosts compile.
const KEY: [u8; 32] = *b"the key that hosts in tests have";

/// How long compiled code is shared. Some components are different each time they are built.
const SHARED_AGE: Duration = Duration::from_hours(24);

fn shared() -> PathBuf {
    built("compiled")
}

/// Gives a new host the common key.
///
/// # Panics
///
/// If its data directory is not there.
pub fn give_key(data: &Path) {
    let key = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(data.join("cache.key"));
    if let Ok(mut key) = key {
        key.write_all(&KEY).expect("the key can be written");
    }
}

/// Links what other hosts have compiled into the cache of this one, unless it has a key of its own.
pub fn give(data: &Path) {
    if has_key(data) {
        let _ = make(&data.join("cache"));
        refresh(&shared());
        link_all(&shared(), &data.join("cache"));
    }
}

/// Marks compiled code as new, because a host or worker that starts removes what is older than an hour and unused by its
/// components. Removes what is older than [`SHARED_AGE`].
pub(crate) fn refresh(folder: &Path) {
    let (entries, now) = (fs::read_dir(folder), SystemTime::now());
    for entry in entries.into_iter().flatten().flatten() {
        let Some(found) = entry.metadata().ok().filter(fs::Metadata::is_file) else {
            continue;
        };
        let age = found.created().map(|it| now.duration_since(it));
        if matches!(age, Ok(Ok(age)) if age > SHARED_AGE) {
            let _ = fs::remove_file(entry.path());
        } else if let Ok(file) = File::open(entry.path()) {
            let _ = file.set_modified(now);
        }
    }
}

/// Shares what this host has compiled, unless it has a key of its own.
pub fn keep(data: &Path) {
    if has_key(data) {
        let _ = make(&shared());
        link_all(&data.join("cache"), &shared());
    }
}

/// Makes a folder that only this user can read, as hosts require.
fn make(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(folder)
}

fn has_key(data: &Path) -> bool {
    fs::read(data.join("cache.key")).is_ok_and(|key| key == KEY)
}

/// Links compiled code, and then the notes that seal it. If linking fails, each host compiles for itself.
fn link_all(from: &Path, to: &Path) {
    let Ok(entries) = fs::read_dir(from) else {
        return;
    };
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    let (code, notes): (Vec<_>, Vec<_>) =
        names.partition(|name| name.to_string_lossy().ends_with(".cwasm"));
    for name in code.iter().chain(&notes) {
        let _ = fs::hard_link(from.join(name), to.join(name));
    }
}
