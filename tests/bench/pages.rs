//! The pages of the dashboard over a large store: how long the host takes for each, how large it is, and what pages
//! that are live cost jobs.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host_tests::{Client, Cluster, eventually};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::bounded::fill;
use crate::load;
use crate::numbers::{count, ms, percentile, sorted};
use crate::report::{Report, Target};
use crate::rounds::single;
use crate::{Args, Stage, build_folder};

/// The targets.
const PAGE_MS_MAX: f64 = 100.0;
const PAGE_KIB_MAX: f64 = 100.0;

/// How many jobs run beside live pages, compared with none.
const LIVE_RATIO_MIN: f64 = 0.95;

/// How often each page is asked for.
const ASKED: usize = 20;

/// How many pages are live beside jobs.
const LIVE: usize = 100;

/// How many jobs of the store were discarded, of a hundred.
const DISCARDED_PERCENT: usize = 2;

/// How long filling may take.
const PATIENCE: Duration = Duration::from_mins(30);

/// The pages, by name. `JOB` is a job's id, `BATCH` a batch's.
const PAGES: &[(&str, &str)] = &[
    ("overview", "/"),
    ("overview, a day", "/?span=day"),
    ("jobs", "/jobs"),
    ("jobs, waiting", "/jobs?q=state:available"),
    (
        "jobs, completed, oldest",
        "/jobs?q=state:completed+sort:oldest",
    ),
    ("jobs, of a queue", "/jobs?q=queue:waiting"),
    ("jobs, since", "/jobs?q=state:completed+since:1s"),
    ("jobs, by failure", "/jobs?q=failure:user_error"),
    ("jobs, by unique key", "/jobs?q=unique:key-7"),
    ("jobs, by attribute", "/jobs?q=attr.team:none"),
    ("jobs, by params", "/jobs?q=params.order.id:none"),
    ("jobs, by handlers", "/jobs?q=handler:f*"),
    ("jobs, by a word", "/jobs?q=nobody"),
    ("jobs, of a batch", "/jobs?q=batch:BATCH"),
    ("failures", "/failures"),
    ("find", "/find?q=nothing"),
    ("job", "/jobs/JOB"),
    ("queues", "/queues"),
    ("batches", "/batches"),
    ("batch", "/batches/BATCH"),
    ("schedules", "/schedules"),
    ("schedule", "/schedules/nightly"),
    ("limits", "/limits"),
    ("limit", "/limits/by-customer"),
    ("handlers", "/handlers"),
    ("handler", "/handlers/fail"),
    ("handler, of a job", "/handlers/fail?job=JOB"),
    ("components", "/components"),
    ("component", "/components/basics"),
    ("executors", "/executors"),
    ("nodes", "/nodes"),
    ("audit", "/audit"),
    ("tokens", "/tokens"),
];

/// The question before all jobs of a queue are cancelled.
const QUESTION: &str = "action=cancel&q=queue:waiting";

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    let cluster = Cluster::start(&build_folder()?, &[]);
    let url = ("HOST_STORE_URL".to_owned(), cluster.url());
    for (store, env) in [("SQLite", Vec::new()), ("PostgreSQL", vec![url])] {
        eprintln!("{store}: filling the store");
        let stage = Stage::stored(&["basics"], Vec::new(), env)?;
        let client = stage.server.client();
        let ids = tokio::task::block_in_place(|| prepare(&client, args.size))?;
        let address = stage.server.address();
        for (name, path) in PAGES {
            let path = path.replace("JOB", &ids.job).replace("BATCH", &ids.batch);
            page(
                address,
                &format!("{store}, {name}"),
                &reading(address, &path),
                report,
            )
            .await?;
        }
        let question = format!(
            "POST /jobs/change HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{QUESTION}",
            QUESTION.len()
        );
        page(address, &format!("{store}, question"), &question, report).await?;
        live(args, &stage, store, report).await?;
        stage.stop()?;
    }
    Ok(())
}

/// What pages are about.
struct Ids {
    job: String,
    batch: String,
}

