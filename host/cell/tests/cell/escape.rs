//! Every attempt of code that has escaped its sandbox fails in a cell, and most of them end it.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};

use host_core::cell::Protection;
use rustix::process::geteuid;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::attacks::ATTACKS;
use crate::child::PROGRAM;

/// What the program exits with if its attempt was refused.
const REFUSED: i32 = 42;

/// A user that owns nothing.
const NOBODY: u32 = 65_534;

/// How a process that makes an attempt is started and confined.
#[derive(Clone, Copy, Debug)]
struct How {
    /// The user that starts it, if not the one of this test.
    starter: Option<u32>,
    /// The user that it becomes, 0 for none.
    user: u32,
    /// Whether it has namespaces of its own.
    is_isolated: bool,
    /// Whether it may read below a granted folder.
    reads: bool,
}

/// Gives a process that is about to become the program namespaces of its own.
fn isolate(user_map: &[u8], is_root: bool) -> std::io::Result<()> {
    let mut flags =
        UnshareFlags::NEWNS | UnshareFlags::NEWNET | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    if !is_root {
        flags |= UnshareFlags::NEWUSER;
    }
    // SAFETY: no descriptors and no file system are unshared.
    unsafe { unshare_unsafe(flags)? };
    if !is_root {
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", user_map)?;
    }
    Ok(())
}

fn program(how: How, index: usize, folder: &std::path::Path) -> Command {
    let mut command = Command::new(PROGRAM);
    let words = [("isolated", how.is_isolated), ("reads", how.reads)];
    let words = words.into_iter().filter(|(_, has)| *has);
    let words: Vec<&str> = words.map(|(word, _)| word).collect();
    command
        .args(["attack", &index.to_string()])
        .arg(folder)
        .args([format!("as {}", words.join(" ")), how.user.to_string()])
        .env_clear()
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    if let Some(user) = how.starter {
        command.uid(user).gid(user);
    }
    if how.is_isolated {
        let user = how.starter.unwrap_or(geteuid().as_raw());
        let map = format!("0 {user} 1\n").into_bytes();
        // SAFETY: between fork and exec it makes only system calls.
        unsafe { command.pre_exec(move || isolate(&map, user == 0)) };
    }
    command
}

/// Returns the attempts that succeeded, and how many ended their process. `None` if this machine does not
/// start processes so.
fn attack(how: How) -> Option<(Vec<&'static str>, usize)> {
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    std::fs::set_permissions(folder.path().join("file"), PermissionsExt::from_mode(0o666)).unwrap();
    std::fs::create_dir(folder.path().join("granted")).unwrap();
    let (mut succeeded, mut ended) = (Vec::new(), 0);
    for (index, (name, _, _)) in ATTACKS.iter().enumerate() {
        let output = match program(how, index, folder.path()).output() {
            Err(_) if index == 0 => return None,
            output => output.unwrap(),
        };
        assert_eq!(output.stdout, b"now\n", "{how:?}, {name}: {output:?}");
        let status = output.status;
        match (status.code(), status.signal()) {
            (Some(REFUSED), _) => {}
            (None, Some(libc::SIGSYS)) => ended += 1,
            (Some(0), _) => succeeded.push(*name),
            _ => panic!("{how:?}, {name}: {status}"),
        }
    }
    Some((succeeded, ended))
}

#[test]
fn no_attempt_of_escaped_code_succeeds() {
    assert!(ATTACKS.len() >= 60);
    let starters = if geteuid().is_root() {
        vec![(None, 0), (None, NOBODY), (Some(NOBODY), 0)]
    } else {
        vec![(None, 0)]
    };
    let mut tried = 0;
    for (starter, user) in starters {
        for (is_isolated, reads) in [(false, false), (true, false), (false, true), (true, true)] {
            let how = How {
                starter,
                user,
                is_isolated,
                reads,
            };
            // The program may be where nobody can read it, and namespaces may be off.
            let Some((succeeded, ended)) = attack(how) else {
                eprintln!("not possible on this machine: {how:?}");
                continue;
            };
            assert_eq!(succeeded, [""; 0], "{how:?}");
            assert!(
                ended > ATTACKS.len() / 2,
                "{how:?}: {ended} ended their process"
            );
            tried += 1;
        }
    }
    assert!(tried >= 2, "without namespaces it is always possible");
}

/// The table would find what is allowed.
#[test]
fn the_attempts_succeed_where_nothing_is_restricted() {
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    for name in [
        "open a file to write",
        "read a file",
        "list a folder",
        "make a pipe",
        "speak to local sockets",
        "share memory",
    ] {
        let index = ATTACKS
            .iter()
            .position(|(known, _, _)| *known == name)
            .unwrap();
        let status = Command::new(PROGRAM)
            .args(["attack-unrestricted", &index.to_string()])
            .arg(folder.path())
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(0), "{name}");
    }
}

/// Lets a program run where the kernel has no Landlock.
fn without_landlock(command: &mut Command) {
    let filter = SeccompFilter::new(
        BTreeMap::from([(libc::SYS_landlock_create_ruleset, Vec::new())]),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS.cast_unsigned()),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let filter: BpfProgram = filter.unwrap().try_into().unwrap();
    // SAFETY: between fork and exec it makes only system calls.
    unsafe {
        command.pre_exec(move || {
            seccompiler::apply_filter(&filter).map_err(|_| std::io::ErrorKind::Other.into())
        });
    }
}

fn probed(command: &mut Command) -> Protection {
    let output = command.output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_weak_system_is_refused_unless_it_is_allowed() {
    let whole = probed(Command::new(PROGRAM).arg("probe"));
    assert_eq!(whole.missing, [""; 0], "this machine has Landlock");
    let mut command = Command::new(PROGRAM);
    command.arg("probe");
    without_landlock(&mut command);
    let weak = probed(&mut command);
    assert!(weak.missing[0].contains("Landlock"), "{weak:?}");

    let folder = tempfile::TempDir::new().unwrap();
    std::fs::create_dir(folder.path().join("granted")).unwrap();
    let how = How {
        starter: None,
        user: 0,
        is_isolated: false,
        reads: false,
    };
    let mut command = program(how, 0, folder.path());
    without_landlock(&mut command);
    let output = command.stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cells.allow_weak"), "{said}");
}
