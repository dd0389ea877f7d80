//! Learns from the host's event stream when jobs start and end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::way::{self, Stream};

const PATIENCE: Duration = Duration::from_mins(3);

/// The events to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Moment {
    /// An attempt has started.
    Started,
    /// The job has ended.
    Ended,
}

/// When an event happened: not yet, with its waiter, or already.
enum Observation {
    Waiting(oneshot::Sender<Instant>),
    At(Instant),
}

type Moments = Mutex<HashMap<(Uuid, Moment), Observation>>;

/// The events of one queue.
pub(crate) struct Events {
    moments: Arc<Moments>,
    tracks_starts: bool,
    reader: JoinHandle<Result<()>>,
}

/// The data of the events `change` and `gap`.
#[derive(Deserialize)]
struct Data<'a> {
    job: Option<Uuid>,
    to: Option<&'a str>,
    lost: Option<u64>,
}

impl Events {
    /// Listens to the jobs of `queue`. Returns once all later events will be received.
    pub(crate) async fn listen(address: &str, queue: &str, tracks_starts: bool) -> Result<Self> {
        let (mut stream, header) = way::open(address).await?;
        // An HTTP/1.0 answer has no chunks.
        let request =
            format!("GET /api/v1/events?queue={queue} HTTP/1.0\r\nhost: {address}\r\n{header}\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut lines = BufReader::with_capacity(256 << 10, stream);
        let mut line = String::new();
        lines.read_line(&mut line).await?;
        ensure!(line.contains(" 200 "), "no events from the host: {line}");
        while !line.starts_with(": listening") {
            line.clear();
            let bytes = lines.read_line(&mut line).await?;
            ensure!(bytes > 0, "the event stream has ended");
        }
        let moments = Arc::new(Moments::default());
        let theirs = Arc::clone(&moments);
        let reader = tokio::spawn(read(lines, theirs, tracks_starts));
        Ok(Self {
            moments,
            tracks_starts,
            reader,
        })
    }

    /// Waits for an event of a job and returns when it happened. Each is returned once.
    pub(crate) async fn when(&self, job: Uuid, moment: Moment) -> Result<Instant> {
        ensure!(
            self.tracks_starts || moment == Moment::Ended,
            "starts are not tracked here"
        );
        let receiver = {
            let mut moments = self.moments.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(Observation::At(at)) = moments.remove(&(job, moment)) {
                return Ok(at);
            }
            let (sender, receiver) = oneshot::channel();
            moments.insert((job, moment), Observation::Waiting(sender));
            receiver
        };
        match tokio::time::timeout(PATIENCE, receiver).await {
            Ok(Ok(at)) => Ok(at),
            _ if self.reader.is_finished() => bail!("the event stream broke or lost events"),
            _ => bail!("job {job} has not reached {moment:?} after {PATIENCE:?}"),
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

async fn read(
    mut lines: BufReader<Box<dyn Stream>>,
    moments: Arc<Moments>,
    tracks_starts: bool,
) -> Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line).await? == 0 {
            bail!("the event stream ended");
        }
        let Some(data) = line.strip_prefix(b"data: ") else {
            continue;
        };
        let data: Data<'_> = serde_json::from_slice(data).context("an event is not valid JSON")?;
        if let Some(lost) = data.lost {
            eprintln!("the event stream lost {lost} events: this machine is too busy");
            bail!("{lost} events are lost");
        }
        let (Some(job), Some(to)) = (data.job, data.to) else {
            continue;
        };
        let moment = match to {
            "running" if tracks_starts => Moment::Started,
            "completed" | "cancelled" | "discarded" => Moment::Ended,
            _ => continue,
        };
        let now = Instant::now();
        let mut moments = moments.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Observation::Waiting(sender)) = moments.remove(&(job, moment)) {
            // The waiter may have given up.
            let _ = sender.send(now);
        } else {
            moments.insert((job, moment), Observation::At(now));
        }
    }
}
