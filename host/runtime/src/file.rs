//! Files that are replaced as a whole.

use std::fs::{File, OpenOptions, remove_file, rename};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::ids;

/// Replaces the file at `path`, readable by its owner alone. It is on disk when this returns. A process that is
/// killed before leaves the file as it was. Blocks.
pub fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".{}", ids::unique()));
    let partial = PathBuf::from(partial);
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&partial)?;
    let written = write(&mut file)
        .and_then(|()| file.sync_all())
        .and_then(|()| rename(&partial, path));
    if written.is_err() {
        let _ = remove_file(&partial);
    }
    written?;
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_or_stays() {
        let home = TempDir::new().unwrap();
        let path = home.path().join("it");
        replace(&path, |file| file.write_all(b"long ago")).unwrap();
        replace(&path, |file| file.write_all(b"now")).unwrap();
        let failed = replace(&path, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("no"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"now");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }
}
