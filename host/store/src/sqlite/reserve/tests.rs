//! Space for accepted jobs when the disk is full.

use tempfile::TempDir;

use super::*;

#[test]
fn room_is_set_aside_given_up_and_set_aside_again() {
    let folder = TempDir::new().unwrap();
    let mut reserve = Reserve::beside(&folder.path().join("host.db"));
    let file = folder.path().join("host.db-reserve");
    assert_eq!(fs::metadata(&file).unwrap().len(), RESERVE_BYTES);
    reserve.give_up();
    assert!(!file.exists());
    assert!(reserve.take());
    assert_eq!(fs::metadata(&file).unwrap().len(), RESERVE_BYTES);
    let again = Reserve::beside(&folder.path().join("host.db"));
    assert!(again.held, "a file of an earlier life is taken over");
}
