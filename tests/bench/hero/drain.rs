//! Jobs drained from one queue while a client submits them in batches, in turns with plain clients that send
//! the same commands.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host_tests::{HeroWorker, Redis, guests};
use redis::Connection;
use tempfile::TempDir;

use super::record::Words;
use super::resp::{Pipe, Template};
use super::{WORKER, left, raw, record};
use crate::numbers::count;
use crate::report::{Report, Target};
use crate::{Args, Stage, process};

/// The worker id of `host worker hero`.
const ALONE: &str = "alone";

/// How many jobs are drained in a round, how many for warm-up, and how many are submitted at once.
const JOBS: usize = 20_000;
const SCRIPTS: usize = 4_000;
const WARMUP_JOBS: usize = 2_000;
const BATCH: usize = 200;

/// How many times `redis-benchmark` sends each command in a round.
const PROGRAM_JOBS: usize = 20_000;

/// How long the jobs of a round may take.
const PATIENCE: Duration = Duration::from_mins(2);

/// How often to check that all have ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

const JOBS_PER_SECOND_MIN: f64 = 5_000.0;
const SCRIPTS_PER_SECOND_MIN: f64 = 1_000.0;
const RATIO_MIN: f64 = 0.5;

const NOOP: [(&str, &str); 2] = [("handler", "noop"), ("script", "{}")];
const RHAI: [(&str, &str); 1] = [("script", "40 + 2")];

const OURS: &str = "no-op jobs, host";
const SAME: &str = "no-op jobs, our commands, 50 clients";
const PIPELINED: &str = "no-op jobs, our commands pipelined";
const DOCUMENTED: &str = "no-op jobs, redis-benchmark with the document's commands";

/// The results so far.
#[derive(Default)]
struct Rounds {
    ours: Vec<f64>,
    alone: Vec<f64>,
    same: Vec<f64>,
    pipelined: Vec<f64>,
    documented: Vec<f64>,
    scripts: Vec<f64>,
    cpu_us: [Vec<f64>; 3],
}

pub(super) fn measure(
    args: &Args,
    redis: &Redis,
    stage: &Stage,
    report: &mut Report,
) -> Result<()> {
    let span = Duration::from_secs_f64(args.seconds);
    let mut rounds = Rounds::default();
    let folder = TempDir::new_in(crate::build_folder()?)?;
    let (url, handlers) = (redis.url(), guests::folder());
    let worker = HeroWorker::start(folder.path(), "worker", &handlers, &url, &[ALONE]);
    drain(redis, ALONE, &NOOP, WARMUP_JOBS)?;
    drain(redis, WORKER, &NOOP, WARMUP_JOBS)?;
    drain(redis, WORKER, &RHAI, WARMUP_JOBS)?;
    let ours = record::ours(redis, &NOOP)?;
    for round in 1..=args.rounds {
        eprintln!(
            "round {round} of {}, load {}",
            args.rounds,
            process::load()?
        );
        rounds.baselines(redis, &ours, span)?;
        let before = cpu_us(redis, stage)?;
        rounds.ours.push(drain(redis, WORKER, &NOOP, JOBS)?);
        let after = cpu_us(redis, stage)?;
        for ((used, after), before) in rounds.cpu_us.iter_mut().zip(after).zip(before) {
            used.push((after - before) / count(JOBS));
        }
        rounds.alone.push(drain(redis, ALONE, &NOOP, JOBS)?);
        rounds.scripts.push(drain(redis, WORKER, &RHAI, SCRIPTS)?);
    }
    let (code, _) = worker.stop();
    ensure!(
        code == Some(0),
        "the worker ended with {code:?}, not with 0"
    );
    rounds.report(report);
    process::memory(&stage.server, "under these loads", report)
}

/// Measures the same jobs with a Redis that writes each change to a file, and syncs it every second.
pub(super) fn with_file(args: &Args, report: &mut Report) -> Result<()> {
    eprintln!("with an append-only file");
    let redis = Redis::logged();
    let stage = super::host(&redis)?;
    drain(&redis, WORKER, &NOOP, WARMUP_JOBS)?;
    let rates = (0..args.rounds).map(|_| drain(&redis, WORKER, &NOOP, JOBS));
    let rates = rates.collect::<Result<_>>()?;
    report.add(format!("{OURS}, append-only file"), "jobs/s", rates, None);
    stage.stop()
}

