//! Space for accepted jobs when the disk is full.

use tempfile::TempDir;

use super::*;

#[test]
fn room_is_set_aside_given_up_and_set_aside_again() {
    let folder = TempDir::new().unwrap();
    let mut reserve = Reserve::beside(&folder.path().join("host.db"), FreeSpace::default());
    let file = folder.path().join("host.db-reserve");
    assert_eq!(fs::metadata(&file).unwrap().len(), RESERVE_BYTES);
    reserve.give_up();
    assert!(!file.exists());
    assert!(reserve.take(FreeSpace::default));
    assert_eq!(fs::metadata(&file).unwrap().len(), RESERVE_BYTES);
    let again = Reserve::beside(&folder.path().join("host.db"), FreeSpace::default());
    assert!(again.held, "a file that an earlier process left is reused");
}

#[test]
fn what_the_store_has_needs_no_room_on_the_disk() {
    for (inside, log, lacks) in [
        (0, 0, RESERVE_BYTES),
        (0, LOG_BYTES, RESERVE_BYTES),
        (1 << 20, 0, RESERVE_BYTES - (1 << 20)),
        (u64::MAX, 0, LOG_BYTES),
        (u64::MAX, 1 << 20, LOG_BYTES - (1 << 20)),
        (u64::MAX, u64::MAX, 0),
    ] {
        let room = FreeSpace { inside, log };
        assert_eq!(room.lacks(), lacks);
        let folder = TempDir::new().unwrap();
        let mut reserve = Reserve::beside(&folder.path().join("host.db"), room);
        assert!(reserve.take(|| room));
        let file = fs::metadata(folder.path().join("host.db-reserve"));
        assert_eq!(file.map_or(0, |file| file.len()), lacks);
    }
}
