//! The orchestrator role with real processes and sockets: starts, connects and ends runners, and
//! passes on their output. The session makes all decisions.

mod job_lines;
mod listener;
mod ordered;
mod process;

#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use host_core::name::Name;
use host_core::port::lease::Leases;
use host_core::port::{Assignment, Clock, Counters, JobLogs, Tag};
use host_runtime::slots::Slots;
use host_wire_kit::driver::{EffectHandler, Hub};
use host_wire_kit::executors::{WorkerHealth, WorkerState};
use host_wire_kit::ports::AttemptEvents;
use host_wire_kit::process::{Launcher, Output, Pipes, Reason, Stop};
use host_wire_kit::session::{Link, Session as _};
use host_wire_kit::stream::serve_connection;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::job_lines::JobLines;
use self::ordered::AfterOutput;
use super::config::{CANCEL_GRACE_MS, PoolConfig, Source};
use super::orchestrator::{self, Orchestrator, PoolEffect, PoolEvent};

/// How long a connection to a local port may take.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// How long runners may take to end when the host stops, including their grace period.
const STOP_TIME: Duration = Duration::from_secs(2);

/// How many effects may wait for each runner, and how many in addition.
const EFFECTS_PER_RUNNER: usize = 256;
const EFFECTS_SPARE: usize = 64;

/// What a pool needs from the host.
#[derive(Clone)]
pub(super) struct PoolPorts {
    pub(super) leases: Arc<dyn Leases>,
    pub(super) logs: Arc<dyn JobLogs>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) counters: Arc<dyn Counters>,
}

/// One named pool of runners. Cloning shares it.
#[derive(Clone)]
pub(super) struct RunnerPool {
    hub: Arc<Hub<Orchestrator, Effects>>,
    runners: Arc<Mutex<Vec<RunnerProcess>>>,
    config: Arc<PoolConfig>,
    job_lines: Arc<JobLines>,
    waiting: Arc<Mutex<Option<mpsc::Receiver<ProcessEffect>>>>,
}

/// What is known about a runner outside the session.
#[derive(Debug, Default)]
struct RunnerProcess {
    address: Option<SocketAddr>,
    pid: Option<u32>,
    /// The socket on which the process listens, once that is known to be its own.
    listener: Option<u64>,
    stop: Option<Stop>,
    pipes: Option<Arc<Pipes>>,
    reason: Reason,
}

/// A task for processes or sockets.
#[derive(Clone, Copy, Debug)]
enum ProcessEffect {
    Launch { runner: usize },
    Connect { runner: usize, link: Link },
    Kill { runner: usize, grace: Duration },
}

/// Passes the session's effects to the host, or to the task that owns processes and sockets.
struct Effects {
    name: Name,
    slots: Arc<Slots>,
    job_lines: Arc<JobLines>,
    queue: mpsc::Sender<ProcessEffect>,
}

/// Returns a runner's name for people, such as `python/1`.
fn runner_name(pool: &Name, runner: usize) -> String {
    format!("{pool}/{}", runner + 1)
}

impl EffectHandler<Orchestrator> for Effects {
    fn handle(&self, hub: &Arc<Hub<Orchestrator, Self>>, effect: PoolEffect) {
        let (effect, failed) = match effect {
            PoolEffect::Capacity(attempts) => return self.slots.set_capacity(&self.name, attempts),
            PoolEffect::Ended { tag, runner, end } => {
                let worker = match runner {
                    Some(runner) => runner_name(&self.name, runner),
                    None => self.name.to_string(),
                };
                self.job_lines.end(tag, &worker);
                return self.slots.end(tag, worker, end);
            }
            PoolEffect::Launch { runner } => (
                ProcessEffect::Launch { runner },
                PoolEvent::Exited { runner },
            ),
            PoolEffect::Connect { runner, link } => (
                ProcessEffect::Connect { runner, link },
                PoolEvent::ConnectFailed { link },
            ),
            PoolEffect::Kill { runner, grace_ms } => {
                let grace = Duration::from_millis(grace_ms);
                (
                    ProcessEffect::Kill { runner, grace },
                    PoolEvent::Exited { runner },
                )
            }
        };
        // The queue has room for all effects that can wait. It is closed when the pool has ended.
        if self.queue.try_send(effect).is_err() {
            hub.report(failed);
        }
    }
}

impl AttemptEvents<Orchestrator> for Effects {
    fn start(&self, tag: Tag, assignment: Assignment) -> PoolEvent {
        self.job_lines.begin(tag, &assignment);
        PoolEvent::Start(tag, Box::new(assignment))
    }

    fn cancel(tag: Tag, grace_ms: u64) -> PoolEvent {
        PoolEvent::Cancel { tag, grace_ms }
    }

    fn recall() -> Option<PoolEvent> {
        Some(PoolEvent::Drain)
    }
}

impl RunnerPool {
    /// Makes a pool. Nothing starts before [`RunnerPool::run`].
    pub(super) fn new(config: PoolConfig, ports: PoolPorts) -> Self {
        let runners = orchestrator::slots(&config);
        let (queue, waiting) = mpsc::channel(runners * EFFECTS_PER_RUNNER + EFFECTS_SPARE);
        let session = Orchestrator::new(&config, ports.clock.now());
        let has_one_job = config.in_flight_max == 1;
        let lines = JobLines::new(has_one_job, Arc::clone(&ports.clock), ports.logs);
        let job_lines = Arc::new(lines);
        let slots = Slots::new(ports.leases, CANCEL_GRACE_MS);
        let effects = Effects {
            name: config.name.clone(),
            slots: Arc::clone(&slots),
            job_lines: Arc::clone(&job_lines),
            queue,
        };
        let hub = Hub::new(session, effects, ports.clock, ports.counters);
        slots.connect(Arc::downgrade(&hub) as _);
        let unknown = (0..runners).map(|_| RunnerProcess::default());
        Self {
            hub,
            runners: Arc::new(Mutex::new(unknown.collect())),
            config: Arc::new(config),
            job_lines,
            waiting: Arc::new(Mutex::new(Some(waiting))),
        }
    }

