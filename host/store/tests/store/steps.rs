//! The conformance suite, continued: the journal of a job, a row for each step.

use host_core::job::State;
use host_core::json::JsonText;
use host_core::state::{StateWrite, StateWrites};
use host_core::step::StepState;
use host_core::writes::Writes;
use host_engine::job::Purge;
use host_engine::lease::LeaseRefusal;
use host_engine::state::StateRefusal;
use host_engine::state::tables::StateEntry;
use host_engine::step::{CommitStep, Step, StepRefusal};
use host_engine::{Command, Heartbeat as _, Rejection, Reply, Store};
use host_store::copy::{to_postgres, to_sqlite};
use host_store::postgres::PostgresStore;
use host_store::postgres::target::Target;
use host_store::sqlite::SqliteStore;
use tempfile::TempDir;

use crate::cases::check;
use crate::jobs::{NODE, NOW, ask, commit, complete, failed, id, job, lease, returned};
use crate::postgres::TESTED;
use crate::server::Schema;
use crate::writes::start;

pub(crate) fn done(result: &str) -> StepState {
    StepState::Done(JsonText(result.to_owned()))
}

pub(crate) fn open(checkpoint: &str) -> StepState {
    StepState::Open(JsonText(checkpoint.to_owned()))
}

/// A step of job `n` by the attempt with a lease.
pub(crate) fn step(
    n: u128,
    lease_id: u128,
    number: u32,
    name: &str,
    state: StepState,
    writes: Writes,
) -> Command {
    let writes = (!writes.is_empty()).then(|| Box::new(writes));
    Command::from(CommitStep {
        job: id(n),
        lease: lease(lease_id),
        number,
        name: name.to_owned(),
        state,
        writes,
    })
}

fn set(key: &str, value: &str) -> StateWrites {
    StateWrites {
        space: "handler:noop".parse().unwrap(),
        quota_bytes: 1_000,
        writes: vec![StateWrite {
            key: key.to_owned(),
            value: Some(value.into()),
            expected: None,
        }],
    }
}

/// Sets a key and enqueues a job.
fn writes(value: &str, n: u128) -> Writes {
    Writes {
        jobs: vec![job(n)],
        state: vec![set("k", value)],
        ..Writes::default()
    }
}

fn journal(store: &dyn Store, n: u128) -> Vec<(String, StepState)> {
    let steps = store.reader().unwrap().steps(id(n), None, 100).unwrap();
    steps.into_iter().map(|it| (it.name, it.state)).collect()
}

fn entry(name: &str, state: StepState) -> (String, StepState) {
    (name.to_owned(), state)
}

