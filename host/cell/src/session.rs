//! The cell's side of its connection to the host: receives messages, starts and stops runs, and reports their
//! output and outcome. One thread; guests yield to each other at each tick.

mod descriptors;
mod outgoing;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::StreamExt as _;
use host_confine::Lifeline;
use host_core::cell::{ComponentKey, FRAME_BYTES_MAX, FromCell, Offer, RunId, Start, ToCell};
use host_core::failure::{Failure, FailureKind};
use host_core::outcome::{Meter, Outcome};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Notify, mpsc};
use tokio::task::spawn_local;
use tokio::time::{Duration, sleep};
use tokio_util::codec::{FramedRead, LengthDelimitedCodec};
use wasmtime::Engine;

use self::descriptors::DescriptorSocket;
use self::outgoing::write_messages;
use crate::component::Components;
use crate::context::GivenToRun;
use crate::run::{self, Resources};
use crate::run_output::RunOutput;
use crate::stop::Stop;
use crate::watchdog::{self, Activity};

/// How many outgoing messages may be queued before runs must wait.
const MESSAGES_MAX: usize = 1_024;

/// How often the output of running guests is sent.
const SEND_INTERVAL: Duration = Duration::from_millis(100);

/// Usage of running guests is sent once in this many intervals.
const USED_INTERVALS: u32 = 10;

/// One run that has not ended.
struct Running {
    output: Arc<RunOutput>,
    stop: Arc<Stop>,
}

struct Cell {
    resources: Resources,
    components: RefCell<Components>,
    running: RefCell<HashMap<RunId, Running>>,
    outgoing: mpsc::Sender<FromCell>,
    started: Notify,
}

/// Serves the host at the other end of `socket`: at most `slots` runs concurrently, with `memory_bytes` for all
/// guests together. Returns `Ok` only when the host has closed the socket.
pub(crate) fn serve(
    socket: std::os::unix::net::UnixStream,
    lifeline: Option<OwnedFd>,
    engine: Engine,
    slots: u32,
    memory_bytes: u64,
) -> wasmtime::Result<()> {
    let components = Components::new(&engine)?;
    let activity = Arc::new(Activity::new(lifeline.map(Lifeline::new))?);
    watchdog::start(
        engine.weak(),
        Arc::clone(&activity),
        socket.try_clone()?.into(),
    )?;
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build_local(LocalOptions::default())?;
    let session = async {
        let given = DescriptorSocket::new(&socket)?;
        socket.set_nonblocking(true)?;
        let (read, write) = UnixStream::from_std(socket)?.into_split();
        let (outgoing, messages) = mpsc::channel(MESSAGES_MAX);
        let cell = Rc::new(Cell {
            resources: Resources::new(engine, memory_bytes, activity),
            components: RefCell::new(components),
            running: RefCell::default(),
            outgoing,
            started: Notify::new(),
        });
        spawn_local(write_messages(messages, write));
        spawn_local(send_output_periodically(Rc::clone(&cell)));
        cell.send(FromCell::Ready { slots }).await;
        read_messages(&cell, read, given).await
    };
    runtime.block_on(session)?;
    Ok(())
}

async fn read_messages(
    cell: &Rc<Cell>,
    read: OwnedReadHalf,
    mut given: DescriptorSocket,
) -> io::Result<()> {
    let mut codec = LengthDelimitedCodec::new();
    codec.set_max_frame_length(FRAME_BYTES_MAX);
    let mut frames = FramedRead::new(read, codec);
    while let Some(frame) = frames.next().await {
        let frame = frame?;
        let mut rest = &frame[..];
        while !rest.is_empty() {
            let (message, after) = postcard::take_from_bytes::<ToCell>(rest)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            rest = after;
            cell.handle(message, &mut given).await;
        }
    }
    Ok(())
}

impl Cell {
    async fn send(&self, message: FromCell) {
        // The receiver is dropped only when the process ends.
        let _ = self.outgoing.send(message).await;
    }

    fn load(
        &self,
        component: ComponentKey,
        path: &Path,
        file: Result<File, String>,
        sha256: [u8; 32],
    ) -> wasmtime::Result<()> {
        let mut components = self.components.borrow_mut();
        components.load(component, path, file, sha256)
    }

