//! The id of this host among the nodes of its database: kept in the data directory, so that a restarted host
//! takes back its jobs. A copy of the directory is another node.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use host_core::id::NodeId;
use host_runtime::{file, ids};

/// The file in the data directory.
pub const FILE: &str = "node";

/// Returns the id in `data`, or creates one.
pub(super) fn read_or_make(data: &Path) -> io::Result<NodeId> {
    let path = data.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => {
            if let Some(node) = parse(&text, fs::metadata(&path)?.ino()) {
                return Ok(node);
            }
            tracing::info!("the data directory is a copy of another host's: using a new node id");
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let node = ids::node();
    file::replace(&path, |file| {
        let inode = file.metadata()?.ino();
        writeln!(file, "{node} {inode}")
    })?;
    Ok(node)
}

/// Reads the id. Returns `None` if the file, whose inode is `inode`, is a copy.
fn parse(text: &str, inode: u64) -> Option<NodeId> {
    let (id, of) = text.trim().split_once(' ')?;
    let is_same = of.parse() == Ok(inode);
    is_same.then(|| id.parse().ok())?
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_directory_keeps_its_id_and_a_copy_gets_another() {
        let (data, copy) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let id = read_or_make(data.path()).unwrap();
        assert_eq!(read_or_make(data.path()).unwrap(), id);
        fs::copy(data.path().join(FILE), copy.path().join(FILE)).unwrap();
        let other = read_or_make(copy.path()).unwrap();
        assert_ne!(other, id);
        assert_eq!(read_or_make(copy.path()).unwrap(), other);
    }
}
