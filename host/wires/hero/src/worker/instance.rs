//! The name of this host among those that share a Redis. A file keeps it between starts.

mod kept;

#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use host_runtime::{file, ids};

pub(crate) use self::kept::KeptName;

/// Returns the name kept in `path`; the first start makes it. The name contains the inode of the
/// file, so a copied data directory gets a different name: two hosts with the same name would
/// execute each other's jobs.
pub(crate) fn kept_in(path: &Path) -> io::Result<String> {
    let kept = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        kept => kept?,
    };
    let mut word = kept.trim().to_owned();
    if word.is_empty() {
        word = ids::unique();
        file::replace(path, |file| writeln!(file, "{word}"))?;
    }
    Ok(format!("{word}-{:x}", fs::metadata(path)?.ino()))
}
