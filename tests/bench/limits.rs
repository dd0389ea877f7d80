//! What time and limits cost: jobs of many customers, each with one at once; jobs of one batch; and schedules that fire.
//! The same jobs without a limit or a batch run in turns with them.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use host_tests::{Client, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bounded::{call, fill};
use crate::numbers::count;
use crate::process::{cells_cpu_us, cpu_us};
use crate::report::{Report, Target};
use crate::store::Loop;
use crate::{Args, Stage, build_folder};

/// How many keys the limit has, and how many jobs wait.
const CUSTOMERS: usize = 10_000;
const WAITING: usize = 100_000;

/// How many jobs a turn of the bare store moves.
const IN_FLIGHT: usize = 256;

/// How many jobs one request may add to a batch.
const ADDED: usize = 1_000;

const SCHEDULES: usize = 10_000;
const MINUTE: Duration = Duration::from_mins(1);

/// The targets.
const LIMITED_MIN: f64 = 0.7;
const BATCH_MAX: f64 = 1.2;
const SCHEDULES_MAX: f64 = 0.02;

/// How long all jobs may take.
const PATIENCE: Duration = Duration::from_mins(10);

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    let keys = vec![count(WAITING)];
    report.add("jobs that wait, of 10,000 customers", "jobs", keys, None);
    let stage = Stage::with(&["basics"], Vec::new())?;
    let load = Load {
        client: stage.server.client(),
        pid: stage.server.pid(),
    };
    tokio::task::block_in_place(|| load.limit_customers())?;
    let mut free = Column::default();
    let mut limited = Column::default();
    let mut batch = Column::default();
    for round in 1..=args.rounds {
        eprintln!(
            "round {round} of {}: with and without limits and batches",
            args.rounds
        );
        tokio::task::block_in_place(|| {
            free.add(load.drain("free", None)?);
            limited.add(load.drain("limited", None)?);
            batch.add(load.drain("batches", Some(&load.batch()?))?);
            anyhow::Ok(())
        })?;
    }
    let (name, beside) = ("one job of each customer at once", "without limits");
    report.add(name, "jobs/s", limited.jobs_per_second, None);
    report.add(beside, "jobs/s", free.jobs_per_second, None);
    let target = Target::AtLeast(LIMITED_MIN);
    report.ratio("with limits to without", name, beside, target);
    let (name, beside) = ("CPU of a job of a batch", "CPU of a job of none");
    report.add(name, "µs", batch.cpu_us, None);
    report.add(beside, "µs", free.cpu_us, None);
    let target = Target::AtMost(BATCH_MAX);
    report.ratio("in a batch to in none", name, beside, target);
    load.schedules(report).await?;
    stage.stop()?;
    tokio::task::block_in_place(|| bare_store(args, report))
}

/// A host, and what it is asked to do.
struct Load {
    client: Client,
    pid: u32,
}

/// What one way of running jobs took, round by round.
#[derive(Default)]
struct Column {
    jobs_per_second: Vec<f64>,
    cpu_us: Vec<f64>,
}

impl Column {
    fn add(&mut self, (jobs_per_second, cpu_us): (f64, f64)) {
        self.jobs_per_second.push(jobs_per_second);
        self.cpu_us.push(cpu_us);
    }
}

impl Load {
    fn limit_customers(&self) -> Result<()> {
        let limit = json!({"match": {"queue": "limited"}, "key": "/customer", "concurrency": 1});
        self.call("PUT", "/api/v1/limits/by-customer", &limit)?;
        Ok(())
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        call(&self.client, method, path, body)
    }

    /// Makes a batch that stays open. Returns its id.
    fn batch(&self) -> Result<String> {
        let made = self.call("POST", "/api/v1/batches", &json!({"open": true}))?;
        let id = made["batch"]["id"].as_str().context("a batch has an id")?;
        Ok(id.to_owned())
    }

