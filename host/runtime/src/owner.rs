//! Acts as the owner of a directory. Root that uses names in a directory of another user can be led elsewhere by
//! links there, however briefly they exist. With the rights of that user, it reaches only what the user reaches anyway.

#[cfg(test)]
mod tests;

use std::fs::metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::{Gid, Uid, geteuid, getgroups};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// The group of a user without one.
const NO_GROUP: u32 = 65_534;

/// The user with whose rights the names in a directory are used.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// `None` if this process may use the names itself: it is not root, or root owns the directory.
    other: Option<(Uid, Gid)>,
}

impl Owner {
    /// Finds the owner of the nearest directory at or above `path` that exists.
    pub fn find(path: &Path) -> io::Result<Self> {
        let absolute = std::path::absolute(path)?;
        let folder = absolute
            .ancestors()
            .find_map(|above| metadata(above).ok().filter(std::fs::Metadata::is_dir))
            .ok_or(io::ErrorKind::NotFound)?;
        let is_other = geteuid().is_root() && folder.uid() != 0;
        // Root's group may read what other users may not.
        let group = if folder.gid() == 0 {
            NO_GROUP
        } else {
            folder.gid()
        };
        let rights = (Uid::from_raw(folder.uid()), Gid::from_raw(group));
        Ok(Self {
            other: is_other.then_some(rights),
        })
    }

    /// Returns the user id of the owner if this process is root and the owner is another user.
    pub fn other(self) -> Option<u32> {
        self.other.map(|(user, _)| user.as_raw())
    }

    /// Runs `work` with the rights of the owner. Threads that it starts keep these rights.
    pub fn act<T>(self, work: impl FnOnce() -> T) -> io::Result<T> {
        let Some((user, group)) = self.other else {
            return Ok(work());
        };
        let _guard = Lowered::new(user, group)?;
        Ok(work())
    }
}

/// The lowered rights of this thread. They end on drop.
struct Lowered {
    groups: Vec<Gid>,
}

impl Lowered {
    /// Changes the effective user alone: the owner can neither signal nor trace a process whose real user is root.
    fn new(user: Uid, group: Gid) -> io::Result<Self> {
        let lowered = Self {
            groups: getgroups()?,
        };
        set_thread_groups(&[])?;
        set_thread_res_gid(None, group, None)?;
        set_thread_res_uid(None, user, None)?;
        Ok(lowered)
    }
}

impl Drop for Lowered {
    fn drop(&mut self) {
        // If the kernel refuses, the rights stay lowered, and what needs more fails.
        let _ = set_thread_res_uid(None, Uid::ROOT, None)
            .and_then(|()| set_thread_res_gid(None, Gid::ROOT, None))
            .and_then(|()| set_thread_groups(&self.groups));
    }
}
