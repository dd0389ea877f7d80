//! Real cells. One task for each process carries frames in both directions until the process is
//! dead. This module makes no decisions.

pub mod check;
mod fd_sender;
pub mod frames;
mod listen;
pub mod memory;
pub mod once;
mod talk;

use std::collections::HashMap;
use std::path::Path;
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use host_core::cell::{Context, FromCell, Handover, RunId, ToCell};
use host_core::desk::DeskPass;
use host_core::failure::Failure;
use host_core::handler::HandlerInfo;
use host_core::port::requests::RequestWatch;
use host_core::requests::Requests;
use host_core::time::Time;
use thiserror::Error;
use tokio::net::UnixStream;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::fd_sender::{FdSender, Openable};
use self::listen::listen;
use self::memory::CellMemory;
use self::talk::talk;
use crate::port::{CellEvent, CellId, CellPort, Unresponsive};
use crate::run::chain::Planning;
use crate::run::handlers::Program;
use crate::sandbox::broker::{Broker, Reach, Secrets};
use crate::sandbox::room::CellCapacity;
use crate::sandbox::roots::ReadRoots;
use crate::sandbox::spawn::{Spawned, Spawner};
use crate::sandbox::stderr::log;
use host_runtime::lifeline::Lifeline;
use host_runtime::tasks::Tasks;

/// How many batches of messages a cell may leave unread before it counts as unresponsive.
const BATCHES_UNREAD_MAX: usize = 1_024;

/// How long the socket of a dead process is still read.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a component may take to describe its handlers.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(20);

/// Starts real cells. Clones share the spawner.
#[derive(Clone)]
pub struct Cells {
    spawner: Spawner,
    tasks: Tasks,
    runtime: Handle,
    memory_mib: u64,
    openable: Openable,
    memory: CellMemory,
}

/// A run that may ask the desk, and its socket.
#[derive(Debug)]
pub struct DeskConnection {
    pub pass: Box<DeskPass>,
    pub socket: std::os::unix::net::UnixStream,
    /// Until when it may ask, if not without end.
    pub lifeline: Option<Arc<Lifeline>>,
}

/// The connection to one cell. The cell is killed when this is dropped.
pub(super) struct Line {
    pub(super) outbound: mpsc::Sender<Vec<ToCell>>,
    kill: CancellationToken,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.kill.cancel();
    }
}

/// Why a component could not describe its handlers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DescribeError {
    /// The component reports an error or breaks the protocol.
    #[error("the component failed to describe its handlers: {}", .0.message)]
    Failed(Failure),
    #[error("the component's cell ended while describing its handlers ({0})")]
    CellGone(String),
    /// The component takes too long.
    #[error("the component took longer than {} s to describe its handlers", DESCRIBE_TIMEOUT.as_secs())]
    TimedOut,
}

impl Cells {
    /// Makes cells that `spawner` starts, with `memory_mib` for all guests of one cell together.
    /// Runs keep scratch files in `cache`, and may be given directories below `roots`, and requests to what is in `reach`. Their tasks run on the
    /// runtime in which this is called.
    pub fn new(
        spawner: Spawner,
        tasks: Tasks,
        memory_mib: u64,
        cache: &Path,
        roots: ReadRoots,
        reach: Reach,
    ) -> Self {
        let broker = Broker::new(reach, spawner.clone());
        Self {
            spawner,
            tasks,
            runtime: Handle::current(),
            memory_mib,
            openable: Openable {
                roots,
                cache: cache.into(),
                broker,
                desk: None,
                lifeline: None,
            },
            memory: CellMemory::default(),
        }
    }

    /// Returns cells whose runs may visit the desk that receives from the other end of `desk`.
    #[must_use]
    pub fn with_desk(mut self, desk: mpsc::Sender<DeskConnection>) -> Self {
        self.openable.desk = Some(desk);
        self
    }

    /// Returns cells that end when `lifeline` does, and whose runs ask for nothing afterwards. Call it before the first run:
    /// the broker gets the lifeline when it starts.
    #[must_use]
    pub fn until(mut self, lifeline: Arc<Lifeline>) -> Self {
        self.openable.broker.end_with(Arc::clone(&lifeline));
        self.openable.lifeline = Some(lifeline);
        self
    }

