//! What one handler costs in each language: its component, its build, its compilation, its jobs, how soon it stops, what is
//! saved by memory as it is after the imports, and how much faster Node and `CPython` run the same code.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use host_tests::projects::languages::{COMPARED, Language, PYTHON, QUICKJS, RUST, STARLINGMONKEY};
use host_tests::projects::{cache, folder};
use host_tests::{Client, Options, Server};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::events::{Events, Moment};
use crate::http::Connection;
use crate::numbers::{median, ms};
use crate::report::Report;
use crate::{Args, build_folder, latency};

const MB: f64 = 1e6;

const QUEUE: &str = "languages";

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    for language in [RUST, QUICKJS, STARLINGMONKEY, PYTHON] {
        eprintln!("{}", language.name);
        let folder = TempDir::new_in(build_folder()?).context("cannot make a data directory")?;
        let mut options = Options::new(&folder.path().join("data"));
        options.compiles_all = true;
        let server = tokio::task::block_in_place(|| -> Result<Server> {
            let component = build(language, report)?;
            let server = Server::start(&options);
            deploy(language, &component, &server, &options.data, report)?;
            Ok(server)
        })?;
        run(args, language, &server, report).await?;
        warm(args, language, &server, report).await?;
        compare(args, language, &server, report).await?;
        let name = format!("{}: {}", language.name, latency::LOOP.name);
        latency::measure_case(args, server.address(), &latency::LOOP, &name, report).await?;
        let code = server.stop();
        ensure!(code == Some(0), "the host ended with {code:?}, not with 0");
        folder.close().context("cannot remove its data")?;
    }
    Ok(())
}

fn add(language: Language, row: &str, unit: &'static str, value: f64, report: &mut Report) {
    report.push(&format!("{}: {row}", language.name), unit, value);
}

/// Builds the component again, and returns it.
fn build(language: Language, report: &mut Report) -> Result<Vec<u8>> {
    let path = language.component();
    let project = folder().join(language.project);
    let start = Instant::now();
    let status = Command::new(host_tests::server::host())
        .arg("build")
        .arg(&project)
        .env("XDG_CACHE_HOME", cache())
        .stdout(Stdio::null())
        .status()
        .context("cannot start the host")?;
    ensure!(status.success(), "cannot build {}", project.display());
    add(
        language,
        "build",
        "s",
        start.elapsed().as_secs_f64(),
        report,
    );
    let component = std::fs::read(&path);
    component.with_context(|| format!("cannot read {}", path.display()))
}

fn deploy(
    language: Language,
    component: &[u8],
    server: &Server,
    data: &Path,
    report: &mut Report,
) -> Result<()> {
    let start = Instant::now();
    let answer = server.client().deploy("languages", component, None)?;
    let took = start.elapsed().as_secs_f64();
    ensure!(answer.status == 201, "cannot deploy: {}", answer.body);
    add(
        language,
        "component",
        "MB",
        megabytes(u64::try_from(component.len())?),
        report,
    );
    add(
        language,
        "compiled code",
        "MB",
        megabytes(compiled_bytes(data)?),
        report,
    );
    add(language, "compile at deploy", "s", took, report);
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / MB
}

/// Returns the size of the compiled code in the cache of a host with one component.
fn compiled_bytes(data: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(data.join("cache")).context("cannot read the cache")? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|it| it == "cwasm") {
            bytes += entry.metadata()?.len();
        }
    }
    ensure!(bytes > 0, "the cache is empty");
    Ok(bytes)
}

/// What jobs have taken: CPU and the time from request to end, in milliseconds, and memory, in MB.
struct Took {
    cpu: Vec<f64>,
    memory: Vec<f64>,
    ms: Vec<f64>,
}

/// Runs a handler in jobs one after the other, each of which must return `result`.
async fn jobs(
    args: &Args,
    server: &Server,
    (handler, params, result): (&str, Value, Value),
) -> Result<Took> {
    let events = Events::listen(server.address(), QUEUE, false).await?;
    let mut connection = Connection::open(server.address()).await?;
    let body = json!({"handler": handler, "queue": QUEUE, "params": params, "max_attempts": 1});
    let job = body.to_string();
    let (mut ids, mut took) = (Vec::new(), Vec::new());
    for _ in 0..args.cancels {
        let start = Instant::now();
        let id = connection.enqueue(job.as_bytes()).await?;
        let ended = events.when(id, Moment::Ended).await?;
        took.push(ms(ended.saturating_duration_since(start)));
        ids.push(id.to_string());
    }
    let client = server.client();
    let costs = tokio::task::block_in_place(|| {
        let costs = ids.iter().map(|id| cost(&client, id, &result));
        costs.collect::<Result<Vec<_>>>()
    })?;
    let (cpu, memory) = costs.into_iter().unzip();
    Ok(Took {
        cpu,
        memory,
        ms: took,
    })
}

