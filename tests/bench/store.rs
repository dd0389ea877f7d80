//! The bare store: jobs whose cells finish at once, in batches as the dispatch loop makes them, without Wasm
//! and HTTP.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use host_core::access::Scope;
use host_core::command::{Command, NewJob, Reply, Slot};
use host_core::id::{JobId, LeaseId, NodeId};
use host_core::job::{Lane, Payload, State};
use host_core::json::JsonText;
use host_core::lease::{Fence, Hold};
use host_core::limit::{Limit, WhenFull};
use host_core::outcome::{Meter, Outcome, Report};
use host_core::policy::Policy;
use host_core::schedule::Source;
use host_core::time::Time;
use host_store::sqlite::SqliteStore;
use host_store::store::Store;
use uuid::Uuid;

use crate::numbers::count;

/// The start time, in milliseconds since 1970.
const BEGIN_MS: i64 = 1_800_000_000_000;

/// One store and the jobs in flight.
pub(crate) struct Loop {
    store: SqliteStore,
    running: Vec<(JobId, LeaseId)>,
    ids: u64,
    clock_ms: i64,
    /// How many customers the jobs have, if any.
    customers: u64,
}

impl Loop {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let store = SqliteStore::open(path)
            .with_context(|| format!("cannot open the store {}", path.display()))?;
        Ok(Self {
            store,
            running: Vec::new(),
            ids: 0,
            clock_ms: BEGIN_MS,
            customers: 0,
        })
    }

    /// Lets one job of each customer run at once.
    pub(crate) fn limit_customers(&mut self) -> Result<()> {
        let limit = Box::new(Limit {
            name: "by-customer".parse()?,
            matches: Scope::ALL,
            key: vec!["/customer".to_owned().try_into()?],
            concurrency: Some(1),
            rate: None,
            when_full: WhenFull::Wait,
            source: Source::Api,
        });
        let set = Command::SetLimit { limit };
        self.store.commit(Time(self.clock_ms), &[set])?;
        Ok(())
    }

    /// Enqueues jobs of so many customers. Those that come later have the same.
    pub(crate) fn fill(&mut self, customers: u64, jobs: usize) -> Result<()> {
        const AT_ONCE: usize = 1_000;
        self.customers = customers;
        for _ in 0..jobs / AT_ONCE {
            let new: Result<Vec<NewJob>> = (0..AT_ONCE).map(|_| self.job()).collect();
            let enqueue = Command::Enqueue(new?);
            self.store.commit(Time(self.clock_ms), &[enqueue])?;
        }
        Ok(())
    }

    /// Moves `in_flight` jobs at a time from enqueue to completed. Returns jobs per second.
    pub(crate) fn rate(&mut self, in_flight: usize, span: Duration) -> Result<f64> {
        let start = Instant::now();
        let mut completed = 0;
        while start.elapsed() < span {
            completed += self.turn(in_flight)?;
        }
        Ok(count(completed) / start.elapsed().as_secs_f64())
    }

    /// Completes what the last turn claimed, enqueues as many and claims them, in one commit.
    fn turn(&mut self, in_flight: usize) -> Result<usize> {
        let mut batch: Vec<Command> = self.running.drain(..).map(complete).collect();
        for _ in 0..in_flight {
            batch.push(Command::Enqueue(vec![self.job()?]));
        }
        let slots = (0..in_flight).map(|_| Slot {
            lease: LeaseId(self.id()),
            worker: "cell-1".to_owned(),
            lane: Lane::Shared,
            hold: Hold::Connection,
        });
        let slots = slots.collect();
        batch.push(Command::Claim {
            node: NodeId::NIL,
            slots,
            except: BTreeSet::new(),
            params_bytes_max: usize::MAX,
        });
        self.clock_ms += 1;
        let committed = self.store.commit(Time(self.clock_ms), &batch)?;
        let mut completed = 0;
        for reply in committed.replies {
            match reply? {
                Reply::Claimed(claimed) => {
                    let leased = claimed.into_iter().filter_map(|claimed| {
                        Some((claimed.lifecycle.id, claimed.lifecycle.lease?.id))
                    });
                    self.running.extend(leased);
                }
                Reply::Moved(job) if job.state == State::Completed => completed += 1,
                _ => {}
            }
        }
        Ok(completed)
    }

    /// Makes ids as the host does: by time, then random.
    fn id(&mut self) -> Uuid {
        self.ids += 1;
        let chance = self.ids.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let ms = u64::try_from(self.clock_ms).unwrap_or_default();
        Uuid::from_u128(u128::from(ms) << 80 | 7 << 76 | 2 << 62 | u128::from(chance >> 2))
    }

    fn job(&mut self) -> Result<NewJob> {
        let id = JobId(self.id());
        let customer = self.ids.checked_rem(self.customers);
        let customer = customer.map(|n| format!("{{\"customer\":{n}}}"));
        Ok(NewJob {
            id,
            handler: "noop".parse()?,
            runner: None,
            component: None,
            queue: "bench".parse()?,
            priority: 5,
            run_at: None,
            deadline: None,
            policy: Policy::default(),
            unique_key: None,
            depends_on: Vec::new(),
            conditions: None,
            batch: None,
            notify: Vec::new(),
            payload: Payload {
                params: JsonText(customer.unwrap_or_else(|| "{\"n\":12345}".to_owned())),
                wire: "http".to_owned(),
                external_id: None,
                trace_context: Vec::new(),
                attributes: Vec::new(),
                origin: None,
                latest_start: None,
            },
        })
    }
}

fn complete((job, lease): (JobId, LeaseId)) -> Command {
    Command::Complete {
        job,
        fence: Fence::Lease(lease),
        report: Box::new(Report {
            outcome: Outcome::Completed {
                result: Some(JsonText("null".to_owned())),
            },
            meter: Meter {
                fuel: 20_000,
                cpu_us: 20,
                peak_memory_bytes: 1 << 20,
            },
            progress: None,
            executor: "cell-1".to_owned(),
            revision: Some(("basics".to_owned(), 1)),
            requests: None,
        }),
        writes: None,
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::Loop;

    #[test]
    fn each_turn_completes_what_the_one_before_claimed() {
        let folder = TempDir::new().unwrap();
        let mut turns = Loop::open(&folder.path().join("host.db")).unwrap();
        let completed = [(); 3].map(|()| turns.turn(10).unwrap());
        assert_eq!(completed, [0, 10, 10]);
    }
}
