//! What root does to the data directory of another user, who has put something else in the place of each name there.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use host_store::sqlite::SqliteStore;
use host_store::sqlite::logs::LogStore;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::geteuid;
use tempfile::TempDir;

/// The user of the host.
const USER: u32 = 65_532;

/// What only root may read.
const SECRET: &str = "only root reads this";

/// How long a command may take, in seconds. One that opened a FIFO would wait for its other end.
const TIMEOUT_S: &str = "60";

const NAMES: &[&str] = &[
    "host.db",
    "host.db-wal",
    "host.db-shm",
    "host.db-journal",
    "host.db-reserve",
    "host.db.partial",
    "host.db.partial-journal",
    "logs.db",
    "logs.db-wal",
    "logs.db-shm",
    "host.lock",
    "cells.lock",
    "cache",
    "cache.key",
    "notes",
    "node",
    "draining",
    "admin.token",
    "reports",
    "reports/one",
];

#[derive(Clone, Copy, Debug)]
enum Plant {
    LinkToFile,
    LinkToFolder,
    LinkToNothing,
    HardLink,
    Fifo,
    Folder,
}

const PLANTS: [Plant; 6] = [
    Plant::LinkToFile,
    Plant::LinkToFolder,
    Plant::LinkToNothing,
    Plant::HardLink,
    Plant::Fifo,
    Plant::Folder,
];

/// A folder of root with a data directory of another user in it.
struct Machine {
    root: TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self {
            root: TempDir::new().unwrap(),
        };
        for folder in ["", "outside", "outside/folder", "data", "data/reports"] {
            fs::create_dir_all(machine.at(folder)).unwrap();
            fs::set_permissions(machine.at(folder), Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(machine.at("outside/secret"), SECRET).unwrap();
        // The group of the data directory stays root's.
        fs::set_permissions(machine.at("outside/secret"), Permissions::from_mode(0o640)).unwrap();
        fs::write(machine.at("data/reports/one"), "a report").unwrap();
        fs::write(machine.at("data/admin.token"), "a token").unwrap();
        drop(SqliteStore::open(&machine.at("data/host.db")).unwrap());
        drop(LogStore::open(&machine.at("data/logs.db")).unwrap());
        for path in tree(&machine.at("data")) {
            chown(path, Some(USER), None).unwrap();
        }
        machine
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn plant(&self, plant: Plant, name: &str) {
        let path = self.at("data").join(name);
        if path.is_dir() {
            fs::remove_dir_all(&path).unwrap();
        } else {
            let _ = fs::remove_file(&path);
        }
        let secret = self.at("outside/secret");
        match plant {
            Plant::LinkToFile => symlink(secret, path).unwrap(),
            Plant::LinkToFolder => symlink(self.at("outside/folder"), path).unwrap(),
            Plant::LinkToNothing => symlink(self.at("outside/folder/new"), path).unwrap(),
            Plant::HardLink => fs::hard_link(secret, path).unwrap(),
            Plant::Fifo => {
                mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
                chown(path, Some(USER), None).unwrap();
            }
            Plant::Folder => {
                fs::create_dir(&path).unwrap();
                chown(path, Some(USER), None).unwrap();
            }
        }
    }

    /// Runs a command as root, and returns what it printed. It must end.
    fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("timeout");
        command.arg(TIMEOUT_S).arg(env!("CARGO_BIN_EXE_host"));
        let ran = command
            .args(arguments)
            .current_dir(self.root.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
        assert_ne!(ran.status.code(), Some(124), "{arguments:?} hangs: {said}");
        said.into_owned()
    }

    /// Returns the owner, mode and content of all that is outside of the data directory.
    fn outside(&self) -> BTreeMap<PathBuf, (u32, u32, u32, Vec<u8>)> {
        let see = |path: PathBuf| {
            let found = fs::symlink_metadata(&path).unwrap();
            let content = fs::read(&path).unwrap_or_default();
            (path, (found.uid(), found.gid(), found.mode(), content))
        };
        tree(&self.at("outside")).into_iter().map(see).collect()
    }
}

/// Returns a folder and all below it. Follows no link.
fn tree(folder: &Path) -> Vec<PathBuf> {
    let mut all = vec![folder.to_owned()];
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            all.extend(tree(&entry.path()));
        } else {
            all.push(entry.path());
        }
    }
    all
}

