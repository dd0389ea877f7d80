//! How soon an idle host starts a job, how soon its sender gets the answer, and how soon an endless script
//! ends after a stop request.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use host_tests::Redis;
use redis::Connection;

use super::resp::{Pipe, Template, id};
use super::{WORKER, record};
use crate::Args;
use crate::numbers::{ms, percentile, sorted};
use crate::report::{Report, Target};

/// How many jobs are started one by one.
const PICKUPS: usize = 200;

/// How long the host idles before each job, and a script runs before its stop: not a multiple of any of the
/// host's intervals.
const PAUSE: Duration = Duration::from_millis(23);

const PATIENCE: Duration = Duration::from_secs(30);
const PICKUP_MS_MAX: f64 = 3.0;
const STOP_MS_MAX: f64 = 250.0;

pub(super) fn measure(args: &Args, redis: &Redis, report: &mut Report) -> Result<()> {
    let mut turns = Turns {
        redis: redis.connection(),
        pipe: Pipe::open(redis.port())?,
        jobs: 0,
    };
    let times = PICKUPS.min(args.cancels);
    eprintln!("pickup on an idle host");
    let picked = (0..times)
        .map(|_| turns.pickup())
        .collect::<Result<Vec<f64>>>()?;
    let answered = (0..times)
        .map(|_| turns.answer())
        .collect::<Result<Vec<f64>>>()?;
    eprintln!("{} stops of a looping script", args.cancels);
    let stopped = (0..args.cancels).map(|_| turns.stop());
    let stopped = stopped.collect::<Result<Vec<f64>>>()?;
    let pickup = Some(Target::AtMost(PICKUP_MS_MAX));
    let stop = Some(Target::AtMost(STOP_MS_MAX));
    add(
        report,
        "idle host, LPUSH to a status of its own",
        &picked,
        (pickup, None),
    );
    add(
        report,
        "idle host, LPUSH to the reply of a no-op",
        &answered,
        (pickup, None),
    );
    add(
        report,
        "looping Rhai script, stop to status `error`",
        &stopped,
        (None, stop),
    );
    Ok(())
}

fn add(report: &mut Report, name: &str, times: &[f64], targets: (Option<Target>, Option<Target>)) {
    let times = sorted(times);
    for (part, of, target) in [("p50", 0.5, targets.0), ("p99", 0.99, targets.1)] {
        report.add(
            format!("{name}: {part}"),
            "ms",
            vec![percentile(&times, of)],
            target,
        );
    }
}

struct Turns {
    redis: Connection,
    pipe: Pipe,
    jobs: usize,
}

impl Turns {
    /// Submits a job, whose id is pushed last. Returns its number and the instant of the push.
    fn submit(&mut self, fields: &[(&str, &str)]) -> Result<(usize, Instant)> {
        std::thread::park_timeout(PAUSE);
        self.jobs += 1;
        let n = self.jobs;
        let commands: Vec<Template> = record::client(WORKER, fields);
        let (store, push) = commands.split_at(commands.len() - 1);
        self.pipe.send(store, [n])?;
        let start = Instant::now();
        self.pipe.send(push, [n])?;
        Ok((n, start))
    }

    /// Measures until the job's status changes.
    fn pickup(&mut self) -> Result<f64> {
        let (n, start) = self.submit(&[("handler", "noop"), ("script", "{}")])?;
        let status = self.until(n, |status| status != "dispatched")?;
        let took = ms(start.elapsed());
        if status != "finished" {
            self.until(n, |status| status == "finished")?;
        }
        Ok(took)
    }

    /// Measures until the job is answered.
    fn answer(&mut self) -> Result<f64> {
        let (n, start) = self.submit(&[("handler", "noop"), ("script", "{}")])?;
        let reply = format!("hero:reply:{}", id(n));
        let mut pop = redis::cmd("BLPOP");
        let answer: Option<(String, String)> = pop.arg(reply).arg(30).query(&mut self.redis)?;
        let took = ms(start.elapsed());
        ensure!(answer.is_some(), "no answer comes");
        Ok(took)
    }

    /// Measures from the request to stop to the end that a client reads.
    fn stop(&mut self) -> Result<f64> {
        let (n, _) = self.submit(&[("script", "loop {}")])?;
        self.until(n, |status| status == "started")?;
        std::thread::park_timeout(PAUSE);
        let mut push = redis::cmd("LPUSH");
        let push = push.arg(format!("hero:stop_queue:{WORKER}")).arg(id(n));
        let start = Instant::now();
        let _: i64 = push.query(&mut self.redis)?;
        self.until(n, |status| status == "error")?;
        Ok(ms(start.elapsed()))
    }

    /// Polls the status until it is as expected, and returns it.
    fn until(&mut self, n: usize, is_right: impl Fn(&str) -> bool) -> Result<String> {
        let (key, start) = (format!("hero:job:{}", id(n)), Instant::now());
        loop {
            let mut ask = redis::cmd("HGET");
            let status: String = ask.arg(&key).arg("status").query(&mut self.redis)?;
            if is_right(&status) {
                return Ok(status);
            }
            ensure!(start.elapsed() < PATIENCE, "job {n} stays {status}");
        }
    }
}
