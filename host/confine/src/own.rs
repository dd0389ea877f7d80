//! Gives a child its own empty file system and its own user.

use std::ffi::CStr;
use std::io;
use std::ptr::null;

use rustix::fs::{Gid, Uid};
use rustix::process::{chdir, pivot_root};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// A folder that every system has, used as a mount point.
const PLACE: &CStr = c"/proc";

/// The file system holds nothing but its root.
const EMPTY: &CStr = c"size=4k,nr_inodes=2,mode=555";

/// Replaces all files that this process sees by an empty folder. Open files stay open. The process must have
/// a mount namespace of its own.
pub(super) fn empty_root() -> io::Result<()> {
    mount(c"/", None, libc::MS_PRIVATE | libc::MS_REC, None)?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount(PLACE, Some(c"tmpfs"), flags, Some(EMPTY))?;
    chdir(PLACE)?;
    // The old root is then on top of the new one.
    pivot_root(c".", c".")?;
    // SAFETY: the path ends with NUL.
    let unmounted = unsafe { libc::umount2(c".".as_ptr(), libc::MNT_DETACH) };
    done(unmounted)?;
    mount(c"/", None, flags | libc::MS_REMOUNT | libc::MS_RDONLY, None)?;
    Ok(chdir(c"/")?)
}

fn mount(
    place: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    options: Option<&CStr>,
) -> io::Result<()> {
    let text = |text: Option<&CStr>| text.map_or(null(), CStr::as_ptr);
    // SAFETY: all texts end with NUL or are absent.
    done(unsafe {
        libc::mount(
            c"none".as_ptr(),
            place.as_ptr(),
            text(kind),
            flags,
            text(options).cast(),
        )
    })
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Changes the user and the group of this process, and drops supplementary groups.
pub(super) fn become_user(id: u32) -> rustix::io::Result<()> {
    let (user, group) = (Uid::from_raw(id), Gid::from_raw(id));
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)
}