fn has_secret(path: &Path) -> bool {
    let files = if path.is_dir() {
        tree(path)
    } else {
        vec![path.to_owned()]
    };
    files.iter().any(|file| {
        let content = fs::read(file).unwrap_or_default();
        content
            .windows(SECRET.len())
            .any(|part| part == SECRET.as_bytes())
    })
}

#[test]
fn root_follows_no_name_below_the_directory_of_another_user() {
    if !geteuid().is_root() {
        return;
    }
    let original = Machine::new();
    let backup = original.at("backup").display().to_string();
    let said = original.run(&["backup", "--data", "data", "--to", &backup]);
    assert!(original.at("backup/host.db").exists(), "{said}");
    let try_each_name = |plant| {
        for name in NAMES {
            let machine = Machine::new();
            machine.plant(plant, name);
            let before = machine.outside();
            for arguments in [
                &["backup", "--data", "data", "--to", "copy"][..],
                &["backup", "--data", "data", "--to", "copy.db"],
                &["store", "check", "--data", "data"],
                &[
                    "store",
                    "copy",
                    "--from",
                    "data",
                    "--to",
                    "postgres://me@127.0.0.1:1/jobs",
                ],
                &[
                    "store",
                    "copy",
                    "--from",
                    "postgres://me@127.0.0.1:1/jobs",
                    "--to",
                    "data",
                ],
                &["restore", &backup, "--data", "data"],
            ] {
                let said = machine.run(arguments);
                assert_eq!(
                    machine.outside(),
                    before,
                    "{plant:?} {name} {arguments:?}: {said}"
                );
                for copy in ["copy", "copy.db"] {
                    assert!(
                        !has_secret(&machine.at(copy)),
                        "{plant:?} {name} {arguments:?}"
                    );
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for plant in PLANTS {
            let try_each_name = &try_each_name;
            scope.spawn(move || try_each_name(plant));
        }
    });
}

#[test]
fn a_backup_by_root_is_of_root_and_what_is_restored_is_of_the_owner() {
    if !geteuid().is_root() {
        return;
    }
    let machine = Machine::new();
    let said = machine.run(&["backup", "--data", "data", "--to", "copy"]);
    let names = |folder: &str| -> Vec<String> {
        let paths = tree(&machine.at(folder)).into_iter();
        let below = paths.map(|path| {
            let path = path.strip_prefix(machine.at(folder)).unwrap().to_owned();
            path.display().to_string()
        });
        let mut all: Vec<_> = below.collect();
        all.sort();
        all
    };
    let expected = ["", "host.db", "logs.db", "reports", "reports/one"];
    assert_eq!(names("copy"), expected, "{said}");
    for path in tree(&machine.at("copy")) {
        let found = fs::metadata(&path).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o077), (0, 0), "{path:?}");
    }
    let note = fs::read_dir(machine.at("data/notes"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .metadata()
        .unwrap();
    assert_eq!(
        (note.uid(), note.mode() & 0o777),
        (0, 0o644),
        "root made it"
    );
    let notes = fs::metadata(machine.at("data/notes")).unwrap();
    assert_eq!(notes.uid(), USER, "the host may remove the notes");

    fs::create_dir(machine.at("new")).unwrap();
    chown(machine.at("new"), Some(USER), Some(USER)).unwrap();
    let said = machine.run(&["restore", "copy", "--data", "new"]);
    for name in expected {
        let found = fs::metadata(machine.at("new").join(name)).expect(&said);
        assert_eq!((found.uid(), found.gid()), (USER, USER), "{name}: {said}");
    }
}

#[test]
fn root_neither_backs_up_into_the_directory_of_a_third_user_nor_serves_from_it() {
    if !geteuid().is_root() {
        return;
    }
    let machine = Machine::new();
    fs::create_dir(machine.at("theirs")).unwrap();
    chown(machine.at("theirs"), Some(USER + 1), None).unwrap();
    for to in ["theirs", "theirs/copy", "theirs/copy.db"] {
        let said = machine.run(&["backup", "--data", "data", "--to", to]);
        assert!(said.contains("belongs to user 65533"), "{said}");
    }
    assert_eq!(fs::read_dir(machine.at("theirs")).unwrap().count(), 0);
    let said = machine.run(&["serve", "--data", "data", "--listen", "off"]);
    assert!(said.contains("belongs to user 65532"), "{said}");
    let worker = [
        "worker",
        "hero",
        "--data",
        "data",
        "--url",
        "redis://127.0.0.1:1",
    ];
    let said = machine.run(&worker);
    assert!(said.contains("belongs to user 65532"), "{said}");
}
