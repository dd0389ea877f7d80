//! What a backup costs the jobs that run meanwhile: the same load, in turns, without backups and during
//! backups.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host_tests::server::host;

use crate::numbers::{count, ms};
use crate::report::{Report, Target};
use crate::rounds::single;
use crate::{Args, Stage, load, waiting};

/// A fraction of the waiting jobs of the other part is enough to copy.
const JOBS_PART: usize = 10;

const RATIO_MIN: f64 = 0.8;

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    let stage = Stage::start()?;
    let jobs = args.waiting / JOBS_PART;
    eprintln!("enqueueing {jobs} jobs to back up");
    waiting::pause_and_fill(&stage, jobs).await?;
    let span = Duration::from_secs_f64(args.seconds);
    let (mut without, mut with, mut took) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}, beside backups", args.rounds);
        let sample = load::run(stage.server.address(), single(256), span).await?;
        without.push(sample.jobs_per_second);
        let stop = Arc::new(AtomicBool::new(false));
        let backups = Backups {
            folder: stage.folder.path().to_owned(),
            stop: Arc::clone(&stop),
        };
        let backups = tokio::task::spawn_blocking(move || backups.run());
        let sample = load::run(stage.server.address(), single(256), span).await?;
        with.push(sample.jobs_per_second);
        stop.store(true, Ordering::Relaxed);
        took.extend(backups.await.context("the backups panicked")??);
    }
    let name = "HTTP, 256 jobs in flight, beside backups";
    let beside = "HTTP, 256 jobs in flight, in turns with backups";
    report.add(
        "jobs in each backup, at least",
        "jobs",
        vec![count(jobs)],
        None,
    );
    report.add("one backup with its check", "ms", took, None);
    report.add(name, "jobs/s", with, None);
    report.add(beside, "jobs/s", without, None);
    let target = Target::AtLeast(RATIO_MIN);
    report.ratio("beside backups to without", name, beside, target);
    stage.stop()
}

/// Backups of one host, one after the other.
struct Backups {
    folder: PathBuf,
    stop: Arc<AtomicBool>,
}

impl Backups {
    /// Makes backups until stopped, and returns how long each took, in milliseconds.
    fn run(self) -> Result<Vec<f64>> {
        let copy = self.folder.join("copy.db");
        let mut took = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            let start = Instant::now();
            let made = Command::new(host())
                .args(["backup", "-q", "-o", "name", "--data"])
                .arg(self.folder.join("data"))
                .arg("--to")
                .arg(&copy)
                .output()
                .context("cannot start a backup")?;
            let message = String::from_utf8_lossy(&made.stderr);
            ensure!(made.status.success(), "a backup failed: {message}");
            took.push(ms(start.elapsed()));
            std::fs::remove_file(&copy).context("cannot remove a backup")?;
        }
        Ok(took)
    }
}
