//! Tests of PostgreSQL alone: versions of the schema, servers that may lose data, several writers, and
//! connections that break.

use host_core::id::NodeId;
use host_core::job::{Lifecycle, NewJob, State, UniqueScope};
use host_core::query::JobFilter;
use host_engine::job::{Cancel, Enqueue, Purge, Tick};
use host_engine::{Command, Store, StoreError};
use host_store::postgres::target::Target;
use host_store::postgres::{Options, PostgresStore, admin};
use uuid::Uuid;

use crate::jobs::{
    NODE, NOW, claim, claimed, commit, complete, enqueue, id, job, read, returned, unique,
};
use crate::limit_keys::{of_all, set_limit};
use crate::proxy::Break;
use crate::server::Schema;

/// The server of the tests may lose data.
pub(crate) const TESTED: Options = Options { allow_unsafe: true };

/// How often a test polls the server's statistics.
const LOOKS_MAX: u32 = 1_000;

/// Runs a case of the suite on PostgreSQL, unless only SQLite is tested.
#[expect(
    clippy::disallowed_methods,
    reason = "a quick run of the tests starts no database"
)]
pub(crate) fn check(case: impl Fn(&mut dyn Store)) {
    if std::env::var_os("HOST_TEST_STORE").is_none_or(|store| store != "sqlite") {
        case(&mut open(&Schema::new()));
    }
}

/// Opens the store in a schema.
pub(crate) fn open(schema: &Schema) -> PostgresStore {
    PostgresStore::open(&target(schema), NODE, TESTED).unwrap()
}

pub(crate) fn target(schema: &Schema) -> Target {
    Target::parse(&schema.url(), None).unwrap()
}

fn refusal(schema: &Schema, options: Options) -> String {
    let other = NodeId(Uuid::from_u128(7));
    let opened = PostgresStore::open(&target(schema), other, options);
    opened.map(drop).unwrap_err().to_string()
}

#[test]
fn a_server_that_may_lose_data_is_refused_by_the_name_of_the_setting() {
    let message = refusal(&Schema::new(), Options::default());
    assert!(message.contains("fsync is off"), "{message}");
    assert!(message.contains("allow_unsafe"), "{message}");
}

#[test]
fn a_refused_connection_names_the_database_and_what_to_do_and_no_user() {
    let schema = Schema::new();
    let (good, socket) = (
        schema.url(),
        schema.url().replace("postgres@", "postgres@%2Fnone"),
    );
    for (url, named, next) in [
        (
            good.replace("/postgres?", "/absent?"),
            "/absent (from KEY): database \"absent\" does not exist (3D000)",
            "`createdb absent`",
        ),
        (socket, "%2Fnone", "check that the server is running"),
        (
            good.replace("//postgres@", "//somebody@"),
            "/postgres (from KEY): the server refused the user (28000)",
            "pg_hba.conf",
        ),
    ] {
        let target = Target::parse(&url, None).unwrap().named_by("KEY");
        let refused = PostgresStore::open(&target, NODE, TESTED).map(drop);
        let message = refused.unwrap_err().to_string();
        assert!(message.starts_with("cannot connect to the database: postgres://"));
        assert!(
            message.contains(named) && message.contains(next),
            "{message}"
        );
        assert!(!message.contains("somebody"), "{message}");
    }
}

#[test]
fn a_missing_schema_is_reported_with_what_to_do() {
    let schema = Schema::new();
    let url = schema.url().replace("search_path%3D", "search_path%3Dno_");
    let refused = admin::migrate(&Target::parse(&url, None).unwrap());
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("CREATE SCHEMA"), "{message}");
}

#[test]
fn a_later_schema_is_refused_by_name() {
    let schema = Schema::new();
    drop(open(&schema));
    schema.run("INSERT INTO host_schema (version) VALUES (99)");
    let message = refusal(&schema, TESTED);
    assert!(
        message.contains("the schema in the database has version 99"),
        "{message}"
    );
}

