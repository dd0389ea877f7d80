//! Folders below which files are opened; the only user of `cap-std`. Nothing outside of a folder is opened,
//! even if others change it at the same time. `Dir` follows links that stay inside, so what takes a name here
//! is stricter: a name is one part of a path, no link is followed, and only regular files are opened.

#[cfg(test)]
mod tests;

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _};
use cap_std::ambient_authority;
use cap_std::fs::{DirBuilder, DirBuilderExt as _, OpenOptions, OpenOptionsExt as _};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::ids;

pub use cap_std::fs::Dir;

/// Who may use what is made: its owner.
pub const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
const PUBLIC_MODE: u32 = 0o644;

/// Opens a folder that the operator or this host chose. Links in its path are followed.
pub fn open(path: &Path) -> io::Result<Dir> {
    #[expect(clippy::disallowed_methods, reason = "this is the place")]
    Dir::open_ambient_dir(path, ambient_authority())
}

/// Opens a folder by its path below another one, to be listed. Links that stay inside are followed.
/// Returns `None` if the path leads out.
pub fn open_below(root: &Dir, path: &Path) -> io::Result<Option<OwnedFd>> {
    let mut options = OpenOptions::new();
    let flags = OFlags::DIRECTORY.bits().cast_signed();
    match root.open_with(path, options.read(true).custom_flags(flags)) {
        Ok(folder) => Ok(Some(folder.into())),
        // An error of `cap-std`, not of the system.
        Err(error) if error.raw_os_error().is_none() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a folder in another one.
pub fn enter(above: &Dir, name: &Path) -> io::Result<Dir> {
    check_name(name)?;
    let is_link = || {
        let found = above.symlink_metadata(name);
        found.is_ok_and(|found| found.is_symlink())
    };
    match above.open_dir_nofollow(name) {
        Err(_) if is_link() => Err(Errno::LOOP.into()),
        opened => opened,
    }
}

/// Opens a folder in another one. Makes it if it is missing.
pub fn enter_or_make(above: &Dir, name: &Path) -> io::Result<Dir> {
    check_name(name)?;
    let mut folder = DirBuilder::new();
    match above.create_dir_with(name, folder.mode(FOLDER_MODE)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => enter(above, name),
    }
}

/// Opens a file for reading.
pub fn read(folder: &Dir, name: &Path) -> io::Result<File> {
    regular(folder, name, OpenOptions::new().read(true))
}

/// Opens a file for appending. Makes it if it is missing.
pub fn append(folder: &Dir, name: &Path) -> io::Result<File> {
    regular(folder, name, OpenOptions::new().append(true).create(true))
}

/// Makes a file. There must be none of this name.
pub fn create(folder: &Dir, name: &Path) -> io::Result<File> {
    regular(
        folder,
        name,
        OpenOptions::new().write(true).create_new(true),
    )
}

/// Makes a file that other users may read but not write. It has its name once it is on disk.
pub fn publish(folder: &Dir, name: &Path, content: &[u8]) -> io::Result<()> {
    let partial_name = format!("{}.partial", ids::unique());
    let partial = Path::new(&partial_name);
    let mut file = create(folder, partial)?;
    let written = file
        .set_permissions(Permissions::from_mode(PUBLIC_MODE))
        .and_then(|()| file.write_all(content))
        .and_then(|()| file.sync_all())
        .and_then(|()| folder.rename(partial, folder, name));
    if written.is_err() {
        let _ = folder.remove_file(partial);
    }
    written
}

/// Opens a regular file. Does not wait for the other end of a FIFO.
fn regular(folder: &Dir, name: &Path, options: &mut OpenOptions) -> io::Result<File> {
    check_name(name)?;
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let options = options.mode(FILE_MODE).custom_flags(flags);
    options.follow(FollowSymlinks::No);
    let file = folder.open_with(name, options)?.into_std();
    match file.metadata()?.file_type() {
        kind if kind.is_file() => Ok(file),
        kind if kind.is_dir() => Err(Errno::ISDIR.into()),
        _ => Err(Errno::NXIO.into()),
    }
}

/// `Dir` follows links in all parts of a path but the last.
fn check_name(name: &Path) -> io::Result<()> {
    if name.file_name() == Some(name.as_os_str()) {
        Ok(())
    } else {
        Err(Errno::INVAL.into())
    }
}
