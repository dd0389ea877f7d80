//! The scene over Redis: the host runs the jobs of a Hero dispatcher, played by a client that knows only the
//! keys.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host_tests::{Client, Redis, eventually};
use redis::{Commands as _, Connection};
use serde_json::Value;

use crate::Stage;
use crate::table::{Row, row};

/// The worker id of the host.
const WORKER: &str = "demo";

/// The limit for every wait.
const PATIENCE: Duration = Duration::from_mins(3);
const PATIENCE_SECONDS: f64 = 60.0;

/// The `error` of a stopped job.
const STOPPED: &str = "stopped_by_request";

/// The jobs: their ids, scripts and what they show.
const JOBS: [(&str, &str, &str); 3] = [
    (
        "5d2b8a1c-0000-4000-8000-000000000001",
        "loop {}",
        "a Rhai script loops for ever, is stopped",
    ),
    (
        "5d2b8a1c-0000-4000-8000-000000000002",
        "let sum = 0; for n in 1..=1000 { sum += n * n } `${CALLER_ID} gets ${sum}`",
        "a Rhai script adds 1,000 squares",
    ),
    (
        "5d2b8a1c-0000-4000-8000-000000000003",
        "!!vm.define name:'web' cpu:4\n!!vm.define name:'spare' cpu:2\n    memory:'8GB'",
        "a HeroScript of two actions",
    ),
];

/// Returns the configuration of a host that runs the jobs of this scene.
pub(crate) fn settings(redis: &Redis) -> String {
    format!(
        "[protocol.hero]\nurl = \"{}\"\nworker_ids = [\"{WORKER}\"]\n",
        redis.url()
    )
}

/// Pushes three jobs and stops the first once the others are answered.
pub(crate) fn jobs(stage: &Stage) -> Result<Vec<Row>> {
    let mut redis = stage.redis.connection();
    let start = Instant::now();
    for (id, script, _) in JOBS {
        submit(&mut redis, id, script)?;
    }
    let [(endless, ..), (sum, ..), (chain, ..)] = JOBS;
    let (added, chained) = (reply(&mut redis, sum)?, reply(&mut redis, chain)?);
    let answered = start.elapsed();
    ensure!(added == "alice gets 333833500", "not the sum: {added}");
    let results: Vec<Value> = serde_json::from_str(&chained).context("no list of results")?;
    ensure!(
        results.len() == 2,
        "not the results of two actions: {chained}"
    );
    eventually("the loop to run", PATIENCE, || {
        let status: String = redis.hget(job_key(endless), "status").ok()?;
        (status == "started").then_some(())
    });
    let start = Instant::now();
    let _: i64 = redis.lpush(format!("hero:stop_queue:{WORKER}"), endless)?;
    let answer = reply(&mut redis, endless)?;
    let stopped = start.elapsed();
    ensure!(answer.contains(STOPPED), "it was not stopped: {answer}");
    println!(
        "Redis on 127.0.0.1:{}: 3 scripts pushed to hero:work_queue:{WORKER}, two answered in {:.1} ms, \
         the endless one {:.1} ms after it was pushed to the stop queue",
        stage.redis.port(),
        answered.as_secs_f64() * 1000.0,
        stopped.as_secs_f64() * 1000.0
    );
    let client = stage.client();
    let rows = JOBS.iter();
    rows.map(|(id, _, what)| row(&client, &fetch_job(&client, id), what))
        .collect()
}

fn job_key(id: &str) -> String {
    format!("hero:job:{id}")
}

/// Stores a job and pushes its id, as in the document.
fn submit(redis: &mut Connection, id: &str, script: &str) -> Result<()> {
    let fields = [
        ("id", id),
        ("caller_id", "alice"),
        ("worker_id", WORKER),
        ("context_id", "demo"),
        ("script", script),
        ("timeout", "60"),
        ("retries", "0"),
        ("concurrent", "true"),
        ("status", "dispatched"),
    ];
    let _: () = redis.hset_multiple(job_key(id), &fields)?;
    let _: i64 = redis.lpush(format!("hero:work_queue:{WORKER}"), id)?;
    Ok(())
}

/// Waits for the reply to a job.
fn reply(redis: &mut Connection, id: &str) -> Result<String> {
    let key = format!("hero:reply:{id}");
    let found: Option<(String, String)> = redis.blpop(key, PATIENCE_SECONDS)?;
    let (_, reply) = found.with_context(|| format!("job {id} is not answered"))?;
    Ok(reply)
}

/// Returns the host's record of a job.
fn fetch_job(client: &Client, id: &str) -> Value {
    eventually("the history of what was answered", PATIENCE, || {
        let jobs = client.foreign_jobs();
        jobs.into_iter().find(|kept| kept["external_id"] == id)
    })
}
