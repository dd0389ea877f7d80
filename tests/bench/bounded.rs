//! What must not hold a host: each case does something large beside a steady load, on a host that was started anew
//! on a prepared store. Measured are the longest turn of its loop, how long an enqueue takes, and the memory that
//! remains beside that of a host in use. To add a case, add a row to [`CASES`].

mod limits;
mod reads;
mod runs;
mod trees;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host_tests::{Client, Cluster, eventually};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::http::Connection;
use crate::load::QUEUE;
use crate::numbers::{count, ms, percentile, sorted};
use crate::process::status_mib;
use crate::report::{Report, Target};
use crate::{Args, Stage, build_folder, postgres};

/// The targets.
const TURN_MS_MAX: f64 = 50.0;
const ENQUEUE_P99_MS_MAX: f64 = 100.0;
const KEPT_MIB_MAX: f64 = 24.0;

/// How many connections the load uses: enough to keep its rate with enqueues of twice the target.
const CONNECTIONS: usize = 200;

/// The jobs that a host runs before it is measured, so that its caches are full.
const WARM_UP: usize = 10_000;
const WARM_UP_ARRAY: usize = 100;

/// How long memory may take to be released.
const SETTLE: Duration = Duration::from_secs(5);

/// The jobs of one request.
const ARRAY: usize = 1_000;

/// How many jobs are purged at full size.
const PURGES: usize = 600;

/// How long a case may take to end.
const PATIENCE: Duration = Duration::from_mins(30);

/// Fills a store with about this many rows.
type Prepare = fn(&Client, usize) -> Result<()>;

/// Runs beside the load, against a store with about this many rows.
type Attack = fn(&Stage, usize) -> Result<()>;

/// For cases that need no rows.
const NOTHING: Prepare = |_, _| Ok(());

/// Something large.
struct Case {
    name: &'static str,
    prepare: Prepare,
    attack: Attack,
    /// How long it may take.
    ms_max: Option<f64>,
}

const CASES: [Case; 13] = [
    case("purges beside unique keys", cancelled_keys, purge),
    case("jobs in many queues", NOTHING, runs::many_queues),
    case("counts by attribute", scheduled, reads::counts),
    case("listeners that catch up", scheduled, reads::listeners),
    case(
        "requests with many dependencies",
        NOTHING,
        trees::dependencies,
    ),
    case("a cancelled tree", trees::tree, trees::cancel_tree),
    case("a cancelled batch", trees::batch, trees::cancel_batch),
    case("jobs with many attempts", NOTHING, runs::attempts),
    Case {
        ms_max: Some(runs::LOST_CELL_MS_MAX),
        ..case("a lost cell", NOTHING, runs::lost_cell)
    },
    case(
        "schedules of one minute",
        runs::set_schedules,
        runs::schedules,
    ),
    case("a limit that is raised", limits::waiting, limits::raise),
    case("jobs beside many limits", limits::set_many, limits::enqueue),
    case("store check", scheduled, reads::check),
];

const fn case(name: &'static str, prepare: Prepare, attack: Attack) -> Case {
    Case {
        name,
        prepare,
        attack,
        ms_max: None,
    }
}

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    let cluster = Cluster::start(&build_folder()?, &[]);
    for case in CASES {
        for store in ["SQLite", "PostgreSQL"] {
            let name = format!("{store}, {}", case.name);
            if !args.wants(&name) {
                continue;
            }
            let mut env = Vec::new();
            let database = (store == "PostgreSQL").then_some(&cluster);
            if database.is_some() {
                let schema = format!("s{}", case.name.replace(' ', "_"));
                let is_made = cluster.execute(&format!("CREATE SCHEMA {schema}"));
                ensure!(is_made, "cannot make the schema {schema}");
                env = postgres::store_at(&cluster, &schema);
            }
            run(args, &case, &name, database, env, report).await?;
        }
    }
    Ok(())
}