impl Rounds {
    /// Has plain clients send the commands of whole jobs: of the document's worker, and of ours.
    fn baselines(&mut self, redis: &Redis, ours: &[Words], span: Duration) -> Result<()> {
        let workers: Vec<String> = (0..raw::CONNECTIONS)
            .map(|n| format!("raw-{n:02}"))
            .collect();
        let (client, worker) = (record::client("raw", &NOOP), record::documented("raw"));
        let rate = raw::program(redis.port(), &[client, worker].concat(), PROGRAM_JOBS)?;
        self.documented.push(rate);
        forget(&mut redis.connection())?;
        let same = workers.iter().map(|worker| {
            let ours = record::of_worker(worker, ours);
            [record::client(worker, &NOOP), ours].concat()
        });
        let same: Vec<Vec<Template>> = same.collect();
        self.same.push(raw::rate(redis.port(), &same, span)?);
        forget(&mut redis.connection())?;
        self.pipelined
            .push(raw::pipelined(redis.port(), &same[0], span)?);
        forget(&mut redis.connection())
    }

    fn report(self, report: &mut Report) {
        let jobs = Target::AtLeast(JOBS_PER_SECOND_MIN);
        report.add(OURS, "jobs/s", self.ours, Some(jobs));
        report.add("no-op jobs, host worker", "jobs/s", self.alone, None);
        report.add(SAME, "jobs/s", self.same, None);
        report.add(PIPELINED, "jobs/s", self.pipelined, None);
        report.add(DOCUMENTED, "jobs/s", self.documented, None);
        let ratio = Target::AtLeast(RATIO_MIN);
        report.ratio("host to our commands, 50 clients", OURS, SAME, ratio);
        report.ratio("host to redis-benchmark", OURS, DOCUMENTED, ratio);
        let [host, cells, redis] = self.cpu_us;
        report.add("no-op jobs, CPU of the orchestrator", "µs/job", host, None);
        report.add("no-op jobs, CPU of cells", "µs/job", cells, None);
        report.add("no-op jobs, CPU of redis-server", "µs/job", redis, None);
        let scripts = Target::AtLeast(SCRIPTS_PER_SECOND_MIN);
        report.add(
            "Rhai `40 + 2`, host",
            "scripts/s",
            self.scripts,
            Some(scripts),
        );
    }
}

/// Submits jobs and waits until each has ended once. Returns jobs per second.
fn drain(redis: &Redis, worker: &str, fields: &[(&str, &str)], jobs: usize) -> Result<f64> {
    let mut connection = redis.connection();
    forget(&mut connection)?;
    let mut pipe = Pipe::open(redis.port())?;
    let commands = record::client(worker, fields);
    let start = Instant::now();
    for first in (0..jobs).step_by(BATCH) {
        pipe.send(&commands, first..jobs.min(first + BATCH))?;
    }
    while left(&mut connection, worker)? > 0 {
        ensure!(
            start.elapsed() < PATIENCE,
            "{jobs} jobs have not ended in time"
        );
        std::thread::park_timeout(LOOK_EVERY);
    }
    let rate = count(jobs) / start.elapsed().as_secs_f64();
    check(&mut connection, jobs)?;
    forget(&mut connection)?;
    Ok(rate)
}

/// Checks that each job has finished and been answered once.
fn check(redis: &mut Connection, jobs: usize) -> Result<()> {
    let numbers: Vec<usize> = (0..jobs).collect();
    for some in numbers.chunks(1_000) {
        let mut asked = redis::pipe();
        for n in some {
            let id = super::resp::id(*n);
            asked
                .cmd("HGET")
                .arg(format!("hero:job:{id}"))
                .arg("status");
            asked.cmd("LLEN").arg(format!("hero:reply:{id}"));
        }
        let replies: Vec<redis::Value> = asked.query(redis)?;
        for (n, found) in some.iter().zip(replies.chunks(2)) {
            let finished = redis::Value::BulkString(b"finished".to_vec());
            let right = [finished, redis::Value::Int(1)];
            ensure!(found == right, "job {n} has not finished once: {found:?}");
        }
    }
    Ok(())
}

fn forget(redis: &mut Connection) -> Result<()> {
    redis::cmd("FLUSHDB")
        .query(redis)
        .context("cannot empty the Redis")
}

/// Returns the CPU time of the host, its cells and Redis.
fn cpu_us(redis: &Redis, stage: &Stage) -> Result<[f64; 3]> {
    let host = stage.server.pid();
    Ok([
        process::cpu_us(host)?,
        process::cells_cpu_us(host)?,
        process::cpu_us(redis.pid())?,
    ])
}
