//! The worker role at work for one worker id: its session between Redis and the cells. Connects
//! again for as long as it runs; what is executed meanwhile goes on. Decides nothing about jobs.

use std::collections::hash_map::DefaultHasher;
use std::future::pending;
use std::hash::{Hash as _, Hasher as _};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use host_core::time::Time;
use redis::RedisError;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::WIRE;
use super::config::WorkerConfig;
use super::transport::{Link, RedisUrl, Replied};
use super::wire::{Call, Lane};
use super::worker::{Worker, WorkerAct};
use crate::port::{Answer, Answers, Clock, Counters, Executor, Reply, Tag};
use crate::session::Moment;

/// The wait before the second try to connect, in milliseconds; doubles with each further one.
const RECONNECT_MS: u64 = 50;

/// The longest wait between two tries, in milliseconds.
const RECONNECT_MS_MAX: u64 = 2_000;

/// How long a host that stops tries to give its jobs back, in milliseconds.
const STOP_MS: u64 = 2_000;

/// What the worker role needs of its host.
#[derive(Clone)]
pub struct WorkerPorts {
    /// Executes the jobs; of one worker id alone.
    pub executor: Arc<dyn Executor>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Counts what is refused.
    pub counters: Arc<dyn Counters>,
    /// Hears how the connection is.
    pub news: Arc<dyn News>,
}

/// Hears whether Redis can be reached.
pub trait News: Send + Sync {
    /// Redis can be reached, for the first time or again.
    fn connected(&self, worker_id: &str);

    /// Redis cannot be reached, for the `tries`th time in a row. `why` has no secrets.
    fn away(&self, worker_id: &str, tries: u32, why: &str);

    /// Redis has refused a command, for the `times`th time in a row; it is sent again later.
    /// `why` has no secrets.
    fn refused(&self, worker_id: &str, times: u32, why: &str);
}

/// Takes work for one worker id until `stopping`; then guests are stopped and jobs given back, all
/// within two seconds.
pub async fn serve(
    config: WorkerConfig,
    url: RedisUrl,
    ports: WorkerPorts,
    stopping: CancellationToken,
) {
    // Nobody writes to log files yet, so that jobs that name one are refused.
    let config = WorkerConfig {
        log_root: None,
        ..config
    };
    let serving = Serving {
        worker_id: config.worker_id.clone(),
        instance: config.instance.clone(),
        session: Worker::new(config),
        ports,
        mailbox: Arc::default(),
        queued: Vec::new(),
        waiting: None,
        todo: Vec::new(),
        stopping,
        stop_by: None,
    };
    serving.run(&url).await;
}

/// Where answers of the executor wait: at most one for each execution.
#[derive(Default)]
struct Mailbox {
    answers: Mutex<Vec<(Tag, Answer)>>,
    news: Notify,
}

impl Mailbox {
    fn take(&self) -> Vec<(Tag, Answer)> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut answers)
    }
}

impl Answers for Mailbox {
    fn answer(self: Arc<Self>, tag: Tag, answer: Answer) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.push((tag, answer));
        drop(answers);
        self.news.notify_one();
    }
}

/// What is on its way to Redis and back.
type Exchange = Pin<Box<dyn Future<Output = Result<Vec<Replied>, RedisError>> + Send>>;

async fn arrived(exchange: &mut Option<Exchange>) -> Result<Vec<Replied>, RedisError> {
    let replied = match exchange {
        Some(exchange) => exchange.await,
        None => pending().await,
    };
    *exchange = None;
    replied
}

struct Serving {
    worker_id: String,
    instance: String,
    session: Worker,
    ports: WorkerPorts,
    mailbox: Arc<Mailbox>,
    /// What is to be sent on the shared connection.
    queued: Vec<Call>,
    /// What is to be sent on the one that waits.
    waiting: Option<Call>,
    todo: Vec<WorkerAct>,
    stopping: CancellationToken,
    /// When a host that stops gives up.
    stop_by: Option<Time>,
}

impl Serving {
    async fn run(mut self, url: &RedisUrl) {
        let mut tries = 0;
        while !self.is_over() {
            let pause = self.pause(tries);
            let connecting = async {
                tokio::time::sleep(pause).await;
                Link::connect(url).await
            };
            let error = match self.meanwhile(connecting).await {
                None => return,
                Some(Err(error)) => error,
                Some(Ok(link)) => {
                    tries = 0;
                    self.ports.news.connected(&self.worker_id);
                    match self.exchange(&link).await {
                        Ok(()) => return,
                        Err(error) => error,
                    }
                }
            };
            tries += 1;
            let news = &self.ports.news;
            news.away(&self.worker_id, tries, &error.to_string());
        }
    }

