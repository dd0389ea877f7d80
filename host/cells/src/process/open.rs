//! Opens what a cell needs for a message: the file of a component, or the directories of a run. The cell
//! opens no path itself.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use host_core::cell::{Handover, ToCell};

use crate::roots::ReadRoots;

/// Returns whether something is handed over with the message.
pub(super) fn hands_over(message: &ToCell) -> bool {
    match message {
        ToCell::Load { .. } => true,
        ToCell::Start(start) => !start.read_dirs.is_empty(),
        _ => false,
    }
}

/// Opens what is handed over with a message, and notes in it what cannot be opened. Blocks.
pub(super) fn open(message: &mut ToCell, roots: &ReadRoots) -> Vec<OwnedFd> {
    let mut opened = Vec::new();
    let mut note = |result: io::Result<OwnedFd>| match result {
        Ok(fd) => {
            opened.push(fd);
            Handover::Comes
        }
        Err(error) => Handover::Failed(error.to_string()),
    };
    match message {
        ToCell::Load { path, file, .. } => *file = note(open_file(path)),
        ToCell::Start(start) => {
            for given in &mut start.read_dirs {
                given.dir = note(roots.open(Path::new(&given.grant.host)));
            }
        }
        _ => {}
    }
    opened
}

fn open_file(path: &Path) -> io::Result<OwnedFd> {
    let no_link = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file = File::options()
        .read(true)
        .custom_flags(no_link)
        .open(path)?;
    Ok(file.into())
}