    async fn handle(self: &Rc<Self>, message: ToCell, given: &mut DescriptorSocket) {
        match message {
            ToCell::Load {
                component,
                path,
                sha256,
                file,
            } => {
                let file = given.file(file);
                let loaded = self.load(component, &path, file, sha256);
                if let Err(error) = loaded {
                    let message = format!("{error:#}");
                    self.send(FromCell::LoadFailed { component, message }).await;
                }
            }
            ToCell::Unload { component } => self.components.borrow_mut().unload(component),
            ToCell::Start(start) => match given.of_run(&start) {
                Ok(given) => self.start(*start, given),
                Err(missing) => self.refuse(start.run, missing).await,
            },
            ToCell::Stop {
                run,
                grace_ms,
                reason,
            } => {
                if let Some(running) = self.running.borrow().get(&run) {
                    running.stop.request(grace_ms, reason);
                }
            }
            ToCell::Describe { run, component } => {
                let cell = Rc::clone(self);
                spawn_local(async move {
                    let component = cell.components.borrow().get(component);
                    let described = match component {
                        Ok(component) => run::describe(&cell.resources, &component).await,
                        Err(error) => Err(not_loaded(&error)),
                    };
                    let result = described.map(Offer);
                    cell.send(FromCell::Described { run, result }).await;
                });
            }
        }
    }

    /// Ends a run that did not get what its manifest grants.
    async fn refuse(&self, run: RunId, missing: Failure) {
        self.send(FromCell::Ended {
            run,
            outcome: Outcome::Failed(missing),
            meter: Meter::default(),
        })
        .await;
    }

    fn start(self: &Rc<Self>, start: Start, given: GivenToRun) {
        let id = start.run;
        let running = Running {
            output: Arc::new(RunOutput::new(
                start.limits.log_bytes_max,
                Arc::clone(&self.resources.memory),
            )),
            stop: Arc::new(Stop::new(start.limits.timeout_ms)),
        };
        let (output, stop) = (Arc::clone(&running.output), Arc::clone(&running.stop));
        if self.running.borrow_mut().insert(id, running).is_none() {
            self.started.notify_one();
        }
        let cell = Rc::clone(self);
        spawn_local(async move {
            let component = cell.components.borrow().get(start.component);
            let (outcome, meter) = match component {
                Ok(component) => {
                    let resources = &cell.resources;
                    run::execute(resources, &component, start, given, &output, &stop).await
                }
                Err(error) => (Outcome::Failed(not_loaded(&error)), Meter::default()),
            };
            cell.running.borrow_mut().remove(&id);
            cell.send_output(id, &output).await;
            cell.send(FromCell::Ended {
                run: id,
                outcome,
                meter,
            })
            .await;
        });
    }

    /// Sends the unsent output of a run.
    async fn send_output(&self, run: RunId, output: &RunOutput) {
        while let Some(unsent) = output.take() {
            if let Some(progress) = unsent.progress {
                self.send(FromCell::Progress { run, progress }).await;
            }
            if !unsent.lines.is_empty() {
                let lines = unsent.lines;
                self.send(FromCell::Log { run, lines }).await;
            }
        }
    }
}

fn not_loaded(error: &wasmtime::Error) -> Failure {
    Failure::new(FailureKind::CellLost, format!("cannot {error:#}"))
}

/// Sends the output of running guests periodically.
async fn send_output_periodically(cell: Rc<Cell>) {
    for interval in (0..USED_INTERVALS).cycle() {
        if cell.running.borrow().is_empty() {
            cell.started.notified().await;
        }
        sleep(SEND_INTERVAL).await;
        let running: Vec<RunId> = cell.running.borrow().keys().copied().collect();
        for run in running {
            // Reserve room for all messages before taking the output, so that they are sent before the
            // outcome of the run.
            let Ok(mut room) = cell.outgoing.reserve_many(3).await else {
                return;
            };
            let (unsent, meter) = match cell.running.borrow().get(&run) {
                Some(running) => {
                    let output = &running.output;
                    (output.take().unwrap_or_default(), output.used.meter())
                }
                None => continue,
            };
            if interval == 0
                && let Some(room) = room.next()
            {
                room.send(FromCell::Used { run, meter });
            }
            if let Some((progress, room)) = unsent.progress.zip(room.next()) {
                room.send(FromCell::Progress { run, progress });
            }
            if !unsent.lines.is_empty()
                && let Some(room) = room.next()
            {
                let lines = unsent.lines;
                room.send(FromCell::Log { run, lines });
            }
        }
    }
}