    /// Enqueues jobs in a paused queue and lets them run. Returns how many ran a second, and the CPU time of each in the
    /// host and its cells.
    fn drain(&self, queue: &str, batch: Option<&str>) -> Result<(f64, f64)> {
        self.client.run(&json!({"handler": "noop", "queue": queue}));
        self.call("POST", &format!("/api/v1/queues/{queue}/pause"), &json!({}))?;
        let job = |n: usize| {
            let params = json!({"customer": n % CUSTOMERS});
            json!({"handler": "noop", "params": params, "queue": queue})
        };
        let before = self.completed(queue)?;
        if let Some(batch) = batch {
            for first in (0..WAITING).step_by(ADDED) {
                let jobs: Vec<Value> = (first..first + ADDED).map(job).collect();
                let path = format!("/api/v1/batches/{batch}/jobs");
                self.call("POST", &path, &Value::Array(jobs))?;
            }
            self.call(
                "POST",
                &format!("/api/v1/batches/{batch}/close"),
                &json!({}),
            )?;
        } else {
            fill(&self.client, WAITING, job)?;
        }
        let (cpu, begun) = (self.cpu_us()?, Instant::now());
        self.call(
            "POST",
            &format!("/api/v1/queues/{queue}/resume"),
            &json!({}),
        )?;
        eventually("all jobs to complete", PATIENCE, || {
            let completed = self.completed(queue).ok()?;
            (completed - before >= count(WAITING)).then_some(())
        });
        let jobs_per_second = count(WAITING) / begun.elapsed().as_secs_f64();
        Ok((jobs_per_second, (self.cpu_us()? - cpu) / count(WAITING)))
    }

    fn completed(&self, queue: &str) -> Result<f64> {
        let queue = self.client.get(&format!("/api/v1/queues/{queue}"))?.body;
        let completed = queue["counts"]["completed"].as_f64();
        completed.context("a queue has counts")
    }

    fn cpu_us(&self) -> Result<f64> {
        Ok(cpu_us(self.pid)? + cells_cpu_us(self.pid)?)
    }

    /// Lets schedules fire each minute, in a queue that is paused, and compares with a minute without them.
    async fn schedules(&self, report: &mut Report) -> Result<()> {
        eprintln!("{SCHEDULES} schedules that fire each minute");
        let idle = self.cpu_of_a_minute().await?;
        tokio::task::block_in_place(|| self.set_schedules())?;
        let waiting = || -> Result<f64> {
            let queue = self.client.get("/api/v1/queues/fired")?.body;
            queue["counts"]["available"]
                .as_f64()
                .context("a queue has counts")
        };
        // A schedule first fires in the minute after it was set.
        let before = tokio::task::block_in_place(|| {
            eventually("all schedules to fire", PATIENCE, || {
                let fired = waiting().ok()?;
                (fired >= count(SCHEDULES)).then_some(fired)
            })
        });
        let busy = self.cpu_of_a_minute().await?;
        let fired = tokio::task::block_in_place(waiting)? - before;
        report.add("fired in a minute", "jobs", vec![fired], None);
        let cores = vec![(busy - idle) / 1e6 / MINUTE.as_secs_f64()];
        let target = Target::AtMost(SCHEDULES_MAX);
        report.add("CPU of 10,000 schedules", "cores", cores, Some(target));
        Ok(())
    }

    fn set_schedules(&self) -> Result<()> {
        self.client
            .run(&json!({"handler": "noop", "queue": "fired"}));
        self.call("POST", "/api/v1/queues/fired/pause", &json!({}))?;
        for n in 0..SCHEDULES {
            let schedule = json!({
                "when": {"every": "1m"}, "spread": "59s", "overlap": "allow",
                "job": {"handler": "noop", "queue": "fired"},
            });
            self.call("PUT", &format!("/api/v1/schedules/tick-{n}"), &schedule)?;
        }
        Ok(())
    }

    async fn cpu_of_a_minute(&self) -> Result<f64> {
        let before = self.cpu_us()?;
        tokio::time::sleep(MINUTE).await;
        Ok(self.cpu_us()? - before)
    }
}

/// Measures the store alone, without cells and HTTP: the largest share that limits can have.
fn bare_store(args: &Args, report: &mut Report) -> Result<()> {
    let folder = TempDir::new_in(build_folder()?).context("cannot make a folder")?;
    let open = |name: &str| Loop::open(&folder.path().join(name));
    let (mut limited, mut free) = (open("limited.db")?, open("free.db")?);
    limited.limit_customers()?;
    for turns in [&mut limited, &mut free] {
        turns.fill(CUSTOMERS as u64, WAITING)?;
    }
    let span = Duration::from_secs_f64(args.seconds);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        eprintln!("the bare store: round {round} of {}", args.rounds);
        with.push(limited.rate(IN_FLIGHT, span)?);
        without.push(free.rate(IN_FLIGHT, span)?);
    }
    let (name, beside) = (
        "the bare store, one job of each customer at once",
        "the bare store, in turns with it, without limits",
    );
    report.add(name, "jobs/s", with, None);
    report.add(beside, "jobs/s", without, None);
    report.ratio("the bare store, with limits to without", name, beside, None);
    Ok(())
}
