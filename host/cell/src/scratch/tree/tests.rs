//! Paths, names and blocks of scratch directories.

use std::sync::Arc;

use super::*;

/// The same as a length.
const BLOCK_LEN: usize = 16 << 10;
use crate::limits::{CellMemory, MemoryLimit};

const CREATE: OpenFlags = OpenFlags::CREATE;

fn memory(bytes: u64) -> MemoryCharge {
    let limit = MemoryLimit::new(bytes, Arc::new(CellMemory::new(1 << 30)));
    MemoryCharge::nothing(limit.memory())
}

/// Makes a tree with room for `blocks`.
fn tree(blocks: u64) -> Tree {
    Tree::new(blocks * BLOCK_BYTES, memory(1 << 30))
}

fn create(tree: &mut Tree, path: &str) -> Inode {
    tree.open(ROOT, path, CREATE, true).unwrap()
}

fn write(tree: &mut Tree, inode: Inode, end: u64) -> Result<()> {
    tree.reserve(inode, end)?;
    tree.grow(inode, end)
}

#[test]
fn a_path_stays_in_its_folder() {
    let mut tree = tree(1);
    tree.make_folder(ROOT, "a").unwrap();
    tree.make_folder(ROOT, "a/b").unwrap();
    let file = create(&mut tree, "a/b/file");
    let below = tree.find(ROOT, "a/b").unwrap();
    for (base, path, expected) in [
        (ROOT, "a/b/file", Ok(file)),
        (ROOT, "./a//b/../b/./file", Ok(file)),
        (ROOT, "a/..", Ok(ROOT)),
        (ROOT, ".", Ok(ROOT)),
        (below, "file", Ok(file)),
        (below, "../b/file", Err(Errno::PERM)),
        (ROOT, "..", Err(Errno::PERM)),
        (ROOT, "a/../../a", Err(Errno::PERM)),
        (ROOT, "/a", Err(Errno::PERM)),
        (ROOT, "", Err(Errno::NOENT)),
        (ROOT, "a/c", Err(Errno::NOENT)),
        (ROOT, "a/c/..", Err(Errno::NOENT)),
        (ROOT, "a/b/file/", Err(Errno::NOTDIR)),
        (ROOT, "a/b/file/..", Err(Errno::NOTDIR)),
        (file, "x", Err(Errno::NOTDIR)),
        (ROOT, "nul\0byte", Err(Errno::INVAL)),
    ] {
        assert_eq!(tree.find(base, path), expected, "{path}");
    }
    for long in ["x".repeat(256), "x/".repeat(2_049)] {
        assert_eq!(tree.find(ROOT, &long), Err(Errno::NAMETOOLONG));
    }
}

#[test]
fn a_folder_is_not_moved_below_itself_and_nothing_is_made_in_a_removed_one() {
    let mut tree = tree(1);
    tree.make_folder(ROOT, "a").unwrap();
    tree.make_folder(ROOT, "a/b").unwrap();
    let below = tree.open(ROOT, "a/b", OpenFlags::empty(), false).unwrap();
    for (base, path) in [(ROOT, "a/b/c"), (below, "c"), (ROOT, "a/c")] {
        assert_eq!(
            tree.rename(ROOT, "a", base, path),
            Err(Errno::INVAL),
            "{path}"
        );
    }
    tree.remove(ROOT, "a/b", true).unwrap();
    let made = tree.open(below, "file", CREATE, true);
    assert_eq!(made, Err(Errno::NOENT));
    assert_eq!(tree.make_folder(below, "c"), Err(Errno::NOENT));
    create(&mut tree, "file");
    assert_eq!(tree.rename(ROOT, "file", below, "x"), Err(Errno::NOENT));
    tree.close(below);
    assert_eq!(tree.status(below), Err(Errno::BADF));
    tree.rename(ROOT, "file", ROOT, "a/file").unwrap();
    assert_eq!(tree.remove(ROOT, "a", true), Err(Errno::NOTEMPTY));
}

#[test]
fn blocks_are_free_again_when_the_last_user_of_a_file_is_gone() {
    let mut tree = tree(4);
    let file = create(&mut tree, "a");
    write(&mut tree, file, 3 * BLOCK_BYTES).unwrap();
    tree.remove(ROOT, "a", false).unwrap();
    let other = create(&mut tree, "b");
    assert_eq!(write(&mut tree, other, 2 * BLOCK_BYTES), Err(Errno::NOSPC));
    assert_eq!(tree.status(other).unwrap().size, 0, "nothing is half done");
    tree.close(file);
    write(&mut tree, other, 4 * BLOCK_BYTES).unwrap();
    let segments = tree.segments(other, 0, 4 * BLOCK_LEN).unwrap();
    let len: usize = segments.iter().map(|segment| segment.len).sum();
    assert_eq!(len, 4 * BLOCK_LEN);
    assert!(segments.iter().all(|it| it.position < 4 * BLOCK_BYTES));
    tree.truncate(other, 1).unwrap();
    let third = create(&mut tree, "c");
    write(&mut tree, third, 3 * BLOCK_BYTES).unwrap();
}

#[test]
fn neighbouring_blocks_are_one_segment() {
    let mut tree = tree(4);
    let file = create(&mut tree, "a");
    write(&mut tree, file, 3 * BLOCK_BYTES).unwrap();
    let (position, len) = (100, 2 * BLOCK_LEN);
    let found = tree.segments(file, 100, len).unwrap();
    assert_eq!(found, [Segment { position, len }]);
    let beyond = tree.segments(file, 2 * BLOCK_BYTES, len);
    assert_eq!(beyond, Err(Errno::NOSPC));
}

#[test]
fn names_count_as_memory_until_they_are_gone() {
    let mut tree = Tree::new(1 << 20, memory(2 * NODE_BYTES as u64));
    tree.make_folder(ROOT, "a").unwrap();
    tree.make_folder(ROOT, "b").unwrap();
    assert_eq!(tree.make_folder(ROOT, "c"), Err(Errno::NOMEM));
    tree.remove(ROOT, "a", true).unwrap();
    tree.make_folder(ROOT, "c").unwrap();
}
