//! One host beside the bare disk and engine: what it uses at rest, jobs by the shape of their load, how soon they start
//! and stop, and what many waiting jobs and backups cost those that run. Compared rows are measured in turns.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host_cell::pace::{self, Pace};
use host_tests::guests;
use host_tests::server::host;
use serde_json::json;
use tempfile::TempDir;

use crate::bounded::{call, fill};
use crate::load::{Shape, arrays, run, single};
use crate::numbers::{count, ms};
use crate::process::{cells_cpu_us, cpu_us, memory, status_mib};
use crate::report::{Report, Target};
use crate::{Args, Stage, build_folder, disk, latency};

const SHAPES: [Shape; 5] = [
    single(1),
    single(16),
    single(256),
    arrays(256),
    arrays(2_560),
];

/// How many appends are synced one after the other in a round, and how many threads share syncs.
const SYNCS: usize = 200;
const THREADS: usize = 256;

const SYNC: &str = "append and fdatasync";
const BARE_CPU: &str = "bare loop, CPU";
const CELL_CPU: &str = "in cells, CPU (256 in flight)";

const SINGLES_PER_SECOND_MIN: f64 = 10_000.0;
const ARRAYS_PER_SECOND_MIN: f64 = 20_000.0;
const ARRAYS_RATIO_MIN: f64 = 1.5;
const CELL_RATIO_MAX: f64 = 2.0;
const BESIDE_RATIO_MIN: f64 = 0.8;
const IDLE_CPU_PERCENT_MAX: f64 = 1.0;
const IDLE_MIB_MAX: f64 = 60.0;

/// How long a host must have nothing to do before it counts as idle, and how long it is then observed.
const SETTLE: Duration = Duration::from_secs(2);
const REST: Duration = Duration::from_secs(5);

/// How long the bare loop runs in a round.
const BARE: Duration = Duration::from_secs(2);

/// The queue of jobs that wait.
const WAITING: &str = "waiting";

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    let stage = Stage::start(&["basics", "hostile"])?;
    rest(&stage, report).await?;
    loads(args, &stage, report).await?;
    latency::pickup(args, stage.address(), report).await?;
    latency::cancels(args, stage.address(), report).await?;
    beside_waiting_jobs(args, &stage, report).await?;
    stage.stop()
}

/// The use of an idle host.
async fn rest(stage: &Stage, report: &mut Report) -> Result<()> {
    let pid = stage.server.pid();
    tokio::time::sleep(SETTLE).await;
    let cpu = || anyhow::Ok(cpu_us(pid)? + cells_cpu_us(pid)?);
    let (start, before) = (Instant::now(), cpu()?);
    tokio::time::sleep(REST).await;
    let percent = (cpu()? - before) / 1e4 / start.elapsed().as_secs_f64();
    let name = "at rest, CPU of orchestrator and cells";
    report.push(name, "%", percent);
    report.target(name, Target::AtMost(IDLE_CPU_PERCENT_MAX));
    let name = "at rest, memory of the orchestrator";
    report.push(name, "MiB", status_mib(pid, "VmRSS")?);
    report.target(name, Target::AtMost(IDLE_MIB_MAX));
    Ok(())
}

/// Each load over HTTP in turns with the disk and the engine.
async fn loads(args: &Args, stage: &Stage, report: &mut Report) -> Result<()> {
    for _ in args.rounds("loads") {
        tokio::task::block_in_place(|| baselines(args, report))?;
        for shape in SHAPES {
            let pid = stage.server.pid();
            let before = cells_cpu_us(pid)?;
            let sample = run(stage.address(), shape, args.span()).await?;
            if shape == single(256) {
                let used = cells_cpu_us(pid)? - before;
                report.push(CELL_CPU, "µs/job", used / count(sample.jobs));
            }
            let name = shape.name();
            report.push(&name, "jobs/s", sample.jobs_per_second);
            report.push(&format!("{name}: p50"), "ms", sample.p50_ms);
            report.push(&format!("{name}: p99"), "ms", sample.p99_ms);
        }
    }
    let (singles, in_arrays) = (single(256).name(), arrays(2_560).name());
    report.target(&singles, Target::AtLeast(SINGLES_PER_SECOND_MIN));
    report.target(&in_arrays, Target::AtLeast(ARRAYS_PER_SECOND_MIN));
    let target = Target::AtLeast(ARRAYS_RATIO_MIN);
    report.ratio("arrays to single jobs", &in_arrays, &singles, target);
    let target = Target::AtMost(CELL_RATIO_MAX);
    report.ratio("CPU in cells to bare loop", CELL_CPU, BARE_CPU, target);
    memory(&stage.server, "under these loads", report)
}

