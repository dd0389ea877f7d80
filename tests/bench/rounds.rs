//! The rounds: in each, the disk, the store, the engine and every load over HTTP have a turn, so that changes
//! in the machine's speed affect all alike.

use std::time::Duration;

use anyhow::Result;
use tempfile::TempDir;

use crate::load::{self, Sample, Shape};
use crate::report::{Report, Target};
use crate::{Args, Stage, build_folder, disk, process, store, wasm};

const SHAPES: [Shape; 5] = [
    single(1),
    single(16),
    single(256),
    arrays(256),
    arrays(2_560),
];

/// How many appends are synced one after the other in a round.
const SYNCS: usize = 200;

pub(crate) const SYNC: &str = "append and fdatasync";
const GROUP_COMMIT: &str = "raw group commit, 256 in flight";
const LIFECYCLES: &str = "store only, 256 in flight";
const BARE: &str = "bare loop, one core";
const BARE_CPU: &str = "bare loop, CPU";
const CELL_CPU: &str = "in cells, CPU (256 in flight)";

const SINGLES_PER_SECOND_MIN: f64 = 10_000.0;
const ARRAYS_PER_SECOND_MIN: f64 = 20_000.0;
const STORE_RATIO_MIN: f64 = 0.15;
const ARRAYS_RATIO_MIN: f64 = 1.5;
const CELL_RATIO_MAX: f64 = 2.0;
const IDLE_SYNCS: f64 = 3.0;
const IDLE_MS: f64 = 2.0;

pub(crate) const fn single(in_flight: usize) -> Shape {
    Shape {
        in_flight,
        batch: 1,
    }
}

pub(crate) const fn arrays(in_flight: usize) -> Shape {
    Shape {
        in_flight,
        batch: 100,
    }
}

/// The results so far.
#[derive(Default)]
struct Rounds {
    sync_ms: Vec<f64>,
    group_commits: Vec<f64>,
    lifecycles: Vec<f64>,
    bare_calls: Vec<f64>,
    bare_cpu_us: Vec<f64>,
    cell_cpu_us: Vec<f64>,
    samples: [Vec<Sample>; SHAPES.len()],
}

pub(crate) async fn measure(args: &Args, stage: &Stage, report: &mut Report) -> Result<()> {
    let span = Duration::from_secs_f64(args.seconds);
    let mut rounds = Rounds::default();
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        tokio::task::block_in_place(|| rounds.baselines(span))?;
        for (shape, samples) in SHAPES.iter().zip(&mut rounds.samples) {
            let pid = stage.server.pid();
            let before = process::cells_cpu_us(pid)?;
            let sample = load::run(stage.server.address(), *shape, span).await?;
            if *shape == single(256) {
                let used = process::cells_cpu_us(pid)? - before;
                rounds
                    .cell_cpu_us
                    .push(used / crate::numbers::count(sample.jobs));
            }
            samples.push(sample);
        }
    }
    rounds.report(report);
    process::memory(&stage.server, "under these loads", report)
}

impl Rounds {
    fn baselines(&mut self, span: Duration) -> Result<()> {
        let folder = TempDir::new_in(build_folder()?)?;
        self.sync_ms
            .push(disk::sync_ms(&folder.path().join("syncs"), SYNCS)?);
        let raw = folder.path().join("raw");
        self.group_commits
            .push(disk::group_commit_rate(&raw, 256, span)?);
        let mut turns = store::Loop::open(&folder.path().join("host.db"))?;
        self.lifecycles.push(turns.rate(256, span)?);
        match wasm::bare() {
            Ok(bare) => {
                self.bare_calls.push(bare.calls_per_second);
                self.bare_cpu_us.push(bare.cpu_us_per_call);
            }
            Err(error) => eprintln!("no bare loop to compare with: {error:#}"),
        }
        Ok(())
    }

    fn report(self, report: &mut Report) {
        report.add(SYNC, "ms", self.sync_ms, None);
        report.add(GROUP_COMMIT, "records/s", self.group_commits, None);
        report.add(LIFECYCLES, "jobs/s", self.lifecycles, None);
        report.ratio(
            "store only to raw group commit",
            LIFECYCLES,
            GROUP_COMMIT,
            Target::AtLeast(STORE_RATIO_MIN),
        );
        if !self.bare_calls.is_empty() {
            report.add(BARE, "calls/s", self.bare_calls, None);
            report.add(BARE_CPU, "µs/call", self.bare_cpu_us, None);
        }
        let sync_ms = report.median(SYNC).unwrap_or_default();
        for (shape, samples) in SHAPES.iter().zip(&self.samples) {
            let column = |of: fn(&Sample) -> f64| samples.iter().map(of).collect();
            let rate = match (shape.in_flight, shape.batch) {
                (256, 1) => Some(Target::AtLeast(SINGLES_PER_SECOND_MIN)),
                (256, _) => Some(Target::AtLeast(ARRAYS_PER_SECOND_MIN)),
                _ => None,
            };
            let idle = Target::AtMost(IDLE_SYNCS * sync_ms + IDLE_MS);
            let p50 = (*shape == single(1)).then_some(idle);
            let name = shape.name();
            report.add(name.as_str(), "jobs/s", column(|s| s.jobs_per_second), rate);
            report.add(format!("{name}: p50"), "ms", column(|s| s.p50_ms), p50);
            report.add(format!("{name}: p99"), "ms", column(|s| s.p99_ms), None);
        }
        report.ratio(
            "arrays, 2560 in flight, to single jobs, 256 in flight",
            &arrays(2_560).name(),
            &single(256).name(),
            Target::AtLeast(ARRAYS_RATIO_MIN),
        );
        report.add(CELL_CPU, "µs/job", self.cell_cpu_us, None);
        report.ratio(
            "CPU in cells to bare loop",
            CELL_CPU,
            BARE_CPU,
            Target::AtMost(CELL_RATIO_MAX),
        );
    }
}
