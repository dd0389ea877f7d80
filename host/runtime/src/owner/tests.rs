//! What root reaches with the rights of the owner of a directory.

use std::fs::{Permissions, create_dir, read, set_permissions, write};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

use rustix::process::getegid;
use tempfile::TempDir;

use super::*;

/// A user that owns nothing else.
const USER: u32 = 65_532;

#[test]
fn root_reaches_only_what_the_owner_of_a_directory_reaches() {
    if !geteuid().is_root() {
        return;
    }
    let home = TempDir::new().unwrap();
    set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
    let (secret, theirs) = (home.path().join("secret"), home.path().join("theirs"));
    write(&secret, "of root").unwrap();
    // The directory stays with root's group, which may read the secret.
    set_permissions(&secret, Permissions::from_mode(0o640)).unwrap();
    create_dir(&theirs).unwrap();
    symlink(&secret, theirs.join("link")).unwrap();
    chown(&theirs, Some(USER), None).unwrap();
    let before = (geteuid(), getegid(), getgroups().unwrap());
    let owner = Owner::find(&theirs.join("missing/below")).unwrap();
    assert_eq!(owner.other(), Some(USER));
    let refused = owner.act(|| read(theirs.join("link"))).unwrap();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::PermissionDenied);
    let made = owner.act(|| write(theirs.join("new"), "")).unwrap();
    made.unwrap();
    let new = metadata(theirs.join("new")).unwrap();
    assert_eq!((new.uid(), new.gid()), (USER, NO_GROUP));
    assert_eq!((geteuid(), getegid(), getgroups().unwrap()), before);
    assert_eq!(read(&secret).unwrap(), b"of root");
}

#[test]
fn rights_return_after_a_panic() {
    if !geteuid().is_root() {
        return;
    }
    let theirs = TempDir::new().unwrap();
    chown(theirs.path(), Some(USER), Some(USER)).unwrap();
    let owner = Owner::find(theirs.path()).unwrap();
    let panicked = std::panic::catch_unwind(|| owner.act(|| panic!("on purpose")));
    assert!(panicked.is_err());
    assert!(geteuid().is_root());
}

#[test]
fn a_directory_of_its_own_needs_no_other_rights() {
    let home = TempDir::new().unwrap();
    let owner = Owner::find(home.path()).unwrap();
    assert_eq!(owner.other(), None);
    assert_eq!(owner.act(geteuid).unwrap(), geteuid());
}
