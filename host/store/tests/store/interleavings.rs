//! Random batches of commands with restarts between them: each engine answers and keeps the same as the
//! model.

mod deliveries;
mod steps;

use std::collections::BTreeMap;

use host_core::id::NodeId;
use host_core::job::{Lane, OnConflict, UniqueKey, UniqueScope};
use host_core::lease::{Fence, Hold, Renewal};
use host_core::notify::BATCH_EVENTS;
use host_core::outcome::Outcome;
use host_core::policy::Retention;
use host_core::prerequisite::{Conditions, When};
use host_core::writes::Writes;
use host_engine::job::{Cancel, Enqueue, Purge, Reschedule, Retry, SetPriority, Tick};
use host_engine::lease::{Ack, CancelAck, Claim, Complete, Heartbeat, Lose, Renew};
use host_engine::limit::RemoveLimit;
use host_engine::queue::SetPaused;
use host_engine::schedule::{Fire, KeptSchedule, Overlap, Progress as ScheduleProgress};
use host_engine::state::SetState;
use host_engine::webhook::WEBHOOKS;
use host_engine::{Command, Store, batch, lease};
use host_store::postgres::PostgresStore;
use host_store::sqlite::SqliteStore;
use host_testing::store::MemoryStore;
use proptest::prelude::*;
use tempfile::TempDir;
use uuid::Uuid;

use self::deliveries::DeliveryHistory;
use self::steps::{Message, Step, step};
use crate::artifacts::in_row;
use crate::job_batches::{cancel, close, new_batch, within};
use crate::jobs::{
    NOW, claim_in, complete, executor, failed, id, job, number, read, recover, returned,
};
use crate::limit_holds::hold;
use crate::limit_keys::{check_room, set_limit};
use crate::limit_units::params_with;
use crate::schedules::{every, set};
use crate::server::Schema;
use crate::steps::{done, open, step as step_of};
use crate::webhooks::notify;

/// The ways in which a prerequisite has to end.
const WHEN: [When; 3] = [When::Completed, When::Ended, When::Failed];

/// What a history has created so far, so that steps can name it.
#[derive(Default)]
struct History {
    jobs: u128,
    leases: Vec<(u128, u128)>,
    next_lease: u128,
    batches: u128,
    /// The batches of jobs.
    of_batches: BTreeMap<u128, u128>,
    /// What has become of the schedule.
    schedule: ScheduleProgress,
}

impl History {
    fn pick(&self, n: u8) -> u128 {
        1 + u128::from(n) % self.jobs.max(1)
    }

    /// Makes the jobs of a [`Step::Enqueue`].
    fn enqueue(&mut self, step: &Step, now: host_core::time::Time) -> Command {
        let Step::Enqueue {
            jobs,
            keyed,
            depends,
            priority,
            delay_ms,
            deadline_ms,
            theirs,
        } = step
        else {
            panic!("{step:?}")
        };
        let earlier = depends.filter(|_| self.jobs > 0).map(|n| id(self.pick(n)));
        let new = (0..*jobs).map(|position| {
            self.jobs += 1;
            let mut new = job(self.jobs);
            new.executor = theirs.then(|| "python".parse().unwrap());
            new.priority = *priority;
            // Some more than a bucket holds.
            let units = u32::try_from(self.jobs % 5).unwrap();
            new.payload.params = params_with(self.jobs % 3, units);
            new.queue = ["default", "other"][usize::from(position % 2)]
                .parse()
                .unwrap();
            let scope = match self.jobs % 3 {
                0 => UniqueScope::Active,
                1 => UniqueScope::Retained,
                _ => UniqueScope::Within { ms: 1_000 },
            };
            let on_conflict = match self.jobs % 4 {
                0 => OnConflict::Replace,
                1 => OnConflict::PushBack,
                _ => OnConflict::Keep,
            };
            new.payload.latest_start = Some(NOW.plus_ms(5_000));
            let key = format!("key-{}", self.jobs % 5);
            new.unique_key = keyed.then_some(UniqueKey {
                key,
                scope,
                on_conflict,
            });
            new.depends_on = earlier.into_iter().collect();
            let conditions = earlier.map(|id| (id, WHEN[usize::from(*priority) % 3]));
            let when = conditions.into_iter().collect();
            // One that is not there before may be refused.
            new.conditions = Conditions {
                when,
                inputs: earlier.map(|id| ("a".into(), id)).into_iter().collect(),
                reads_others: *priority > 0 || self.jobs.is_multiple_of(2),
            }
            .some();
            // Perhaps to one that is closed or that was never made.
            if *priority == 0 && self.jobs.is_multiple_of(2) {
                new = within(self.batches, new);
                self.of_batches.insert(self.jobs, self.batches);
            }
            new.notify = deliveries::receivers(self.jobs);
            new.run_at = (*delay_ms > 0).then(|| now.plus_ms(u64::from(*delay_ms)));
            new.deadline = deadline_ms.map(|ms| now.plus_ms(u64::from(ms)));
            new.policy.max_attempts = 2;
            new.policy.ack_window_ms = self.jobs.is_multiple_of(3).then_some(1_000);
            new.policy.retention = Retention {
                ms: 20_000,
                discarded_ms: 40_000,
            };
            new
        });
        Command::from(Enqueue(new.collect()))
    }