fn value(store: &dyn Store) -> Option<String> {
    let space = "handler:noop".parse().unwrap();
    let kept = store.reader().unwrap().get::<StateEntry>((&space, "k"));
    let bytes = kept.unwrap().map(|it| it.value.value);
    bytes.map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn a_step_is_committed_with_its_writes_while_the_attempt_runs() {
    check(|store| {
        start(store, 1);
        let of_first = ask(store, NOW, step(1, 1, 0, "a", done("7"), writes("one", 2)));
        assert_eq!(of_first, Ok(Reply::Done));
        let reader = store.reader().unwrap();
        assert_eq!(reader.state(id(1)).unwrap(), Some(State::Running));
        assert_eq!(reader.state(id(2)).unwrap(), Some(State::Available));
        let kept = reader.step(id(1), 0).unwrap().unwrap();
        let expected = Step {
            job: id(1),
            number: 0,
            name: "a".to_owned(),
            state: done("7"),
            at: NOW,
            journal_bytes: 2,
        };
        assert_eq!(kept, expected);
        drop(reader);
        assert_eq!(value(store).as_deref(), Some("one"));

        // A checkpoint is replaced by the next, and by the result.
        for state in [open("1"), open("2"), done("[]")] {
            let next = step(1, 1, 1, "b", state.clone(), Writes::default());
            ask(store, NOW, next).unwrap();
            assert_eq!(
                journal(store, 1),
                [entry("a", done("7")), entry("b", state)]
            );
        }
        // The attempt fails; the journal stays, and the next attempt continues it.
        commit(store, NOW, vec![complete(1, 1, failed(true))]);
        assert_eq!(journal(store, 1).len(), 2);
    });
}

#[test]
fn only_the_attempt_that_has_the_lease_commits_steps() {
    check(|store| {
        start(store, 1);
        let stale = || step(1, 9, 0, "a", done("1"), writes("stale", 2));
        let refused = Err(Rejection::Lease(LeaseRefusal::Stale));
        assert_eq!(ask(store, NOW, stale()), refused);
        // In the same batch as the end, it comes too late.
        let late = step(1, 1, 0, "a", done("1"), writes("late", 2));
        let both = vec![complete(1, 1, returned()), late];
        assert_eq!(commit(store, NOW, both).replies[1], refused);
        assert_eq!(journal(store, 1), []);
        assert_eq!(value(store), None);
        assert_eq!(store.reader().unwrap().state(id(2)).unwrap(), None);
    });
}

#[test]
fn a_step_that_is_refused_writes_nothing() {
    check(|store| {
        start(store, 1);
        ask(store, NOW, step(1, 1, 0, "a", done("1"), Writes::default())).unwrap();
        // What it writes does not fit what is stored.
        let mut changed = writes("x", 2);
        changed.state[0].writes[0].expected = Some(Some(b"other".to_vec()));
        let refused = ask(store, NOW, step(1, 1, 1, "b", done("1"), changed));
        let Err(Rejection::State(StateRefusal::Changed { .. })) = refused else {
            panic!("{refused:?}");
        };
        // It does not fit the journal.
        for (number, name, state) in [
            (0, "a", done("2")),
            (0, "b", open("1")),
            (2, "c", done("1")),
        ] {
            let refused = ask(store, NOW, step(1, 1, number, name, state, writes("x", 2)));
            let Err(Rejection::Step(StepRefusal::Diverged { .. })) = refused else {
                panic!("{refused:?}");
            };
        }
        assert_eq!(journal(store, 1), [entry("a", done("1"))]);
        assert_eq!(value(store), None);
        assert_eq!(store.reader().unwrap().state(id(2)).unwrap(), None);
    });
}

#[test]
fn a_journal_is_read_in_pages_and_purged_with_its_job() {
    check(|store| {
        for n in [1, 2] {
            start(store, n);
            let steps = (0..12).map(|at| {
                let name = format!("s{at}");
                step(n, n, at, &name, done("0"), Writes::default())
            });
            commit(store, NOW, steps.collect());
            commit(store, NOW, vec![complete(n, n, returned())]);
        }
        let reader = store.reader().unwrap();
        let numbers = |after, limit| -> Vec<u32> {
            let page = reader.steps(id(1), after, limit).unwrap();
            page.into_iter().map(|it| it.number).collect()
        };
        assert_eq!(numbers(None, 3), [0, 1, 2]);
        assert_eq!(numbers(Some(9), 3), [10, 11]);
        drop(reader);
        commit(store, NOW, vec![Command::from(Purge { job: id(1) })]);
        assert_eq!((journal(store, 1).len(), journal(store, 2).len()), (0, 12));
    });
}

#[test]
fn a_copy_has_the_journals_of_jobs() {
    let (folder, schema) = (TempDir::new().unwrap(), Schema::new());
    let path = folder.path().join("host.db");
    let mut store = SqliteStore::open(&path).unwrap();
    start(&mut store, 1);
    let steps = [
        step(1, 1, 0, "a", done("\"é\""), Writes::default()),
        step(1, 1, 1, "b", open("[1]"), Writes::default()),
    ];
    commit(&mut store, NOW, steps.into());
    let kept = journal(&store, 1);
    drop(store);
    let target = Target::parse(&schema.url(), None).unwrap();
    to_postgres(&path, &target, true, NODE, &mut |_| {}).unwrap();
    let copy = PostgresStore::open(&target, NODE, TESTED).unwrap();
    assert_eq!(journal(&copy, 1), kept);
    copy.heartbeat().leave().unwrap();
    drop(copy);
    let back = folder.path().join("back.db");
    to_sqlite(&target, &back, &mut |_| {}).unwrap();
    assert_eq!(journal(&SqliteStore::open(&back).unwrap(), 1), kept);
}