async fn run(
    args: &Args,
    case: &Case,
    name: &str,
    database: Option<&Cluster>,
    env: Vec<(String, String)>,
    report: &mut Report,
) -> Result<()> {
    eprintln!("{name}: filling the store");
    let stage = Stage::stored(&["basics"], env)?;
    let size = args.size;
    tokio::task::block_in_place(|| (case.prepare)(&stage.server.client(), size))?;
    if let Some(database) = database {
        // Otherwise the server would still write and count what it was filled with.
        let is_settled = ["VACUUM ANALYZE", "CHECKPOINT"].map(|sql| database.execute(sql));
        ensure!(is_settled == [true; 2], "the server did not settle");
    }
    // The metrics of a new process know nothing of the filling.
    let stage = stage.restart()?;
    let client = stage.server.client();
    tokio::task::block_in_place(|| warm_up(&client))?;
    let memory = || status_mib(stage.server.pid(), "VmRSS");
    let before = memory()?;
    eprintln!("{name}: beside {} jobs/s", args.rate);
    let stop = Arc::new(AtomicBool::new(false));
    let load = tokio::spawn(steady(
        stage.server.address().to_owned(),
        args.rate,
        Arc::clone(&stop),
    ));
    let begun = Instant::now();
    let attacked = tokio::task::block_in_place(|| (case.attack)(&stage, size));
    let took = begun.elapsed();
    // A short attack still sees the load.
    tokio::time::sleep(Duration::from_secs_f64(args.seconds).saturating_sub(took)).await;
    stop.store(true, Ordering::Relaxed);
    let enqueues = load.await.context("the load panicked")?;
    attacked?;
    let enqueues = sorted(&enqueues?);
    tokio::time::sleep(SETTLE).await;
    let turn = longest_turn_ms(&client)?;
    let p99 = percentile(&enqueues, 0.99);
    let (took, kept) = (ms(took), memory()? - before);
    eprintln!(
        "{name}: took {took:.0} ms, longest turn {turn:.0} ms, enqueues {p99:.0} ms (p99), {kept:.0} MiB remain"
    );
    let mut add = |what: &str, unit, value, limit: Option<f64>| {
        let row = format!("{name}: {what}");
        report.push(&row, unit, value);
        if let Some(limit) = limit {
            report.target(&row, Target::AtMost(limit));
        }
    };
    add("took", "ms", took, case.ms_max);
    add("longest turn", "ms", turn, Some(TURN_MS_MAX));
    add("enqueue, p99", "ms", p99, Some(ENQUEUE_P99_MS_MAX));
    add("memory that remains", "MiB", kept, Some(KEPT_MIB_MAX));
    stage.stop()
}

/// Returns how long the longest turn of the dispatch loop took, in milliseconds.
fn longest_turn_ms(client: &Client) -> Result<f64> {
    let answer = client.get("/metrics")?;
    let page = answer.body.as_str().context("/metrics is not text")?;
    let samples = page
        .lines()
        .filter_map(|line| line.strip_prefix("host_turn_longest_seconds"));
    let seconds = samples.filter_map(|sample| sample.rsplit(' ').next()?.parse::<f64>().ok());
    let longest = seconds.reduce(f64::max);
    Ok(longest.context("/metrics has no host_turn_longest_seconds")? * 1e3)
}

fn warm_up(client: &Client) -> Result<()> {
    let job = |_| json!({"handler": "noop", "params": {}, "queue": "warm"});
    for _ in 0..WARM_UP / WARM_UP_ARRAY {
        fill(client, WARM_UP_ARRAY, job)?;
    }
    until(client, "warm", "completed", WARM_UP);
    Ok(())
}