    fn command(&mut self, step: &Step, now: host_core::time::Time) -> Command {
        match step {
            Step::Enqueue { .. } => self.enqueue(step, now),
            Step::Claim {
                slots,
                lane,
                node,
                remote,
            } => {
                let first = self.next_lease;
                self.next_lease += u128::from(*slots);
                let lane = match lane {
                    0 => Lane::Apart,
                    1 | 2 => executor("python"),
                    3 => executor(WEBHOOKS),
                    _ => Lane::Shared,
                };
                claim_as(*node, *remote, claim_in(&lane, first..self.next_lease))
            }
            Step::Say { lease, message } => self.message(*lease, *message, now),
            Step::Cancel { job } => Command::from(Cancel {
                job: id(self.pick(*job)),
                reason: None,
                grace_ms: None,
            }),
            Step::Retry { job, force } => Command::from(Retry {
                job: id(self.pick(*job)),
                force: *force,
            }),
            Step::Pause { paused } => Command::from(SetPaused {
                queue: "other".parse().unwrap(),
                paused: *paused,
            }),
            Step::SetPriority { job, priority } => Command::from(SetPriority {
                job: id(self.pick(*job)),
                priority: *priority,
            }),
            Step::Reschedule { job, delay_ms } => Command::from(Reschedule {
                job: id(self.pick(*job)),
                run_at: now.plus_ms(u64::from(*delay_ms)),
            }),
            Step::Purge { job } => Command::from(Purge {
                job: id(self.pick(*job)),
            }),
            Step::SetState(change) => Command::from(SetState(Box::new(change.writes()))),
            Step::SetSchedule { overlap } => self.set_schedule(*overlap, now),
            Step::Fire {
                later_ms,
                jobs,
                refused,
            } => self.fire(*jobs, *refused, now.plus_ms(u64::from(*later_ms))),
            Step::SetLimit(change) => set_limit(change.limit()),
            Step::RemoveLimit { of_customers } => Command::from(RemoveLimit {
                limit: if *of_customers { "by-customer" } else { "all" }
                    .parse()
                    .unwrap(),
            }),
            Step::NewBatch { is_open, jobs } => {
                self.batches += 1;
                let first = self.jobs + 1;
                self.jobs += u128::from(*jobs);
                let jobs = first..=self.jobs;
                let in_batch = jobs.clone().map(|n| (n, self.batches));
                self.of_batches.extend(in_batch);
                let mut command = new_batch(self.batches, *is_open, jobs.map(job).collect());
                if let Command::Batch(batch::Command::NewBatch(batch)) = &mut command {
                    batch.plan.notify = Some(notify(&BATCH_EVENTS));
                }
                command
            }
            Step::CloseBatch { batch, cancelled } => {
                let batch = u128::from(*batch) % (self.batches + 1);
                if *cancelled {
                    cancel(batch)
                } else {
                    close(batch)
                }
            }
            Step::Tick => Command::from(Tick { limit: 5 }),
            Step::Restart { node } => recover(numbered(*node)),
        }
    }

