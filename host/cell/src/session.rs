//! The cell's side of its one connection: takes messages, starts and stops runs, tells what they
//! say and how they end. One thread; guests give way to each other at each tick.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::StreamExt as _;
use host_core::cell::{FRAME_BYTES_MAX, FromCell, RunId, Start, ToCell};
use host_core::failure::{Failure, FailureKind};
use host_core::outcome::{Meter, Outcome};
use host_socket::{ReadHalf, WriteHalf};
use tokio::io::AsyncWriteExt as _;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Notify, mpsc};
use tokio::task::spawn_local;
use tokio::time::{Duration, sleep};
use tokio_util::codec::{FramedRead, LengthDelimitedCodec};

use crate::component::Components;
use crate::engine;
use crate::run::{self, Place};
use crate::said::Said;
use crate::stop::Stop;
use crate::watchdog::{self, Activity};

/// How many messages wait for the socket before runs wait with theirs.
const MESSAGES_MAX: usize = 1_024;

/// How many messages go out in one frame at most.
const BATCH_MESSAGES_MAX: usize = 256;

/// From which size on a frame is sent without more messages, in bytes.
const BATCH_BYTES: usize = 256 << 10;

/// How often logs and progress of running guests are told.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// One run that has not ended.
struct Running {
    said: Arc<Said>,
    stop: Arc<Stop>,
}

struct Cell {
    place: Place,
    components: RefCell<Components>,
    running: RefCell<HashMap<RunId, Running>>,
    outgoing: mpsc::Sender<FromCell>,
    started: Notify,
}

/// Serves the orchestrator at the other end of `socket` with `slots` runs at once and
/// `memory_bytes` for all their guests, until it is gone. Never returns `Ok` while the orchestrator lives.
pub(crate) fn serve(socket: UnixStream, slots: u32, memory_bytes: u64) -> wasmtime::Result<()> {
    let engine = engine::pooled(slots)?;
    let components = Components::new(&engine)?;
    let activity = Arc::new(Activity::new()?);
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
        let (read, write) = host_socket::split(socket)?;
        let (outgoing, messages) = mpsc::channel(MESSAGES_MAX);
        let cell = Rc::new(Cell {
            place: Place::new(engine, memory_bytes, activity),
            components: RefCell::new(components),
            running: RefCell::default(),
            outgoing,
            started: Notify::new(),
        });
        spawn_local(send_all(messages, write));
        spawn_local(tell_now_and_then(Rc::clone(&cell)));
        cell.send(FromCell::Ready { slots }).await;
        receive_all(&cell, read).await
    };
    runtime.block_on(session)?;
    Ok(())
}

async fn receive_all(cell: &Rc<Cell>, read: ReadHalf) -> io::Result<()> {
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
            cell.take(message).await;
        }
    }
    Ok(())
}

impl Cell {
    async fn send(&self, message: FromCell) {
        // The receiver is gone only with the process.
        let _sent = self.outgoing.send(message).await;
    }

    async fn take(self: &Rc<Self>, message: ToCell) {
        match message {
            ToCell::Load {
                component,
                path,
                sha256,
            } => {
                let loaded = self.components.borrow_mut().load(component, &path, sha256);
                if let Err(error) = loaded {
                    let message = format!("{error:#}");
                    self.send(FromCell::LoadFailed { component, message }).await;
                }
            }
            ToCell::Unload { component } => self.components.borrow_mut().unload(component),
            ToCell::Start(start) => self.start(*start),
            ToCell::Stop {
                run,
                grace_ms,
                reason,
            } => {
                if let Some(running) = self.running.borrow().get(&run) {
                    running.stop.ask(grace_ms, reason);
                }
            }
            ToCell::Describe { run, component } => {
                let cell = Rc::clone(self);
                spawn_local(async move {
                    let component = cell.components.borrow().get(component);
                    let result = match component {
                        Ok(component) => run::describe(&cell.place, &component).await,
                        Err(error) => Err(not_loaded(&error)),
                    };
                    cell.send(FromCell::Described { run, result }).await;
                });
            }
        }
    }

