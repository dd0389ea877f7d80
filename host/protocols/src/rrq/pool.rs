//! The orchestrator role with real processes and sockets: starts runners, connects to them, ends
//! them, and hands their words on. Decides nothing: the session does.

mod launcher;
mod lines;
mod process;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::launcher::Launcher;
use super::config::{RunnerConfig, Source};
use super::orchestrator::{Orchestrator, Room, RunnerAsk, RunnerSaid};
use crate::driver::{Edge, Hub, serve_link};
use crate::session::{Link, Session as _};
use crate::wire::executors::WorkerState as SeatState;
use host_core::port::{Assignment, End};
use host_core::port::{Clock, Counters, Tag};

/// How long a connection to a local port may take.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// How long runners may take to end when the host stops, their grace included.
const STOP_TIME: Duration = Duration::from_secs(2);

/// How much is kept of each of the two lines that say why a runner is not up, in characters.
const REASON_CHARS_MAX: usize = 300;

/// How many orders may wait beside those of each request.
const ORDERS_SPARE: usize = 64;

/// Where a line of a runner came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// This host, about the runner.
    Host,
}

/// Whoever has work for a pool. Called one at a time and in order; no call may block or call the
/// pool's own methods other than those that say they may be called from here.
pub trait Employer: Send + Sync + 'static {
    /// How many more executions are taken from now on, and what of the earlier ones has not ended.
    fn room(&self, room: Room);

    /// An execution is over. `executor` is its runner for people: `python/1`.
    fn ended(&self, tag: Tag, executor: String, end: End);

    /// A runner wrote a line, at most 8 KiB of it, while these executions were in flight there.
    fn wrote(&self, executor: &str, in_flight: &[Tag], output: Output, line: &str);
}

/// What a pool needs of its host.
#[derive(Clone)]
pub struct PoolPorts {
    /// Has the work.
    pub employer: Arc<dyn Employer>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Counts what is refused.
    pub counters: Arc<dyn Counters>,
}

/// One runner, for people and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatHealth {
    /// `python/1`.
    pub executor: String,
    /// Where it is in its life.
    pub state: SeatState,
    /// Where it listens, once that is known.
    pub address: Option<SocketAddr>,
    /// Its process, while we have one.
    pub pid: Option<u32>,
    /// Requests in flight.
    pub in_flight: usize,
    /// How often in a row it ended without having answered anything.
    pub failures: u32,
    /// Why it is not up, in words for a person: how it ended and what it wrote last, or why it
    /// cannot be connected to.
    pub reason: Option<String>,
}

/// One named pool of runners. Cloning shares it.
#[derive(Clone)]
pub struct RunnerPool {
    hub: Arc<Hub<Orchestrator, Orders>>,
    places: Arc<Mutex<Vec<Place>>>,
    config: Arc<RunnerConfig>,
    employer: Arc<dyn Employer>,
    waiting: Arc<Mutex<Option<mpsc::Receiver<Order>>>>,
}

/// What is known of a seat outside of the session.
#[derive(Debug, Default)]
struct Place {
    address: Option<SocketAddr>,
    pid: Option<u32>,
    kill: Option<mpsc::Sender<Duration>>,
    /// What the process wrote to its standard error last.
    last_words: Option<String>,
    reason: Option<String>,
}

impl Place {
    fn note(&mut self, output: Output, line: &str) {
        let line: String = line.chars().take(REASON_CHARS_MAX).collect();
        match output {
            Output::Stdout => {}
            Output::Stderr if line.trim().is_empty() => {}
            Output::Stderr => self.last_words = Some(line),
            Output::Host => {
                let before = self
                    .last_words
                    .take()
                    .map(|words| format!("it wrote {words:?}"));
                let before = before.or_else(|| self.reason.take());
                let reason = match before {
                    Some(before) if before != line => format!("{line}; before: {before}"),
                    _ => line,
                };
                // What was before that goes first: it would grow with each end.
                self.reason = Some(reason.chars().take(2 * REASON_CHARS_MAX).collect());
            }
        }
    }
}