/// Enqueues jobs at a steady rate until stopped. Returns how long each request took from when it was due, in
/// milliseconds.
async fn steady(address: String, rate: usize, stop: Arc<AtomicBool>) -> Result<Vec<f64>> {
    let connections = CONNECTIONS.min(rate.max(1));
    let pause = Duration::from_secs_f64(count(connections) / count(rate.max(1)));
    let job = format!(r#"{{"handler":"noop","params":{{}},"queue":"{QUEUE}","priority":1}}"#);
    let mut workers = JoinSet::new();
    for _ in 0..connections {
        let (mut connection, job) = (Connection::open(&address).await?, job.clone());
        let stop = Arc::clone(&stop);
        workers.spawn(async move {
            let mut took = Vec::new();
            let mut due = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                tokio::time::sleep_until(due.into()).await;
                connection.enqueue(job.as_bytes()).await?;
                took.push(ms(due.elapsed()));
                due += pause;
            }
            anyhow::Ok(took)
        });
    }
    let mut all = Vec::new();
    while let Some(worker) = workers.join_next().await {
        all.extend(worker.context("a worker panicked")??);
    }
    Ok(all)
}

/// Enqueues `jobs` jobs, each made from its number.
pub(crate) fn fill(client: &Client, jobs: usize, job: impl Fn(usize) -> Value) -> Result<()> {
    fill_at(client, "/api/v1/jobs", jobs, job)
}

/// Adds jobs at a path that takes arrays.
pub(crate) fn fill_at(
    client: &Client,
    path: &str,
    jobs: usize,
    job: impl Fn(usize) -> Value,
) -> Result<()> {
    for first in (0..jobs).step_by(ARRAY) {
        let array = (first..jobs.min(first + ARRAY)).map(&job);
        call(client, "POST", path, &Value::Array(array.collect()))?;
    }
    Ok(())
}

/// Sends a request that the host must accept. Returns the body of its answer.
pub(crate) fn call(client: &Client, method: &str, path: &str, body: &Value) -> Result<Value> {
    let answer = client.call(method, path, Some(body))?;
    let is_done = matches!(answer.status, 200..300);
    ensure!(is_done, "{method} {path}: {}", answer.body);
    Ok(answer.body)
}

/// Returns how many jobs of a queue are in a state.
fn jobs_in(client: &Client, queue: &str, state: &str) -> Result<usize> {
    let queue = client.get(&format!("/api/v1/queues/{queue}"))?.body;
    let jobs = queue["counts"][state].as_u64();
    Ok(usize::try_from(jobs.context("a queue has counts")?)?)
}

/// Waits until a queue has this many jobs in a state.
fn until(client: &Client, queue: &str, state: &str, jobs: usize) {
    let what = format!("{jobs} jobs of {queue} to be {state}");
    eventually(&what, PATIENCE, || {
        let reached = jobs_in(client, queue, state).ok()? >= jobs;
        reached.then_some(())
    });
}

/// Does the same on `times` threads.
fn concurrently(times: usize, does: impl Fn() -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..times).map(|_| scope.spawn(&does)).collect();
        let mut threads = running.into_iter();
        threads.try_for_each(|it| it.join().expect("no panic"))
    })
}

/// A job that starts in a day.
fn later(n: usize) -> Value {
    json!({
        "handler": "noop", "params": {}, "queue": "later", "delay_seconds": 86_400,
        "attributes": {"team": format!("team-{}", n % 10)},
    })
}

fn scheduled(client: &Client, size: usize) -> Result<()> {
    fill(client, size, later)
}

/// Jobs with unique keys, some of which are cancelled.
fn cancelled_keys(client: &Client, size: usize) -> Result<()> {
    fill(client, size, |n| {
        let mut job = later(n);
        job["unique_key"] = format!("key-{n}").into();
        job
    })?;
    let path = format!("/api/v1/jobs/cancel?state=scheduled&queue=later&limit={PURGES}");
    call(client, "POST", &path, &json!({}))?;
    Ok(())
}

fn purge(stage: &Stage, size: usize) -> Result<()> {
    let path = format!("/api/v1/jobs/purge?state=cancelled&queue=later&limit={PURGES}");
    let purged = call(&stage.server.client(), "POST", &path, &json!({}))?;
    ensure!(purged["changed"] == PURGES.min(size), "purged: {purged}");
    Ok(())
}