    /// Returns the memory of all cells.
    pub fn memory(&self) -> CellMemory {
        self.memory.clone()
    }

    /// Returns the secrets of the configuration.
    pub fn secrets(&self) -> &Secrets {
        self.openable.broker.secrets()
    }

    /// Returns what sends requests of the host itself.
    pub fn broker(&self) -> &Broker {
        &self.openable.broker
    }

    /// Returns whether there are files of secrets and certificates to read again.
    pub fn has_files(&self) -> bool {
        self.openable.broker.has_files()
    }

    /// Reads the files of secrets and certificates again, and uses what has changed for further requests. Says again
    /// what is wrong with them if a caller `asks`. Blocks.
    pub fn reload(&self, asks: bool) {
        self.openable.broker.reload(asks);
    }

    /// Reports the requests of all runs to `watch`.
    pub fn watch_requests(&self, watch: Arc<dyn RequestWatch>) {
        self.openable.broker.watch(watch);
    }

    /// Returns the directories below which runs may be given some.
    pub(crate) const fn roots(&self) -> &ReadRoots {
        &self.openable.roots
    }

    /// Returns what requests of runs may reach.
    pub(crate) fn reach(&self) -> &Reach {
        self.openable.broker.reach()
    }

    /// Asks a component for its handlers, in a cell of its own.
    pub async fn describe(&self, program: &Program) -> Result<Vec<HandlerInfo>, DescribeError> {
        let (sender, mut events) = mpsc::channel(16);
        let line = self.open(CellId(u64::MAX), "cell-describe", 1, sender);
        let component = program.component;
        let messages = vec![
            ToCell::Load {
                component,
                path: program.path.clone(),
                sha256: program.sha256,
                file: Handover::Comes,
            },
            ToCell::Describe {
                run: RunId(0),
                component,
            },
        ];
        if line.outbound.send(messages).await.is_err() {
            return Err(DescribeError::CellGone("it did not start".to_owned()));
        }
        let answer = async {
            while let Some(event) = events.recv().await {
                match event {
                    CellEvent::Received { messages, .. } => {
                        for message in messages {
                            if let FromCell::Described { result, .. } = message {
                                let offered = result.map(|offer| offer.0);
                                return offered.map_err(DescribeError::Failed);
                            }
                        }
                    }
                    CellEvent::Gone { how, .. } => return Err(DescribeError::CellGone(how)),
                    CellEvent::Planned { .. } => {}
                }
            }
            Err(DescribeError::CellGone("the host is stopping".to_owned()))
        };
        tokio::time::timeout(DESCRIBE_TIMEOUT, answer)
            .await
            .unwrap_or(Err(DescribeError::TimedOut))
    }

    /// Starts a cell. It is killed when the returned connection is dropped.
    pub(super) fn open(
        &self,
        id: CellId,
        name: &str,
        slots: u32,
        events: mpsc::Sender<CellEvent>,
    ) -> Line {
        let (outbound, messages) = mpsc::channel(BATCHES_UNREAD_MAX);
        let kill = CancellationToken::new();
        let life = live(Life {
            id,
            name: name.to_owned(),
            room: CellCapacity {
                slots,
                memory_mib: self.memory_mib,
            },
            spawner: self.spawner.clone(),
            openable: self.openable.clone(),
            memory: self.memory.clone(),
            messages,
            events,
            kill: kill.clone(),
        });
        let _runtime = self.runtime.enter();
        self.tasks.spawn(life);
        Line { outbound, kill }
    }
}

/// The [`CellPort`] of real cells.
pub struct ProcessPort {
    cells: Cells,
    events: mpsc::Sender<CellEvent>,
    lines: HashMap<CellId, Line>,
}

impl ProcessPort {
    /// Sends the events of the pool's cells to `events`.
    pub fn new(cells: Cells, events: mpsc::Sender<CellEvent>) -> Self {
        Self {
            cells,
            events,
            lines: HashMap::new(),
        }
    }
}

impl CellPort for ProcessPort {
    fn start(&mut self, cell: CellId, name: &str, slots: u32) {
        self.lines.retain(|_, line| !line.outbound.is_closed());
        let line = self.cells.open(cell, name, slots, self.events.clone());
        self.lines.insert(cell, line);
    }

