//! What limits and batches cost: jobs of many customers, each of whom may run one at a time, jobs of one batch, and the
//! same jobs without either, in turns.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use host_tests::{Client, eventually};
use serde_json::{Value, json};

use crate::bounded::{call, fill, fill_at};
use crate::numbers::count;
use crate::process::{cells_cpu_us, cpu_us};
use crate::report::{Report, Target};
use crate::{Args, Stage};

/// How many keys the limit has, and how many jobs wait.
const CUSTOMERS: usize = 10_000;
const WAITING: usize = 100_000;

/// The targets.
const LIMITED_MIN: f64 = 0.7;
const BATCH_MAX: f64 = 1.2;

/// How long all jobs may take.
const PATIENCE: Duration = Duration::from_mins(10);

/// The queues, each with a name for its rows.
const FREE: [&str; 2] = ["free", "without limits"];
const LIMITED: [&str; 2] = ["limited", "one job of each customer at a time"];
const BATCHES: [&str; 2] = ["batches", "in a batch"];

pub(crate) fn measure(args: &Args, report: &mut Report) -> Result<()> {
    let stage = Stage::start(&["basics"])?;
    let load = Load {
        client: stage.server.client(),
        pid: stage.server.pid(),
    };
    let limit = json!({"match": {"queue": "limited"}, "key": "/customer", "concurrency": 1});
    load.call("PUT", "/api/v1/limits/by-customer", &limit)?;
    for _ in args.rounds("limits") {
        load.drain(FREE, None, report)?;
        load.drain(LIMITED, None, report)?;
        load.drain(BATCHES, Some(&load.batch()?), report)?;
    }
    let target = Target::AtLeast(LIMITED_MIN);
    report.ratio("with limits to without", LIMITED[1], FREE[1], target);
    let target = Target::AtMost(BATCH_MAX);
    let [batch, free] = [BATCHES, FREE].map(|[_, name]| cpu_row(name));
    report.ratio("CPU in a batch to without", &batch, &free, target);
    stage.stop()
}

fn cpu_row(name: &str) -> String {
    format!("{name}: CPU of a job")
}

/// The client and the process of a host.
struct Load {
    client: Client,
    pid: u32,
}

impl Load {
    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        call(&self.client, method, path, body)
    }

    /// Makes a batch that stays open. Returns its id.
    fn batch(&self) -> Result<String> {
        let made = self.call("POST", "/api/v1/batches", &json!({"open": true}))?;
        let id = made["batch"]["id"].as_str().context("a batch has an id")?;
        Ok(id.to_owned())
    }

    /// Enqueues jobs in a paused queue and lets them run: how many ran a second, and the CPU time of each in the host and
    /// its cells.
    fn drain(
        &self,
        [queue, name]: [&str; 2],
        batch: Option<&str>,
        report: &mut Report,
    ) -> Result<()> {
        self.client.run(&json!({"handler": "noop", "queue": queue}));
        self.call("POST", &format!("/api/v1/queues/{queue}/pause"), &json!({}))?;
        let job = |n: usize| {
            let params = json!({"customer": n % CUSTOMERS});
            json!({"handler": "noop", "params": params, "queue": queue})
        };
        let before = self.completed(queue)?;
        if let Some(batch) = batch {
            fill_at(
                &self.client,
                &format!("/api/v1/batches/{batch}/jobs"),
                WAITING,
                job,
            )?;
            let close = format!("/api/v1/batches/{batch}/close");
            self.call("POST", &close, &json!({}))?;
        } else {
            fill(&self.client, WAITING, job)?;
        }
        let (cpu, start) = (self.cpu_us()?, Instant::now());
        let resume = format!("/api/v1/queues/{queue}/resume");
        self.call("POST", &resume, &json!({}))?;
        eventually("all jobs to complete", PATIENCE, || {
            let completed = self.completed(queue).ok()?;
            (completed - before >= count(WAITING)).then_some(())
        });
        let rate = count(WAITING) / start.elapsed().as_secs_f64();
        report.push(name, "jobs/s", rate);
        let used = self.cpu_us()? - cpu;
        report.push(&cpu_row(name), "µs", used / count(WAITING));
        Ok(())
    }

    fn completed(&self, queue: &str) -> Result<f64> {
        let queue = self.client.get(&format!("/api/v1/queues/{queue}"))?.body;
        let completed = queue["counts"]["completed"].as_f64();
        completed.context("a queue has counts")
    }

    fn cpu_us(&self) -> Result<f64> {
        Ok(cpu_us(self.pid)? + cells_cpu_us(self.pid)?)
    }
}
