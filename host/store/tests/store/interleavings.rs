//! Random batches of commands with restarts between them: each engine answers and keeps the same as the
//! model.

use std::collections::BTreeMap;

use host_core::command::{Command, Fire};
use host_core::id::NodeId;
use host_core::job::{Lane, UniqueKey, UniqueScope};
use host_core::lease::{Fence, Hold};
use host_core::limit::{Limit, WhenFull};
use host_core::policy::Retention;
use host_core::schedule::{Overlap, Progress as ScheduleProgress};
use host_core::state::{StateWrite, StateWrites};
use host_core::transition::Loss;
use host_core::writes::Writes;
use host_store::postgres::PostgresStore;
use host_store::sqlite::SqliteStore;
use host_store::store::Store;
use host_testing::store::MemoryStore;
use proptest::prelude::*;
use tempfile::TempDir;
use uuid::Uuid;

use crate::jobs::{NOW, claim_in, complete, failed, id, job, read, returned, runner};
use crate::limit_keys::{by_customer, check_room, params_of, set_limit};
use crate::schedules::{every, set};
use crate::server::Schema;

/// One step; numbers are modulo what exists.
#[derive(Clone, Debug)]
enum Step {
    Enqueue {
        jobs: u8,
        keyed: bool,
        depends: Option<u8>,
        priority: u8,
        delay_ms: u16,
        deadline_ms: Option<u16>,
        theirs: bool,
    },
    Claim {
        slots: u8,
        lane: u8,
        node: u8,
        remote: bool,
    },
    Say {
        lease: u8,
        message: Message,
    },
    Cancel {
        job: u8,
    },
    Retry {
        job: u8,
        force: bool,
    },
    Pause {
        paused: bool,
    },
    SetPriority {
        job: u8,
        priority: u8,
    },
    Reschedule {
        job: u8,
        delay_ms: u16,
    },
    Purge {
        job: u8,
    },
    Tick,
    Restart {
        node: u8,
    },
    SetState(KeyChange),
    SetSchedule {
        overlap: u8,
    },
    SetLimit(LimitChange),
    RemoveLimit {
        of_customers: bool,
    },
    Fire {
        later_ms: u16,
        jobs: u8,
        refused: bool,
    },
}

/// A change of one of few keys. A value is as many bytes as its number.
#[derive(Clone, Copy, Debug)]
struct KeyChange {
    key: u8,
    value: Option<u8>,
    expected: Expected,
}

#[derive(Clone, Copy, Debug)]
enum Expected {
    Anything,
    Nothing,
    Value(u8),
}

impl KeyChange {
    fn writes(self) -> StateWrites {
        let bytes = |n: u8| vec![n; n.into()];
        StateWrites {
            space: "handler:noop".parse().unwrap(),
            quota_bytes: 150,
            writes: vec![StateWrite {
                key: format!("key-{}", self.key),
                value: self.value.map(bytes),
                expected: match self.expected {
                    Expected::Anything => None,
                    Expected::Nothing => Some(None),
                    Expected::Value(n) => Some(Some(bytes(n))),
                },
            }],
        }
    }
}

fn key_change() -> impl Strategy<Value = KeyChange> {
    let expected = prop_oneof![
        2 => Just(Expected::Anything),
        1 => Just(Expected::Nothing),
        2 => (0_u8..4).prop_map(Expected::Value),
    ];
    (0_u8..3, proptest::option::of(0_u8..4), expected).prop_map(|(key, value, expected)| {
        KeyChange {
            key,
            value,
            expected,
        }
    })
}

/// A change of one of two limits: of each customer in all queues, and of all jobs in one.
#[derive(Clone, Copy, Debug)]
struct LimitChange {
    of_customers: bool,
    concurrency: Option<u8>,
    has_rate: bool,
    refuses: bool,
}

impl LimitChange {
    fn limit(self) -> Limit {
        let rate = (2, 2, 3);
        let is_limited = self.has_rate || self.concurrency.is_some();
        let concurrency = self.concurrency.map(u32::from);
        let concurrency = concurrency.or((!is_limited).then_some(2));
        let mut limit = if self.of_customers {
            by_customer(concurrency, self.has_rate.then_some(rate))
        } else {
            let mut limit = by_customer(concurrency, self.has_rate.then_some(rate));
            limit.name = "all".parse().unwrap();
            limit.key.clear();
            limit.matches.queues = vec!["default".to_owned().try_into().unwrap()];
            limit
        };
        if self.refuses {
            limit.when_full = WhenFull::Refuse;
        }
        limit
    }
}