/// Something that has to be done with a process or a socket.
#[derive(Clone, Copy, Debug)]
enum Order {
    Launch { seat: usize },
    Connect { seat: usize, link: Link },
    Kill { seat: usize, grace: Duration },
}

/// Passes the session's wishes on.
struct Orders {
    name: String,
    employer: Arc<dyn Employer>,
    queue: mpsc::Sender<Order>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Names a runner for people.
fn executor(name: &str, seat: usize) -> String {
    format!("{name}/{}", seat + 1)
}

impl Edge<Orchestrator> for Orders {
    fn ask(&self, hub: &Arc<Hub<Orchestrator, Self>>, ask: RunnerAsk) {
        let (order, failed) = match ask {
            RunnerAsk::Room(room) => return self.employer.room(room),
            RunnerAsk::Ended { tag, seat, end } => {
                let executor = match seat {
                    Some(seat) => executor(&self.name, seat),
                    None => self.name.clone(),
                };
                return self.employer.ended(tag, executor, end);
            }
            RunnerAsk::Launch { seat } => (Order::Launch { seat }, RunnerSaid::Exited { seat }),
            RunnerAsk::Connect { seat, link } => (
                Order::Connect { seat, link },
                RunnerSaid::ConnectFailed { link },
            ),
            RunnerAsk::Kill { seat, grace_ms } => {
                let grace = Duration::from_millis(grace_ms);
                (Order::Kill { seat, grace }, RunnerSaid::Exited { seat })
            }
        };
        // The queue holds all that can be asked for at once; it is closed when the pool has ended.
        if self.queue.try_send(order).is_err() {
            hub.say(failed);
        }
    }
}

impl RunnerPool {
    /// Makes a pool; nothing starts before [`RunnerPool::run`].
    pub fn new(config: RunnerConfig, ports: PoolPorts) -> Self {
        let seats = config.seats();
        let (orders, waiting) = mpsc::channel(seats * 256 + ORDERS_SPARE);
        let session = Orchestrator::new(&config, ports.clock.now());
        let edge = Orders {
            name: config.name.clone(),
            employer: Arc::clone(&ports.employer),
            queue: orders,
        };
        Self {
            hub: Hub::new(session, edge, ports.clock, ports.counters),
            places: Arc::new(Mutex::new((0..seats).map(|_| Place::default()).collect())),
            config: Arc::new(config),
            employer: ports.employer,
            waiting: Arc::new(Mutex::new(Some(waiting))),
        }
    }

    /// Gives a runner an execution; [`Employer::ended`] follows exactly once, whatever happens. May
    /// be called from the employer's methods.
    pub fn start(&self, tag: Tag, assignment: Assignment) {
        self.hub.say(RunnerSaid::Start(tag, Box::new(assignment)));
    }

    /// Stops an execution: its runner is told, and ended if it does not answer within the grace and
    /// a second. May be called from the employer's methods.
    pub fn cancel(&self, tag: Tag, grace_ms: u64) {
        self.hub.say(RunnerSaid::Cancel { tag, grace_ms });
    }

    /// Restarts a runner, counted from 0, once its requests have ended.
    pub fn restart(&self, seat: usize) {
        self.hub.say(RunnerSaid::Restart { seat });
    }

    /// Tells whether somebody else starts its runner.
    pub fn is_external(&self) -> bool {
        matches!(self.config.source, Source::External(_))
    }

    /// Returns how each runner is.
    pub fn health(&self) -> Vec<SeatHealth> {
        let seats = self.hub.look(Orchestrator::seats);
        let places = lock(&self.places);
        let both = seats.into_iter().zip(places.iter()).enumerate();
        both.map(|(seat, (known, place))| SeatHealth {
            executor: executor(&self.config.name, seat),
            state: known.state,
            address: self.address(place),
            pid: place.pid,
            in_flight: known.in_flight,
            failures: known.failures,
            reason: place
                .reason
                .clone()
                .filter(|_| known.state != SeatState::Up),
        })
        .collect()
    }

