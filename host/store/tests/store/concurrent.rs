//! Several concurrent writers on one database: in the order of commits, each batch has the answers and changes
//! of the model.

use std::sync::atomic::{AtomicBool, Ordering};

use host_core::id::NodeId;
use host_core::job::{NewJob, UniqueScope};
use host_core::lease::Fence;
use host_core::prerequisite::{Conditions, When};
use host_core::query::NumberedChange;
use host_engine::job::{Cancel, Enqueue, EnqueueOnce, Purge, Reschedule, Retry, SetPriority};
use host_engine::lease::{Ack, Claim};
use host_engine::{Command, Committed, Rejection, Reply, Store as _, lease};
use host_store::postgres::PostgresStore;
use host_testing::store::MemoryStore;
use parking_lot::Mutex;
use proptest::prelude::*;
use uuid::Uuid;

use crate::jobs::{
    Everything, NOW, claim_in, commit, complete, enqueue, executor, failed, id, job, lease, read,
    recover, returned, unique,
};
use crate::postgres::{TESTED, target};
use crate::server::Schema;

/// How many jobs there are at first, shared by all writers.
const JOBS: u128 = 8;

/// A step of a writer; numbers are modulo what exists.
#[derive(Clone, Debug)]
enum Step {
    Enqueue { key: u8, depends: u8 },
    Offer { job: u8 },
    Claim { job: u8 },
    Complete { lease: u8, succeeds: bool },
    Ack { lease: u8 },
    Cancel { job: u8 },
    Retry { job: u8, force: bool },
    SetPriority { job: u8, priority: u8 },
    Reschedule { job: u8, delay_ms: u8 },
    Purge { job: u8 },
    Recover,
}

fn step() -> impl Strategy<Value = Step> {
    let number = any::<u8>;
    prop_oneof![
        3 => (0_u8..6, number()).prop_map(|(key, depends)| Step::Enqueue { key, depends }),
        2 => (0_u8..6).prop_map(|job| Step::Offer { job }),
        5 => number().prop_map(|job| Step::Claim { job }),
        4 => (number(), any::<bool>())
            .prop_map(|(lease, succeeds)| Step::Complete { lease, succeeds }),
        1 => number().prop_map(|lease| Step::Ack { lease }),
        2 => number().prop_map(|job| Step::Cancel { job }),
        2 => (number(), any::<bool>()).prop_map(|(job, force)| Step::Retry { job, force }),
        1 => (number(), 0_u8..5).prop_map(|(job, priority)| Step::SetPriority { job, priority }),
        1 => (number(), 0_u8..2).prop_map(|(job, delay_ms)| Step::Reschedule { job, delay_ms }),
        1 => number().prop_map(|job| Step::Purge { job }),
        1 => Just(Step::Recover),
    ]
}

/// The batches of each writer.
fn plans() -> impl Strategy<Value = Vec<Vec<Vec<Step>>>> {
    let batch = proptest::collection::vec(step(), 1..5);
    let batches = proptest::collection::vec(batch, 4..12);
    proptest::collection::vec(batches, 2..4)
}

/// A job for an executor of its own, so that a claim can name it.
fn own(n: u128) -> NewJob {
    let mut new = job(n);
    new.executor = Some(pool(n).parse().unwrap());
    new.policy.max_attempts = 2;
    new
}

fn pool(n: u128) -> String {
    format!("pool-{n}")
}

/// A writer and what it has created so far.
struct Writer {
    number: u128,
    jobs: u128,
    leases: Vec<(u128, u128)>,
    next_lease: u128,
}

impl Writer {
    fn node(&self) -> NodeId {
        NodeId(Uuid::from_u128(self.number))
    }

    fn new_job(&mut self) -> NewJob {
        self.jobs += 1;
        own(self.number * 1_000 + self.jobs)
    }

    /// Returns one of the first jobs, or of its own.
    fn pick(&self, n: u8) -> u128 {
        let n = u128::from(n) % (JOBS + self.jobs);
        if n < JOBS {
            n + 1
        } else {
            self.number * 1_000 + n - JOBS + 1
        }
    }

    fn lease(&self, n: u8) -> (u128, u128) {
        let len = self.leases.len().max(1);
        self.leases
            .get(usize::from(n) % len)
            .copied()
            .unwrap_or((1, 0))
    }

    fn command(&mut self, step: &Step) -> Command {
        match *step {
            Step::Enqueue { key, depends } => {
                let earlier = id(self.pick(depends));
                let mut new = self.new_job();
                new.unique_key =
                    (key < 4).then(|| unique(&format!("key-{key}"), UniqueScope::Active));
                new.depends_on = (key % 2 == 0).then_some(earlier).into_iter().collect();
                let conditions = [When::Completed, When::Ended, When::Failed];
                let when = vec![(earlier, conditions[usize::from(depends) % 3])];
                new.conditions = (key % 2 == 0).then(|| {
                    Box::new(Conditions {
                        when,
                        inputs: vec![("a".into(), earlier)],
                        reads_others: true,
                    })
                });
                Command::from(Enqueue(vec![new]))
            }
            // Some of these exist, and any writer may be the first to insert one of the others.
            Step::Offer { job } => {
                let new = own(JOBS - 2 + u128::from(job));
                Command::from(EnqueueOnce(Box::new(new)))
            }
            Step::Claim { job } => {
                let job = self.pick(job);
                self.next_lease += 1;
                let leases = self.next_lease..self.next_lease + 1;
                self.leases.push((job, self.next_lease));
                let mut claim = claim_in(&executor(&pool(job)), leases);
                if let Command::Lease(lease::Command::Claim(Claim { node, .. })) = &mut claim {
                    *node = self.node();
                }
                claim
            }
            Step::Complete { lease, succeeds } => {
                let (job, lease) = self.lease(lease);
                complete(job, lease, if succeeds { returned() } else { failed(true) })
            }
            Step::Ack { lease: n } => {
                let (job, number) = self.lease(n);
                let fence = Fence::Lease(lease(number));
                Command::from(Ack {
                    job: id(job),
                    fence,
                })
            }
            Step::Cancel { job } => Command::from(Cancel {
                job: id(self.pick(job)),
                reason: None,
                grace_ms: None,
            }),
            Step::Retry { job, force } => Command::from(Retry {
                job: id(self.pick(job)),
                force,
            }),
            Step::SetPriority { job, priority } => Command::from(SetPriority {
                job: id(self.pick(job)),
                priority,
            }),
            Step::Reschedule { job, delay_ms } => Command::from(Reschedule {
                job: id(self.pick(job)),
                run_at: NOW.plus_ms(delay_ms.into()),
            }),
            Step::Purge { job } => Command::from(Purge {
                job: id(self.pick(job)),
            }),
            Step::Recover => recover(self.node()),
        }
    }
}

