//! What running tasks cost a control plane that only receives their heartbeats. The bench plays their
//! workers: it accepts every dispatch, reports each task as started, and then sends a heartbeat every second.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use uuid::Uuid;

use super::peer::Peer;
use crate::http::Connection;
use crate::numbers::count;
use crate::process::cpu_us;
use crate::report::{Report, Target};
use crate::{Args, Stage};

const TASKS: usize = 5_000;
const WORKERS: usize = 2;
const CONNECTIONS: usize = 16;

/// How many jobs are enqueued at once. Each is dispatched on its own connection.
const ARRAY: usize = 200;

/// Long enough for two batches of renewals.
const SPAN: Duration = Duration::from_secs(10);

const PATIENCE: Duration = Duration::from_mins(2);

const CPU_PERCENT_MAX: f64 = 10.0;

const SETTINGS: &str = "[protocol.arco]\nheartbeat_interval_ms = 1000\n";

/// A task as it is dispatched.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    task_id: Uuid,
    task_token: String,
}

type Tasks = Arc<Mutex<Vec<Task>>>;

pub(super) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    let tasks = Tasks::default();
    let taken = Arc::clone(&tasks);
    let peer = Peer::start(move |_, body| {
        if let Ok(task) = serde_json::from_slice(body) {
            taken
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(task);
        }
        "{}".to_owned()
    })
    .await?;
    let workers = (0..WORKERS).map(|n| (format!("w{n}"), peer.url(), TASKS / WORKERS + ARRAY));
    let workers: Vec<_> = workers.collect();
    let plane = super::control_plane(SETTINGS, &workers)?;
    let address = plane.server.address().to_owned();
    eprintln!("{TASKS} tasks are dispatched");
    dispatch(&address, &tasks).await?;
    let tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (mut percents, mut each_us, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}, heartbeats", args.rounds);
        let (start, before) = (Instant::now(), cpu_us(plane.server.pid())?);
        let sent = beat(&address, &tasks).await?;
        let used = cpu_us(plane.server.pid())? - before;
        let seconds = start.elapsed().as_secs_f64();
        percents.push(used / 1e4 / seconds);
        each_us.push(used / count(sent));
        rates.push(count(sent) / seconds);
    }
    check(&plane, &tasks)?;
    plane.stop()?;
    let name = "5,000 tasks that report every second";
    let target = Some(Target::AtMost(CPU_PERCENT_MAX));
    report.add(
        format!("{name}: CPU of the host"),
        "% of a core",
        percents,
        target,
    );
    report.add(format!("{name}: CPU per heartbeat"), "µs", each_us, None);
    report.add(format!("{name}: heartbeats"), "1/s", rates, None);
    Ok(())
}

/// Enqueues the tasks, an array at a time, and reports each as started when all of its array are dispatched,
/// because workers have a time limit for that.
async fn dispatch(address: &str, tasks: &Tasks) -> Result<()> {
    let mut connection = Connection::open(address).await?;
    let all = || tasks.lock().unwrap_or_else(PoisonError::into_inner).len();
    let mut enqueued = 0;
    for array in 0..TASKS / ARRAY {
        let worker = array % WORKERS;
        let job = format!(r#"{{"handler":"w{worker}#task","timeout_seconds":3600}}"#);
        let body = format!("[{}]", vec![job; ARRAY].join(","));
        connection.enqueue_all(body.as_bytes()).await?;
        enqueued += ARRAY;
        let start = Instant::now();
        while all() < enqueued {
            ensure!(start.elapsed() < PATIENCE, "{} tasks are dispatched", all());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let fresh = {
            let taken = tasks.lock().unwrap_or_else(PoisonError::into_inner);
            taken[enqueued - ARRAY..].to_vec()
        };
        say_all(address, &fresh, "started").await?;
    }
    Ok(())
}

/// Sends one callback for each task.
async fn say_all(address: &str, tasks: &[Task], what: &'static str) -> Result<()> {
    let mut senders = JoinSet::new();
    for share in shares(tasks) {
        let mut connection = Connection::open(address).await?;
        senders.spawn(async move {
            for task in &share {
                send(&mut connection, task, what).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(sender) = senders.join_next().await {
        sender.context("a sender panicked")??;
    }
    Ok(())
}

/// Sends heartbeats of all tasks evenly over the span. Returns their number.
async fn beat(address: &str, tasks: &[Task]) -> Result<usize> {
    let until = Instant::now() + SPAN;
    let mut senders = JoinSet::new();
    for share in shares(tasks) {
        let mut connection = Connection::open(address).await?;
        let period = Duration::from_secs(1) / u32::try_from(share.len())?;
        senders.spawn(async move {
            let mut sent = 0;
            let mut clock = interval(period);
            clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
            for task in share.iter().cycle() {
                clock.tick().await;
                if Instant::now() >= until {
                    break;
                }
                send(&mut connection, task, "heartbeat").await?;
                sent += 1;
            }
            anyhow::Ok(sent)
        });
    }
    let mut sent = 0;
    while let Some(sender) = senders.join_next().await {
        sent += sender.context("a sender panicked")??;
    }
    Ok(sent)
}

fn shares(tasks: &[Task]) -> Vec<Vec<Task>> {
    let shares = tasks.chunks(tasks.len().div_ceil(CONNECTIONS));
    shares.map(<[Task]>::to_vec).collect()
}

async fn send(connection: &mut Connection, task: &Task, what: &str) -> Result<()> {
    let path = format!("/v1/tasks/{}/{what}", task.task_id);
    let bearer = format!("authorization: Bearer {}\r\n", task.task_token);
    let body =
        br#"{"attempt":1,"workerId":"bench","progressPct":45,"message":"partition 5 of 10"}"#;
    let (status, answer) = connection.post_with(&path, &bearer, body).await?;
    ensure!(
        status == 200,
        "{what} is refused: {}",
        String::from_utf8_lossy(answer)
    );
    Ok(())
}

/// Checks that the tasks still run and that their reports count.
fn check(plane: &Stage, tasks: &[Task]) -> Result<()> {
    let client = plane.server.client();
    for task in tasks.iter().step_by(TASKS / 10) {
        let job: Value = client.job(&task.task_id.to_string());
        ensure!(
            job["state"] == "running" && job["last_heartbeat_at"].is_string(),
            "a task no longer runs: {job}"
        );
    }
    Ok(())
}
