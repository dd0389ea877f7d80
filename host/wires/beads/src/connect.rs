//! The worker role over its connections: connects, runs guests and calls the program, and reconnects when a
//! connection ends. Makes no decisions about tasks.

mod ending;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use host_core::port::{Answer, Answers, Execute, Reply, Tag};
use host_runtime::backoff::Backoff;
use host_runtime::tasks::TaskGroup;
use host_wire_kit::driver::{EffectHandler, Hub};
use host_wire_kit::ports::ExecutionEvents;
use host_wire_kit::process::Launcher;
use host_wire_kit::session::{Link, Moment, Session as _};
use host_wire_kit::stream::serve_connection;
use host_wire_kit::trouble::Trouble;
use host_wire_kit::{OpenError, Ports, STOP_TIME_MAX};
use rustix::process::geteuid;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::ending::Endings;
use super::program::{CALL_TIME, Calls, Program};
use super::settings::WorkerConfig;
use super::worker::{Effect, Event, GRACE_MS, Worker};

/// The pauses before reconnecting. After the last one the worker gives up.
const PAUSES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

/// How long `host serve` waits before it reconnects, if no orchestrator listens or the orchestrator has sent SHUTDOWN.
/// Also the longest pause between short connections.
const REST_MS: u64 = 30_000;

/// How long the first worker may take to find out the dialect before the others begin.
const LEARN_TIME: Duration = Duration::from_secs(1);

/// Root, who can become any user.
const ROOT: u32 = 0;

/// How long a guest and the program may take when the worker ends.
const END_TIME: Duration = Duration::from_millis(GRACE_MS + 500);

/// How long they may take when the connection has ended: the guest as above, a started call of the program,
/// and the call that reopens the issue.
const TASK_END_TIME: Duration = END_TIME.saturating_add(CALL_TIME.saturating_mul(2));

/// How long the program may take to set an issue back when `host serve` ends.
const SERVE_CALL_TIME: Duration = STOP_TIME_MAX.saturating_sub(END_TIME.saturating_mul(2));

/// The way to the host's cells.
pub(super) struct Guests {
    execute: Arc<dyn Execute>,
    calls: Option<Calls>,
    /// Where the orchestrator listens.
    socket: PathBuf,
    /// Whether a worker of this role has said that it tries frames.
    has_warned: Arc<AtomicBool>,
}

/// The session of one worker.
type WorkerHub = Hub<Worker, Guests>;

impl EffectHandler<Worker> for Guests {
    fn handle(&self, hub: &Arc<WorkerHub>, effect: Effect) {
        match effect {
            Effect::Start(tag, job) => {
                let answers: Arc<dyn Answers> = Arc::<WorkerHub>::clone(hub);
                self.execute.start(*job, Reply::new(tag, answers));
            }
            Effect::Stop(tag, why) => self.execute.stop(tag, GRACE_MS, why),
            Effect::Call(call, issue_id) => {
                let asked = self.calls.as_ref().map(|calls| calls.ask(call, issue_id));
                if asked != Some(true) {
                    let why = "the program cannot be called".to_owned();
                    hub.report(Event::Called(Err(why)));
                }
            }
            Effect::WarnOfFrames => {
                if !self.has_warned.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        socket = %self.socket.display(),
                        "the orchestrator closed the connection and did not answer our JSON line; trying \
                         frames. To begin with frames, pass --framed (protocol.beads.worker.framed = true)"
                    );
                }
            }
        }
    }
}

impl ExecutionEvents<Worker> for Guests {
    fn event(tag: Tag, answer: Answer) -> Option<Event> {
        let outcome = match answer {
            Answer::Ended(outcome, _) => Some(outcome),
            Answer::Busy => None,
            // The wire has no messages for these.
            Answer::Began | Answer::Progressed(_) | Answer::Logged { .. } => return None,
        };
        Some(Event::Ended(tag, outcome))
    }
}