/// Whatever the connection does, a batch is committed once, with the answer of a healthy connection.
#[test]
fn a_batch_whose_connection_breaks_lands_once() {
    for at in [Break::AtBegin, Break::BeforeCommit, Break::AfterCommit] {
        let schema = Schema::new();
        let (proxy, url) = schema.proxy();
        let target = Target::parse(&url, None).unwrap();
        let mut store = PostgresStore::open(&target, NODE, TESTED).unwrap();
        enqueue(&mut store, vec![job(1)]);
        proxy.break_next(at);
        let committed = commit(&mut store, NOW, vec![Command::from(Enqueue(vec![job(2)]))]);
        assert!(proxy.has_broken(), "{at:?}");
        assert_eq!(committed.available, 2, "{at:?}");
        let seen = read(&*store.reader().unwrap());
        assert_eq!(seen.jobs.len(), 2, "{at:?}");
        let changes = store.reader().unwrap().changes(0, 10).unwrap();
        assert_eq!(changes.items.len(), 2, "{at:?}");
        let claimed = claimed(&mut store, NOW, claim([1, 2, 3], false));
        assert_eq!(claimed.len(), 2, "{at:?}");
        drop(store);
    }
}

/// A batch that the server refuses, or that costs its connection, leaves the store in order.
#[test]
fn a_batch_that_fails_has_no_effect_and_others_go_on() {
    for what in [
        "RAISE 'no luck' USING ERRCODE = '57014'",
        "PERFORM pg_terminate_backend(pg_backend_pid())",
    ] {
        let schema = Schema::new();
        let mut store = open(&schema);
        schema.run(&format!(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF NEW.handler = 'poison' THEN {what}; END IF; RETURN NEW; END $$; \
             CREATE TRIGGER refuse BEFORE INSERT ON host_live FOR EACH ROW EXECUTE FUNCTION refuse()"
        ));
        let mut poison = job(2);
        poison.handler = "poison".parse().unwrap();
        let batch = [
            Command::from(Enqueue(vec![job(1)])),
            Command::from(Enqueue(vec![poison])),
        ];
        for _ in 0..2 {
            let failing = store.commit(NOW, &batch);
            assert!(
                matches!(failing, Err(StoreError::Failing { .. })),
                "{failing:?}"
            );
        }
        let [first, second] = batch;
        assert_eq!(commit(&mut store, NOW, vec![first]).changes.len(), 1);
        assert!(store.commit(NOW, &[second]).is_err());
        assert_eq!(read(&*store.reader().unwrap()).jobs.len(), 1);
    }
}

/// Batches find jobs by an index, even with a plan from when the table was empty.
#[test]
fn no_batch_reads_all_live_jobs() {
    const JOBS: u128 = 40;
    let schema = Schema::new();
    let mut store = open(&schema);
    for n in 1..=JOBS {
        enqueue(&mut store, vec![job(n)]);
        assert_eq!(claimed(&mut store, NOW, claim([n], false)).len(), 1);
        commit(&mut store, NOW, vec![complete(n, n, returned())]);
    }
    drop(store);
    let statistics = Statistics::of_table(&schema, "host_live");
    statistics.reach("idx_scan >= 80");
    assert!(
        statistics.meet("seq_tup_read = 0"),
        "the whole table was read"
    );
}

/// Neither does a purge, with a unique key or without: it gives back a key of its own.
#[test]
fn no_purge_reads_all_unique_keys() {
    const JOBS: u128 = 40;
    let schema = Schema::new();
    let mut store = open(&schema);
    for n in 1..=JOBS {
        let mut new = job(n);
        let key = unique(&format!("key-{n}"), UniqueScope::Retained);
        new.unique_key = (n % 2 == 0).then_some(key);
        enqueue(&mut store, vec![new]);
    }
    for n in 1..=JOBS {
        let (job, reason) = (id(n), None);
        let cancel = Command::from(Cancel {
            job,
            reason,
            grace_ms: None,
        });
        for reply in commit(&mut store, NOW, vec![cancel, Command::from(Purge { job })]).replies {
            reply.unwrap();
        }
    }
    drop(store);
    let statistics = Statistics::of_table(&schema, "host_unique_keys");
    statistics.reach("n_tup_del = 20 AND idx_scan >= 40");
    assert!(
        statistics.meet("seq_tup_read = 0"),
        "the whole table was read"
    );
}

