//! How a cell's process comes to be: one thread starts them all, because a cell is killed by the
//! kernel when the thread that started it ends. Each inherits its end of a socket pair and the
//! lock by which a later host knows that it is still there; nothing else.

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

/// Where a cell finds its end of the socket pair.
const SOCKET_FD: i32 = 3;

/// Where a cell holds the lock.
const LOCK_FD: i32 = 4;

/// Above all numbers that a child's descriptors are moved to.
const SAFE_FD: i32 = 16;

/// How many cells may wait to be started.
const WAITING_MAX: usize = 256;

/// Which executable cells are, and what its compiled components depend on.
#[derive(Clone, Debug)]
pub struct CellProgram {
    /// The executable; started with `cell run …` and `cell compile …`.
    pub exe: PathBuf,
    /// Compiled components of another engine or configuration are not taken.
    pub engine_hash: String,
}

/// What one cell has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Runs at once.
    pub slots: u32,
    /// Memory of all its guests together, in MiB.
    pub memory_mib: u64,
}

/// A started cell.
#[derive(Debug)]
pub struct Spawned {
    /// Its process, killed when this is dropped.
    pub child: Child,
    /// Our end of the socket pair.
    pub socket: UnixStream,
}

struct Job {
    room: Room,
    reply: oneshot::Sender<io::Result<Spawned>>,
}

/// Starts cells. Cloning shares the thread, which ends with the last clone.
#[derive(Clone)]
pub struct Spawner {
    jobs: SyncSender<Job>,
}

impl Spawner {
    /// Starts the thread. Processes are awaited on the runtime this is called in.
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
        // Whoever asked may have gone; the child is then killed by its drop.
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
    // SAFETY: between fork and exec only system calls are made, through rustix; nothing allocates
    // and no lock is taken.
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
    // The host may have ended before the line above.
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
    // SAFETY: whatever the number named belongs to the copy of a process that ends here; it is
    // replaced, and `forget` keeps it open.
    let mut place = unsafe { OwnedFd::from_raw_fd(target) };
    let moved = rustix::io::dup2(from, &mut place);
    std::mem::forget(place);
    Ok(moved?)
}