fn baselines(args: &Args, report: &mut Report) -> Result<()> {
    let folder = TempDir::new_in(build_folder()?)?;
    let sync = disk::sync_ms(&folder.path().join("syncs"), SYNCS)?;
    report.push(SYNC, "ms", sync);
    let raw = folder.path().join("raw");
    let rate = disk::group_commit_rate(&raw, THREADS, args.span())?;
    report.push("raw group commit, 256 in flight", "records/s", rate);
    match bare_loop() {
        Ok(bare) => {
            report.push("bare loop, one core", "calls/s", bare.calls_per_second);
            report.push(BARE_CPU, "µs/call", bare.cpu_us_per_call);
        }
        Err(error) => eprintln!("no bare loop to compare with: {error:#}"),
    }
    Ok(())
}

/// Runs the host's loop of instantiate and call on one core, in its sandbox.
fn bare_loop() -> Result<Pace> {
    let component = std::fs::read(guests::component("basics")).context("cannot read basics")?;
    // On a thread of its own: the loop has a runtime, and this thread may already be in one.
    let thread = std::thread::spawn(move || pace::measure(&component, BARE));
    let pace = thread.join().map_err(|_| anyhow::anyhow!("it panicked"))?;
    pace.map_err(|error| anyhow::anyhow!("{error:#}"))
}

/// The same load on an empty host, beside many jobs that wait in a paused queue, and beside backups of these.
async fn beside_waiting_jobs(args: &Args, empty: &Stage, report: &mut Report) -> Result<()> {
    let full = Stage::start(&["basics"])?;
    eprintln!("enqueueing {} jobs that wait", args.size);
    tokio::task::block_in_place(|| {
        let client = full.server.client();
        let pause = format!("/api/v1/queues/{WAITING}/pause");
        call(&client, "POST", &pause, &json!({"create": true}))?;
        let job = |_| json!({"handler": "noop", "params": {"n": 12345}, "queue": WAITING});
        fill(&client, args.size, job)
    })?;
    let [alone, beside, backups] = [
        "HTTP, 256 jobs in flight, in turns with the next two",
        "HTTP, 256 jobs in flight, beside jobs that wait",
        "HTTP, 256 jobs in flight, beside backups",
    ];
    report.push("jobs that wait", "jobs", count(args.size));
    for _ in args.rounds("beside jobs that wait") {
        for (name, stage) in [(alone, empty), (beside, &full)] {
            let sample = run(stage.address(), single(256), args.span()).await?;
            report.push(name, "jobs/s", sample.jobs_per_second);
        }
        let stop = AtomicBool::new(false);
        let sample = std::thread::scope(|scope| {
            let making = scope.spawn(|| back_up(full.folder.path(), &stop));
            let load = tokio::task::block_in_place(|| {
                let runtime = tokio::runtime::Handle::current();
                runtime.block_on(run(full.address(), single(256), args.span()))
            });
            stop.store(true, Ordering::Relaxed);
            let took = making
                .join()
                .map_err(|_| anyhow::anyhow!("backups panicked"))??;
            for ms in took {
                report.push("one backup with its check", "ms", ms);
            }
            load
        })?;
        report.push(backups, "jobs/s", sample.jobs_per_second);
    }
    let target = Target::AtLeast(BESIDE_RATIO_MIN);
    report.ratio("beside jobs that wait to without", beside, alone, target);
    report.ratio("beside backups to without", backups, alone, target);
    full.stop()
}

/// Makes backups one after the other until stopped. Returns how long each took, in milliseconds.
fn back_up(folder: &Path, stop: &AtomicBool) -> Result<Vec<f64>> {
    let copy = folder.join("copy.db");
    let mut took = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        let backup = Command::new(host())
            .args(["backup", "-q", "-o", "name", "--data"])
            .arg(folder.join("data"))
            .arg("--to")
            .arg(&copy)
            .output()
            .context("cannot start a backup")?;
        let message = String::from_utf8_lossy(&backup.stderr);
        ensure!(backup.status.success(), "a backup failed: {message}");
        took.push(ms(start.elapsed()));
        std::fs::remove_file(&copy).context("cannot remove a backup")?;
    }
    Ok(took)
}