fn limit_change() -> impl Strategy<Value = LimitChange> {
    let concurrency = proptest::option::weighted(0.8, 1_u8..4);
    let refuses = proptest::bool::weighted(0.1);
    (any::<bool>(), concurrency, any::<bool>(), refuses).prop_map(
        |(of_customers, concurrency, has_rate, refuses)| LimitChange {
            of_customers,
            concurrency,
            has_rate,
            refuses,
        },
    )
}

/// A message from or about the holder of a lease.
#[derive(Clone, Copy, Debug)]
enum Message {
    Ack,
    Heartbeat,
    Renewed {
        ms: u16,
    },
    Returned,
    /// Returned, with a change of state and perhaps a job that waits for another.
    Wrote {
        job: Option<u8>,
        change: KeyChange,
    },
    Failed {
        retryable: bool,
    },
    Lost(Loss),
    CancelAck,
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        2 => Just(Message::Ack),
        1 => Just(Message::Heartbeat),
        1 => (0_u16..4_000).prop_map(|ms| Message::Renewed { ms }),
        2 => Just(Message::Returned),
        2 => (proptest::option::of(any::<u8>()), key_change())
            .prop_map(|(job, change)| Message::Wrote { job, change }),
        2 => any::<bool>().prop_map(|retryable| Message::Failed { retryable }),
        2 => loss().prop_map(Message::Lost),
        1 => Just(Message::CancelAck),
    ]
}

fn loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        Just(Loss::Innocent),
        Just(Loss::NotBegun),
        Just(Loss::Unloaded),
        Just(Loss::WorkerGone),
        (2..65_usize).prop_map(|jobs| Loss::SharedWorkerGone { jobs }),
        (1..65_usize).prop_map(|jobs| Loss::CellDied { jobs }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u8..4, any::<bool>(), proptest::option::of(any::<u8>()), 0_u8..3, prop_oneof![2 => Just(0), 1 => 0_u16..2_000], proptest::option::weighted(0.2, 1_u16..5_000), proptest::bool::weighted(0.3))
            .prop_map(|(jobs, keyed, depends, priority, delay_ms, deadline_ms, theirs)| Step::Enqueue { jobs, keyed, depends, priority, delay_ms, deadline_ms, theirs }),
        4 => (1_u8..4, 0_u8..6, 0_u8..3, any::<bool>())
            .prop_map(|(slots, lane, node, remote)| Step::Claim { slots, lane, node, remote }),
        10 => (any::<u8>(), message()).prop_map(|(lease, message)| Step::Say { lease, message }),
        1 => any::<u8>().prop_map(|job| Step::Cancel { job }),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(job, force)| Step::Retry { job, force }),
        1 => any::<bool>().prop_map(|paused| Step::Pause { paused }),
        1 => (any::<u8>(), 0_u8..10).prop_map(|(job, priority)| Step::SetPriority { job, priority }),
        1 => (any::<u8>(), 0_u16..3_000).prop_map(|(job, delay_ms)| Step::Reschedule { job, delay_ms }),
        1 => any::<u8>().prop_map(|job| Step::Purge { job }),
        3 => Just(Step::Tick),
        1 => (0_u8..3).prop_map(|node| Step::Restart { node }),
        1 => key_change().prop_map(Step::SetState),
        1 => (0_u8..5).prop_map(|overlap| Step::SetSchedule { overlap }),
        2 => limit_change().prop_map(Step::SetLimit),
        1 => any::<bool>().prop_map(|of_customers| Step::RemoveLimit { of_customers }),
        2 => (0_u16..9_000, 0_u8..4, proptest::bool::weighted(0.2))
            .prop_map(|(later_ms, jobs, refused)| Step::Fire { later_ms, jobs, refused }),
    ]
}

/// What a history has created so far, so that steps can name it.
#[derive(Default)]
struct History {
    jobs: u128,
    leases: Vec<(u128, u128)>,
    next_lease: u128,
    /// What has become of the schedule.
    schedule: ScheduleProgress,
}

impl History {
    fn pick(&self, n: u8) -> u128 {
        1 + u128::from(n) % self.jobs.max(1)
    }