    /// Restarts a runner, counted from 0, when its requests have ended.
    pub(super) fn restart(&self, runner: usize) {
        self.hub.report(PoolEvent::Restart { runner });
    }

    /// Returns the runners that are there, counted from 0.
    pub(super) fn runners(&self) -> Vec<usize> {
        let statuses = self.hub.inspect(Orchestrator::runners);
        let shown = (0..statuses.len()).filter(|runner| statuses[*runner].is_shown);
        shown.collect()
    }

    /// Returns whether the runner is started by others.
    pub(super) fn is_external(&self) -> bool {
        matches!(self.config.source, Source::External(_))
    }

    /// Returns the health of each runner.
    pub(super) fn health(&self) -> Vec<WorkerHealth> {
        let statuses = self.hub.inspect(Orchestrator::runners);
        let processes = self.runners.lock();
        let both = statuses.into_iter().zip(processes.iter()).enumerate();
        let shown = both.filter(|(_, (status, _))| status.is_shown);
        shown
            .map(|(runner, (status, process))| {
                let reason = process.reason.text();
                let address = self.address(process);
                WorkerHealth {
                    name: runner_name(&self.config.name, runner),
                    state: status.state,
                    address: address.map(|address| address.to_string()),
                    pid: process.pid,
                    in_flight: status.in_flight,
                    failures: status.failures,
                    reason: reason
                        .filter(|_| status.state != WorkerState::Up)
                        .map(str::to_owned),
                    doing: None,
                }
            })
            .collect()
    }

    /// Runs the pool until `stopping`, then ends all runners and waits at most two seconds for
    /// that. A second call returns immediately.
    pub(super) async fn run(self, stopping: CancellationToken) -> io::Result<()> {
        let Some(mut waiting) = self.waiting.lock().take() else {
            return Ok(());
        };
        let launcher = Launcher::start()?;
        let mut tasks = JoinSet::new();
        let hub = Arc::clone(&self.hub);
        let stop = async {
            stopping.cancelled().await;
            hub.report(PoolEvent::Stop);
            let _ = timeout(STOP_TIME, hub.until(Orchestrator::is_idle)).await;
        };
        let work = async {
            loop {
                tokio::select! {
                    Some(effect) = waiting.recv() => self.carry_out(effect, &launcher, &mut tasks),
                    Some(_) = tasks.join_next() => {}
                    else => return,
                }
            }
        };
        tokio::select! {
            () = stop => {}
            () = work => {}
            () = Arc::clone(&hub).keep_time() => {}
        }
        Ok(())
    }

    /// Returns the address of a runner, if known.
    fn address(&self, process: &RunnerProcess) -> Option<SocketAddr> {
        match self.config.source {
            Source::External(address) => Some(address),
            Source::Launched(_) => process.address,
        }
    }

    /// Passes on a line that a runner wrote, or a message about it: to the log of its job if it has
    /// one, otherwise to the host's log.
    fn wrote(&self, runner: usize, output: Output, line: &str) {
        self.runners.lock()[runner].reason.note(output, line);
        let name = runner_name(&self.config.name, runner);
        // No attempt can end between the two steps.
        let is_kept = self.hub.inspect(|session| {
            let in_flight = session.in_flight(runner);
            self.job_lines.keep(&name, &in_flight, output, line)
        });
        if is_kept {
            return;
        }
        match output {
            Output::Stdout => tracing::info!(runner = name, output = "stdout", "{line}"),
            Output::Stderr => tracing::info!(runner = name, output = "stderr", "{line}"),
            Output::Host => tracing::warn!(runner = name, "{line}"),
        }
    }

    fn carry_out(&self, effect: ProcessEffect, launcher: &Launcher, tasks: &mut JoinSet<()>) {
        match effect {
            ProcessEffect::Launch { runner } => {
                let (stop, stops) = Stop::channel();
                self.runners.lock()[runner].stop = Some(stop);
                tasks.spawn(self.clone().live(runner, launcher.clone(), stops));
            }
            ProcessEffect::Connect { runner, link } => {
                tasks.spawn(self.clone().connect(runner, link));
            }
            ProcessEffect::Kill { runner, grace } => {
                // If there is none, the process has just ended.
                if let Some(stop) = &self.runners.lock()[runner].stop {
                    stop.stop(grace);
                }
            }
        }
    }

    async fn connect(self, runner: usize, link: Link) {
        let address = self.address(&self.runners.lock()[runner]);
        let Some(address) = address else {
            return self.hub.report(PoolEvent::ConnectFailed { link });
        };
        let connected = timeout(CONNECT_TIME, self.reach(runner, address)).await;
        let ready = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        match ready {
            Ok(stream) => {
                let pipes = {
                    let process = &mut self.runners.lock()[runner];
                    process.reason.clear();
                    process.pipes.clone()
                };
                let pool = self.clone();
                let drain = move || {
                    if let Some(pipes) = &pipes {
                        pipes.drain(|output, line| pool.wrote(runner, output, line));
                    }
                };
                let stream = AfterOutput::new(stream, drain);
                serve_connection(self.hub, link, stream).await;
            }
            Err(error) => {
                let text = format!("cannot connect to {address}: {error}");
                self.runners.lock()[runner].reason.set(&text);
                self.hub.report(PoolEvent::ConnectFailed { link });
            }
        }
    }
}
