//! Helpers to enqueue and claim, and a view of everything that a store holds.

use std::collections::{BTreeMap, BTreeSet};

use host_core::failure::{Failure, FailureKind};
use host_core::handler::HandlerInfo;
use host_core::id::{JobId, LeaseId, NodeId};
use host_core::invariants;
use host_core::job::{
    Lane, Lifecycle, LimitKey, NewJob, OnConflict, Payload, STATES, State, UniqueKey, UniqueScope,
};
use host_core::json::JsonText;
use host_core::lease::{Fence, Hold};
use host_core::outcome::{Attempt, Meter, Outcome, Report};
use host_core::policy::Policy;
use host_core::prerequisite::{Conditions, When};
use host_core::query::{JobDetail, JobFilter, QueueStatus, RemoteLease};
use host_core::state::{SpaceUsage, StateKey, StateValue, StateWrite, StateWrites, Usage};
use host_core::time::Time;
use host_engine::batch::JobBatch;
use host_engine::batch::tables::older;
use host_engine::component::tables::read_deployed;
use host_engine::component::{Deploy, Digest, Manifest, Revision};
use host_engine::job::{Enqueue, Enqueued, Foreign, Record};
use host_engine::lease::{Claim, Claimed, Complete, Slot};
use host_engine::limit::tables::read_limits;
use host_engine::limit::{KeyUse, Limits};
use host_engine::node::Recover;
use host_engine::schedule::tables::read_firings;
use host_engine::schedule::{Firing, KeptSchedule};
use host_engine::state::SetState;
use host_engine::state::tables::StateEntry;
use host_engine::table::{Range, Row, Select};
use host_engine::{Command, Committed, Reader, Rejection, Reply, Store, StoreError, TABLES, lease};
use uuid::Uuid;

pub(crate) const NOW: Time = Time(1_000_000);

/// The host that claims.
pub(crate) const NODE: NodeId = NodeId(Uuid::from_u128(1));

/// The id of the job with the number 0.
const FIRST: u128 = 0x0199_0000_0000_7000_8000_0000_0000_0000;

pub(crate) fn id(n: u128) -> JobId {
    JobId(Uuid::from_u128(FIRST.wrapping_add(n)))
}

/// Returns the number of a job. Those of deliveries, which have ids of their own, wrap around.
pub(crate) fn number(id: JobId) -> u128 {
    id.0.as_u128().wrapping_sub(FIRST)
}

pub(crate) fn lease(n: u128) -> LeaseId {
    LeaseId(Uuid::from_u128(n))
}

pub(crate) fn job(n: u128) -> NewJob {
    NewJob {
        id: id(n),
        handler: "noop".parse().unwrap(),
        executor: None,
        component: None,
        queue: "default".parse().unwrap(),
        priority: 5,
        run_at: None,
        deadline: None,
        // The goldens have these jobs.
        policy: Policy {
            max_attempts: 5,
            ..Policy::default()
        },
        unique_key: None,
        depends_on: Vec::new(),
        conditions: None,
        batch: None,
        notify: Vec::new(),
        files: Vec::new(),
        payload: Payload {
            params: JsonText(format!("{{\"n\":{n}}}")),
            wire: "http".to_owned(),
            external_id: None,
            trace_context: Vec::new(),
            attributes: Vec::new(),
            origin: None,
            latest_start: None,
        },
    }
}

pub(crate) fn unique(key: &str, scope: UniqueScope) -> UniqueKey {
    let key = key.to_owned();
    let on_conflict = OnConflict::Keep;
    UniqueKey {
        key,
        scope,
        on_conflict,
    }
}

pub(crate) fn claim(leases: impl IntoIterator<Item = u128>, alone: bool) -> Command {
    claim_in(if alone { &Lane::Apart } else { &Lane::Shared }, leases)
}

/// The lane of an executor.
pub(crate) fn executor(name: &str) -> Lane {
    Lane::Executor(name.parse().unwrap())
}

/// A job for an executor.
pub(crate) fn job_for(n: u128, executor: &str) -> NewJob {
    NewJob {
        executor: Some(executor.parse().unwrap()),
        ..job(n)
    }
}

pub(crate) fn claim_in(lane: &Lane, leases: impl IntoIterator<Item = u128>) -> Command {
    let slots = leases.into_iter().map(|n| Slot {
        lease: lease(n),
        worker: "cell-1".to_owned(),
        lane: lane.clone(),
        hold: Hold::Connection,
    });
    Command::from(Claim {
        node: NODE,
        slots: slots.collect(),
        except: BTreeSet::new(),
        params_bytes_max: usize::MAX,
    })
}

