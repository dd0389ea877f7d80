//! What must not hold a host: each case does something large beside a steady load, on a host that was started anew
//! on a prepared store. Measured are the longest turn of its loop, how long an enqueue takes, and the memory that
//! remains. To add a case, add a row to [`CASES`].

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host_tests::server::host;
use host_tests::{Client, Cluster, eventually};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::http::Connection;
use crate::load::QUEUE;
use crate::numbers::{count, ms, percentile, sorted};
use crate::process::status_mib;
use crate::report::{Report, Target};
use crate::{Args, Stage, build_folder, hostile};

/// The targets.
const TURN_MS_MAX: f64 = 50.0;
const ENQUEUE_P99_MS_MAX: f64 = 100.0;
const KEPT_MIB_MAX: f64 = 24.0;

/// How many connections the load uses.
const CONNECTIONS: usize = 50;

/// How long memory may take to be released.
const SETTLE: Duration = Duration::from_secs(5);

/// The jobs of one request.
const ARRAY: usize = 1_000;

/// How many requests with as many dependencies as are allowed there are at once, and how many jobs a job waits for.
const REQUESTS: usize = 16;
const WAITS_FOR: usize = 10;

/// How long a tree may take to be discarded.
const TREE_PATIENCE: Duration = Duration::from_mins(30);

/// How many jobs fail again and again.
const FAILING: usize = 1_000;

/// How many jobs are purged, and how many queues, counts and listeners there are at full size.
const PURGES: usize = 600;
const QUEUES: usize = 9_990;
const COUNTS: usize = 8;
const LISTENERS: usize = 8;
const CHANGES_KEPT: usize = 100_000;

/// Something large.
struct Case {
    name: &'static str,
    /// Fills a store with about this many rows.
    prepare: fn(&Client, usize) -> Result<()>,
    /// Runs beside the load, against a store with about this many rows.
    attack: fn(&Stage, usize) -> Result<()>,
}

const CASES: [Case; 8] = [
    Case {
        name: "purges beside unique keys",
        prepare: cancelled_keys,
        attack: purge,
    },
    Case {
        name: "jobs in many queues",
        prepare: |_, _| Ok(()),
        attack: many_queues,
    },
    Case {
        name: "counts by attribute",
        prepare: scheduled,
        attack: counts,
    },
    Case {
        name: "listeners that catch up",
        prepare: scheduled,
        attack: listeners,
    },
    Case {
        name: "requests with many dependencies",
        prepare: |_, _| Ok(()),
        attack: dependencies,
    },
    Case {
        name: "a cancelled tree",
        prepare: tree,
        attack: cancel_tree,
    },
    Case {
        name: "jobs with many attempts",
        prepare: |_, _| Ok(()),
        attack: attempts,
    },
    Case {
        name: "store check",
        prepare: scheduled,
        attack: check,
    },
];

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    let cluster = Cluster::start(&build_folder()?, &[]);
    for case in CASES {
        for store in ["SQLite", "PostgreSQL"] {
            let mut env = Vec::new();
            if store == "PostgreSQL" {
                let schema = format!("s{}", case.name.replace(' ', "_"));
                let made = cluster.execute(&format!("CREATE SCHEMA {schema}"));
                ensure!(made, "cannot make the schema {schema}");
                let url = format!("{}?options=-csearch_path%3D{schema}", cluster.url());
                env.push(("HOST_STORE_URL".to_owned(), url));
            }
            let name = format!("{store}, {}", case.name);
            run(args, &case, &name, env, report).await?;
        }
    }
    Ok(())
}

async fn run(
    args: &Args,
    case: &Case,
    name: &str,
    env: Vec<(String, String)>,
    report: &mut Report,
) -> Result<()> {
    eprintln!("{name}: filling the store");
    let stage = Stage::stored(&["basics"], Vec::new(), env)?;
    let size = args.size;
    tokio::task::block_in_place(|| (case.prepare)(&stage.server.client(), size))?;
    // The metrics of a new process know nothing of the filling.
    let stage = stage.again()?;
    let client = stage.server.client();
    client.run(&json!({"handler": "noop", "params": {}}));
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
    let turn = hostile::longest(&client, "host_turn_longest_seconds")?;
    let p99 = percentile(&enqueues, 0.99);
    eprintln!("{name}: longest turn {turn:.0} ms, enqueues {p99:.0} ms (p99)");
    let row = |what: &str| format!("{name}: {what}");
    let at_most = |limit| Some(Target::AtMost(limit));
    report.add(row("took"), "ms", vec![ms(took)], None);
    report.add(row("longest turn"), "ms", vec![turn], at_most(TURN_MS_MAX));
    let target = at_most(ENQUEUE_P99_MS_MAX);
    report.add(row("enqueue, p99"), "ms", vec![p99], target);
    let kept = vec![memory()? - before];
    report.add(
        row("memory that remains"),
        "MiB",
        kept,
        at_most(KEPT_MIB_MAX),
    );
    stage.stop()
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
    for first in (0..jobs).step_by(ARRAY) {
        let array = (first..jobs.min(first + ARRAY)).map(&job);
        let answer = client.post("/api/v1/jobs", &Value::Array(array.collect()))?;
        ensure!(answer.status == 201, "cannot enqueue: {}", answer.body);
    }
    Ok(())
}

/// Jobs that start in a day.
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
    let answer = client.post(&path, &json!({}))?;
    ensure!(answer.status == 200, "cannot cancel: {}", answer.body);
    Ok(())
}

fn purge(stage: &Stage, size: usize) -> Result<()> {
    let path = format!("/api/v1/jobs/purge?state=cancelled&queue=later&limit={PURGES}");
    let answer = stage.server.client().post(&path, &json!({}))?;
    let purged = &answer.body["changed"];
    ensure!(*purged == PURGES.min(size), "purged: {}", answer.body);
    Ok(())
}

