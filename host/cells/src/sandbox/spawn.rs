//! Starts the processes of cells and the broker's. One thread starts them all, because the kernel kills a child
//! when the thread that started it ends. A cell inherits only its end of a socket pair, a lock that shows that
//! it is alive, and the timer that ends its right to run guests.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use host_runtime::lifeline::Lifeline;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

pub use crate::sandbox::child::{CellProgram, Child, Confinement};

use crate::sandbox::cgroup::Groups;
use crate::sandbox::child::Order;
use crate::sandbox::room::CellCapacity;

/// The file descriptor of a cell's end of the socket pair.
const SOCKET_FD: i32 = 3;

/// How many requests to start a child may wait.
const WAITING_MAX: usize = 256;

/// A started cell.
#[derive(Debug)]
pub struct Spawned {
    /// The process. It is killed when this is dropped.
    pub child: Child,
    /// The host's end of the socket pair.
    pub socket: UnixStream,
}

/// Starts one child, with what the thread has.
type Job = Box<dyn FnOnce(&Kit) + Send>;

struct Kit {
    program: CellProgram,
    lock: File,
    groups: Option<Groups>,
}

/// Starts cells. Clones share the thread, which ends when the last clone is dropped.
#[derive(Clone)]
pub struct Spawner {
    jobs: SyncSender<Job>,
}

impl Spawner {
    /// Starts the thread. The runtime in which this is called waits for the processes. Each cell gets one of
    /// the `groups`, if there are any.
    pub fn start(program: CellProgram, lock: File, groups: Option<Groups>) -> io::Result<Self> {
        let (jobs, waiting) = sync_channel::<Job>(WAITING_MAX);
        let runtime = Handle::current();
        std::thread::Builder::new()
            .name("cell-spawner".to_owned())
            .spawn(move || {
                let _runtime = runtime.enter();
                let kit = Kit {
                    program,
                    lock,
                    groups,
                };
                while let Ok(job) = waiting.recv() {
                    job(&kit);
                }
            })?;
        Ok(Self { jobs })
    }

    /// Starts a cell, which ends when `lifeline` does.
    pub async fn spawn(
        &self,
        room: CellCapacity,
        lifeline: Option<Arc<Lifeline>>,
    ) -> io::Result<Spawned> {
        let answer = self.ask(move |kit| spawn(kit, room, lifeline.as_deref()))?;
        answer.await.unwrap_or_else(|_| Err(ended_error()))
    }

    /// Starts the broker with these arguments and descriptors. Blocks.
    pub(crate) fn spawn_broker(
        &self,
        words: Vec<String>,
        handed: Vec<OwnedFd>,
    ) -> io::Result<Child> {
        let answer = self.ask(move |kit| {
            let order = Order {
                words: &words,
                handed,
                has_network: true,
                ..Order::default()
            };
            Child::start(&kit.program, order)
        })?;
        answer
            .blocking_recv()
            .unwrap_or_else(|_| Err(ended_error()))
    }

    fn ask<T: Send + 'static>(
        &self,
        start: impl FnOnce(&Kit) -> io::Result<T> + Send + 'static,
    ) -> io::Result<oneshot::Receiver<io::Result<T>>> {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(move |kit: &Kit| {
            // If the caller is gone, the child is dropped and thus killed.
            // The requester may be gone.
            let _ = reply.send(start(kit));
        });
        self.jobs
            .try_send(job)
            .map_err(|_| io::Error::other("too many children are waiting to start"))?;
        Ok(answer)
    }
}

fn ended_error() -> io::Error {
    io::Error::other("the thread that starts children has ended")
}

fn spawn(kit: &Kit, room: CellCapacity, lifeline: Option<&Lifeline>) -> io::Result<Spawned> {
    let Kit {
        program,
        lock,
        groups,
    } = kit;
    let (ours, theirs) = UnixStream::pair()?;
    let mut words = vec![
        "cell".to_owned(),
        "run".to_owned(),
        format!("--fd={SOCKET_FD}"),
        format!("--slots={}", room.slots),
        format!("--memory-mib={}", room.memory_mib),
    ];
    // The lock stays held while the cell lives.
    let mut handed = vec![theirs.into(), OwnedFd::from(lock.try_clone()?)];
    if let Some(lifeline) = lifeline {
        words.push("--lifeline".to_owned());
        handed.push(lifeline.as_fd().try_clone_to_owned()?);
    }
    if program.quick {
        words.push("--quick".to_owned());
    }
    let order = Order {
        words: &words,
        handed,
        reads: true,
        group: groups
            .as_ref()
            .map(|groups| groups.open(room))
            .transpose()?,
        ..Order::default()
    };
    let child = Child::start(program, order)?;
    Ok(Spawned {
        child,
        socket: ours,
    })
}