    fn set_schedule(&mut self, overlap: u8, now: host_core::time::Time) -> Command {
        self.schedule.version += 1;
        let overlaps = [
            Overlap::Skip,
            Overlap::QueueOne,
            Overlap::QueueAll,
            Overlap::Cancel,
            Overlap::Allow,
        ];
        set(every("nightly", 1_000, overlaps[usize::from(overlap)]), now)
    }

    fn fire(&mut self, jobs: u8, refused: bool, wall: host_core::time::Time) -> Command {
        let first = self.jobs + 1;
        self.jobs += u128::from(jobs);
        let version = self.schedule.version;
        self.schedule.version += 1;
        Command::from(Fire {
            schedule: "nightly".parse().unwrap(),
            version,
            open: self.schedule.open.clone(),
            wall,
            ids: (first..=self.jobs).map(id).collect(),
            job: if refused {
                Err("no such handler".to_owned())
            } else {
                Ok(Box::new(job(0)))
            },
            nominals: None,
        })
    }

    fn message(&mut self, lease: u8, message: Message, now: host_core::time::Time) -> Command {
        let (number, lease_id) = self.lease(lease);
        let (of, fence) = (id(number), Fence::Lease(crate::jobs::lease(lease_id)));
        match message {
            Message::Ack => Command::from(Ack { job: of, fence }),
            Message::Heartbeat => Command::from(Heartbeat { job: of, fence }),
            Message::Renewed { ms } => Command::from(Renew(Renewal {
                job: of,
                lease: crate::jobs::lease(lease_id),
                until: now.plus_ms(ms.into()),
                host_was_away: ms % 2 == 1,
            })),
            Message::Returned => complete(number, lease_id, returned()),
            Message::Wrote {
                job: waits_for,
                change,
            } => {
                let jobs = waits_for.map(|n| {
                    let prerequisite = id(self.pick(n));
                    self.jobs += 1;
                    let mut new = job(self.jobs);
                    new.depends_on = vec![prerequisite];
                    let when = WHEN[prerequisite.0.as_u128() as usize % 3];
                    let when = vec![(prerequisite, when)];
                    new.conditions = Conditions {
                        when,
                        inputs: vec![("b".into(), prerequisite)],
                        reads_others: true,
                    }
                    .some();
                    match self.of_batches.get(&number).copied() {
                        Some(batch) if prerequisite.0.as_u128().is_multiple_of(2) => {
                            self.of_batches.insert(self.jobs, batch);
                            within(batch, new)
                        }
                        _ => new,
                    }
                });
                let mut end = complete(number, lease_id, returned());
                if let Command::Lease(lease::Command::Complete(Complete { writes, .. })) = &mut end
                {
                    let (jobs, state) = (jobs.into_iter().collect(), vec![change.writes()]);
                    let name = format!("of-{number}");
                    let artifacts = vec![in_row(&name, number, "content")];
                    *writes = Some(Box::new(Writes {
                        jobs,
                        state,
                        artifacts,
                    }));
                }
                end
            }
            Message::Step {
                number: place,
                name,
                is_done,
                change,
            } => {
                let name = if name { "a" } else { "b" };
                let state = if is_done { done("1") } else { open("22") };
                let state_writes = vec![change.writes()];
                let writes = Writes {
                    state: state_writes,
                    ..Writes::default()
                };
                step_of(number, lease_id, place.into(), name, state, writes)
            }
            Message::Holds { of_customers, ms } => {
                let limit = if of_customers { "by-customer" } else { "all" };
                hold(number, lease_id, limit, ms.into())
            }
            Message::AsksForRetry => {
                let (reason, after_ms) = (String::new(), Some(100));
                complete(number, lease_id, Outcome::Retry { reason, after_ms })
            }
            Message::Failed { retryable } => complete(number, lease_id, failed(retryable)),
            Message::Lost(loss) => Command::from(Lose {
                job: of,
                fence,
                loss,
                executor: "cell-2".to_owned(),
                requests: None,
            }),
            Message::CancelAck => Command::from(CancelAck {
                job: of,
                fence,
                partial: None,
                message: None,
            }),
        }
    }

