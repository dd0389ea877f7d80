//! Starts the processes of cells. One thread starts them all, because the kernel kills a cell when
//! the thread that started it ends. A cell inherits only its end of a socket pair and the lock that
//! shows a later host that the cell is still alive.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// The file descriptor of a cell's end of the socket pair.
const SOCKET_FD: i32 = 3;

/// The file descriptor of the lock in a cell.
const LOCK_FD: i32 = 4;

/// Higher than the descriptor numbers that a cell uses for its socket and its lock.
const SAFE_FD: i32 = 16;

/// How many requests to start a cell may wait.
const WAITING_MAX: usize = 256;

/// The executable of the cells, and the hash that its compiled components depend on.
#[derive(Clone, Debug)]
pub struct CellProgram {
    /// The executable, which is started with `cell run …` or `cell compile …`.
    pub exe: PathBuf,
    /// The hash of the engine and its configuration. Components compiled with another hash are
    /// ignored.
    pub engine_hash: String,
}

/// The capacity of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// How many runs it executes at once.
    pub slots: u32,
    /// Memory for all its guests together, in MiB.
    pub memory_mib: u64,
}

/// A started cell.
#[derive(Debug)]
pub struct Spawned {
    /// The process. It is killed when this is dropped.
    pub child: Child,
    /// The host's end of the socket pair.
    pub socket: UnixStream,
}

struct Job {
    room: Room,
    reply: oneshot::Sender<io::Result<Spawned>>,
}

/// Starts cells. Clones share the thread, which ends when the last clone is dropped.
#[derive(Clone)]
pub struct Spawner {
    jobs: SyncSender<Job>,
}

impl Spawner {
    /// Starts the thread. The runtime in which this is called waits for the processes.
    pub fn start(program: CellProgram, lock: File) -> io::Result<Self> {
        let (jobs, waiting) = sync_channel(WAITING_MAX);
        let runtime = Handle::current();
        std::thread::Builder::new()
            .name("cell-spawner".to_owned())
            .spawn(move || work(&waiting, &runtime, &program, &lock))?;
        Ok(Self { jobs })
    }

    /// Starts a cell.
    pub async fn spawn(&self, room: Room) -> io::Result<Spawned> {
        let (reply, answer) = oneshot::channel();
        self.jobs
            .try_send(Job { room, reply })
            .map_err(|_| io::Error::other("too many cells wait to be started"))?;
        answer
            .await
            .unwrap_or_else(|_| Err(io::Error::other("the thread that starts cells is gone")))
    }
}

fn work(waiting: &Receiver<Job>, runtime: &Handle, program: &CellProgram, lock: &File) {
    let _runtime = runtime.enter();
    while let Ok(job) = waiting.recv() {
        // If the caller has gone, the child is dropped and thereby killed.
        let _gone = job.reply.send(spawn(program, lock, job.room));
    }
}

fn spawn(program: &CellProgram, lock: &File, room: Room) -> io::Result<Spawned> {
    let (ours, theirs) = UnixStream::pair()?;
    let theirs = rustix::io::fcntl_dupfd_cloexec(theirs, SAFE_FD)?;
    let lock = rustix::io::fcntl_dupfd_cloexec(lock, SAFE_FD)?;
    let mut command = Command::new(&program.exe);
    command
        .arg0("host")
        .args(["cell", "run", "--fd", &SOCKET_FD.to_string()])
        .args(["--slots", &room.slots.to_string()])
        .args(["--memory-mib", &room.memory_mib.to_string()])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let parent = getpid();
    let (theirs, lock) = (Arc::new(theirs), Arc::new(lock));
    let (socket, held) = (Arc::clone(&theirs), Arc::clone(&lock));
    // SAFETY: between fork and exec the closure makes only system calls, through rustix. It does
    // not allocate and takes no lock.
    unsafe {
        command.pre_exec(move || inherit(parent, &socket, &held));
    }
    let child = command.spawn()?;
    drop((theirs, lock));
    Ok(Spawned {
        child,
        socket: ours,
    })
}

/// Prepares the child just before it becomes the cell.
fn inherit(parent: Pid, socket: &OwnedFd, lock: &OwnedFd) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The host may have ended before the death signal was set.
    if getppid() != Some(parent) {
        return Err(io::Error::from_raw_os_error(
            rustix::io::Errno::CANCELED.raw_os_error(),
        ));
    }
    move_to(socket, SOCKET_FD)?;
    move_to(lock, LOCK_FD)
}

/// Makes `target` a copy of `from` that stays open in the new program.
fn move_to(from: &OwnedFd, target: i32) -> io::Result<()> {
    debug_assert_ne!(from.as_raw_fd(), target);
    // SAFETY: this process is the forked copy, and nothing in it uses `target` any more. The
    // descriptor is replaced here, and `forget` keeps it open.
    let mut place = unsafe { OwnedFd::from_raw_fd(target) };
    let moved = rustix::io::dup2(from, &mut place);
    std::mem::forget(place);
    Ok(moved?)
}
