//! What came open with a message: the file of a component, or the directories of a run.

use std::fs::File;
use std::os::fd::OwnedFd;

use host_core::cell::{GivenDir, Handover};
use host_core::failure::{Failure, FailureKind};
use host_socket::ReadHalf;
use host_socket::handover::Group;

/// Takes what came with one message.
pub(super) struct Given<'a>(&'a mut ReadHalf);

impl<'a> Given<'a> {
    pub(super) fn new(socket: &'a mut ReadHalf) -> Self {
        Self(socket)
    }

    /// Returns the file that came with the message, or why it did not.
    pub(super) fn file(&mut self, file: Handover) -> Result<File, String> {
        match file {
            Handover::Failed(cause) => Err(cause),
            Handover::Comes => {
                let mut group = self.group(1)?;
                group.pop().map(File::from).ok_or_else(lost)
            }
        }
    }

    /// Returns the directories that came with the message, by the names that the guest sees.
    pub(super) fn dirs(&mut self, dirs: &[GivenDir]) -> Result<Vec<(File, String)>, Failure> {
        if dirs.is_empty() {
            return Ok(Vec::new());
        }
        let comes = dirs.iter().filter(|dir| dir.dir == Handover::Comes).count();
        // It is taken even if the run fails, so that the next message gets its own.
        let group = if comes == 0 {
            Ok(Vec::new())
        } else {
            self.group(comes)
        };
        let mut group = group.map(Vec::into_iter);
        let open = dirs.iter().map(|GivenDir { grant, dir }| {
            let fd = match (dir, &mut group) {
                (Handover::Failed(cause), _) => Err(cause.clone()),
                (Handover::Comes, Err(cause)) => Err(cause.clone()),
                (Handover::Comes, Ok(group)) => group.next().ok_or_else(lost),
            };
            fd.map(|fd| (File::from(fd), grant.guest.clone()))
                .map_err(|cause| missing(&grant.host, &cause))
        });
        open.collect()
    }

    fn group(&mut self, count: usize) -> Result<Vec<OwnedFd>, String> {
        match self.0.next_group() {
            Some(Group::Whole(group)) if group.len() == count => Ok(group),
            Some(Group::Cut) => Err("the cell has too many open files".to_owned()),
            Some(Group::Whole(_)) | None => Err(lost()),
        }
    }
}

fn lost() -> String {
    "it was not handed over".to_owned()
}

fn missing(path: &str, cause: &str) -> Failure {
    let message = format!(
        "cannot open the directory {path}, which the manifest grants: {cause}; create it or change the grant"
    );
    Failure::new(FailureKind::GrantMissing, message)
}
