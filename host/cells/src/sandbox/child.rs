//! Child processes of a host: `host cell …` and `host egress`, with inherited descriptors and the configured sandbox. Where the
//! kernel allows it, each has namespaces of its own.

mod clone;

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, WaitId, WaitIdOptions, geteuid, pidfd_send_signal, waitid};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;

use self::clone::Prepared;
use crate::sandbox::cgroup::Group;
use crate::sandbox::roots::ReadRoots;

/// The user that the children of root become.
const USER: u32 = 65_534;

/// The executable of the children, and their sandbox.
#[derive(Clone, Debug)]
pub struct CellProgram {
    /// The executable, which is started with `cell run …` or `cell compile …`.
    pub exe: PathBuf,
    /// The hash of the engine and its configuration. Components compiled with another hash are
    /// ignored.
    pub engine_hash: String,
    /// Whether components are compiled in less time to code that computes more slowly.
    pub quick: bool,
    pub confinement: Confinement,
}

/// The sandbox of children.
#[derive(Clone, Debug)]
pub struct Confinement {
    /// The user that children of root become.
    pub user: u32,
    /// Whether children run even without required protection.
    pub allow_weak: bool,
    /// The directories below which cells may be granted directories.
    pub read_roots: ReadRoots,
}

impl Default for Confinement {
    fn default() -> Self {
        Self {
            user: USER,
            allow_weak: false,
            read_roots: ReadRoots::default(),
        }
    }
}

/// The process to start.
#[derive(Default)]
pub(crate) struct Order<'a> {
    /// The arguments after `host`.
    pub(crate) words: &'a [String],
    /// The child's descriptors from 3 on.
    pub(crate) handed: Vec<OwnedFd>,
    /// Whether the child may read below the roots.
    pub(crate) reads: bool,
    /// Whether the child may use the network.
    pub(crate) has_network: bool,
    /// Whether standard input and output are pipes; otherwise they are `/dev/null`.
    pub(crate) has_pipes: bool,
    /// The child's own control group.
    pub(crate) group: Option<Group>,
}

/// A child process. It is killed when this is dropped.
#[derive(Debug)]
pub struct Child {
    process: AsyncFd<OwnedFd>,
    has_ended: bool,
    group: Option<Group>,
    pub(crate) stdin: Option<pipe::Sender>,
    pub(crate) stdout: Option<pipe::Receiver>,
    pub(crate) stderr: Option<pipe::Receiver>,
}

impl Child {
    /// Starts a child. The kernel kills it when this thread ends. Panics outside a runtime.
    pub(crate) fn start(program: &CellProgram, order: Order<'_>) -> io::Result<Self> {
        let roots = if order.reads {
            program.confinement.read_roots.open_all()?
        } else {
            Vec::new()
        };
        let (stdin, stdout) = if order.has_pipes {
            (
                Some(pipe_with(PipeFlags::CLOEXEC)?),
                Some(pipe_with(PipeFlags::CLOEXEC)?),
            )
        } else {
            (None, None)
        };
        let (errors, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let null = || File::options().read(true).write(true).open("/dev/null");
        let (theirs_in, ours_in) = match stdin {
            Some((read, write)) => (read, Some(write)),
            None => (null()?.into(), None),
        };
        let (ours_out, theirs_out) = match stdout {
            Some((read, write)) => (Some(read), write),
            None => (None, null()?.into()),
        };
        let mut fds = vec![theirs_in, theirs_out, stderr];
        fds.extend(order.handed);
        let root_count = roots.len();
        fds.extend(roots);
        let words = words(program, order.words, root_count);
        let exe = CString::new(program.exe.as_os_str().as_bytes())?;
        let door = order.group.as_ref().map(Group::door).transpose()?;
        let process = Prepared::new(exe, words, fds, door)?.start(order.has_network)?;
        Ok(Self {
            process: register(process)?,
            has_ended: false,
            group: order.group,
            stdin: ours_in.map(pipe::Sender::from_owned_fd).transpose()?,
            stdout: ours_out.map(pipe::Receiver::from_owned_fd).transpose()?,
            stderr: Some(pipe::Receiver::from_owned_fd(errors)?),
        })
    }

    /// Returns the id of the process, as the kernel tells it; `None` once it has ended.
    pub(crate) fn id(&self) -> Option<u32> {
        let fd = self.process.get_ref().as_raw_fd();
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
        let id = info.lines().find_map(|line| line.strip_prefix("Pid:"));
        id?.trim().parse().ok()
    }

    /// Kills the process. [`Child::wait`] returns when it has ended.
    pub(crate) fn start_kill(&self) -> io::Result<()> {
        if let Some(group) = &self.group {
            group.kill();
        }
        Ok(pidfd_send_signal(self.process.get_ref(), Signal::KILL)?)
    }

    /// Waits until the process has ended. Cancel safe.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            let mut ended = self.process.readable().await?;
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            let process = WaitId::PidFd(self.process.get_ref().as_fd());
            let Some(status) = waitid(process, options)? else {
                ended.clear_ready();
                continue;
            };
            self.has_ended = true;
            let raw = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => code << 8,
                (None, signal) => signal.unwrap_or_default(),
            };
            return Ok(ExitStatus::from_raw(raw));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        // It may have ended.
        let _ = self.start_kill();
        // A killed process ends soon, and nothing else reaps it.
        let process = WaitId::PidFd(self.process.get_ref().as_fd());
        let _ = waitid(process, WaitIdOptions::EXITED);
    }
}

