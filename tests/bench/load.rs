//! Keeps a number of jobs in flight over HTTP and measures how many complete and how long each takes, from
//! its request to its end event.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::events::{Events, Moment};
use crate::http::Connection;
use crate::numbers::{count, ms, percentile, sorted};

/// The queue that loads go through.
pub(crate) const QUEUE: &str = "bench";

/// The handler of jobs that our own cells execute.
const NOOP: &str = "noop";

/// A load, by its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// How many jobs are in flight.
    pub(crate) in_flight: usize,
    /// How many jobs one request has: 1 is a single job, more are an array.
    pub(crate) batch: usize,
}

/// The result of a load.
pub(crate) struct Sample {
    pub(crate) jobs_per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// All jobs that have ended, including those of the warm-up and the end.
    pub(crate) jobs: usize,
}

/// The end of one job and its duration.
type JobEnd = (Instant, Duration);

struct Load {
    handler: &'static str,
    shape: Shape,
    room: Arc<Semaphore>,
    events: Events,
    address: String,
    until: Instant,
}

/// Jobs that are enqueued one by one.
pub(crate) const fn single(in_flight: usize) -> Shape {
    Shape {
        in_flight,
        batch: 1,
    }
}

/// Jobs that are enqueued in arrays of 100.
pub(crate) const fn arrays(in_flight: usize) -> Shape {
    Shape {
        in_flight,
        batch: 100,
    }
}

impl Shape {
    pub(crate) fn name(self) -> String {
        let jobs = if self.in_flight == 1 { "job" } else { "jobs" };
        match self.batch {
            1 => format!("HTTP, {} {jobs} in flight", self.in_flight),
            batch => format!(
                "HTTP, {} {jobs} in flight, arrays of {batch}",
                self.in_flight
            ),
        }
    }

    fn connections(self) -> usize {
        match self.batch {
            1 => self.in_flight,
            batch => self.in_flight.div_ceil(batch) + 1,
        }
    }

    fn body(self, handler: &str) -> Vec<u8> {
        let job = format!(r#"{{"handler":"{handler}","params":{{"n":12345}},"queue":"{QUEUE}"}}"#);
        match self.batch {
            1 => job.into_bytes(),
            batch => format!("[{}]", vec![job; batch].join(",")).into_bytes(),
        }
    }
}

/// Runs a load in our own cells for `span`, after a warm-up of a quarter of it.
pub(crate) async fn run(address: &str, shape: Shape, span: Duration) -> Result<Sample> {
    run_handler(NOOP, address, shape, span).await
}

/// Runs a load of jobs for `handler`.
pub(crate) async fn run_handler(
    handler: &'static str,
    address: &str,
    shape: Shape,
    span: Duration,
) -> Result<Sample> {
    let from = Instant::now() + span / 4;
    let until = from + span;
    let load = Arc::new(Load {
        handler,
        shape,
        room: Arc::new(Semaphore::new(shape.in_flight)),
        events: Events::listen(address, QUEUE, false).await?,
        address: address.to_owned(),
        until,
    });
    let mut workers = JoinSet::new();
    for _ in 0..shape.connections() {
        workers.spawn(work(Arc::clone(&load)));
    }
    let mut all = Vec::new();
    while let Some(worker) = workers.join_next().await {
        all.extend(worker.context("a worker panicked")??);
    }
    let within = all.iter().filter(|(at, _)| (from..until).contains(at));
    let unsorted: Vec<f64> = within.map(|(_, took)| ms(*took)).collect();
    let times = sorted(&unsorted);
    Ok(Sample {
        jobs_per_second: count(times.len()) / span.as_secs_f64(),
        p50_ms: percentile(&times, 0.5),
        p99_ms: percentile(&times, 0.99),
        jobs: all.len(),
    })
}

async fn work(load: Arc<Load>) -> Result<Vec<JobEnd>> {
    let mut connection = Connection::open(&load.address).await?;
    let body = load.shape.body(load.handler);
    let mut ended = Vec::new();
    let mut arrays = JoinSet::new();
    while Instant::now() < load.until {
        let batch = u32::try_from(load.shape.batch).context("the batch is too large")?;
        let room = Arc::clone(&load.room);
        let permit = room.acquire_many_owned(batch).await?;
        let start = Instant::now();
        if batch == 1 {
            let job = connection.enqueue(&body).await?;
            let at = load.events.when(job, Moment::Ended).await?;
            ended.push((at, at.saturating_duration_since(start)));
            continue;
        }
        let jobs = connection.enqueue_all(&body).await?;
        let load = Arc::clone(&load);
        arrays.spawn(async move {
            let mut permit = permit;
            let mut ended: Vec<JobEnd> = Vec::with_capacity(jobs.len());
            for job in jobs {
                let at = load.events.when(job, Moment::Ended).await?;
                ended.push((at, at.saturating_duration_since(start)));
                drop(permit.split(1));
            }
            anyhow::Ok(ended)
        });
    }
    while let Some(array) = arrays.join_next().await {
        ended.extend(array.context("an array's wait panicked")??);
    }
    Ok(ended)
}