/// Commits the batches of a writer. Each begins with a new job, so that its changes show its place in the
/// order of commits.
fn write(schema: &Schema, number: u128, plan: &[Vec<Step>], done: &Mutex<Done>) {
    let mut writer = Writer {
        number,
        jobs: 0,
        leases: Vec::new(),
        next_lease: number << 32,
    };
    let mut store = PostgresStore::open(&target(schema), writer.node(), TESTED).unwrap();
    for steps in plan {
        let mut commands = vec![Command::from(Enqueue(vec![writer.new_job()]))];
        commands.extend(steps.iter().map(|step| writer.command(step)));
        let committed = commit(&mut store, NOW, commands.clone());
        done.lock().push((commands, committed));
    }
}

type Replied = Result<Reply, Rejection>;

/// Batches and their answers.
type Done = Vec<(Vec<Command>, Committed)>;

/// Reads all changes, as several readers do that look at any time: each sees the same numbers, and misses none.
fn follow(schema: &Schema, is_over: &AtomicBool) -> Vec<NumberedChange> {
    let store = PostgresStore::open(&target(schema), NodeId(Uuid::from_u128(8)), TESTED).unwrap();
    let reader = store.reader().unwrap();
    let mut seen: Vec<NumberedChange> = Vec::new();
    loop {
        // Before the look: what was committed by then is in it.
        let is_last = is_over.load(Ordering::SeqCst);
        let after = seen.last().map_or(0, |change| change.number);
        seen.extend(reader.changes(after, 7).unwrap().items);
        let is_behind = seen.last().is_some_and(|change| change.number > after);
        if is_last && !is_behind {
            return seen;
        }
    }
}

/// A claim may find nothing because another writer has locked the job; the model then skips it.
fn found_nothing(reply: &Replied) -> bool {
    matches!(reply, Ok(Reply::Claimed(jobs)) if jobs.is_empty())
}

fn by_id(mut all: Everything) -> Everything {
    all.jobs.sort_by_key(|(detail, _)| detail.lifecycle.id);
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn several_writers_do_what_the_model_does_in_the_order_of_their_commits(plans in plans()) {
        let schema = Schema::new();
        let mut store = PostgresStore::open(&target(&schema), NodeId(Uuid::from_u128(9)), TESTED).unwrap();
        let mut model = MemoryStore::default();
        let first: Vec<_> = (1..=JOBS).map(own).collect();
        enqueue(&mut store, first.clone());
        enqueue(&mut model, first);
        let (done, is_over) = (Mutex::default(), AtomicBool::new(false));
        let followed = std::thread::scope(|scope| {
            let following = scope.spawn(|| follow(&schema, &is_over));
            let writers = (1..).zip(&plans).map(|(number, plan)| {
                let (schema, done) = (&schema, &done);
                scope.spawn(move || write(schema, number, plan, done))
            });
            let writers: Vec<_> = writers.collect();
            let ends: Vec<_> = writers
                .into_iter()
                .map(std::thread::ScopedJoinHandle::join)
                .collect();
            is_over.store(true, Ordering::SeqCst);
            for end in ends {
                end.expect("no writer fails");
            }
            following.join().unwrap()
        });
        let numbered = store.reader().unwrap().changes(0, 10_000).unwrap();
        prop_assert_eq!(&followed, &numbered.items);
        let numbers: Vec<u64> = followed.iter().map(|it| it.number).collect();
        prop_assert_eq!(numbers, (1..numbered.next).collect::<Vec<_>>());
        let mut done: Done = done.into_inner();
        done.sort_by_cached_key(|(_, committed)| {
            let first = &committed.changes[0];
            followed.iter().position(|it| it.change == *first)
        });
        for (commands, committed) in done {
            let answered = commands.into_iter().zip(committed.replies);
            let (commands, replies): (Vec<_>, Vec<_>) =
                answered.filter(|(_, reply)| !found_nothing(reply)).unzip();
            let expected = model.commit(NOW, &commands).unwrap();
            prop_assert_eq!(replies, expected.replies, "{:?}", commands);
            prop_assert_eq!(&committed.changes, &expected.changes, "{:?}", commands);
        }
        let kept = by_id(read(&*store.reader().unwrap()));
        prop_assert_eq!(&kept, &by_id(read(&*model.reader().unwrap())));
        let changes = |store: &dyn host_engine::Store| {
            store.reader().unwrap().changes(0, 10_000).unwrap()
        };
        prop_assert_eq!(changes(&store), changes(&model));
    }
}