    fn start(self: &Rc<Self>, start: Start) {
        let id = start.run;
        let running = Running {
            said: Arc::new(Said::new(start.limits.log_bytes_max)),
            stop: Arc::new(Stop::new(start.limits.timeout_ms)),
        };
        let (said, stop) = (Arc::clone(&running.said), Arc::clone(&running.stop));
        if self.running.borrow_mut().insert(id, running).is_none() {
            self.started.notify_one();
        }
        let cell = Rc::clone(self);
        spawn_local(async move {
            let component = cell.components.borrow().get(start.component);
            let (outcome, meter) = match component {
                Ok(component) => run::execute(&cell.place, &component, start, &said, &stop).await,
                Err(error) => (Outcome::Failed(not_loaded(&error)), Meter::default()),
            };
            cell.running.borrow_mut().remove(&id);
            cell.tell(id, &said).await;
            cell.send(FromCell::Ended {
                run: id,
                outcome,
                meter,
            })
            .await;
        });
    }

    /// Tells what a run has said since the last time.
    async fn tell(&self, run: RunId, said: &Said) {
        while let Some(news) = said.take() {
            if let Some(progress) = news.progress {
                self.send(FromCell::Progress { run, progress }).await;
            }
            if !news.lines.is_empty() {
                let lines = news.lines;
                self.send(FromCell::Log { run, lines }).await;
            }
        }
    }
}

fn not_loaded(error: &wasmtime::Error) -> Failure {
    Failure::new(FailureKind::CellLost, format!("cannot {error:#}"))
}

/// Tells what running guests say while they run.
async fn tell_now_and_then(cell: Rc<Cell>) {
    loop {
        if cell.running.borrow().is_empty() {
            cell.started.notified().await;
        }
        sleep(TELL_EVERY).await;
        let running: Vec<RunId> = cell.running.borrow().keys().copied().collect();
        for run in running {
            // Room for both messages first: once they are taken they go out before the end of the
            // run can be told.
            let Ok(mut room) = cell.outgoing.reserve_many(2).await else {
                return;
            };
            let news = match cell.running.borrow().get(&run) {
                Some(running) => running.said.take().unwrap_or_default(),
                None => continue,
            };
            if let Some((progress, room)) = news.progress.zip(room.next()) {
                room.send(FromCell::Progress { run, progress });
            }
            if !news.lines.is_empty()
                && let Some(room) = room.next()
            {
                let lines = news.lines;
                room.send(FromCell::Log { run, lines });
            }
        }
    }
}

/// Writes messages, as many as there are in one frame.
async fn send_all(mut messages: mpsc::Receiver<FromCell>, mut write: WriteHalf) {
    let mut batch = Vec::with_capacity(BATCH_MESSAGES_MAX);
    let mut frame = Vec::new();
    while messages.recv_many(&mut batch, BATCH_MESSAGES_MAX).await > 0 {
        let mut written = Ok(());
        for message in batch.drain(..) {
            if frame.is_empty() {
                frame.extend_from_slice(&[0; 4]);
            }
            let encoded = postcard::to_extend(&message, std::mem::take(&mut frame));
            match encoded {
                Ok(encoded) => frame = encoded,
                Err(error) => {
                    eprintln!("a message to the orchestrator cannot be encoded: {error}");
                    std::process::exit(1);
                }
            }
            if frame.len() > BATCH_BYTES {
                written = send_frame(&mut frame, &mut write).await;
            }
        }
        if !frame.is_empty() {
            written = written.and(send_frame(&mut frame, &mut write).await);
        }
        if written.is_err() {
            // The orchestrator is gone, and with it the reason to run anything.
            std::process::exit(0);
        }
    }
}

/// Fills in the length of a frame, writes it and empties it.
async fn send_frame(frame: &mut Vec<u8>, write: &mut WriteHalf) -> io::Result<()> {
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&length.to_be_bytes());
    write.write_all(frame).await?;
    frame.clear();
    if frame.capacity() > 4 * BATCH_BYTES {
        frame.shrink_to(BATCH_BYTES);
    }
    Ok(())
}
