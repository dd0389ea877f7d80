//! What a host needs from the limits of its process and from the file system of its cache, and what to do if it does
//! not have that.

use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::process::{Resource, getrlimit};
use thiserror::Error;

/// Open files that a host with one cell needs.
pub const FILES_MIN: u64 = 128;

/// The size of files that a host needs: its store grows, and a compiled component may have this size.
pub const FILE_BYTES_MIN: u64 = 1 << 30;

/// What to do about too few open files, and about files that are too small.
pub const MORE_FILES: &str = "run `ulimit -n 1024` or set LimitNOFILE= of the service";
pub const LARGER_FILES: &str = "run `ulimit -f unlimited` or set LimitFSIZE= of the service";

/// A limit of this process that is too low.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LimitFlaw {
    #[error("this process may open {0} files, and a host needs {FILES_MIN}: {MORE_FILES}")]
    Files(u64),
    #[error(
        "this process may write files of {0} bytes, and a host needs {FILE_BYTES_MIN}: {LARGER_FILES}"
    )]
    FileSize(u64),
}

/// Checks the limits of this process.
pub fn check_limits() -> Result<(), LimitFlaw> {
    check(
        getrlimit(Resource::Nofile).current,
        getrlimit(Resource::Fsize).current,
    )
}

fn check(files: Option<u64>, file_bytes: Option<u64>) -> Result<(), LimitFlaw> {
    match (files, file_bytes) {
        (Some(files), _) if files < FILES_MIN => Err(LimitFlaw::Files(files)),
        (_, Some(bytes)) if bytes < FILE_BYTES_MIN => Err(LimitFlaw::FileSize(bytes)),
        _ => Ok(()),
    }
}

/// Returns what to do if a cell cannot run machine code of files in `folder`.
pub(crate) fn advice(folder: &Path) -> String {
    let found = statvfs(folder);
    let may_execute = found.is_ok_and(|found| !found.f_flag.contains(StatVfsMountFlags::NOEXEC));
    advise(may_execute, getrlimit(Resource::As).current.is_some())
}

fn advise(may_execute: bool, has_address_limit: bool) -> String {
    let advice: Vec<_> = [
        (!may_execute).then_some(
            "the file system of the data directory is mounted noexec: mount it with exec (`docker run --tmpfs DIR:exec`) \
             or name another --data",
        ),
        has_address_limit.then_some("a pool of sandboxes reserves terabytes of addresses: run `ulimit -v unlimited`"),
    ].into_iter().flatten().collect();
    if advice.is_empty() {
        return "memory or the limit of processes (`ulimit -u`) may be too low; `host doctor` checks this machine"
            .to_owned();
    }
    advice.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_are_too_low_are_refused() {
        assert_eq!(check(None, None), Ok(()));
        assert_eq!(check(Some(FILES_MIN), Some(FILE_BYTES_MIN)), Ok(()));
        assert_eq!(check(Some(48), None), Err(LimitFlaw::Files(48)));
        let small = FILE_BYTES_MIN - 1;
        assert_eq!(check(None, Some(small)), Err(LimitFlaw::FileSize(small)));
    }

    #[test]
    fn advice_names_what_is_in_the_way() {
        assert!(advise(true, false).contains("host doctor"));
        assert!(advise(false, false).starts_with("the file system"));
        let both = advise(false, true);
        assert!(
            both.contains("noexec") && both.contains("ulimit -v"),
            "{both}"
        );
    }
}
