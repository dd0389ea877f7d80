//! Where the cost of a job goes: the CPU of each kind of thread of the host and of the cells, how often they are woken,
//! how many system calls they make and how many jobs share a commit; and what a request costs beyond bare hyper.

mod bare_http;
mod perf;

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use self::bare_http::BareServer;
use self::perf::{Samples, SystemCalls};
use crate::http::Connection;
use crate::load::{self, Shape};
use crate::numbers::count;
use crate::report::{Report, Target};
use crate::rounds::{arrays, single};
use crate::{Args, Stage, process};

const LOADS: [Shape; 3] = [single(256), arrays(256), arrays(2_560)];

/// What a request may cost, compared with the same answer of bare hyper.
const BARE_RATIO_MAX: f64 = 1.5;

/// The host's threads by name, and what they do.
const THREADS: [(&str, &str); 3] = [
    ("dispatch", "loop and store"),
    ("tokio-rt-worker", "HTTP, frames, events"),
    ("store-checkpoin", "checkpoints"),
];

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    if let Err(error) = Command::new("perf").arg("--version").output() {
        eprintln!(
            "cannot start perf, so system calls and kinds of code are left out; install linux-perf: {error}"
        );
    }
    let stage = Stage::with(&["basics"], Vec::new())?;
    let span = Duration::from_secs_f64(args.seconds);
    // The first load opens connections and compiles the component.
    load::run(stage.server.address(), single(256), span).await?;
    let mut samples = LOADS.map(|_| Vec::new());
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    let server = BareServer::start(stage.server.client().get("/healthz")?.body.to_string())?;
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        for (shape, samples) in LOADS.iter().zip(&mut samples) {
            samples.push(Sample::of(&stage, *shape, span).await?);
        }
        let host = stage.server.pid();
        let address = stage.server.address();
        ours.push(requests(address, span / 2, || process::cpu_us(host)).await?);
        bare.push(requests(server.address(), span / 2, BareServer::cpu_us).await?);
    }
    for (shape, samples) in LOADS.iter().zip(&samples) {
        add(*shape, samples, report);
    }
    let (request, hyper) = ("GET /healthz, CPU", "bare hyper, CPU");
    report.add(request, "µs/request", ours, None);
    report.add(hyper, "µs/request", bare, None);
    let target = Target::AtMost(BARE_RATIO_MAX);
    report.ratio("request to bare hyper", request, hyper, target);
    stage.stop()
}

/// What a load has used for each of its jobs, by name.
struct Sample(BTreeMap<(String, &'static str), f64>);

impl Sample {
    async fn of(stage: &Stage, shape: Shape, span: Duration) -> Result<Self> {
        let host = stage.server.pid();
        let system = SystemCalls::begin(host);
        let samples = Samples::begin(host)?;
        let (before, commits) = (usage(host)?, commits(stage)?);
        let cells = process::cells_cpu_us(host)?;
        let sample = load::run(stage.server.address(), shape, span).await?;
        let jobs = count(sample.jobs);
        let shares = samples.end()?;
        let (mut rows, mut all_us) = (BTreeMap::new(), 0.0);
        for (name, after) in usage(host)? {
            let before = before.get(name).copied().unwrap_or_default();
            let row = |what: &str| format!("{what}, {name}");
            let (cpu, wakeups) = (after.cpu_us - before.cpu_us, after.wakeups - before.wakeups);
            rows.insert((row("CPU"), "µs/job"), cpu / jobs);
            all_us += cpu / jobs;
            rows.insert((row("wake-ups"), "1/job"), wakeups / jobs);
        }
        for (kind, share) in shares {
            let name = format!("CPU by code, {kind}");
            rows.insert((name, "µs/job"), share * all_us);
        }
        let in_cells = process::cells_cpu_us(host)? - cells;
        rows.insert(("CPU, cells".to_owned(), "µs/job"), in_cells / jobs);
        let commits = (self::commits(stage)? - commits).max(1.0);
        rows.insert(("jobs in a commit".to_owned(), "jobs"), jobs / commits);
        if let Some(calls) = system.end()? {
            rows.insert(("system calls".to_owned(), "1/job"), calls / jobs);
        }
        rows.insert(("jobs".to_owned(), "jobs/s"), sample.jobs_per_second);
        Ok(Self(rows))
    }
}

/// Adds a row for each figure that all samples have.
fn add(shape: Shape, samples: &[Sample], report: &mut Report) {
    let Some(first) = samples.first() else { return };
    for key in first.0.keys() {
        let values = samples.iter().filter_map(|sample| sample.0.get(key));
        let (name, unit) = key;
        let name = format!("{}: {name}", shape.name());
        report.add(name, unit, values.copied().collect(), None);
    }
}

/// What threads have used since they started.
#[derive(Clone, Copy, Default)]
struct Usage {
    cpu_us: f64,
    wakeups: f64,
}

/// Returns what the threads of a process have used, by what they do.
fn usage(pid: u32) -> Result<BTreeMap<&'static str, Usage>> {
    let mut all = BTreeMap::<_, Usage>::new();
    for thread in process::threads(pid)? {
        let known = THREADS
            .iter()
            .find(|(name, _)| thread.name.starts_with(name));
        let usage = all
            .entry(known.map_or("other threads", |(_, does)| does))
            .or_default();
        usage.cpu_us += thread.cpu_us;
        usage.wakeups += thread.wakeups;
    }
    Ok(all)
}

fn commits(stage: &Stage) -> Result<f64> {
    let page = stage.server.client().get("/metrics")?.body;
    let page = page.as_str().context("/metrics is not text")?;
    let name = "host_store_commit_seconds_count ";
    let line = page.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|value| value.parse().ok())
        .with_context(|| format!("no metric {name}"))
}

/// Asks for the health page on a kept connection for `span`. Returns the CPU of the server for a request, in
/// microseconds.
async fn requests(address: &str, span: Duration, cpu_us: impl Fn() -> Result<f64>) -> Result<f64> {
    let mut connection = Connection::open(address).await?;
    connection.get("/healthz").await?;
    let (begun, before, mut requests) = (Instant::now(), cpu_us()?, 0);
    while begun.elapsed() < span {
        let (status, _) = connection.get("/healthz").await?;
        ensure!(status == 200, "the server answered {status}");
        requests += 1;
    }
    Ok((cpu_us()? - before) / count(requests))
}