fn register(process: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is owned, and stays open and the same until it is dropped.
    Ok(unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) }?)
}

/// Returns the arguments of a child.
fn words(program: &CellProgram, words: &[String], roots: usize) -> Vec<String> {
    let confinement = &program.confinement;
    let mut all = vec!["host".to_owned()];
    all.extend(words.iter().cloned());
    if geteuid().is_root() {
        all.push(format!("--user={}", confinement.user));
    }
    if confinement.allow_weak {
        all.push("--allow-weak".to_owned());
    }
    all.push(format!("--roots={roots}"));
    all
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::path::Path;
    use std::process::{Command, Stdio};

    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// Writes a program, in another process: a file that this process, or a child that another test is just
    /// forking, has open for writing cannot be executed.
    pub(crate) fn write_script(exe: &Path, script: &str) {
        let mut shell = Command::new("sh")
            .args(["-c", "cat >\"$0\" && chmod 755 \"$0\""])
            .arg(exe)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let text = format!("#!/bin/sh\n{script}\n");
        let mut stdin = shell.stdin.take().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
        drop(stdin);
        assert!(shell.wait().unwrap().success());
    }

    fn program(folder: &tempfile::TempDir, script: &str) -> CellProgram {
        let exe = folder.path().join("program");
        write_script(&exe, script);
        CellProgram {
            exe,
            engine_hash: String::new(),
            quick: false,
            confinement: Confinement::default(),
        }
    }

    fn order(handed: Vec<OwnedFd>) -> Order<'static> {
        Order {
            words: &[],
            handed,
            has_pipes: true,
            ..Order::default()
        }
    }

    #[tokio::test]
    async fn a_child_has_what_it_is_handed_and_says_how_it_ended() {
        let folder = tempfile::TempDir::new().unwrap();
        let script = "read line <&3; echo \"$line\"; cat; echo \"$$ $*\"; exit 7";
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let handed = vec![read];
        let mut child = Child::start(&program(&folder, script), order(handed)).unwrap();
        File::from(write).write_all(b"handed\n").unwrap();
        let mut stdin = child.stdin.take().unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stdin, b"told\n")
            .await
            .unwrap();
        drop(stdin);
        let mut output = String::new();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_to_string(&mut output).await.unwrap();
        assert!(output.starts_with("handed\ntold\n"), "{output}");
        assert!(output.contains("--roots=0"), "{output}");
        // The first process of a namespace has pid 1, and an argument says that it has a namespace.
        let last = output.lines().last().unwrap();
        assert_eq!(
            last.starts_with("1 "),
            last.contains("--isolated"),
            "{output}"
        );
        assert_eq!(child.wait().await.unwrap().code(), Some(7));
    }

    /// The host may inherit descriptors.
    #[tokio::test]
    async fn a_child_has_nothing_that_the_host_inherited() {
        let folder = tempfile::TempDir::new().unwrap();
        let (_read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        // Shells use lower numbers themselves.
        let inherited = rustix::io::fcntl_dupfd_cloexec(&write, 100).unwrap();
        rustix::io::fcntl_setfd(&inherited, rustix::io::FdFlags::empty()).unwrap();
        let number = inherited.as_raw_fd();
        let script = format!("(echo >&{number}) 2>/dev/null && echo open || echo closed");
        let mut child = Child::start(&program(&folder, &script), order(Vec::new())).unwrap();
        let mut output = String::new();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_to_string(&mut output).await.unwrap();
        assert_eq!(output, "closed\n");
        child.wait().await.unwrap();
    }

    #[tokio::test]
    async fn a_child_enters_its_group_and_is_killed_with_it() {
        let (folder, group) = (
            tempfile::TempDir::new().unwrap(),
            tempfile::TempDir::new().unwrap(),
        );
        let file = |name: &str| group.path().join(name);
        std::fs::write(file("cgroup.procs"), "").unwrap();
        std::fs::write(file("cgroup.kill"), "").unwrap();
        let read = |name: &str| std::fs::read_to_string(file(name)).unwrap();
        let (waits, _held) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let order = Order {
            group: Some(Group::of_folder(group.path().to_owned())),
            ..order(vec![waits])
        };
        let mut child = Child::start(&program(&folder, "cat <&3"), order).unwrap();
        assert_eq!(read("cgroup.procs"), "0", "it enters by itself");
        assert_eq!(read("cgroup.kill"), "");
        child.start_kill().unwrap();
        assert_eq!(read("cgroup.kill"), "1");
        let status = child.wait().await.unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL));
    }

    #[tokio::test]
    async fn a_child_is_killed_and_what_is_no_program_is_named() {
        let folder = tempfile::TempDir::new().unwrap();
        let mut child = Child::start(
            &program(&folder, "cat <&3"),
            order(vec![pipe_with(PipeFlags::CLOEXEC).unwrap().0]),
        )
        .unwrap();
        child.start_kill().unwrap();
        child.wait().await.unwrap();
        let missing = CellProgram {
            exe: folder.path().join("missing"),
            ..program(&folder, "")
        };
        let error = Child::start(&missing, order(Vec::new())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
