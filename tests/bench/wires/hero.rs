//! A host as a worker of Hero dispatchers: jobs submitted in batches by one client, until each has finished and been
//! answered.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host_tests::{Redis, eventually};

use crate::Stage;
use crate::numbers::count;

const WORKER: &str = "bench";
const JOBS: usize = 20_000;
const BATCH: usize = 200;
const PATIENCE: Duration = Duration::from_mins(2);

/// A Redis, and a host that runs the jobs of [`WORKER`].
pub(super) struct Hero {
    redis: Redis,
    pub(super) stage: Stage,
}

impl Hero {
    pub(super) fn start() -> Result<Self> {
        let redis = Redis::start();
        let config = format!(
            "[protocol.hero]\nurl = \"{}\"\nworker_ids = [\"{WORKER}\"]\n",
            redis.url()
        );
        let stage = Stage::configured(&["basics"], &config)?;
        Ok(Self { redis, stage })
    }

    /// Returns jobs per second.
    pub(super) fn rate(&self) -> Result<f64> {
        tokio::task::block_in_place(|| self.drain())
    }

    fn drain(&self) -> Result<f64> {
        let mut redis = self.redis.connection();
        let () = redis::cmd("FLUSHDB").query(&mut redis)?;
        let queue = format!("hero:work_queue:{WORKER}");
        let start = Instant::now();
        for first in (0..JOBS).step_by(BATCH) {
            let mut jobs = redis::pipe();
            for n in first..first + BATCH {
                let id = id(n);
                #[rustfmt::skip]
                jobs.hset_multiple(format!("hero:job:{id}"), &[
                    ("id", id.as_str()), ("caller_id", "alice"), ("worker_id", WORKER), ("context_id", "office"),
                    ("timeout", "60"), ("retries", "0"), ("concurrent", "true"), ("status", "dispatched"),
                    ("created_at", "2026-01-01T00:00:00Z"), ("updated_at", "2026-01-01T00:00:00Z"),
                    ("handler", "noop"), ("script", "{}"),
                ]).lpush(&queue, &id);
            }
            jobs.exec(&mut redis)?;
        }
        eventually("the jobs to end", PATIENCE, || {
            let mut left = redis::pipe();
            left.llen(&queue).llen(format!("hero:processing:{WORKER}"));
            let (waiting, running): (usize, usize) = left.query(&mut redis).ok()?;
            (waiting + running == 0).then_some(())
        });
        let rate = count(JOBS) / start.elapsed().as_secs_f64();
        for n in 0..JOBS {
            let mut job = redis::pipe();
            job.hget(format!("hero:job:{}", id(n)), "status")
                .llen(format!("hero:reply:{}", id(n)));
            let ended: (String, usize) = job.query(&mut redis).context("a job is gone")?;
            ensure!(ended == ("finished".to_owned(), 1), "job {n}: {ended:?}");
        }
        Ok(rate)
    }
}

fn id(n: usize) -> String {
    format!("5d2b8a1c-0000-4000-8000-{n:012}")
}