/// Why a worker has ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The orchestrator has sent SHUTDOWN, or the host stops.
    Ordered,
    /// No orchestrator listens at the path.
    Unreachable(String),
    /// The host stops, and the program did not set this issue back in time.
    Unfinished(String),
}

/// Runs all workers of a role. In `host serve` they reconnect; otherwise they end with SHUTDOWN, or with an
/// error if the orchestrator cannot be reached.
pub(super) async fn work(
    config: WorkerConfig,
    ports: Ports,
    comes_back: bool,
) -> Result<(), OpenError> {
    let program = match &config.program {
        Some(command) => Some(Program::new(command.clone(), launcher()?)),
        None => None,
    };
    // A failed one stops the others.
    let stopping = ports.stopping.child_token();
    let (ended, mut ends) = mpsc::channel(1);
    let mut tasks = TaskGroup::default();
    let endings = Endings::default();
    let has_warned = Arc::new(AtomicBool::new(false));
    let mut first = None;
    for setup in config.setups() {
        let (ports, path, program) = (ports.clone(), config.socket.clone(), program.clone());
        let (endings, has_warned) = (endings.clone(), Arc::clone(&has_warned));
        let (stopping, ended) = (stopping.clone(), ended.clone());
        let moment = Moment {
            now: ports.clock.now(),
            wall: ports.clock.wall(),
        };
        let (calls, asked) = Calls::channel();
        let guests = Guests {
            execute: (ports.execute)(),
            calls: program.is_some().then_some(calls),
            socket: path.clone(),
            has_warned,
        };
        let hub = Hub::new(
            Worker::new(setup, moment),
            guests,
            ports.clock,
            ports.counters,
        );
        let before = first.clone();
        first.get_or_insert_with(|| Arc::clone(&hub));
        tasks.spawn(async move {
            let answers = Arc::clone(&hub);
            let calling = asked.serve(program, move |end| answers.report(Event::Called(end)));
            let living = async {
                if let Some(first) = before {
                    learn_dialect(&hub, &first, &stopping).await;
                }
                live(&hub, &path, &endings, &stopping, comes_back).await
            };
            tokio::select! {
                end = living => {
                    // The receiver outlives this.
                    let _ = ended.send(end).await;
                }
                () = Arc::clone(&hub).keep_time() => {}
                () = calling => {}
            }
        });
    }
    drop(ended);
    let mut result = Ok(());
    while let Some(end) = ends.recv().await {
        match end {
            End::Ordered => {}
            End::Unreachable(why) => {
                stopping.cancel();
                result = Err(OpenError::failed(why));
            }
            End::Unfinished(issue_id) => {
                result = Err(OpenError::failed(format!(
                    "--bd did not end in time: the issue {issue_id:?} may still be in progress; set it to open"
                )));
            }
        }
    }
    tasks.join().await;
    result
}

/// Lets a worker begin in the dialect that the first one has found out, or after a moment: an orchestrator that speaks
/// frames alone may keep a place for each connection that it does not understand.
async fn learn_dialect(hub: &Arc<WorkerHub>, first: &WorkerHub, stopping: &CancellationToken) {
    let learning = timeout(LEARN_TIME, first.until(Worker::has_found_out));
    stopping.run_until_cancelled(learning).await;
    hub.report(Event::Speak(first.inspect(Worker::dialect)));
}

fn launcher() -> Result<Launcher, OpenError> {
    Launcher::start()
        .map_err(|error| OpenError::failed(format!("cannot start a thread for --bd: {error}")))
}