/// Runs jobs that count the words of a text.
async fn run(args: &Args, language: Language, server: &Server, report: &mut Report) -> Result<()> {
    let text = json!({"text": "one two\nthree"});
    let counted = json!({"lines": 2, "words": 3});
    let took = jobs(args, server, ("count", text, counted)).await?;
    for (row, unit, values) in [
        ("a job: CPU", "ms", took.cpu),
        ("a job: memory", "MB", took.memory),
        ("a job: from request to end", "ms", took.ms),
    ] {
        add(language, row, unit, median(&values), report);
    }
    Ok(())
}

/// Runs jobs that look at a table, which is made at import or by each of them.
async fn warm(args: &Args, language: Language, server: &Server, report: &mut Report) -> Result<()> {
    let deployed = tokio::task::block_in_place(|| -> Result<bool> {
        let Some(component) = language.warm() else {
            return Ok(false);
        };
        let component = std::fs::read(component).context("cannot read the component")?;
        let bytes = megabytes(u64::try_from(component.len())?);
        add(language, "component with a table", "MB", bytes, report);
        let answer = server.client().deploy("warm", &component, None)?;
        ensure!(answer.status == 201, "cannot deploy: {}", answer.body);
        Ok(true)
    })?;
    if !deployed {
        return Ok(());
    }
    for (handler, row) in [
        ("none", "a job: CPU without a table"),
        ("at-import", "a job: CPU with a table made at import"),
        ("in-the-handler", "a job: CPU with a table it makes"),
    ] {
        let took = jobs(args, server, (handler, json!({}), json!(19_999))).await?;
        add(language, row, "ms", median(&took.cpu), report);
    }
    Ok(())
}

/// Runs the handlers that engines are compared by, in jobs and natively.
async fn compare(
    args: &Args,
    language: Language,
    server: &Server,
    report: &mut Report,
) -> Result<()> {
    let native = tokio::task::block_in_place(|| -> Result<Option<String>> {
        let Some((component, mut native)) = language.compared() else {
            return Ok(None);
        };
        let component = std::fs::read(component).context("cannot read the component")?;
        let answer = server.client().deploy("compare", &component, None)?;
        ensure!(answer.status == 201, "cannot deploy: {}", answer.body);
        let ran = native
            .output()
            .with_context(|| format!("cannot start {native:?}"))?;
        let message = String::from_utf8_lossy(&ran.stderr);
        ensure!(ran.status.success(), "{native:?} failed: {message}");
        Ok(Some(String::from_utf8(ran.stdout)?))
    })?;
    for (handler, line) in COMPARED.iter().zip(native.iter().flat_map(|it| it.lines())) {
        let (result, alone): (Value, f64) = serde_json::from_str(line)?;
        let took = jobs(args, server, (handler, json!({}), result)).await?;
        let cpu = median(&took.cpu);
        for (row, unit, value) in [
            (format!("{handler}: CPU of a job"), "ms", cpu),
            (format!("{handler}: CPU in Node or CPython"), "ms", alone),
            (format!("{handler}: times as much"), "", cpu / alone),
        ] {
            add(language, &row, unit, value, report);
        }
    }
    Ok(())
}

/// Returns the CPU time of a job that has returned `expected`, in milliseconds, and its memory, in MB.
fn cost(client: &Client, id: &str, expected: &Value) -> Result<(f64, f64)> {
    let result = &client.job(id)["result"];
    ensure!(result == expected, "it returned {result}, not {expected}");
    let attempts = client.items(&format!("/api/v1/jobs/{id}/attempts"));
    let attempt = attempts.first().context("the job has no attempt")?;
    let number = |key: &str| {
        attempt[key]
            .as_f64()
            .with_context(|| format!("it has no {key}"))
    };
    Ok((number("cpu_ms")?, number("peak_memory_bytes")? / MB))
}
