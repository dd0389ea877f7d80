//! Every attempt of escaped code fails in a cell, in the children that compile, and in the broker as far as it needs no
//! network. All but a few listed ones end the process.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};

use host_core::cell::{Probe, Protection};
use rustix::process::{DumpableBehavior, geteuid, set_dumpable_behavior};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::attacks::{ATTACKS, WRITE_OPEN};
use crate::child::PROGRAM;

/// The program's exit code if its attempt was refused.
const REFUSED: i32 = 42;

/// A user that owns nothing.
const NOBODY_UID: u32 = 65_534;

/// The attempts that do not end their process. The handler of paths refuses the first eight (where something
/// may be read, the kernel does); the last two seem not to exist.
const ANSWERED: [&str; 10] = [
    "read a file",
    "read a file by its whole path",
    "read a file with a resolver",
    "read the host's environment",
    "list a folder",
    "take hold of a folder",
    "open a file to write",
    "create a file",
    "make a process with clone3",
    "see the host's cores",
];

/// The attempts that succeed in the broker, which opens sockets to servers.
const OF_THE_BROKER: [&str; 2] = ["use TCP", "use UDP"];

/// The attempts that the broker survives besides those: they are about its network, and have no socket.
const WITHOUT_A_SOCKET: [&str; 3] = ["send to an address", "connect", "bind"];

/// How a process that makes an attempt is started and confined.
#[derive(Clone, Copy, Debug)]
struct How {
    /// Which child it is.
    kind: &'static str,
    /// The user that starts it, if not this test's.
    starter: Option<u32>,
    /// The user that it switches to; 0 for none.
    user: u32,
    /// Whether it has namespaces of its own.
    is_isolated: bool,
    /// Whether it may read below a granted folder.
    reads: bool,
}

/// The program in a folder that every user may read, and what the attempts aim at.
struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::TempDir::new().unwrap();
        let path = |name: &str| folder.path().join(name);
        // Another process copies it: a file that this process, or a child that another test is just forking,
        // has open for writing cannot be executed.
        let copied = Command::new("cp")
            .arg(PROGRAM)
            .arg(path("program"))
            .status();
        assert!(copied.unwrap().success());
        std::fs::write(path("file"), "x").unwrap();
        std::fs::create_dir(path("granted")).unwrap();
        for (name, mode) in [("", 0o777), ("program", 0o755), ("file", 0o666)] {
            std::fs::set_permissions(path(name), PermissionsExt::from_mode(mode)).unwrap();
        }
        Self { folder }
    }
}

/// Gives a process its own namespaces before it executes the program.
fn isolate(user_map: &[u8], is_root: bool) -> std::io::Result<()> {
    let mut flags =
        UnshareFlags::NEWNS | UnshareFlags::NEWNET | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    if !is_root {
        flags |= UnshareFlags::NEWUSER;
    }
    // SAFETY: no descriptors and no file system are unshared.
    unsafe { unshare_unsafe(flags)? };
    if !is_root {
        // Until it executes a program, a process that has changed its user does not own its files in /proc.
        set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", user_map)?;
    }
    Ok(())
}