/// Runs one worker, over one connection after the other.
async fn live(
    hub: &Arc<WorkerHub>,
    path: &Path,
    endings: &Endings,
    stopping: &CancellationToken,
    comes_back: bool,
) -> End {
    let mut backoff = Backoff::new(1_000, REST_MS);
    let trouble = Trouble::default();
    for link in 0.. {
        let connecting = endings
            .are_over()
            .then(|()| connect(path, [geteuid().as_raw(), ROOT]));
        let connected = tokio::select! {
            connected = connecting => connected,
            () = stopping.cancelled() => return End::Ordered,
        };
        let (is_reached, connected_at) = (connected.is_ok(), Instant::now());
        match connected {
            Ok(stream) => {
                trouble.is_over();
                let call_time = if comes_back {
                    SERVE_CALL_TIME
                } else {
                    CALL_TIME
                };
                serve(hub, Link(link), stream, endings, stopping, call_time).await;
            }
            Err(why) if comes_back => {
                if trouble.is_news(&why) {
                    tracing::warn!("{why}; retrying every 30 s");
                }
            }
            Err(why) => return End::Unreachable(why),
        }
        let was_shut_down = hub.inspect(Worker::was_shut_down);
        let unfinished = hub.inspect(|worker| worker.unfinished().map(str::to_owned));
        if let Some(issue_id) = unfinished.filter(|_| stopping.is_cancelled()) {
            return End::Unfinished(issue_id);
        }
        if stopping.is_cancelled() || (was_shut_down && !comes_back) {
            return End::Ordered;
        }
        let pause = if was_shut_down || !is_reached {
            Some(Duration::from_millis(REST_MS))
        } else {
            backoff.rest(connected_at.elapsed())
        };
        if let Some(pause) = pause {
            tokio::select! {
                () = sleep(pause) => {}
                () = stopping.cancelled() => return End::Ordered,
            }
        }
        if was_shut_down {
            hub.report(Event::Again);
        }
    }
    End::Ordered
}

/// Serves one connection until it has ended and nothing runs. When the host stops, the program has `call_time`
/// to set the issue back.
async fn serve(
    hub: &Arc<WorkerHub>,
    link: Link,
    stream: UnixStream,
    endings: &Endings,
    stopping: &CancellationToken,
    call_time: Duration,
) {
    let mut serving = std::pin::pin!(serve_connection(Arc::clone(hub), link, stream));
    tokio::select! {
        () = &mut serving => {}
        () = stopping.cancelled() => {
            hub.report(Event::Stop);
            let _ = timeout(END_TIME, serving).await;
        }
    }
    let _guard = endings.begin();
    tokio::select! {
        _late = timeout(TASK_END_TIME, hub.until(Worker::is_idle)) => {}
        () = stopping.cancelled() => {
            // A guest that does not stop in time dies with its cell.
            let has_stopped = timeout(END_TIME, hub.until(|worker| !worker.runs_guest()));
            if has_stopped.await.is_ok() {
                let _ = timeout(call_time, hub.until(Worker::is_idle)).await;
            }
        }
    }
}

/// Connects to a process of one of the users `trusted`, in four tries.
async fn connect(path: &Path, trusted: [u32; 2]) -> Result<UnixStream, String> {
    let mut tries = PAUSES.iter();
    loop {
        match UnixStream::connect(path).await {
            Ok(stream) => return check(path, stream, trusted),
            Err(error) => match tries.next() {
                Some(pause) => sleep(*pause).await,
                None => return Err(unreachable(path, &error)),
            },
        }
    }
}

/// Anyone could put a socket at a guessable path and have this worker execute tasks.
fn check(path: &Path, stream: UnixStream, trusted: [u32; 2]) -> Result<UnixStream, String> {
    let peer = stream.peer_cred().map(|peer| peer.uid());
    if peer.as_ref().is_ok_and(|peer| trusted.contains(peer)) {
        return Ok(stream);
    }
    let whose = peer.map_or_else(
        |error| format!("unknown ({error})"),
        |peer| format!("the user {peer}"),
    );
    Err(format!(
        "{whose} listens at {}, but a worker executes tasks only of its own user ({}) and of root; give the \
         socket of your orchestrator with --socket",
        path.display(),
        trusted[0]
    ))
}

fn unreachable(path: &Path, error: &io::Error) -> String {
    format!(
        "cannot connect to the orchestrator at {}, tried 4 times in 7 s: {error}; start it first, or \
         give its socket with --socket",
        path.display()
    )
}