    fn send(&mut self, cell: CellId, messages: Vec<ToCell>) -> Result<(), Unresponsive> {
        let line = self.lines.get(&cell).ok_or(Unresponsive)?;
        match line.outbound.try_send(messages) {
            // If the cell is closed, its death is about to be reported.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => Err(Unresponsive),
        }
    }

    fn plan(&mut self, run: RunId, planning: Planning) {
        let events = self.events.clone();
        self.cells.runtime.spawn_blocking(move || {
            let planned = planning.run();
            // A host that has stopped receives nothing.
            let _ = events.blocking_send(CellEvent::Planned { run, planned });
        });
    }

    fn kill(&mut self, cell: CellId) {
        if let Some(line) = self.lines.get(&cell) {
            line.kill.cancel();
        }
    }

    fn record_requests(&mut self, started_at: Time, attempt: &Context) -> u64 {
        self.cells.openable.broker.record(started_at, attempt)
    }

    fn recorded_requests(&mut self, now: Time, number: u64) -> Requests {
        self.cells.openable.broker.recorded(now, number)
    }
}

struct Life {
    id: CellId,
    name: String,
    room: CellCapacity,
    spawner: Spawner,
    openable: Openable,
    memory: CellMemory,
    messages: mpsc::Receiver<Vec<ToCell>>,
    events: mpsc::Sender<CellEvent>,
    kill: CancellationToken,
}

/// Handles one cell from its start until its process has ended and all its messages are passed on.
async fn live(life: Life) {
    let Life {
        id,
        name,
        room,
        spawner,
        openable,
        memory,
        messages,
        events,
        kill,
    } = life;
    let how = match spawner.spawn(room, openable.lifeline.clone()).await {
        Ok(spawned) => {
            let _ = memory.count(spawned.child.id());
            converse(id, &name, spawned, messages, openable, &events, &kill).await
        }
        Err(error) => format!("cannot start it: {error}"),
    };
    // A host that has stopped receives nothing.
    let _ = events.send(CellEvent::Gone { cell: id, how }).await;
}

/// Carries frames until one side ends, then makes sure that the process has ended.
async fn converse(
    id: CellId,
    name: &str,
    spawned: Spawned,
    messages: mpsc::Receiver<Vec<ToCell>>,
    openable: Openable,
    events: &mpsc::Sender<CellEvent>,
    kill: &CancellationToken,
) -> String {
    let Spawned { mut child, socket } = spawned;
    let opened = FdSender::new(&socket, openable).and_then(|fd_sender| {
        socket.set_nonblocking(true)?;
        Ok((UnixStream::from_std(socket)?.into_split(), fd_sender))
    });
    let ((reader, writer), fd_sender) = match opened {
        Ok(opened) => opened,
        Err(error) => return format!("cannot use its socket: {error}"),
    };
    let mut listening = pin!(listen(id, reader, events));
    let errors = child.stderr.take();
    let mut logging = pin!(async {
        if let Some(errors) = errors {
            log(name, errors).await;
        }
    });
    let (mut all_read, mut logged) = (false, false);
    let reason = {
        let mut talking = pin!(talk(writer, messages, fd_sender));
        loop {
            tokio::select! {
                end = &mut listening => {
                    all_read = true;
                    break end;
                }
                end = &mut talking => break end,
                () = kill.cancelled() => break "it was killed".to_owned(),
                () = &mut logging, if !logged => logged = true,
            }
        }
    };
    // The process may have ended already.
    // It may have ended.
    let _ = child.start_kill();
    let status = child.wait().await;
    // Messages that the cell sent before its death are still in the pipes.
    let rest = async {
        if !all_read {
            listening.await;
        }
        if !logged {
            logging.await;
        }
    };
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, rest).await;
    match status {
        Ok(status) => format!("{reason}; {}", ending(status)),
        Err(error) => format!("{reason}; cannot tell how it ended: {error}"),
    }
}

fn ending(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it exited with {code}"),
        (None, Some(signal)) => format!("it was killed by signal {signal}"),
        (None, None) => "it ended".to_owned(),
    }
}