fn program(how: How, index: usize, stage: &Stage) -> Command {
    let folder = stage.folder.path();
    let mut command = Command::new(folder.join("program"));
    let words: Vec<&str> = [("isolated", how.is_isolated), ("reads", how.reads)]
        .into_iter()
        .filter(|(_, has)| *has)
        .map(|(word, _)| word)
        .collect();
    command
        .args(["attack-as", how.kind, &index.to_string()])
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

/// Returns whether this machine lets the user have the namespaces of [`isolate`].
fn may_isolate(starter: Option<u32>) -> bool {
    let mut command = Command::new("unshare");
    if let Some(user) = starter {
        command.uid(user).gid(user);
    }
    if starter.is_some() || !geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let status = command
        .args(["--mount", "--net", "--ipc", "--uts", "true"])
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Makes all attempts. Returns those that succeeded, and those that were refused but left their process
/// alive.
fn attack(how: How) -> (Vec<&'static str>, Vec<&'static str>) {
    let stage = Stage::new();
    let (mut succeeded, mut answered) = (Vec::new(), Vec::new());
    for (index, (name, _, _)) in ATTACKS.iter().enumerate() {
        let output = program(how, index, &stage).output().unwrap();
        assert_eq!(output.stdout, b"now\n", "{how:?}, {name}: {output:?}");
        let status = output.status;
        match (status.code(), status.signal()) {
            (Some(REFUSED), _) => answered.push(*name),
            (None, Some(libc::SIGSYS)) => {}
            (None, Some(libc::SIGXFSZ)) if *name == WRITE_OPEN => {}
            (Some(0), _) => succeeded.push(*name),
            _ => panic!("{how:?}, {name}: {status}"),
        }
    }
    (succeeded, answered)
}

fn no_attempt_succeeds_as(kind: &'static str, may_read: bool, allowed: &[&str], survived: &[&str]) {
    assert!(ATTACKS.len() >= 60);
    let starters = if geteuid().is_root() {
        vec![(None, 0), (None, NOBODY_UID), (Some(NOBODY_UID), 0)]
    } else {
        vec![(None, 0)]
    };
    for (starter, user) in starters {
        for (is_isolated, reads) in [(false, false), (true, false), (false, true), (true, true)] {
            let how = How {
                kind,
                starter,
                user,
                is_isolated,
                reads,
            };
            if reads && !may_read {
                continue;
            }
            if is_isolated && !may_isolate(starter) {
                eprintln!("not possible on this machine: {how:?}");
                continue;
            }
            let (succeeded, answered) = attack(how);
            assert_eq!(succeeded, allowed, "{how:?}");
            assert_eq!(answered, [&ANSWERED, survived].concat(), "{how:?}");
        }
    }
}

#[test]
fn no_attempt_of_escaped_code_succeeds() {
    // Only files of scratch directories are open for writing.
    no_attempt_succeeds_as("cell", true, &[WRITE_OPEN], &[]);
}

#[test]
fn no_attempt_of_a_broker_that_is_taken_over_succeeds() {
    no_attempt_succeeds_as("broker", false, &OF_THE_BROKER, &WITHOUT_A_SOCKET);
}

/// The children that compile read no granted folder. The one for components gets a file.
#[test]
fn no_attempt_of_a_child_that_compiles_succeeds() {
    no_attempt_succeeds_as("compiler", false, &[WRITE_OPEN], &[]);
    no_attempt_succeeds_as("schemas", false, &[], &[]);
}

/// A bomb ends the child that compiles it.
#[test]
fn children_that_compile_end_at_their_limits() {
    for kind in ["compiler", "schemas"] {
        let ended = |what: &str| {
            let output = Command::new(PROGRAM)
                .args(["bomb", kind, what])
                .output()
                .unwrap();
            assert_eq!(output.stdout, b"now\n", "{kind}, {what}: {output:?}");
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            (output.status.signal(), stderr)
        };
        let (signal, stderr) = ended("memory");
        // To abort with a backtrace, Rust makes calls that are not on the list.
        let is_aborted = matches!(signal, Some(libc::SIGABRT | libc::SIGSYS));
        assert!(is_aborted, "{kind}: {signal:?} {stderr}");
        assert!(stderr.contains("memory allocation of"), "{kind}: {stderr}");
        let (signal, stderr) = ended("cpu");
        let is_killed = matches!(signal, Some(libc::SIGXCPU | libc::SIGKILL));
        assert!(is_killed, "{kind}: {signal:?} {stderr}");
    }
}

/// The table detects a call that is allowed.
#[test]
fn the_attempts_succeed_where_nothing_is_restricted() {
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    for name in [
        "open a file to write",
        "read a file",
        "list a folder",
        "make a pipe",
        "use local sockets",
        "share memory",
        "signal the host on input",
        "make a pair of datagrams",
        "see the host's cores",
        "find out whether the host lives",
        WRITE_OPEN,
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

/// Makes a program run as if the kernel had no Landlock.
fn without_landlock(command: &mut Command) {
    let filter: BpfProgram = SeccompFilter::new(
        BTreeMap::from([(libc::SYS_landlock_create_ruleset, Vec::new())]),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS.cast_unsigned()),
        std::env::consts::ARCH.try_into().unwrap(),
    )
    .unwrap()
    .try_into()
    .unwrap();
    // SAFETY: between fork and exec it makes only system calls.
    unsafe {
        command.pre_exec(move || {
            seccompiler::apply_filter(&filter).map_err(|_| std::io::ErrorKind::Other.into())
        });
    }
}

fn probed(command: &mut Command) -> Protection {
    let output = command.output().unwrap();
    let probe: Probe = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(probe.failure, None, "this machine runs guests");
    probe.protection
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

    let how = How {
        kind: "cell",
        starter: None,
        user: 0,
        is_isolated: false,
        reads: false,
    };
    let stage = Stage::new();
    let mut command = program(how, 0, &stage);
    without_landlock(&mut command);
    let output = command.stderr(Stdio::piped()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("cells.allow_weak"), "{stderr}");
}
