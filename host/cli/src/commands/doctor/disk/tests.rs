//! What the checks of the disk make of what they find.

use std::time::Duration;

use super::super::Status;
use super::{NFS, TMPFS, checks, existing, kind_of, room, sync, sync_times};

#[test]
fn a_directory_that_is_not_there_is_judged_by_its_parent() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(existing(&dir.path().join("a/b")), dir.path());
    assert_eq!(existing(dir.path()), dir.path());
}

#[test]
fn measuring_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(sync_times(dir.path()).unwrap().len(), super::SYNCS);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_place_that_cannot_be_written_to_fails() {
    let checks = checks(std::path::Path::new("/proc/self"));
    let writing = checks
        .iter()
        .find(|check| check.name == "data directory")
        .unwrap();
    assert_eq!(writing.status, Status::Fail);
}

#[test]
fn judgements() {
    assert_eq!(room("/", 2 << 30).status, Status::Ok);
    assert_eq!(room("/", 100 << 20).status, Status::Warn);
    assert_eq!(room("/", 1 << 20).status, Status::Fail);
    assert_eq!(kind_of(0xef53).status, Status::Ok);
    assert_eq!(
        (kind_of(TMPFS).status, kind_of(NFS).status),
        (Status::Warn, Status::Warn)
    );
    let ms = Duration::from_millis;
    let check = sync(vec![ms(1), ms(90), ms(2)]);
    assert_eq!(
        (check.status, check.found.as_str()),
        (Status::Ok, "2.00 ms each, 90.00 ms at worst")
    );
    assert_eq!(sync(vec![ms(30); 3]).status, Status::Warn);
}