/// Indexes keep what has left a state until the server vacuums, so a search for what is not there may take long.
#[test]
fn a_state_that_a_queue_has_no_jobs_in_is_not_searched() {
    const COUNTS: usize = 200;
    let schema = Schema::new();
    let mut store = open(&schema);
    enqueue(&mut store, vec![job(1)]);
    let reader = store.reader().unwrap();
    let running = JobFilter {
        state: Some(State::Running),
        queue: Some(job(1).queue),
        ..JobFilter::default()
    };
    for _ in 0..COUNTS {
        assert_eq!(reader.count(&running, None, 1_000).unwrap().jobs, 0);
    }
    drop(reader);
    drop(store);
    let scans = "seq_scan + coalesce(idx_scan, 0)";
    let at_least = format!("{scans} >= {COUNTS}");
    Statistics::of_table(&schema, "host_counts").reach(&at_least);
    let live = Statistics::of_table(&schema, "host_live");
    assert!(!live.meet(&at_least), "jobs were searched");
}

/// Jobs that wait for a limit are read in their order, however few the planner expects: it would read and sort them all.
#[test]
fn few_of_many_jobs_that_wait_for_a_limit_are_read() {
    const JOBS: u128 = 10_000;
    const TICKS: u32 = 4;
    let schema = Schema::new();
    let mut store = open(&schema);
    commit(&mut store, NOW, vec![set_limit(of_all(1))]);
    for first in (1..=JOBS).step_by(1_000) {
        enqueue(&mut store, (first..first + 1_000).map(job).collect());
    }
    commit(&mut store, NOW, vec![set_limit(of_all(5_000))]);
    for _ in 0..TICKS {
        commit(&mut store, NOW, vec![Command::from(Tick { limit: 512 })]);
    }
    drop(store);
    let statistics = Statistics::of_index(&schema, "host_live_waiting");
    let at_least = format!("idx_scan >= {TICKS}");
    statistics.reach(&at_least);
    let few = format!("idx_tup_read < {JOBS}");
    assert!(statistics.meet(&few), "all jobs that wait were read");
}

/// The server's statistics of a table or an index of a schema. It counts the work of a connection when that ends.
pub(crate) struct Statistics<'a> {
    schema: &'a Schema,
    row: String,
}

impl<'a> Statistics<'a> {
    pub(crate) fn of_table(schema: &'a Schema, name: &str) -> Self {
        let row = format!("pg_stat_user_tables WHERE relname = '{name}'");
        Self { schema, row }
    }

    pub(crate) fn of_index(schema: &'a Schema, name: &str) -> Self {
        let row = format!("pg_stat_user_indexes WHERE indexrelname = '{name}'");
        Self { schema, row }
    }

    pub(crate) fn meet(&self, condition: &str) -> bool {
        let row = &self.row;
        self.schema.accepts(&format!(
            "SELECT 1 / count(*) FROM {row} AND schemaname = current_schema() AND {condition}"
        ))
    }

    /// Polls them until they meet a condition.
    pub(crate) fn reach(&self, condition: &str) {
        let is_counted = (0..LOOKS_MAX).any(|_| self.meet(condition));
        assert!(is_counted, "{} has never had {condition}", self.row);
    }
}

/// Each claim searches the queues that it takes jobs from and a few more, also those of a host that has to find
/// out what others have enqueued.
#[test]
fn a_claim_searches_few_queues_however_many_have_jobs() {
    const QUEUES: u128 = 500;
    const CLAIMS: u128 = 20;
    let schema = Schema::new();
    let mut store = open(&schema);
    let other = NodeId(Uuid::from_u128(7));
    let mut others = PostgresStore::open(&target(&schema), other, TESTED).unwrap();
    assert!(claimed(&mut store, NOW, claim([1], false)).is_empty());
    let in_queue = |n| NewJob {
        queue: format!("queue-{n}").parse().unwrap(),
        ..job(n)
    };
    enqueue(&mut others, (1..=QUEUES).map(in_queue).collect());
    for n in 1..=CLAIMS {
        let jobs = claimed(&mut store, NOW.plus_ms(1_000), claim([n], false));
        let ids: Vec<_> = jobs.iter().map(|job| job.lifecycle.id).collect();
        assert_eq!(ids, [id(n)], "the oldest job of all queues");
        commit(&mut store, NOW, vec![complete(n, n, returned())]);
    }
    drop((store, others));
    let statistics = Statistics::of_index(&schema, "host_live_claim");
    statistics.reach("idx_scan >= 20");
    assert!(
        statistics.meet("idx_scan < 400"),
        "a claim searched many queues"
    );
}

