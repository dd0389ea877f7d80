//! Attacks on the opening of folders and files: links, special files, and names that are paths.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::*;

/// A folder with a file and a folder inside, and a file and a folder outside.
fn scene() -> (TempDir, Dir) {
    let all = TempDir::new().unwrap();
    for folder in ["root/inner", "outside"] {
        fs::create_dir_all(all.path().join(folder)).unwrap();
    }
    for file in ["root/file", "root/inner/file", "outside/file"] {
        fs::write(all.path().join(file), file).unwrap();
    }
    let root = open(&all.path().join("root")).unwrap();
    (all, root)
}

/// Tries everything that takes a name.
fn errors(root: &Dir, name: &str) -> [Option<Errno>; 5] {
    let name = Path::new(name);
    [
        enter(root, name).err(),
        enter_or_make(root, name).err(),
        read(root, name).err(),
        append(root, name).err(),
        create(root, name).err(),
    ]
    .map(|error| Errno::from_io_error(&error?))
}

#[test]
fn a_name_is_one_part_of_a_path() {
    let (_all, root) = scene();
    for name in [
        "",
        ".",
        "..",
        "/",
        "inner/",
        "inner/.",
        "inner/file",
        "../outside",
        "./file",
        "/etc",
    ] {
        assert_eq!(errors(&root, name), [Some(Errno::INVAL); 5], "{name:?}");
    }
}

#[test]
fn no_link_is_followed_and_none_is_replaced() {
    let (all, root) = scene();
    let targets = [
        "file",
        "inner",
        "gone",
        "../outside",
        "../outside/file",
        "/proc/self/cwd",
    ];
    for target in targets {
        let link = all.path().join("root/link");
        symlink(target, &link).unwrap();
        let (link_error, exists) = (Some(Errno::LOOP), Some(Errno::EXIST));
        let expected = [link_error, link_error, link_error, link_error, exists];
        assert_eq!(errors(&root, "link"), expected, "{target}");
        assert_eq!(fs::read_link(&link).unwrap(), Path::new(target));
        fs::remove_file(link).unwrap();
    }
    assert_eq!(fs::read_dir(all.path().join("outside")).unwrap().count(), 1);
}

#[test]
fn only_regular_files_are_opened_and_nothing_is_waited_for() {
    let (all, root) = scene();
    mknodat(
        CWD,
        all.path().join("root/fifo"),
        FileType::Fifo,
        Mode::RWXU,
        0,
    )
    .unwrap();
    let _socket = UnixListener::bind(all.path().join("root/socket")).unwrap();
    for (name, error) in [
        ("fifo", Errno::NXIO),
        ("socket", Errno::NXIO),
        ("inner", Errno::ISDIR),
    ] {
        let [_, _, read, append, create] = errors(&root, name);
        let expected = [Some(error), Some(error), Some(Errno::EXIST)];
        assert_eq!([read, append, create], expected, "{name}");
    }
    let [enter, make, ..] = errors(&root, "file");
    assert_eq!([enter, make], [Some(Errno::NOTDIR); 2]);
}

#[test]
fn what_is_made_is_for_its_owner_alone() {
    let (all, root) = scene();
    let folder = enter_or_make(&root, Path::new("new")).unwrap();
    create(&folder, Path::new("created")).unwrap();
    for text in ["one", "two"] {
        let mut file = append(&folder, Path::new("appended")).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }
    let at = |name: &str| all.path().join("root/new").join(name);
    let mode = |name: &str| fs::metadata(at(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        [mode(""), mode("created"), mode("appended")],
        [FOLDER_MODE, FILE_MODE, FILE_MODE]
    );
    assert_eq!(fs::read_to_string(at("appended")).unwrap(), "onetwo");
}

#[test]
fn a_path_below_leads_nowhere_else() {
    let (all, root) = scene();
    symlink("inner", all.path().join("root/near")).unwrap();
    symlink("../outside", all.path().join("root/up")).unwrap();
    symlink(all.path().join("outside"), all.path().join("root/far")).unwrap();
    let below = |path: &str| open_below(&root, Path::new(path)).map(|found| found.is_some());
    for (path, is_below) in [
        (".", true),
        ("inner", true),
        ("near", true),
        ("inner/../near", true),
        ("up", false),
        ("far", false),
        ("..", false),
        ("inner/../../root", false),
        ("/", false),
    ] {
        assert_eq!(below(path).unwrap(), is_below, "{path}");
    }
    for path in ["file", "gone", "near/file"] {
        below(path).unwrap_err();
    }
}

#[test]
fn a_folder_that_is_exchanged_for_a_link_leads_nowhere() {
    let (all, root) = scene();
    let inner = enter(&root, Path::new("inner")).unwrap();
    fs::rename(all.path().join("root/inner"), all.path().join("root/moved")).unwrap();
    symlink("../outside", all.path().join("root/inner")).unwrap();
    append(&inner, Path::new("new")).unwrap();
    assert!(all.path().join("root/moved/new").exists());
    assert!(!all.path().join("outside/new").exists());
    assert_eq!(errors(&root, "inner")[0], Some(Errno::LOOP));
}
