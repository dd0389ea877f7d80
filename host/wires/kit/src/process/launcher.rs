//! A thread that starts processes. The kernel kills a process when the thread that started it ends,
//! so this thread lives until its last user is gone.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// How many processes may wait to be started.
const WAITING_MAX: usize = 64;

/// This program as the supervisor of another one.
const SUPERVISOR: &[&str] = &["/proc/self/exe", "cell", "supervise", "--"];

struct Job {
    command: Command,
    reply: oneshot::Sender<io::Result<Child>>,
}

/// Starts processes. Cloning shares the thread, which ends with the last clone.
#[derive(Clone, Debug)]
pub struct Launcher {
    jobs: SyncSender<Job>,
    /// The program that ends whole trees, and its arguments before those of a process; empty if processes are
    /// started without it.
    pub(super) supervisor: &'static [&'static str],
}

impl Launcher {
    /// Starts the thread. Processes are awaited on the runtime in which this is called.
    pub fn start() -> io::Result<Self> {
        let (jobs, waiting) = sync_channel(WAITING_MAX);
        let runtime = Handle::current();
        std::thread::Builder::new()
            .name("launcher".to_owned())
            .spawn(move || work(&waiting, &runtime))?;
        let supervisor = &[];
        Ok(Self { jobs, supervisor })
    }

    /// The same, for processes whose whole tree ends with them and with this host. Each has a supervisor: this
    /// program again, as `host cell supervise`. Not for tests, which are another program.
    pub fn start_for_trees() -> io::Result<Self> {
        Ok(Self {
            supervisor: SUPERVISOR,
            ..Self::start()?
        })
    }

    /// Starts a process.
    pub(super) async fn launch(&self, command: Command) -> io::Result<Child> {
        let (reply, answer) = oneshot::channel();
        self.jobs
            .try_send(Job { command, reply })
            .map_err(|_| io::Error::other("too many processes wait to be started"))?;
        answer.await.unwrap_or_else(|_| {
            Err(io::Error::other(
                "the thread that starts processes has ended",
            ))
        })
    }
}

fn work(waiting: &Receiver<Job>, runtime: &Handle) {
    let _runtime = runtime.enter();
    let host = getpid();
    while let Ok(mut job) = waiting.recv() {
        // SAFETY: between fork and exec only system calls are made, through rustix; nothing
        // allocates and no lock is taken.
        unsafe {
            job.command.pre_exec(move || die_with(host));
        }
        // If the caller no longer waits, dropping the child kills it.
        let _ = job.reply.send(job.command.spawn());
    }
}

/// Has the kernel kill this process with its parent, the process `host`.
pub(super) fn die_with(host: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The host may have ended before the death signal was set.
    if getppid() == Some(host) {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(
            rustix::io::Errno::CANCELED.raw_os_error(),
        ))
    }
}
