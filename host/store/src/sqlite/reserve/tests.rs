//! Space for accepted jobs when the disk is full.

use tempfile::TempDir;

use super::*;

#[test]
fn room_is_set_aside_given_up_and_set_aside_again() {
    let folder = TempDir::new().unwrap();
    let mut reserve = Reserve::beside(&folder.path().join("host.db"), 0);
    let file = folder.path().join("host.db-reserve");
    assert_eq!(fs::metadata(&file).unwrap().len(), RESERVE_BYTES);
    reserve.give_up();
    assert!(!file.exists());
    assert!(reserve.take(|| 0));
    assert_eq!(fs::metadata(&file).unwrap().len(), RESERVE_BYTES);
    let again = Reserve::beside(&folder.path().join("host.db"), 0);
    assert!(again.held, "a file of an earlier life is taken over");
}

#[test]
fn what_is_free_inside_the_store_needs_no_room_on_the_disk() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("host.db-reserve");
    for (inside, bytes) in [
        (1 << 20, RESERVE_BYTES - (1 << 20)),
        (RESERVE_BYTES - LOG_BYTES, LOG_BYTES),
        (u64::MAX, LOG_BYTES),
    ] {
        let mut reserve = Reserve::beside(&folder.path().join("host.db"), inside);
        assert_eq!(fs::metadata(&file).unwrap().len(), bytes);
        reserve.give_up();
    }
}