/// Lets `size` jobs end and as many wait, and makes one of all else that has pages.
fn prepare(client: &Client, size: usize) -> Result<Ids> {
    let discarded = size * DISCARDED_PERCENT / 100;
    fill(
        client,
        size - discarded,
        |_| json!({"handler": "noop", "params": {}, "queue": "done"}),
    )?;
    fill(
        client,
        discarded,
        |n| json!({"handler": "fail", "params": {"message": format!("no order {n}")}, "max_attempts": 1, "queue": "done"}),
    )?;
    let ended = |client: &Client| {
        let queue = client.get("/api/v1/queues/done").ok()?.body;
        let count = |state: &str| queue["counts"][state].as_u64().unwrap_or(0);
        let ended = count("completed") + count("discarded");
        (ended == size as u64).then_some(())
    };
    eventually("the jobs to end", PATIENCE, || ended(client));
    client.run(&json!({"handler": "noop", "queue": "waiting"}));
    let paused = client.post("/api/v1/queues/waiting/pause", &json!({}))?;
    ensure!(paused.status == 200, "cannot pause: {}", paused.body);
    fill(client, size, |n| {
        json!({"handler": "echo", "params": {"order": {"id": n}}, "queue": "waiting",
            "unique_key": format!("key-{n}"), "attributes": {"team": format!("team-{}", n % 10)}})
    })?;
    let failed = client.get("/api/v1/jobs?state=discarded&limit=1")?.body;
    let job = failed["items"][0]["id"].as_str();
    let job = job.context("a job was discarded")?.to_owned();
    let schedule =
        json!({"when": {"cron": "30 2 * * *"}, "job": {"handler": "noop", "queue": "rare"}});
    let limit = json!({"match": {"queue": "rare"}, "key": "/customer", "concurrency": 1});
    for (path, body) in [
        ("schedules/nightly", schedule),
        ("limits/by-customer", limit),
    ] {
        let set = client.call("PUT", &format!("/api/v1/{path}"), Some(&body))?;
        ensure!(set.status == 200, "cannot set {path}: {}", set.body);
    }
    let batch = json!({"on_end": {"handler": "noop"}, "open": true});
    let batch = client.post("/api/v1/batches", &batch)?.body;
    let batch = batch["batch"]["id"].as_str();
    let batch = batch.context("a batch was made")?.to_owned();
    Ok(Ids { job, batch })
}

/// Asks for a page again and again.
async fn page(address: &str, name: &str, request: &str, report: &mut Report) -> Result<()> {
    let (mut took, mut bytes) = (Vec::new(), 0);
    for _ in 0..ASKED {
        let begun = Instant::now();
        let page = answer(address, request).await?;
        took.push(ms(begun.elapsed()));
        ensure!(page.starts_with("HTTP/1.1 200"), "{name}: {page}");
        bytes = page.len();
    }
    let at_most = |limit| Some(Target::AtMost(limit));
    let p99 = percentile(&sorted(&took), 0.99);
    report.add(
        format!("{name}: p99"),
        "ms",
        vec![p99],
        at_most(PAGE_MS_MAX),
    );
    let kib = count(bytes) / 1_024.0;
    report.add(
        format!("{name}: size"),
        "KiB",
        vec![kib],
        at_most(PAGE_KIB_MAX),
    );
    Ok(())
}

/// Runs jobs in turns without and with pages that are live, and somebody who looks at each.
async fn live(args: &Args, stage: &Stage, store: &str, report: &mut Report) -> Result<()> {
    let span = Duration::from_secs_f64(args.seconds);
    let address = stage.server.address();
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        eprintln!(
            "{store}: round {round} of {}, beside live pages",
            args.rounds
        );
        let sample = load::run(address, single(256), span).await?;
        without.push(sample.jobs_per_second);
        let mut looking = JoinSet::new();
        for _ in 0..LIVE {
            looking.spawn(look(address.to_owned()));
        }
        let sample = load::run(address, single(256), span).await?;
        with.push(sample.jobs_per_second);
        if let Some(ended) = looking.try_join_next() {
            ended.context("a live page panicked")??;
        }
        looking.shutdown().await;
    }
    let name = format!("{store}, beside {LIVE} live pages");
    let alone = format!("{store}, in turns with live pages");
    report.add(name.clone(), "jobs/s", with, None);
    report.add(alone.clone(), "jobs/s", without, None);
    let target = Target::AtLeast(LIVE_RATIO_MIN);
    report.ratio(&format!("{name} to without"), &name, &alone, target);
    Ok(())
}

/// Does what the script of a live page does, until it is dropped.
async fn look(address: String) -> Result<()> {
    let path = format!("/jobs?q=queue:{}&live=on", load::QUEUE);
    let mut stream = TcpStream::connect(&address).await?;
    let events = format!(
        "GET /live?queue={} HTTP/1.1\r\nHost: {address}\r\n\r\n",
        load::QUEUE
    );
    stream.write_all(events.as_bytes()).await?;
    let mut chunk = vec![0; 4_096];
    loop {
        let read = stream.read(&mut chunk).await?;
        ensure!(read > 0, "the host closed a stream of hints");
        if String::from_utf8_lossy(&chunk[..read]).contains("event: changed") {
            let page = answer(&address, &reading(&address, &path)).await?;
            ensure!(page.starts_with("HTTP/1.1 200"), "{path}: {page}");
        }
    }
}

fn reading(address: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
}

/// Returns an answer to its end.
async fn answer(address: &str, request: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
