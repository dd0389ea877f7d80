//! How fast the embedded store moves jobs through their lives, beside what the disk can sync.
//!
//! `cargo run --release -p host-store --example rate [DIR [WAITING [SECONDS]]]`: files go below DIR
//! (default: the current folder), WAITING jobs stand in a paused queue (default 0), and each line
//! is measured for SECONDS (default 3).

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use host_core::command::{Command, Committed, NewJob, Reply, Slot};
use host_core::id::{JobId, LeaseId};
use host_core::job::{Lane, Payload, State};
use host_core::json::JsonText;
use host_core::lease::{Fence, Hold};
use host_core::outcome::{Meter, Outcome, Report};
use host_core::policy::Policy;
use host_core::time::Time;
use host_store::sqlite::SqliteStore;
use host_store::store::Store;
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;
use uuid::Uuid;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const RECORD_BYTES: usize = 200;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().unwrap_or_else(|| ".".to_owned());
    let waiting = args.next().map_or(Ok(0), |text| text.parse())?;
    let seconds = args.next().map_or(Ok(3), |text| text.parse())?;
    let span = Duration::from_secs(seconds);
    println!("in flight   raw records/s   lifecycles/s   ratio   CPU us each   slowest commit ms");
    for in_flight in [1, 16, 256] {
        let folder = TempDir::new_in(&folder)?;
        let raw = raw_rate(&folder.path().join("raw"), in_flight, span)?;
        let mut load = Load::new(&folder.path().join("host.db"))?;
        load.fill(waiting)?;
        let rate = load.measure(in_flight, span)?;
        println!(
            "{in_flight:>9} {raw:>15.0} {:>14.0} {:>7.3} {:>13.1} {:>19.1}",
            rate.per_second,
            rate.per_second / raw,
            rate.cpu_us,
            rate.slowest_ms,
        );
    }
    Ok(())
}

/// Appends batches of records to a file and syncs each batch; returns records in a second.
fn raw_rate(path: &Path, batch: u32, span: Duration) -> Result<f64> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let records = vec![b'x'; RECORD_BYTES * batch as usize];
    let start = now();
    let mut batches = 0_u32;
    while start.elapsed() < span {
        file.write_all(&records)?;
        file.sync_data()?;
        batches += 1;
    }
    Ok(f64::from(batches) * f64::from(batch) / start.elapsed().as_secs_f64())
}

struct Rate {
    per_second: f64,
    cpu_us: f64,
    slowest_ms: f64,
}

/// A dispatch loop whose cells are done at once.
struct Load {
    store: SqliteStore,
    jobs: u64,
    leases: u128,
    clock_ms: i64,
}

impl Load {
    fn new(path: &Path) -> Result<Self> {
        Ok(Self {
            store: SqliteStore::open(path)?,
            jobs: 0,
            leases: 0,
            clock_ms: 1_700_000_000_000,
        })
    }

    fn commit(&mut self, batch: Vec<Command>) -> Result<Committed> {
        self.clock_ms += 1;
        Ok(self.store.commit(Time(self.clock_ms), batch)?)
    }

    /// Puts `jobs` into a paused queue.
    fn fill(&mut self, jobs: u32) -> Result<()> {
        let queue = "paused".parse()?;
        let paused = true;
        self.commit(vec![Command::SetPaused { queue, paused }])?;
        for _ in 0..jobs.div_ceil(5_000) {
            let batch = (0..5_000).map(|_| self.job("paused"));
            let batch = batch.collect::<Result<Vec<_>>>()?;
            self.commit(vec![Command::Enqueue(batch)])?;
        }
        Ok(())
    }

    fn job(&mut self, queue: &str) -> Result<NewJob> {
        self.jobs += 1;
        let scattered = u128::from(self.jobs.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let id = (u128::from(self.jobs / 25) << 80) | (7 << 76) | (2 << 62) | (scattered >> 2);
        Ok(NewJob {
            id: JobId(Uuid::from_u128(id)),
            handler: "noop".parse()?,
            runner: None,
            queue: queue.parse()?,
            priority: 5,
            run_at: None,
            deadline: None,
            policy: Policy::default(),
            unique_key: None,
            depends_on: Vec::new(),
            payload: Payload {
                params: JsonText(format!("{{\"n\":{},\"text\":\"some params\"}}", self.jobs)),
                wire: "http".to_owned(),
                external_id: None,
                trace_context: Vec::new(),
                attributes: Vec::new(),
            },
        })
    }

    /// Keeps `in_flight` jobs in flight: each turn completes what the last one claimed, enqueues
    /// as many and claims them, in one commit.
    fn measure(&mut self, in_flight: u32, span: Duration) -> Result<Rate> {
        let (start, cpu_start) = (now(), cpu());
        let (mut running, mut done) = (Vec::new(), 0_u32);
        let mut slowest = Duration::ZERO;
        while start.elapsed() < span {
            let batch = self.turn(in_flight, &mut running)?;
            let before = now();
            let committed = self.commit(batch)?;
            slowest = slowest.max(before.elapsed());
            for reply in committed.replies {
                match reply? {
                    Reply::Claimed(claimed) => {
                        running.extend(claimed.into_iter().filter_map(|claimed| {
                            Some((claimed.lifecycle.id, claimed.lifecycle.lease?.id))
                        }));
                    }
                    Reply::Moved(job) if job.state == State::Completed => done += 1,
                    _ => {}
                }
            }
        }
        let cpu = cpu().saturating_sub(cpu_start);
        Ok(Rate {
            per_second: f64::from(done) / start.elapsed().as_secs_f64(),
            cpu_us: cpu.as_secs_f64() * 1e6 / f64::from(done),
            slowest_ms: slowest.as_secs_f64() * 1e3,
        })
    }

    fn turn(
        &mut self,
        in_flight: u32,
        running: &mut Vec<(JobId, LeaseId)>,
    ) -> Result<Vec<Command>> {
        let mut batch = Vec::new();
        for (job, lease) in running.drain(..) {
            batch.push(Command::Complete {
                job,
                fence: Fence::Lease(lease),
                report: Box::new(report()),
            });
        }
        for _ in 0..in_flight {
            batch.push(Command::Enqueue(vec![self.job("default")?]));
        }
        let slots = (0..in_flight).map(|_| {
            self.leases += 1;
            Slot {
                lease: LeaseId(Uuid::from_u128(self.leases)),
                worker: "cell-1".to_owned(),
                lane: Lane::Shared,
            }
        });
        batch.push(Command::Claim {
            slots: slots.collect(),
            hold: Hold::Connection,
            params_bytes_max: usize::MAX,
        });
        Ok(batch)
    }
}

fn report() -> Report {
    Report {
        outcome: Outcome::Completed {
            result: Some(JsonText("{\"ok\":true}".to_owned())),
        },
        meter: Meter {
            fuel: 123_456,
            cpu_us: 15,
            peak_memory_bytes: 1 << 20,
        },
        progress: None,
        executor: "cell-1".to_owned(),
        revision: Some(("basics".to_owned(), 1)),
    }
}

#[expect(clippy::disallowed_methods, reason = "it measures the real time")]
fn now() -> Instant {
    Instant::now()
}

/// Returns the CPU time this process has used.
fn cpu() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime)
        .try_into()
        .unwrap_or_default()
}