    fn lease(&self, n: u8) -> (u128, u128) {
        match self.leases.len() {
            0 => (1, 0),
            len => self.leases[usize::from(n) % len],
        }
    }
}

/// Returns one of three nodes; the first is the nil node.
fn numbered(node: u8) -> NodeId {
    NodeId(Uuid::from_u128(node.into()))
}

/// Makes a claim one of `node`, for remote workers if `remote`.
fn claim_as(by: u8, remote: bool, mut claim: Command) -> Command {
    if let Command::Lease(lease::Command::Claim(Claim { node, slots, .. })) = &mut claim {
        *node = numbered(by);
        for slot in slots.iter_mut().filter(|_| remote) {
            slot.hold = Hold::Ttl { ttl_ms: 3_000 };
        }
    }
    claim
}

/// An engine whose stores outlive the process.
trait Engine {
    type Store: Store;

    fn new() -> Self;
    fn open(&self) -> Self::Store;
}

impl Engine for TempDir {
    type Store = SqliteStore;

    fn new() -> Self {
        Self::new().unwrap()
    }

    fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.path().join("host.db")).unwrap()
    }
}

impl Engine for Schema {
    type Store = PostgresStore;

    fn new() -> Self {
        Self::new()
    }

    fn open(&self) -> PostgresStore {
        crate::postgres::open(self)
    }
}

/// Batches of steps, each with the time before it.
type Batches = Vec<(Vec<Step>, u64)>;

fn batches() -> impl Strategy<Value = Batches> {
    proptest::collection::vec(
        (proptest::collection::vec(step(), 1..6), 0_u64..3_000),
        1..20,
    )
}

/// Runs the batches in an engine and in the model.
fn compare<E: Engine>(batches: Batches) -> Result<(), TestCaseError> {
    let engine = E::new();
    let mut model = MemoryStore::default();
    let mut store = Some(engine.open());
    let mut history = History {
        next_lease: 1,
        ..History::default()
    };
    let (mut now, mut seen, mut sent) = (NOW, BTreeMap::new(), DeliveryHistory::default());
    for (steps, wait_ms) in batches {
        now = now.plus_ms(wait_ms);
        if matches!(steps[0], Step::Restart { .. }) {
            drop(store.take());
        }
        let store = store.get_or_insert_with(|| engine.open());
        let commands: Vec<_> = steps
            .iter()
            .map(|step| history.command(step, now))
            .collect();
        let mut expected = model.commit(now, &commands).unwrap();
        let committed = store.commit(now, &commands).unwrap();
        // A store that several nodes share numbers changes later.
        expected.first_change = expected.first_change.and(committed.first_change);
        prop_assert_eq!(&committed, &expected, "{:?}", steps);
        check_room(&*model.reader().unwrap(), now, &commands, &mut seen);
        sent.record(&*model.reader().unwrap(), &committed.changes);
        let name = "nightly".parse().unwrap();
        let kept = model.reader().unwrap().get::<KeptSchedule>(&name).unwrap();
        history.schedule = kept.map(|kept| kept.progress).unwrap_or_default();
        for reply in &committed.replies {
            let Ok(host_engine::Reply::Claimed(jobs)) = reply else {
                continue;
            };
            let leases = jobs.iter().filter_map(|claimed| {
                let lease = claimed.lifecycle.lease.as_ref()?;
                Some((number(claimed.lifecycle.id), lease.id.0.as_u128()))
            });
            history.leases.extend(leases);
        }
    }
    sent.check();
    let store = store.unwrap_or_else(|| engine.open());
    let kept = read(&*store.reader().unwrap());
    prop_assert_eq!(&kept, &read(&*model.reader().unwrap()));
    let changes = |store: &dyn Store| store.reader().unwrap().changes(3, 50).unwrap();
    prop_assert_eq!(changes(&store), changes(&model));
    drop(store);
    let again = engine.open();
    prop_assert_eq!(
        &read(&*again.reader().unwrap()),
        &kept,
        "a restart loses nothing"
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sqlite_does_what_the_model_does(batches in batches()) {
        compare::<TempDir>(batches)?;
    }
}

proptest! {
    // Each step is several round trips.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn postgres_does_what_the_model_does(batches in batches()) {
        compare::<Schema>(batches)?;
    }
}
