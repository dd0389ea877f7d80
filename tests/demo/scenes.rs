//! The scenes of the demo, each for one promise of `host`.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host_tests::{Client, eventually, guests};
use serde_json::{Value, json};

use crate::Stage;
use crate::table::{Row, row};

/// How long a scene waits for its jobs.
const PATIENCE: Duration = Duration::from_mins(3);

/// The jobs of the last scene, and how many of them have ended when the host is killed.
const CUT_JOBS: usize = 400;
const CUT_AFTER: u64 = 60;

/// Deploys one component of the repository.
pub(crate) fn deploy(client: &Client, name: &str) -> Result<()> {
    let path = guests::component(name);
    let component = std::fs::read(&path)?;
    let manifest = std::fs::read_to_string(path.with_extension("toml")).ok();
    let start = Instant::now();
    let answer = client.deploy(name, &component, manifest.as_deref())?;
    ensure!(
        answer.status == 201,
        "cannot deploy {name}: {}",
        answer.body
    );
    let handlers = answer.body["handlers"].as_array().map_or(0, Vec::len);
    println!(
        "deployed {name}: {handlers} handler{}, {} KiB, compiled and checked in {} ms",
        if handlers == 1 { "" } else { "s" },
        component.len() / 1024,
        start.elapsed().as_millis()
    );
    Ok(())
}

/// Converts the repository's own documents to HTML pages.
pub(crate) fn documents(stage: &Stage) -> Result<Vec<Row>> {
    let client = stage.client();
    let mut documents: Vec<_> = std::fs::read_dir(&stage.root)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .collect();
    documents.sort();
    let jobs = documents
        .iter()
        .map(|path| {
            let markdown = std::fs::read_to_string(path)?;
            Ok(json!({"handler": "markdown", "params": {"markdown": markdown}}))
        })
        .collect::<Result<Vec<Value>>>()?;
    let ids = enqueue(&client, &jobs)?;
    std::fs::create_dir_all(&stage.pages).context("cannot make the folder of pages")?;
    documents
        .iter()
        .zip(&ids)
        .enumerate()
        .map(|(done, (path, id))| {
            let job = client.wait(id);
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            write_page(&stage.pages, &name, &job)?;
            progress("documents", done + 1, ids.len());
            row(&client, &job, &format!("{name}.md to HTML"))
        })
        .collect()
}

fn write_page(folder: &Path, name: &str, job: &Value) -> Result<()> {
    let html = job["result"]["html"]
        .as_str()
        .with_context(|| format!("no page came of {name}: {job}"))?;
    std::fs::write(folder.join(format!("{name}.html")), html)
        .with_context(|| format!("cannot write the page of {name}"))
}

/// Summarizes the orders in the repository.
pub(crate) fn csv(stage: &Stage) -> Result<Row> {
    let client = stage.client();
    let path = stage.root.join("examples/csv-summary/data/orders.csv");
    let csv = std::fs::read_to_string(&path)?;
    let lines = csv.lines().count();
    let job = client.run(&json!({"handler": "csv-summary", "params": {"csv": csv}}));
    ensure!(job["state"] == "completed", "no summary came: {job}");
    row(&client, &job, &format!("{lines} lines of CSV"))
}

/// Makes one job fail for good and one succeed at its third attempt.
pub(crate) fn failures(stage: &Stage) -> Result<Vec<Row>> {
    let client = stage.client();
    let ids = enqueue(
        &client,
        &[
            json!({"handler": "fail", "params": {"message": "no such customer", "retryable": false}}),
            json!({"handler": "flaky", "params": {"fail_times": 2}}),
            json!({"handler": "panic", "max_attempts": 1}),
        ],
    )?;
    [
        "an error that is final",
        "works at the third attempt",
        "a panic is a trap",
    ]
    .iter()
    .zip(&ids)
    .map(|(what, id)| row(&client, &client.wait(id), what))
    .collect()
}

/// Contains a guest that takes more memory than it may.
pub(crate) fn memory_bomb(stage: &Stage) -> Result<Row> {
    let client = stage.client();
    let job = client.run(&json!({"handler": "alloc", "params": {"mib": 1024}, "max_attempts": 1}));
    ensure!(
        job["failure"]["kind"] == "memory_limit",
        "the bomb was not contained: {job}"
    );
    row(&client, &job, "wants 1 GiB, may have 64 MiB")
}