#[test]
fn an_earlier_process_of_a_host_writes_no_more() {
    let schema = Schema::new();
    let open = || PostgresStore::open(&target(&schema), NODE, TESTED).unwrap();
    let (mut earlier, mut later) = (open(), open());
    enqueue(&mut later, vec![job(1)]);
    let error = earlier.commit(NOW, &[claim([1], false)]).unwrap_err();
    assert!(error.to_string().contains("a later process"), "{error}");
    assert_eq!(claimed(&mut later, NOW, claim([1], false)).len(), 1);
}

/// How many jobs several writers share, and how many each wants at a time.
const SHARED_JOBS: u128 = 300;
const SLOTS: u128 = 7;

/// Concurrent claims and completions: each job has one attempt, and changes have unique numbers without gaps.
#[test]
fn several_writers_share_jobs_without_running_any_twice() {
    let schema = Schema::new();
    let open = |node: u128| {
        let node = NodeId(Uuid::from_u128(node));
        PostgresStore::open(&target(&schema), node, TESTED).unwrap()
    };
    let mut first = open(1);
    let mut jobs: Vec<_> = (1..=SHARED_JOBS).map(job).collect();
    for job in jobs.iter_mut().step_by(3) {
        job.queue = "other".parse().unwrap();
    }
    enqueue(&mut first, jobs);
    std::thread::scope(|scope| {
        for writer in 1..=3 {
            let open = &open;
            scope.spawn(move || {
                let mut store = open(writer + 1);
                let mut next = writer << 32;
                loop {
                    let leases = next..next + SLOTS;
                    next += SLOTS;
                    let claimed = claimed(&mut store, NOW, claim(leases, false));
                    let done: Vec<_> = claimed.iter().map(|it| completed(&it.lifecycle)).collect();
                    if done.is_empty() {
                        break;
                    }
                    let committed = commit(&mut store, NOW, done);
                    assert!(committed.replies.iter().all(Result::is_ok), "{committed:?}");
                }
            });
        }
    });
    let everything = read(&*first.reader().unwrap());
    for (detail, attempts) in &everything.jobs {
        assert_eq!(
            (detail.lifecycle.state, attempts.len()),
            (State::Completed, 1)
        );
    }
    let changes = first.reader().unwrap().changes(0, 10_000).unwrap();
    let numbers: Vec<u64> = changes.items.iter().map(|it| it.number).collect();
    assert_eq!(numbers, (1..changes.next).collect::<Vec<_>>());
    assert_eq!(numbers.len() as u128, 3 * SHARED_JOBS);
}

pub(crate) fn completed(job: &Lifecycle) -> Command {
    let lease = job.lease.as_ref().unwrap().id;
    complete(
        job.id.0.as_u128() - id(0).0.as_u128(),
        lease.0.as_u128(),
        returned(),
    )
}

/// Writers that want the same new key take turns, and deadlocked writers retry.
#[test]
fn writers_that_enqueue_the_same_keys_get_one_job_for_each() {
    let schema = Schema::new();
    let keys = 20;
    std::thread::scope(|scope| {
        for writer in 1..=3_u128 {
            let (schema, keys) = (&schema, keys);
            scope.spawn(move || {
                let node = NodeId(Uuid::from_u128(writer));
                let mut store = PostgresStore::open(&target(schema), node, TESTED).unwrap();
                let keyed = |n: u128| {
                    let mut new = job(writer * 1_000 + n);
                    new.unique_key = Some(unique(&format!("k{n}"), UniqueScope::Active));
                    new
                };
                // In another order in each writer, in batches of several commands.
                let order = (0..keys).map(|n| (n * 7 + writer * 3) % keys);
                let commands: Vec<_> = order
                    .map(|n| Command::from(Enqueue(vec![keyed(n)])))
                    .collect();
                for batch in commands.chunks(3) {
                    commit(&mut store, NOW, batch.to_vec());
                }
            });
        }
    });
    let mut store = PostgresStore::open(&target(&schema), NODE, TESTED).unwrap();
    let everything = read(&*store.reader().unwrap());
    assert_eq!(everything.jobs.len() as u128, keys);
    let all = claimed(&mut store, NOW, claim(1..=2 * keys, false));
    assert_eq!(all.len() as u128, keys);
}