/// A job that waits for others to end like this.
pub(crate) fn after(n: u128, prerequisites: &[(u128, When)]) -> NewJob {
    let when: Vec<(JobId, When)> = prerequisites
        .iter()
        .map(|(of, when)| (id(*of), *when))
        .collect();
    NewJob {
        depends_on: when.iter().map(|(of, _)| *of).collect(),
        conditions: Conditions {
            when,
            ..Conditions::default()
        }
        .some(),
        ..job(n)
    }
}

/// A job of another orchestrator that ended a moment ago.
pub(crate) fn foreign(n: u128, outcome: Outcome) -> Command {
    let Command::Lease(lease::Command::Complete(Complete { report, .. })) = complete(n, n, outcome)
    else {
        panic!("a completion");
    };
    let mut job = job(n);
    job.policy.max_attempts = 1;
    job.policy.lost_lease_costs_attempt = true;
    "rrq".clone_into(&mut job.payload.wire);
    job.payload.external_id = Some(format!("theirs-{n}"));
    Command::from(Record(Box::new(Foreign {
        job,
        lease: lease(n),
        started_at: Time(NOW.0 - 20),
        finished_at: Time(NOW.0 - 5),
        report: *report,
    })))
}

/// The start of a node, which takes back what ended with it, at first.
pub(crate) fn recover(node: NodeId) -> Command {
    Command::from(Recover {
        node,
        living: Vec::new(),
        after: 0,
    })
}

pub(crate) fn complete(job: u128, lease_id: u128, outcome: Outcome) -> Command {
    Command::from(Complete {
        job: id(job),
        fence: Fence::Lease(lease(lease_id)),
        report: Box::new(Report {
            outcome,
            meter: Meter {
                fuel: 7,
                cpu_us: 8,
                peak_memory_bytes: 9,
            },
            progress: None,
            executor: "cell-1".to_owned(),
            revision: Some(("basics".to_owned(), 1)),
            worker: None,
            requests: None,
        }),
        writes: None,
    })
}

/// Sets a key of a space, or removes it.
pub(crate) fn set_state(space: &str, key: &str, value: Option<&[u8]>) -> Command {
    Command::from(SetState(Box::new(StateWrites {
        space: space.parse().unwrap(),
        quota_bytes: 1 << 20,
        writes: vec![StateWrite {
            key: key.to_owned(),
            value: value.map(<[u8]>::to_vec),
            expected: None,
        }],
    })))
}

pub(crate) fn returned() -> Outcome {
    Outcome::Completed {
        result: Some(JsonText("[1,2]".to_owned())),
    }
}

pub(crate) fn failed(retryable: bool) -> Outcome {
    Outcome::Failed(Failure {
        retryable: Some(retryable),
        ..Failure::new(FailureKind::UserError, "no luck")
    })
}

pub(crate) fn revision(component: &str, handlers: &[&str], digest: u8) -> Command {
    let handlers = handlers.iter().map(|name| HandlerInfo {
        name: name.parse().unwrap(),
        description: None,
        params_schema: None,
        result_schema: None,
    });
    Command::from(Deploy {
        revision: Box::new(Revision {
            component: component.parse().unwrap(),
            revision: 0,
            digest: Digest([digest; 32]),
            manifest: Manifest::default(),
            handlers: handlers.collect(),
            deployed_at: NOW,
            signature: None,
            schedules: Vec::new(),
            release: host_engine::component::Release::default(),
        }),
        bytes: vec![digest; 10],
        wall: NOW,
    })
}

/// How often a batch is tried that meets others or a broken connection.
const TRIES_MAX: u32 = 20;

/// Commits one batch that must not fail for good.
#[expect(
    clippy::needless_pass_by_value,
    reason = "callers write the batch in the call"
)]
pub(crate) fn commit(store: &mut dyn Store, now: Time, batch: Vec<Command>) -> Committed {
    for _ in 1..TRIES_MAX {
        match store.commit(now, &batch) {
            Err(StoreError::Failing { .. }) => {}
            committed => return committed.unwrap(),
        }
    }
    store.commit(now, &batch).unwrap()
}

/// Commits one command and returns its answer.
pub(crate) fn ask(store: &mut dyn Store, now: Time, command: Command) -> Result<Reply, Rejection> {
    commit(store, now, vec![command]).replies.remove(0)
}

