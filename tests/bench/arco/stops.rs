//! How soon after the grace our worker stops a task that ignores its cancel, while others continue. The bench
//! plays the control plane, so that it knows when the cancel was sent and when the end came.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host_tests::{ArcoWorker, ports};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::SECRET;
use super::peer::Peer;
use crate::Args;
use crate::http::Connection;
use crate::numbers::{count, ms, percentile, sorted};
use crate::report::{Report, Target};

/// How many tasks sleep beside the one that spins, and for how long.
const NEIGHBORS: usize = 8;
const NEIGHBOR_MS: u64 = 200;

const GRACE: Duration = Duration::from_millis(200);
const OVERRUN_MS_MAX: f64 = 50.0;

/// The most tasks to cancel, because each takes its grace.
const CANCELS_MAX: usize = 50;

/// What the control plane knows about a task.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    cancelled_at: Option<Instant>,
    ended_at: Option<Instant>,
    has_succeeded: bool,
}

#[derive(Default)]
struct Plane {
    tasks: Mutex<HashMap<String, Known>>,
    neighbors_ended: AtomicUsize,
    is_over: AtomicBool,
}

impl Plane {
    fn tasks(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a callback. The first heartbeat of a spinning task is answered with a cancel.
    fn answer(&self, path: &str, body: &[u8]) -> String {
        let mut words = path.trim_start_matches("/v1/tasks/").split('/');
        let (id, what) = (words.next().unwrap_or_default(), words.next());
        let mut tasks = self.tasks();
        let known = tasks.entry(id.to_owned()).or_default();
        match what {
            Some("heartbeat") if id.starts_with("spin") => {
                known.cancelled_at.get_or_insert_with(Instant::now);
                return r#"{"acknowledged":true,"shouldCancel":true}"#.to_owned();
            }
            Some("completed") => {
                let read: Value = serde_json::from_slice(body).unwrap_or_default();
                known.has_succeeded = read["outcome"] == "SUCCEEDED";
                known.ended_at = Some(Instant::now());
            }
            _ => {}
        }
        r#"{"acknowledged":true,"shouldCancel":false}"#.to_owned()
    }
}

pub(super) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    let plane = Arc::new(Plane::default());
    let answering = Arc::clone(&plane);
    let peer = Peer::start(move |path, body| answering.answer(path, body)).await?;
    let folder = TempDir::new_in(crate::build_folder()?).context("cannot make a folder")?;
    let worker = ArcoWorker::start(folder.path(), ports::free(1), SECRET, &peer.url());
    let address = worker.address().to_owned();
    let cancels = args.cancels.min(CANCELS_MAX);
    eprintln!("{cancels} tasks that ignore their cancel");
    let mut neighbors = JoinSet::new();
    for number in 0..NEIGHBORS {
        let (plane, base, address) = (Arc::clone(&plane), peer.url(), address.clone());
        neighbors.spawn(async move { sleep_on(&plane, &address, &base, number).await });
    }
    let mut overruns = Vec::new();
    let mut connection = Connection::open(&address).await?;
    for number in 0..cancels {
        let id = format!("spin-{number}");
        let envelope = envelope(&peer.url(), &id, "spin", &json!({}));
        dispatch(&mut connection, &envelope).await?;
        let known = plane.tasks().remove(&id).unwrap_or_default();
        let (Some(cancelled_at), Some(ended_at)) = (known.cancelled_at, known.ended_at) else {
            anyhow::bail!("{id} was not cancelled: {known:?}");
        };
        let took = ended_at.saturating_duration_since(cancelled_at);
        overruns.push(ms(took) - ms(GRACE));
    }
    plane.is_over.store(true, Ordering::Relaxed);
    while let Some(neighbor) = neighbors.join_next().await {
        neighbor.context("a neighbor panicked")??;
    }
    worker.stop();
    let overruns = sorted(&overruns);
    let name = "end of a task that ignores its cancel, after the grace";
    let target = Some(Target::AtMost(OVERRUN_MS_MAX));
    report.add(
        format!("{name}: p50"),
        "ms",
        vec![percentile(&overruns, 0.5)],
        None,
    );
    report.add(
        format!("{name}: most"),
        "ms",
        vec![percentile(&overruns, 1.0)],
        target,
    );
    let ended = count(plane.neighbors_ended.load(Ordering::Relaxed));
    report.add(
        "tasks beside it, all of which succeeded",
        "tasks",
        vec![ended],
        None,
    );
    Ok(())
}

/// Runs short tasks one after the other. Each must succeed.
async fn sleep_on(plane: &Plane, address: &str, base: &str, number: usize) -> Result<()> {
    let mut connection = Connection::open(address).await?;
    for turn in 0.. {
        if plane.is_over.load(Ordering::Relaxed) {
            break;
        }
        let id = format!("sleep-{number}-{turn}");
        let envelope = envelope(base, &id, "sleep", &json!({"ms": NEIGHBOR_MS}));
        dispatch(&mut connection, &envelope).await?;
        let known = plane.tasks().remove(&id).unwrap_or_default();
        ensure!(known.has_succeeded, "{id} did not succeed: {known:?}");
        plane.neighbors_ended.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn envelope(base: &str, id: &str, key: &str, payload: &Value) -> Value {
    json!({
        "taskId": id,
        "taskKey": key,
        "attempt": 1,
        "callbackBaseUrl": base,
        "taskToken": "a-token-of-the-bench",
        "heartbeatIntervalMs": 50,
        "heartbeatTimeoutMs": 30_000,
        "cancelGracePeriodMs": u64::try_from(GRACE.as_millis()).unwrap_or(u64::MAX),
        "payload": payload,
    })
}

/// Dispatches a task and waits until it has ended.
async fn dispatch(connection: &mut Connection, envelope: &Value) -> Result<()> {
    let secret = format!("x-arco-dispatch-secret: {SECRET}\r\n");
    let body = envelope.to_string();
    let (status, answer) = connection
        .post_with("/dispatch", &secret, body.as_bytes())
        .await?;
    ensure!(
        status == 200,
        "a dispatch is refused with {status}: {}",
        String::from_utf8_lossy(answer)
    );
    Ok(())
}