    fn command(&mut self, step: &Step, now: host_core::time::Time) -> Command {
        match step {
            Step::Enqueue {
                jobs,
                keyed,
                depends,
                priority,
                delay_ms,
                deadline_ms,
                theirs,
            } => {
                let earlier = depends.filter(|_| self.jobs > 0).map(|n| id(self.pick(n)));
                let new = (0..*jobs).map(|position| {
                    self.jobs += 1;
                    let mut new = job(self.jobs);
                    new.runner = theirs.then(|| "python".parse().unwrap());
                    new.priority = *priority;
                    new.payload.params = params_of(self.jobs % 3);
                    new.queue = ["default", "other"][usize::from(position % 2)]
                        .parse()
                        .unwrap();
                    let scope = match self.jobs % 3 {
                        0 => UniqueScope::Active,
                        1 => UniqueScope::Retained,
                        _ => UniqueScope::Within { ms: 1_000 },
                    };
                    let key = format!("key-{}", self.jobs % 5);
                    new.unique_key = keyed.then_some(UniqueKey { key, scope });
                    new.depends_on = earlier.into_iter().collect();
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
                Command::Enqueue(new.collect())
            }
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
                    1 | 2 => runner("python"),
                    _ => Lane::Shared,
                };
                claim_as(*node, *remote, claim_in(&lane, first..self.next_lease))
            }
            Step::Say { lease, message } => self.message(*lease, *message, now),
            Step::Cancel { job } => Command::Cancel {
                job: id(self.pick(*job)),
                reason: None,
                grace_ms: None,
            },
            Step::Retry { job, force } => Command::Retry {
                job: id(self.pick(*job)),
                force: *force,
            },
            Step::Pause { paused } => Command::SetPaused {
                queue: "other".parse().unwrap(),
                paused: *paused,
            },
            Step::SetPriority { job, priority } => Command::SetPriority {
                job: id(self.pick(*job)),
                priority: *priority,
            },
            Step::Reschedule { job, delay_ms } => Command::Reschedule {
                job: id(self.pick(*job)),
                run_at: now.plus_ms(u64::from(*delay_ms)),
            },
            Step::Purge { job } => Command::Purge {
                job: id(self.pick(*job)),
            },
            Step::SetState(change) => Command::SetState(Box::new(change.writes())),
            Step::SetSchedule { overlap } => self.set_schedule(*overlap, now),
            Step::Fire {
                later_ms,
                jobs,
                refused,
            } => self.fire(*jobs, *refused, now.plus_ms(u64::from(*later_ms))),
            Step::SetLimit(change) => set_limit(change.limit()),
            Step::RemoveLimit { of_customers } => Command::RemoveLimit {
                limit: if *of_customers { "by-customer" } else { "all" }
                    .parse()
                    .unwrap(),
            },
            Step::Tick => Command::Tick { limit: 5 },
            Step::Restart { node } => Command::Recover {
                node: numbered(*node),
                living: Vec::new(),
            },
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
        Command::Fire(Box::new(Fire {
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
        }))
    }

    fn message(&mut self, lease: u8, message: Message, now: host_core::time::Time) -> Command {
        let (number, lease_id) = self.lease(lease);
        let (of, fence) = (id(number), Fence::Lease(crate::jobs::lease(lease_id)));
        match message {
            Message::Ack => Command::Ack { job: of, fence },
            Message::Heartbeat => Command::Heartbeat { job: of, fence },
            Message::Renewed { ms } => Command::Renew {
                job: of,
                lease: crate::jobs::lease(lease_id),
                until: now.plus_ms(ms.into()),
            },
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
                    new
                });
                let mut end = complete(number, lease_id, returned());
                if let Command::Complete { writes, .. } = &mut end {
                    let (jobs, state) = (jobs.into_iter().collect(), vec![change.writes()]);
                    *writes = Some(Box::new(Writes { jobs, state }));
                }
                end
            }
            Message::Failed { retryable } => complete(number, lease_id, failed(retryable)),
            Message::Lost(loss) => Command::Lose {
                job: of,
                fence,
                loss,
                executor: "cell-2".to_owned(),
                requests: None,
            },
            Message::CancelAck => Command::CancelAck {
                job: of,
                fence,
                partial: None,
                message: None,
            },
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
    if let Command::Claim { node, slots, .. } = &mut claim {
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
    let (mut now, mut seen) = (NOW, BTreeMap::new());
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
        let name = "nightly".parse().unwrap();
        let kept = model.reader().unwrap().schedule(&name).unwrap();
        history.schedule = kept.map(|kept| kept.progress).unwrap_or_default();
        for reply in &committed.replies {
            let Ok(host_core::command::Reply::Claimed(jobs)) = reply else {
                continue;
            };
            let leases = jobs.iter().filter_map(|claimed| {
                let lease = claimed.lifecycle.lease.as_ref()?;
                let job = claimed.lifecycle.id.0.as_u128() - id(0).0.as_u128();
                Some((job, lease.id.0.as_u128()))
            });
            history.leases.extend(leases);
        }
    }
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