fn many_queues(stage: &Stage, size: usize) -> Result<()> {
    let client = stage.server.client();
    let queues = QUEUES.min(size);
    fill(
        &client,
        size,
        |n| json!({"handler": "noop", "params": {}, "queue": format!("queue-{}", n % queues)}),
    )?;
    // The last of them is the last to start.
    let queue = format!("queue-{}", (size - 1) % queues);
    client.run(&json!({"handler": "noop", "params": {}, "queue": queue, "priority": 9}));
    Ok(())
}

/// Counts that examine all jobs and find none, and as many whose clients do not wait.
fn counts(stage: &Stage, _: usize) -> Result<()> {
    let path = "/api/v1/jobs/count?attribute=team%3Dnone";
    std::thread::scope(|scope| {
        let counting = (0..COUNTS).map(|_| {
            scope.spawn(|| {
                drop(asked(stage, path, "")?);
                let client = stage.server.client();
                let mut cursor = String::new();
                loop {
                    let answer = client.get(&format!("{path}{cursor}"))?;
                    ensure!(answer.status == 200, "cannot count: {}", answer.body);
                    match answer.body["next_cursor"].as_str() {
                        Some(next) => cursor = format!("&cursor={next}"),
                        None => return Ok(()),
                    }
                }
            })
        });
        let counting: Vec<_> = counting.collect();
        let ended = counting.into_iter().map(|it| it.join().expect("no panic"));
        ended.collect()
    })
}

/// Sends a request and returns its connection, before the answer.
fn asked(stage: &Stage, path: &str, headers: &str) -> Result<TcpStream> {
    let address = stage.server.address();
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nhost: {address}\r\n{headers}\r\n"
    )?;
    Ok(stream)
}

/// Listeners that read all kept changes at once.
fn listeners(stage: &Stage, size: usize) -> Result<()> {
    let expected = size.min(CHANGES_KEPT);
    std::thread::scope(|scope| {
        let listening = (0..LISTENERS).map(|_| {
            scope.spawn(|| {
                let events = asked(stage, "/api/v1/events", "last-event-id: 1\r\n")?;
                let lines = BufReader::new(events).lines();
                let ids = lines.filter(|line| line.as_ref().is_ok_and(|it| it.starts_with("id:")));
                let read = ids.take(expected).count();
                ensure!(read == expected, "the stream ended after {read} events");
                Ok(())
            })
        });
        let listening: Vec<_> = listening.collect();
        let ended = listening.into_iter().map(|it| it.join().expect("no panic"));
        ended.collect()
    })
}

/// Arrays at once whose jobs wait for others of the array.
fn dependencies(stage: &Stage, _: usize) -> Result<()> {
    let job = |n: usize| {
        let first = n.saturating_sub(WAITS_FOR);
        let named: Vec<_> = (first..n).map(|n| format!("#{n}")).collect();
        json!({"handler": "noop", "params": {}, "queue": "tree", "depends_on": named})
    };
    let array = Value::Array((0..ARRAY).map(job).collect());
    std::thread::scope(|scope| {
        let asking = (0..REQUESTS).map(|_| {
            scope.spawn(|| {
                let answer = stage.server.client().post("/api/v1/jobs", &array)?;
                ensure!(answer.status == 201, "cannot enqueue: {}", answer.body);
                Ok(())
            })
        });
        let asking: Vec<_> = asking.collect();
        let ended = asking.into_iter().map(|it| it.join().expect("no panic"));
        ended.collect()
    })
}

/// The key of the job for which all others of a tree wait.
const ROOT: &str = "root";

/// Jobs that wait for one.
fn tree(client: &Client, size: usize) -> Result<()> {
    let mut root = later(0);
    root["unique_key"] = ROOT.into();
    let answer = client.post("/api/v1/jobs", &root)?;
    let id = answer.body["id"].as_str().context("no id")?.to_owned();
    fill(
        client,
        size,
        |_| json!({"handler": "noop", "params": {}, "queue": "tree", "depends_on": [id]}),
    )
}

fn cancel_tree(stage: &Stage, size: usize) -> Result<()> {
    let client = stage.server.client();
    let roots = client.items(&format!("/api/v1/jobs?unique_key={ROOT}"));
    let root = roots.first().and_then(|root| root["id"].as_str());
    let root = root.context("no root")?;
    let cancelled = client.post(&format!("/api/v1/jobs/{root}/cancel"), &json!({}))?;
    ensure!(cancelled.status < 300, "cannot cancel: {}", cancelled.body);
    eventually("the tree to be discarded", TREE_PATIENCE, || {
        let queue = client.get("/api/v1/queues/tree").ok()?;
        (queue.body["counts"]["discarded"] == size).then_some(())
    });
    Ok(())
}

/// Jobs that fail and ask to be tried again at once.
fn attempts(stage: &Stage, _: usize) -> Result<()> {
    let client = stage.server.client();
    let params = json!({"fail_times": 1_000_000});
    fill(
        &client,
        FAILING,
        |_| json!({"handler": "flaky", "params": params, "queue": "flaky", "max_attempts": 1_000}),
    )
}

fn check(stage: &Stage, _: usize) -> Result<()> {
    let mut check = Command::new(host());
    check.args(["store", "check", "-q"]);
    match stage.env.first() {
        Some((_, url)) => check.args(["--store", url]),
        None => check.arg("--data").arg(stage.folder.path().join("data")),
    };
    let checked = check.output().context("cannot start a check")?;
    let message = String::from_utf8_lossy(&checked.stderr);
    ensure!(checked.status.success(), "the check failed: {message}");
    Ok(())
}