pub(crate) fn enqueue(store: &mut dyn Store, jobs: Vec<NewJob>) -> Vec<Enqueued> {
    match ask(store, NOW, Command::from(Enqueue(jobs))).unwrap() {
        Reply::Enqueued(enqueued) => enqueued,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn claimed(store: &mut dyn Store, now: Time, command: Command) -> Vec<Claimed> {
    match ask(store, now, command).unwrap() {
        Reply::Claimed(claimed) => claimed,
        other => panic!("{other:?}"),
    }
}

/// Everything that a reader can see.
#[derive(Debug, PartialEq)]
pub(crate) struct Everything {
    pub(crate) jobs: Vec<(JobDetail, Vec<Attempt>)>,
    pub(crate) queues: Vec<QueueStatus>,
    pub(crate) components: Vec<Revision>,
    pub(crate) remote_leases: Vec<RemoteLease>,
    pub(crate) state: Vec<(SpaceUsage, Vec<(StateKey, StateValue)>)>,
    pub(crate) schedules: Vec<(KeptSchedule, Vec<Firing>)>,
    pub(crate) limits: Limits,
    pub(crate) keys: Vec<(u64, Vec<(String, KeyUse)>)>,
    pub(crate) batches: Vec<JobBatch>,
    pub(crate) tables: BTreeMap<&'static str, Vec<Row>>,
}

/// Reads the rows of all tables, apart from what engines keep each in their own way.
fn read_tables(reader: &dyn Reader) -> BTreeMap<&'static str, Vec<Row>> {
    let rows = TABLES.map(|table| {
        let range = match table.name {
            // PostgreSQL keeps the rows of spaces without keys.
            "state_spaces" => Range::all().marked(),
            // Those of batches name places of jobs.
            "batches" => Range::all().first(0),
            _ => Range::all(),
        };
        let rows = reader.select(&[Select { table, range }]).unwrap();
        (table.name, rows.concat())
    });
    rows.into()
}

/// Reads the batches, and checks that their numbers are those of their jobs. Jobs that were deleted stay counted.
fn read_batches(reader: &dyn Reader, jobs: &[(JobDetail, Vec<Attempt>)]) -> Vec<JobBatch> {
    let mut batches = Vec::new();
    loop {
        let before = batches.last().map(|batch: &JobBatch| batch.id);
        let page = reader.list::<JobBatch>(older(before, 2)).unwrap();
        if page.is_empty() {
            break;
        }
        batches.extend(page);
    }
    for batch in &batches {
        let jobs: Vec<&Lifecycle> = jobs
            .iter()
            .map(|(detail, _)| &detail.lifecycle)
            .filter(|job| job.batch == Some(batch.id))
            .collect();
        let count =
            |has: &dyn Fn(State) -> bool| jobs.iter().filter(|job| has(job.state)).count() as u64;
        let counts = batch.progress.counts;
        let not_ended = count(&|state| !state.is_terminal());
        assert_eq!(counts.not_ended(), not_ended, "{}", batch.id);
        assert!(counts.completed >= count(&|state| state == State::Completed));
        assert!(counts.discarded >= count(&|state| state == State::Discarded));
        assert!(counts.cancelled >= count(&|state| state == State::Cancelled));
        assert_eq!(
            reader.get::<JobBatch>(batch.id).unwrap().as_ref(),
            Some(batch)
        );
        assert!(batch.progress.ended_at.is_some() || not_ended > 0 || batch.progress.is_open);
    }
    batches.reverse();
    for batch in &mut batches {
        // Engines number jobs each in their own way.
        let cancel = batch.progress.cancel.as_mut();
        if let Some(cursor) = cancel.and_then(|cancel| cancel.cursor.as_mut()) {
            *cursor = 0;
        }
    }
    batches
}

/// Reads all schedules, each with its firings.
fn read_schedules(reader: &dyn Reader) -> Vec<(KeptSchedule, Vec<Firing>)> {
    let schedules = reader
        .list::<KeptSchedule>(Range::all().first(1_000))
        .unwrap()
        .into_iter();
    let with_firings = schedules.map(|kept| {
        let firings = read_firings(reader, &kept.schedule.name).unwrap();
        (kept, firings)
    });
    with_firings.collect()
}

/// Reads the limits and their keys, and checks that they count what the jobs take of them.
fn read_limits_and_keys(
    reader: &dyn Reader,
    jobs: &[(JobDetail, Vec<Attempt>)],
) -> (Limits, Vec<(u64, Vec<(String, KeyUse)>)>) {
    let limits = read_limits(reader).unwrap();
    let mut keys = Vec::new();
    for kept in limits.0.values() {
        let mut of_limit = reader.fullest_keys(kept.number, 1_000).unwrap();
        of_limit.sort_by(|one, other| one.0.cmp(&other.0));
        let jobs: Vec<&Lifecycle> = jobs.iter().map(|(detail, _)| &detail.lifecycle).collect();
        for (key, used) in &of_limit {
            let key = LimitKey {
                limit: kept.number,
                key: key.as_str().into(),
            };
            let taken = |state| {
                let in_state = jobs.iter().filter(|job| job.state == state);
                let keys = in_state.flat_map(|job| &job.limits.keys);
                let units: Vec<u64> = keys
                    .filter(|it| it.key == key)
                    .map(|it| it.units.into())
                    .collect();
                (units.len() as u64, units.iter().sum::<u64>())
            };
            let waiting = jobs.iter().filter(|job| job.waits_for_key() == Some(&key));
            assert_eq!(used.waiting, waiting.count() as u64, "{key}");
            if !kept.is_removed {
                let reserved = (used.reserved.into(), used.reserved_units);
                assert_eq!(reserved, taken(State::Available), "{key}");
                assert_eq!(u64::from(used.running), taken(State::Running).0, "{key}");
            }
        }
        let of_keys = jobs.iter().flat_map(|job| {
            let places = job
                .limits
                .keys
                .iter()
                .map(|it| &it.key)
                .filter(|_| job.has_places() && !kept.is_removed);
            places.chain(job.waits_for_key())
        });
        for key in of_keys.filter(|key| key.limit == kept.number) {
            let has_row = of_limit.iter().any(|(text, _)| **text == *key.key);
            assert!(has_row, "{key} is used");
        }
        keys.push((kept.number, of_limit));
    }
    (limits, keys)
}

/// Reads all state, and checks that the sizes of spaces are those of their keys.
fn read_state(reader: &dyn Reader) -> Vec<(SpaceUsage, Vec<(StateKey, StateValue)>)> {
    let spaces = reader
        .list::<SpaceUsage>(Range::all().marked().first(1_000))
        .unwrap()
        .into_iter();
    let all = spaces.map(|of| {
        let keys = reader.state_keys(&of.space, "", "", 1_000).unwrap();
        let usage = keys.iter().fold(Usage::default(), |usage, it| {
            usage.changed(&it.key, None, Some(it.bytes))
        });
        assert_eq!(usage, of.usage, "{}", of.space);
        let values = keys
            .into_iter()
            .map(|it| {
                let found: Option<StateEntry> = reader.get((&of.space, it.key.as_str())).unwrap();
                let found = found.unwrap().value;
                assert_eq!((found.value.len() as u64, found.at), (it.bytes, it.at));
                (it, found)
            })
            .collect();
        (of, values)
    });
    all.collect()
}

/// Reads everything, and checks that the parts agree with each other and with the rules.
pub(crate) fn read(reader: &dyn Reader) -> Everything {
    let mut jobs = Vec::new();
    let mut after = None;
    loop {
        let page = reader.jobs(&JobFilter::default(), after, 7).unwrap();
        for item in page.items {
            let id = item.lifecycle.id;
            let detail = reader.job(id).unwrap().unwrap();
            assert_eq!(detail.lifecycle, item.lifecycle);
            assert_eq!(invariants::check(&detail.lifecycle), Ok(()));
            jobs.push((detail, reader.attempts(id, 0, u32::MAX).unwrap()));
        }
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let queues = reader.queues().unwrap();
    for queue in &queues {
        for (state, count) in STATES.iter().zip(queue.counts) {
            let filter = JobFilter {
                state: Some(*state),
                queue: Some(queue.name.clone()),
                ..JobFilter::default()
            };
            let listed = reader.jobs(&filter, None, 1_000).unwrap().items.len();
            assert_eq!(listed as u64, count, "{state:?} in {}", queue.name);
        }
    }
    let (limits, keys) = read_limits_and_keys(reader, &jobs);
    let batches = read_batches(reader, &jobs);
    Everything {
        jobs,
        queues,
        limits,
        keys,
        batches,
        components: read_deployed(reader).unwrap(),
        remote_leases: reader.remote_leases().unwrap(),
        state: read_state(reader),
        schedules: read_schedules(reader),
        tables: read_tables(reader),
    }
}
