//! Every attempt of code that has escaped its sandbox fails in a cell, and most of them end it.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};

use crate::attacks::ATTACKS;
use crate::child::PROGRAM;

/// What the program exits with if its attempt was refused.
const REFUSED: i32 = 42;

/// A user that owns nothing.
const NOBODY: u32 = 65_534;

/// Returns the attempts that succeeded, and how many ended their process.
fn attack(user: Option<u32>) -> (Vec<&'static str>, usize) {
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    let (mut succeeded, mut ended) = (Vec::new(), 0);
    for (index, (name, _, _)) in ATTACKS.iter().enumerate() {
        let mut command = Command::new(PROGRAM);
        command
            .args(["attack", &index.to_string()])
            .arg(folder.path())
            .env_clear()
            .stdin(Stdio::null())
            .stderr(Stdio::inherit());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let output = command.output().unwrap();
        assert_eq!(output.stdout, b"now\n", "{name}: {output:?}");
        let status = output.status;
        match (status.code(), status.signal()) {
            (Some(REFUSED), _) => {}
            (None, Some(libc::SIGSYS)) => ended += 1,
            (Some(0), _) => succeeded.push(*name),
            _ => panic!("{name}: {status}"),
        }
    }
    (succeeded, ended)
}

#[test]
fn no_attempt_of_escaped_code_succeeds() {
    assert!(ATTACKS.len() >= 60);
    let (succeeded, ended) = attack(None);
    assert_eq!(succeeded, [""; 0]);
    assert!(ended > ATTACKS.len() / 2, "{ended} ended their process");
}

/// The program may be in a folder that only its owner can read.
#[test]
fn no_attempt_of_escaped_code_succeeds_as_another_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let probe = Command::new(PROGRAM).arg("nothing").uid(NOBODY).output();
    if probe.is_ok() {
        assert_eq!(attack(Some(NOBODY)).0, [""; 0]);
    }
}

/// The table would find what is allowed.
#[test]
fn the_attempts_succeed_where_nothing_is_restricted() {
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    for name in [
        "open a file to write",
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