/// Stops a job that loops forever and never checks for cancellation.
pub(crate) fn cancel(stage: &Stage) -> Result<Row> {
    let client = stage.client();
    let id = client.enqueue(&json!({"handler": "spin"}));
    eventually("the loop to run", PATIENCE, || {
        (client.job(&id)["state"] == "running").then_some(())
    });
    let start = Instant::now();
    let cancel = json!({"reason": "the demo has seen enough", "grace_seconds": 0});
    client.post(&format!("/api/v1/jobs/{id}/cancel"), &cancel)?;
    let job = client.wait(&id);
    let latency = start.elapsed();
    ensure!(
        job["state"] == "cancelled",
        "the loop was not cancelled: {job}"
    );
    println!(
        "cancelled an endless loop: {:.1} ms from the request to the recorded end",
        latency.as_secs_f64() * 1000.0
    );
    row(&client, &job, "loops for ever, is stopped")
}

/// Kills the host in the middle of its work: every acknowledged job still ends.
pub(crate) fn power_cut(stage: Stage) -> Result<Stage> {
    let client = stage.client();
    let job = json!({"handler": "sleep", "params": {"ms": 25}, "queue": "power-cut"});
    let ids = enqueue(&client, &vec![job; CUT_JOBS])?;
    let completed = |client: &Client| {
        let queue = client.get("/api/v1/queues/power-cut").ok()?.body;
        queue["counts"]["completed"].as_u64()
    };
    let before = eventually("the first of them to end", PATIENCE, || {
        completed(&client).filter(|done| *done >= CUT_AFTER)
    });
    println!("{CUT_JOBS} jobs acknowledged, {before} have ended: SIGKILL");
    let stage = stage.kill_and_restart();
    let client = stage.client();
    eventually("all of them to end", PATIENCE, || {
        let done = completed(&client)?;
        progress("jobs", usize::try_from(done).ok()?, CUT_JOBS);
        (done >= CUT_JOBS as u64).then_some(())
    });
    let mut interrupted = 0;
    for id in &ids {
        let job = client.job(id);
        ensure!(
            job["state"] == "completed",
            "an acknowledged job is not completed: {job}"
        );
        let outcomes = outcomes(&client, id)?;
        let completed = outcomes.iter().filter(|outcome| *outcome == "completed");
        ensure!(
            completed.count() == 1,
            "job {id} has not completed once: {outcomes:?}"
        );
        interrupted += usize::from(outcomes.len() > 1);
    }
    println!(
        "after the restart all {CUT_JOBS} have completed, {interrupted} of them cut off by the kill \
         and run again; none is lost, none completed twice"
    );
    Ok(stage)
}

/// Returns how each attempt of a job ended.
fn outcomes(client: &Client, id: &str) -> Result<Vec<String>> {
    let attempts = client.get(&format!("/api/v1/jobs/{id}/attempts"))?.body;
    let items = attempts["items"]
        .as_array()
        .context("attempts are a page of items")?;
    let outcome = |item: &Value| item["outcome"].as_str().unwrap_or("running").to_owned();
    Ok(items.iter().map(outcome).collect())
}

fn enqueue(client: &Client, jobs: &[Value]) -> Result<Vec<String>> {
    let answer = client.post("/api/v1/jobs", &json!(jobs))?;
    ensure!(
        answer.status == 201,
        "the jobs are refused: {}",
        answer.body
    );
    let items = answer
        .body
        .as_array()
        .context("an array of jobs is answered by an array")?;
    items
        .iter()
        .map(|job| Ok(job["id"].as_str().context("a job has an id")?.to_owned()))
        .collect()
}

/// Rewrites one line on a terminal; prints nothing elsewhere.
fn progress(what: &str, done: usize, all: usize) {
    use std::io::{IsTerminal, Write};
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        let end = if done == all { "\n" } else { "" };
        let _ = write!(stderr, "\r{what}: {done} of {all}{end}");
    }
}
