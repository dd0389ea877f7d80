//! How soon a worker gets a task while tasks wait: after READY alone, and after DONE and READY in one write,
//! as between two tasks. Each waits for the disk once.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::worker::Worker;
use super::{HANDLER, Host};
use crate::Args;
use crate::http::Connection;
use crate::numbers::{ms, percentile, sorted};
use crate::report::{Report, Target};

/// How many tasks are handed out one by one, for each row.
const TASKS: usize = 200;

/// How long the host idles before each READY: not a multiple of any of its intervals.
const PAUSE: Duration = Duration::from_millis(23);

const P50_MS_MAX: f64 = 1.0;

pub(super) async fn measure(args: &Args, host: &Host, report: &mut Report) -> Result<()> {
    let tasks = TASKS.min(args.cancels);
    eprintln!("{} tasks handed out one by one", 2 * tasks);
    let job = format!(r#"{{"handler":"{HANDLER}","queue":"handout"}}"#);
    let all = format!("[{}]", vec![job; 2 * tasks + 1].join(","));
    let mut connection = Connection::open(host.address()).await?;
    connection.enqueue_all(all.as_bytes()).await?;
    let mut worker = Worker::open(&host.socket, 1).await?;
    let mut asked = Vec::with_capacity(tasks);
    for _ in 0..tasks {
        tokio::time::sleep(PAUSE).await;
        let start = Instant::now();
        worker.ready().await?;
        let issue_id = worker.task().await?;
        asked.push(ms(start.elapsed()));
        worker.done(&issue_id).await?;
    }
    worker.ready().await?;
    let mut issue_id = worker.task().await?;
    let mut followed = Vec::with_capacity(tasks);
    for _ in 0..tasks {
        tokio::time::sleep(PAUSE).await;
        let start = Instant::now();
        worker.done_and_ready(&issue_id).await?;
        issue_id = worker.task().await?;
        followed.push(ms(start.elapsed()));
    }
    worker.done(&issue_id).await?;
    let target = Some(Target::AtMost(P50_MS_MAX));
    add(report, "READY to TASK while tasks wait", &asked, target);
    add(report, "DONE and READY to TASK", &followed, None);
    Ok(())
}

fn add(report: &mut Report, name: &str, times: &[f64], target: Option<Target>) {
    let times = sorted(times);
    for (part, of, target) in [("p50", 0.5, target), ("p99", 0.99, None)] {
        let value = vec![percentile(&times, of)];
        report.add(format!("{name}: {part}"), "ms", value, target);
    }
}
