//! Finding and retrying many dead letters: how long the preview takes, how many are retried per second, and
//! what that costs the jobs that run meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host_tests::{Client, eventually};
use serde_json::{Value, json};

use crate::numbers::{count, ms};
use crate::report::{Report, Target};
use crate::rounds::single;
use crate::{Args, Stage, load};

/// The queue of the dead letters. It is paused after they have failed, so that retried jobs stay there.
const QUEUE: &str = "dead";

const JOBS: usize = 100_000;
const ARRAY: usize = 1_000;
const PREVIEW_MS_MAX: f64 = 1_000.0;
const RETRIES_MIN: f64 = 5_000.0;
const RATIO_MIN: f64 = 0.8;

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    let stage = Stage::start()?;
    let client = stage.server.client();
    let filling = client.clone();
    eprintln!("making {JOBS} dead letters");
    tokio::task::spawn_blocking(move || fill(&filling))
        .await
        .context("the dead letters panicked")??;
    let span = Duration::from_secs_f64(args.seconds);
    let (mut previews, mut alone) = (Vec::new(), Vec::new());
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}, dead letters", args.rounds);
        let start = Instant::now();
        let preview = "/api/v1/jobs/count?state=discarded&failure=user_error&queue=dead";
        let found = get(&client, preview)?;
        ensure!(found["jobs"] == JOBS, "the preview found {found}");
        previews.push(ms(start.elapsed()));
        let start = Instant::now();
        change_all(&client, "retry", "discarded")?;
        alone.push(count(JOBS) / start.elapsed().as_secs_f64());
        discard(&client)?;
        let sample = load::run(stage.server.address(), single(256), span).await?;
        without.push(sample.jobs_per_second);
        let stop = Arc::new(AtomicBool::new(false));
        let (beside, until) = (client.clone(), Arc::clone(&stop));
        let changes = tokio::task::spawn_blocking(move || beside_load(&beside, &until));
        let sample = load::run(stage.server.address(), single(256), span).await?;
        with.push(sample.jobs_per_second);
        stop.store(true, Ordering::Relaxed);
        changes.await.context("the changes panicked")??;
    }
    report.add(
        "preview of 100,000 dead letters",
        "ms",
        previews,
        Some(Target::AtMost(PREVIEW_MS_MAX)),
    );
    report.add(
        "dead letters run again",
        "jobs/s",
        alone,
        Some(Target::AtLeast(RETRIES_MIN)),
    );
    let name = "HTTP, 256 jobs in flight, beside a retry of many";
    let plain = "HTTP, 256 jobs in flight, in turns with a retry of many";
    report.add(name, "jobs/s", with, None);
    report.add(plain, "jobs/s", without, None);
    let target = Target::AtLeast(RATIO_MIN);
    report.ratio("beside a retry of many to without", name, plain, target);
    stage.stop()
}

fn get(client: &Client, path: &str) -> Result<Value> {
    let answer = client.get(path)?;
    ensure!(answer.status == 200, "{path}: {}", answer.body);
    Ok(answer.body)
}

/// Makes jobs fail for good, and pauses their queue.
fn fill(client: &Client) -> Result<()> {
    let params = json!({"message": "no such customer", "retryable": false});
    let job = json!({"handler": "fail", "queue": QUEUE, "max_attempts": 1, "params": params});
    for _ in 0..JOBS / ARRAY {
        let answer = client.post("/api/v1/jobs", &Value::Array(vec![job.clone(); ARRAY]))?;
        ensure!(answer.status == 201, "cannot enqueue: {}", answer.body);
    }
    eventually("all to fail", Duration::from_mins(10), || {
        let found = get(client, "/api/v1/jobs/count?state=discarded&queue=dead").ok()?;
        (found["jobs"] == JOBS).then_some(())
    });
    let paused = client.post(&format!("/api/v1/queues/{QUEUE}/pause"), &json!({}))?;
    ensure!(paused.status == 200, "cannot pause: {}", paused.body);
    Ok(())
}

/// Changes all dead letters that are in a state, page by page, as the command line does.
fn change_all(client: &Client, verb: &str, state: &str) -> Result<()> {
    let mut cursor = String::new();
    loop {
        let path = format!(
            "/api/v1/jobs/{verb}?state={state}&queue={QUEUE}&limit=1000&sort=oldest{cursor}"
        );
        let answer = client.post(&path, &json!({}))?;
        ensure!(answer.status == 200, "{path}: {}", answer.body);
        ensure!(answer.body["refused"] == 0, "{path}: {}", answer.body);
        match answer.body["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(()),
        }
    }
}

/// Turns the jobs into dead letters again: they fail in their queue, which is then paused again.
fn discard(client: &Client) -> Result<()> {
    for (verb, jobs) in [("resume", JOBS), ("pause", JOBS)] {
        let answer = client.post(&format!("/api/v1/queues/{QUEUE}/{verb}"), &json!({}))?;
        ensure!(answer.status == 200, "cannot {verb}: {}", answer.body);
        eventually("all to fail", Duration::from_mins(10), || {
            let found = get(client, "/api/v1/jobs/count?state=discarded&queue=dead").ok()?;
            (found["jobs"] == jobs).then_some(())
        });
    }
    Ok(())
}

/// Retries and cancels dead letters in turns until stopped, and turns them into dead letters at the end.
fn beside_load(client: &Client, stop: &AtomicBool) -> Result<()> {
    let mut state = "discarded";
    while !stop.load(Ordering::Relaxed) {
        change_all(client, "retry", state)?;
        if stop.load(Ordering::Relaxed) {
            break;
        }
        change_all(client, "cancel", "available")?;
        state = "cancelled";
    }
    if state == "cancelled" {
        change_all(client, "retry", "cancelled")?;
    }
    discard(client)
}