    /// Runs the pool until `stopping`, then ends all runners and waits for that, two seconds at
    /// most. A second call returns at once.
    pub async fn run(self, stopping: CancellationToken) -> io::Result<()> {
        let Some(mut waiting) = lock(&self.waiting).take() else {
            return Ok(());
        };
        let launcher = Launcher::start()?;
        let mut tasks = JoinSet::new();
        let hub = Arc::clone(&self.hub);
        let stop = async {
            stopping.cancelled().await;
            hub.say(RunnerSaid::Stop);
            let _ended = timeout(STOP_TIME, hub.until(Orchestrator::is_idle)).await;
        };
        let work = async {
            loop {
                tokio::select! {
                    Some(order) = waiting.recv() => self.carry_out(order, &launcher, &mut tasks),
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

    /// Returns where the runner of a place listens, once that is known.
    fn address(&self, place: &Place) -> Option<SocketAddr> {
        match self.config.source {
            Source::External(address) => Some(address),
            Source::Launched(_) => place.address,
        }
    }

    /// Passes on what a runner wrote, or what there is to say about it.
    fn wrote(&self, seat: usize, output: Output, line: &str) {
        lock(&self.places)[seat].note(output, line);
        let name = executor(&self.config.name, seat);
        let in_flight = self.hub.look(|session| session.in_flight(seat));
        self.employer.wrote(&name, &in_flight, output, line);
    }

    fn carry_out(&self, order: Order, launcher: &Launcher, tasks: &mut JoinSet<()>) {
        match order {
            Order::Launch { seat } => {
                let (kill, killed) = mpsc::channel(4);
                lock(&self.places)[seat].kill = Some(kill);
                tasks.spawn(process::run(self.clone(), seat, launcher.clone(), killed));
            }
            Order::Connect { seat, link } => {
                tasks.spawn(self.clone().connect(seat, link));
            }
            Order::Kill { seat, grace } => {
                let kill = lock(&self.places)[seat].kill.clone();
                // A full queue says the same already; without one the process has just ended.
                if let Some(kill) = kill {
                    let _full = kill.try_send(grace);
                }
            }
        }
    }

    async fn connect(self, seat: usize, link: Link) {
        let address = self.address(&lock(&self.places)[seat]);
        let Some(address) = address else {
            return self.hub.say(RunnerSaid::ConnectFailed { link });
        };
        let connected = timeout(CONNECT_TIME, TcpStream::connect(address)).await;
        let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let ready = connected.and_then(|stream| {
            stream.set_nodelay(true)?;
            Ok(stream)
        });
        match ready {
            Ok(stream) => {
                lock(&self.places)[seat].reason = None;
                serve_link(self.hub, link, stream).await;
            }
            Err(error) => {
                let text = format!("cannot connect to {address}: {error}");
                lock(&self.places)[seat].reason = Some(text);
                self.hub.say(RunnerSaid::ConnectFailed { link });
            }
        }
    }

    /// Chooses where the runner of a seat is to listen.
    fn choose_address(&self, seat: usize, first: Option<u16>) -> io::Result<SocketAddr> {
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        match first {
            Some(first) => {
                let port = u16::try_from(seat)
                    .ok()
                    .and_then(|seat| first.checked_add(seat));
                port.map(local).ok_or_else(|| {
                    io::Error::other(format!(
                        "no port is left for it above {first}: choose a lower tcp_port"
                    ))
                })
            }
            // Taken from those that the system has free; nobody else is given it soon.
            None => loop {
                let address = TcpListener::bind(local(0))?.local_addr()?;
                let taken = |place: &Place| place.address == Some(address);
                if !lock(&self.places).iter().any(taken) {
                    return Ok(address);
                }
            },
        }
    }
}
