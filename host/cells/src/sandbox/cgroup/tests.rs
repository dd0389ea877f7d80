//! Limits are written where the kernel has files for them; a real group is killed as a whole.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::*;

const MOUNTS: &str = "25 30 0:23 / /sys rw - sysfs sysfs rw\n\
                      29 25 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";

const ROOM: CellCapacity = CellCapacity {
    slots: 8,
    memory_mib: 512,
};

/// A folder with the files that the kernel gives a group.
fn group(processes: &str, controllers: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, text) in [
        ("cgroup.procs", processes),
        ("cgroup.controllers", controllers),
        ("cgroup.subtree_control", ""),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn the_group_of_this_process_is_found() {
    let elsewhere = "40 25 0:26 / /mnt/two rw - cgroup2 none rw\n";
    let part = "29 25 0:26 /system.slice /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    #[rustfmt::skip]
    let table = [
        ("0::/system.slice/host.service\n", MOUNTS, Ok("/sys/fs/cgroup/system.slice/host.service")),
        ("4:memory:/a\n0::/b\n", elsewhere, Ok("/mnt/two/b")),
        ("0::/\n", MOUNTS, Err("no group of its own")),
        ("0::/../b\n", MOUNTS, Err("no group of its own")),
        ("4:memory:/a\n", MOUNTS, Err("no cgroup v2")),
        ("", MOUNTS, Err("no cgroup v2")),
        ("0::/b\n", "25 30 0:23 / /sys rw - sysfs sysfs rw\n", Err("not mounted")),
        ("0::/b\n", part, Err("not mounted")),
        ("0::/b\n", "29\n - cgroup2\n", Err("not mounted")),
    ];
    for (groups, mounts, expected) in table {
        match (locate(groups, mounts), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, Path::new(expected)),
            (Err(why), Err(words)) => assert!(why.0.contains(words), "{why} for {groups}"),
            (found, _) => panic!("{groups}: {found:?}"),
        }
    }
}

#[test]
fn only_a_group_that_is_delegated_to_this_process_alone_is_used() {
    let refused = |folder: &TempDir, needs_note| {
        let found = inspect(folder.path(), 7, needs_note);
        found.map(|found| found.controllers).unwrap_err().0
    };
    let alone = group("7\n", "cpuset cpu io memory pids");
    let found = inspect(alone.path(), 7, false).unwrap();
    assert_eq!(found.controllers, ["memory", "pids", "cpu"]);
    assert!(refused(&alone, true).contains("not marked"));
    let few = group("7\n", "hugetlb");
    assert!(
        inspect(few.path(), 7, false)
            .unwrap()
            .controllers
            .is_empty()
    );
    assert!(refused(&group("7\n8\n", "memory"), false).contains("other processes"));
    assert!(refused(&TempDir::new().unwrap(), false).contains("not delegated"));
    if !geteuid().is_root() {
        let read_only = fs::Permissions::from_mode(0o444);
        fs::set_permissions(alone.path().join("cgroup.procs"), read_only).unwrap();
        assert!(refused(&alone, false).contains("not delegated"));
    }
}

#[test]
fn each_cell_has_the_limits_of_its_room() {
    #[rustfmt::skip]
    let table = [
        ("memory pids cpu", vec![("memory.max", "805306368"), ("pids.max", "72"), ("cpu.weight", "20")]),
        ("cpu", vec![("cpu.weight", "20")]),
        ("io hugetlb", vec![]),
    ];
    for (offered, expected) in table {
        let folder = group("7\n", offered);
        let delegated = inspect(folder.path(), 7, false).unwrap();
        // The kernel makes the files of a group with its folder.
        fs::create_dir(folder.path().join(HOST)).unwrap();
        fs::write(folder.path().join(HOST).join("cgroup.procs"), "").unwrap();
        let old = folder.path().join(format!("{CELL}{}", ids::unique()));
        fs::create_dir(&old).unwrap();
        let groups = delegated.divide().unwrap();
        assert!(!old.exists(), "the group of a killed host is removed");
        let moved = fs::read_to_string(folder.path().join("host/cgroup.procs")).unwrap();
        assert_eq!(moved, std::process::id().to_string());
        let cell = TempDir::new().unwrap();
        let files = ["memory.max", "pids.max", "cpu.weight"];
        for file in files {
            fs::write(cell.path().join(file), "").unwrap();
        }
        groups.fill(cell.path(), ROOM).unwrap();
        for file in files {
            let row = expected.iter().find(|(name, _)| *name == file);
            let limit = row.map_or("", |(_, row)| *row);
            let found = fs::read_to_string(cell.path().join(file)).unwrap();
            assert_eq!(found, limit, "{offered}: {file}");
        }
        if !expected.is_empty() {
            fs::remove_file(cell.path().join(expected[0].0)).unwrap();
            assert!(
                groups.fill(cell.path(), ROOM).is_err(),
                "no cell without it"
            );
        }
    }
}

#[test]
fn what_cannot_be_divided_is_named() {
    let folder = group("7\n", "memory");
    let delegated = inspect(folder.path(), 7, false).unwrap();
    // Without its files: the kernel refuses to move the process.
    let why = delegated.divide().unwrap_err().0;
    assert!(why.contains("cgroup.procs"), "{why}");
}

/// Makes a real group, if this user may.
fn of_the_kernel() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let place = format!("0::/host-test-{}", ids::unique());
    let folder = locate(&place, &mounts).ok()?;
    fs::create_dir(&folder).ok()?;
    Some(folder)
}

#[test]
fn a_cell_is_killed_with_all_that_is_in_its_group() {
    let Some(folder) = of_the_kernel() else {
        eprintln!("this user cannot create cgroup v2 groups; skipped");
        return;
    };
    let groups = Groups {
        folder: Arc::new(folder.clone()),
        controllers: Arc::new([]),
        left: Arc::default(),
    };
    let group = groups.open(ROOM).unwrap();
    // It enters as a cell does, and has a child that it does not wait for.
    let script = "echo 0; exec 3<&0; cat <&3 >/dev/null & echo ready >&2; exec cat >/dev/null";
    let mut shell = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::from(group.door().unwrap()))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(shell.stderr.take().unwrap()).lines();
    assert_eq!(stderr.next().unwrap().unwrap(), "ready");
    let inside = fs::read_to_string(group.folder.join("cgroup.procs")).unwrap();
    assert_eq!(inside.lines().count(), 2);
    group.kill();
    assert!(stderr.next().is_none(), "both have ended");
    assert_eq!(shell.wait().unwrap().signal(), Some(libc::SIGKILL));
    drop(group);
    // The kernel may still be about to forget a process.
    let is_forgotten = || groups.open(ROOM).is_ok() && groups.left().is_empty();
    for _ in 0..1_000_000 {
        if is_forgotten() {
            break;
        }
        std::thread::yield_now();
    }
    fs::remove_dir(folder).expect("nothing is left in it");
}