    /// Returns how long to wait before a try: another time for each host, so that they do not all
    /// come back at once.
    fn pause(&self, tries: u32) -> Duration {
        let Some(doublings) = tries.checked_sub(1) else {
            return Duration::ZERO;
        };
        let longest_ms = RECONNECT_MS
            .saturating_mul(1 << doublings.min(16))
            .min(RECONNECT_MS_MAX);
        let mut chance = DefaultHasher::new();
        (&self.instance, &self.worker_id, tries).hash(&mut chance);
        let half_ms = longest_ms / 2;
        Duration::from_millis(half_ms + chance.finish() % (half_ms + 1))
    }

    /// Waits for `work` while all else goes on; `None` if the host has stopped before it is done.
    async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        while !self.is_over() {
            tokio::select! {
                done = &mut work => return Some(done),
                () = self.turn() => {}
            }
        }
        None
    }

    /// Exchanges calls and answers with Redis until it cannot be reached, or the host has stopped.
    async fn exchange(&mut self, link: &Link) -> Result<(), RedisError> {
        let (mut sent, mut popped): (Option<Exchange>, Option<Exchange>) = (None, None);
        self.session.on_connected(self.at(), &mut self.todo);
        self.carry_out();
        let mut unblocked = false;
        let ended = loop {
            // What is given back must not be popped by us again, and what was popped must be heard.
            if self.stop_by.is_some() && !std::mem::replace(&mut unblocked, true) {
                self.queued.splice(0..0, link.unblock());
            }
            if sent.is_none() && !self.queued.is_empty() {
                let calls = std::mem::take(&mut self.queued);
                sent = Some(Box::pin(link.send(calls)));
            }
            if let Some(call) = self.waiting.take() {
                popped = Some(Box::pin(link.wait(call)));
            }
            let quiet = sent.is_none() && popped.is_none() && self.queued.is_empty();
            if self.is_over() && quiet || self.is_late() {
                break Ok(());
            }
            let replied = tokio::select! {
                replied = arrived(&mut sent) => replied,
                replied = arrived(&mut popped) => replied,
                () = self.turn() => continue,
            };
            match replied {
                Ok(replied) => self.hear(&replied),
                Err(error) => break Err(error),
            }
        };
        self.session.on_disconnected();
        self.queued.clear();
        self.waiting = None;
        ended
    }

    fn hear(&mut self, replied: &[Replied]) {
        for (tag, values) in replied {
            let at = self.at();
            self.session.on_reply(at, *tag, values, &mut self.todo);
        }
        self.carry_out();
    }

    /// Waits until the executor has answered, time has passed or the host stops, and takes it in.
    /// Cancel safe.
    async fn turn(&mut self) {
        let due = self.session.wakeup().into_iter().chain(self.stop_by).min();
        let now = self.ports.clock.now();
        let passed = async {
            match due {
                Some(due) => tokio::time::sleep(Duration::from_millis(due.since_ms(now))).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = self.mailbox.news.notified() => {}
            () = passed => {}
            () = self.stopping.cancelled(), if self.stop_by.is_none() => {
                let at = self.at();
                self.stop_by = Some(at.now.plus_ms(STOP_MS));
                self.session.on_stop(at, &mut self.todo);
            }
        }
        let at = self.at();
        for (tag, answer) in self.mailbox.take() {
            self.session.on_answer(at, tag, answer, &mut self.todo);
        }
        if self.session.wakeup().is_some_and(|due| due <= at.now) {
            self.session.on_wakeup(at, &mut self.todo);
        }
        self.carry_out();
    }

    fn carry_out(&mut self) {
        for act in self.todo.drain(..) {
            match act {
                WorkerAct::Call(call) if call.lane == Lane::Blocking => self.waiting = Some(call),
                WorkerAct::Call(call) => self.queued.push(call),
                WorkerAct::Start { tag, job, .. } => {
                    let answers: Arc<dyn Answers> = Arc::<Mailbox>::clone(&self.mailbox);
                    self.ports.executor.start(*job, Reply::new(tag, answers));
                }
                WorkerAct::Stop { tag, grace_ms, why } => {
                    self.ports.executor.stop(tag, grace_ms, why);
                }
                WorkerAct::Count(code) => self.ports.counters.refused(WIRE, code),
                WorkerAct::Refused { times, why } => {
                    self.ports.news.refused(&self.worker_id, times, &why);
                }
            }
        }
    }

    fn at(&self) -> Moment {
        Moment {
            now: self.ports.clock.now(),
            wall: self.ports.clock.wall(),
        }
    }

    /// Tells whether the host stops and nobody has a job any more, or it has waited long enough.
    fn is_over(&self) -> bool {
        self.stop_by.is_some() && self.session.is_idle() || self.is_late()
    }

    fn is_late(&self) -> bool {
        let now = self.ports.clock.now();
        self.stop_by.is_some_and(|by| by <= now)
    }
}
