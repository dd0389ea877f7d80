//! A store that is moved to a database and back stays the same, and continues where it stopped.

use std::path::{Path, PathBuf};

use host_core::cell::{Level, LogSource};
use host_core::job::{State, UniqueScope};
use host_core::json::JsonText;
use host_engine::audit::{AddNote, Entry, Note};
use host_engine::component::tables::Blob;
use host_engine::component::{Deployed, RemoveComponent};
use host_engine::job::{Cancel, Purge};
use host_engine::table::Range;
use host_engine::token::KeptToken;
use host_engine::{Command, Heartbeat as _, Reply, Store, StoreError};
use host_store::check;
use host_store::copy::{Moved, Progress, Step, to_postgres, to_sqlite};
use host_store::logs::{LogEntry, LogWriter as _};
use host_store::postgres::PostgresStore;
use host_store::postgres::check::check as check_database;
use host_store::postgres::logs::PostgresLogs;
use host_store::postgres::target::Target;
use host_store::sqlite::logs::LogStore;
use host_store::sqlite::{SqliteStore, open_reader};
use tempfile::TempDir;

use crate::access::chain;
use crate::golden::story;
use crate::jobs::{
    NODE, NOW, ask, claim, claimed, commit, complete, enqueue, id, job, job_for, read, recover,
    returned, revision, set_state, unique,
};
use crate::postgres::TESTED;
use crate::server::Schema;

/// A host with another id than the one whose store is moved.
const OTHER: host_core::id::NodeId = host_core::id::NodeId(uuid::Uuid::from_u128(77));

/// Makes a store with a job in each state, jobs of executors, and a component that was removed.
fn original(folder: &Path) -> PathBuf {
    let path = folder.join("host.db");
    let mut store = SqliteStore::open(&path).unwrap();
    story(&mut store);
    enqueue(&mut store, vec![job_for(20, "theirs"), job(21)]);
    let gone = "gone".parse().unwrap();
    let batch = vec![
        revision("gone", &["away"], 3),
        Command::from(RemoveComponent { component: gone }),
        Command::from(Cancel {
            job: id(21),
            reason: None,
            grace_ms: None,
        }),
        Command::from(Purge { job: id(21) }),
        set_state("handler:noop", "cursor", Some(b"17")),
        set_state("shared:rates", "ü/\u{10ffff}", Some(&[0, 255])),
        set_state("shared:rates", "gone", Some(b"1")),
        set_state("shared:rates", "gone", None),
        set_state("shared:empty", "gone", Some(b"1")),
        set_state("shared:empty", "gone", None),
    ];
    for reply in commit(&mut store, NOW, batch).replies {
        reply.unwrap();
    }
    let mut logs = LogStore::open(&folder.join("logs.db")).unwrap();
    logs.append(vec![line("one\0"), line("two")]).unwrap();
    path
}

fn line(message: &str) -> LogEntry {
    LogEntry {
        job: id(1),
        attempt: 1,
        at: NOW,
        level: Level::Info,
        source: LogSource::Log,
        message: message.to_owned(),
        fields: vec![("a".to_owned(), JsonText("[1.50,null]".to_owned()))],
    }
}

fn move_to(path: &Path, schema: &Schema) -> Result<Moved, StoreError> {
    let target = Target::parse(&schema.url(), None).unwrap();
    to_postgres(path, &target, true, OTHER, &mut |_| {})
}

fn running(store: &dyn Store) -> State {
    let reader = store.reader().unwrap();
    reader.state(id(3)).unwrap().unwrap()
}

#[test]
fn a_store_in_a_database_is_what_it_was_in_a_file_and_goes_on() {
    let (folder, schema) = (TempDir::new().unwrap(), Schema::new());
    let path = original(folder.path());
    let target = Target::parse(&schema.url(), None).unwrap();
    let mut reports = Vec::new();
    let moved = to_postgres(&path, &target, true, OTHER, &mut |it: Progress| {
        reports.push(it);
    })
    .unwrap();
    assert_eq!((moved.jobs, moved.components), (12, 2));
    assert_eq!(
        (reports[0].step, reports[0].rows_total),
        (Step::Copying, moved.rows)
    );
    assert_eq!(reports.last().unwrap().step, Step::Verifying);
    assert_eq!(
        check_database(&target, &mut |_, _| ()).unwrap(),
        Some(vec![])
    );
    let mut logs = PostgresLogs::open(&target, 1 << 20).unwrap();
    logs.append(vec![line("three")]).unwrap();
    let page = logs.reader().unwrap().page(id(1), None, 10).unwrap();
    let lines = ["one\0", "two", "three"].map(line);
    assert_eq!(
        page.items,
        [
            (1, lines[0].clone()),
            (2, lines[1].clone()),
            (3, lines[2].clone())
        ]
    );

    let mut store = PostgresStore::open(&target, OTHER, TESTED).unwrap();
    let (before, after) = (open_reader(&path).unwrap(), store.reader().unwrap());
    assert_eq!(read(&*after), read(&*before));
    assert_eq!(read(&*after).state.len(), 2);
    let changes = before.changes(0, 1_000).unwrap();
    assert_eq!(after.changes(0, 1_000).unwrap(), changes);
    assert_eq!(
        after.list::<KeptToken>(Range::all()).unwrap(),
        before.list::<KeptToken>(Range::all()).unwrap()
    );
    let audit =
        |reader: &dyn host_engine::Reader| reader.list::<Entry>(Range::all().first(100)).unwrap();
    assert_eq!(audit(&*after), audit(&*before));
    for digest in read(&*before).components.iter().map(|it| it.digest) {
        let bytes = before.get::<Blob>(digest).unwrap();
        assert_eq!(after.get::<Blob>(digest).unwrap(), bytes);
    }

    let note = Box::new(Note::new("start", "host"));
    let outcome = "done".to_owned();
    ask(&mut store, NOW, Command::from(AddNote { note, outcome })).unwrap();
    assert_eq!(chain(&store).len(), 2, "the chain continues");

    assert_eq!(running(&store), State::Running);
    ask(&mut store, NOW, recover(NODE)).unwrap();
    assert_ne!(running(&store), State::Running, "its lease is taken back");
    let mut keyed = job(30);
    keyed.queue = "other".parse().unwrap();
    keyed.unique_key = Some(unique("key", UniqueScope::Retained));
    let kept = enqueue(&mut store, vec![keyed, job(31)]);
    assert_eq!((kept[0].id, kept[0].existing), (id(7), true));
    let claimed = claimed(&mut store, NOW, claim([40, 41, 42, 43], false));
    let order: Vec<_> = claimed.iter().map(|it| it.lifecycle.id).collect();
    assert_eq!(order.last(), Some(&id(31)), "it was accepted last");
    let lease = 40 + order.iter().position(|it| *it == id(4)).unwrap() as u128;
    let done = commit(&mut store, NOW, vec![complete(4, lease, returned())]);
    assert!(
        done.first_change.is_none_or(|first| first > changes.next),
        "numbers continue"
    );
    assert_eq!(
        store.reader().unwrap().state(id(5)).unwrap(),
        Some(State::Available),
        "the job that waited for it"
    );
    let again = ask(&mut store, NOW, revision("gone", &["away"], 3)).unwrap();
    let Reply::Deployed(Deployed { revision, .. }) = again else {
        panic!("{again:?}")
    };
    assert_eq!(revision.revision, 2, "revision numbers continue");
    drop(store);
    assert_eq!(
        check_database(&target, &mut |_, _| ()).unwrap(),
        Some(vec![])
    );
}

#[test]
fn a_store_comes_back_from_a_database_as_it_was() {
    let (folder, schema) = (TempDir::new().unwrap(), Schema::new());
    let path = original(folder.path());
    let moved = move_to(&path, &schema).unwrap();
    let back = folder.path().join("back.db");
    let target = Target::parse(&schema.url(), None).unwrap();
    let returned = to_sqlite(&target, &back, &mut |_| {}).unwrap();
    assert_eq!(
        (returned.jobs, returned.rows),
        (moved.jobs, moved.rows - 2),
        "all but the logs"
    );
    assert_eq!(check(&back), []);
    let (before, after) = (open_reader(&path).unwrap(), open_reader(&back).unwrap());
    assert_eq!(read(&*after), read(&*before));
    assert_eq!(read(&*after).state.len(), 2);
    let changes = before.changes(0, 1_000).unwrap();
    assert_eq!(after.changes(0, 1_000).unwrap(), changes);
    assert_eq!(
        after.list::<KeptToken>(Range::all()).unwrap(),
        before.list::<KeptToken>(Range::all()).unwrap()
    );
    assert_eq!(after.list::<KeptToken>(Range::all()).unwrap().len(), 1);
    let audit =
        |reader: &dyn host_engine::Reader| reader.list::<Entry>(Range::all().first(100)).unwrap();
    assert_eq!(audit(&*after), audit(&*before));
    assert_eq!(audit(&*after).len(), 1);
    drop(after);
    let mut store = SqliteStore::open(&back).unwrap();
    assert_eq!(store.node(OTHER).unwrap(), NODE);
    enqueue(&mut store, vec![job(50)]);
    let last = claimed(&mut store, NOW, claim([50, 51, 52], false));
    assert_eq!(last.last().map(|it| it.lifecycle.id), Some(id(50)));
    let there = to_sqlite(&target, &back, &mut |_| {}).unwrap_err();
    assert!(there.to_string().contains("exists"), "{there}");
}

#[test]
fn a_copy_says_how_far_it_is() {
    let (folder, schema) = (TempDir::new().unwrap(), Schema::new());
    let path = folder.path().join("host.db");
    let mut store = SqliteStore::open(&path).unwrap();
    enqueue(&mut store, (1..=900).map(job).collect());
    drop(store);
    let target = Target::parse(&schema.url(), None).unwrap();
    let check = |copy: &dyn Fn(&mut dyn FnMut(Progress)) -> Result<Moved, StoreError>| {
        let mut reports = Vec::new();
        let moved = copy(&mut |it| reports.push(it)).unwrap();
        assert!(moved.rows > 1_000, "{moved:?}");
        for step in [Step::Copying, Step::Verifying] {
            let of = reports.iter().filter(|it| it.step == step);
            let rows: Vec<u64> = of.clone().map(|it| it.rows).collect();
            assert_eq!(rows, (0..moved.rows).step_by(1_000).collect::<Vec<_>>());
            assert!(of.clone().all(|it| it.rows_total == moved.rows));
        }
    };
    check(&|on_progress| to_postgres(&path, &target, true, OTHER, on_progress));
    let back = folder.path().join("back.db");
    check(&|on_progress| to_sqlite(&target, &back, on_progress));
}

#[test]
fn a_database_that_was_used_or_is_in_use_is_refused() {
    let (folder, schema) = (TempDir::new().unwrap(), Schema::new());
    let path = original(folder.path());
    let used = crate::postgres::open(&schema);
    let mut beats = used.heartbeat();
    let refused = move_to(&path, &schema).unwrap_err().to_string();
    assert!(refused.contains("another host writes to it"), "{refused}");
    let back = folder.path().join("back.db");
    let target = Target::parse(&schema.url(), None).unwrap();
    let refused = to_sqlite(&target, &back, &mut |_| {}).unwrap_err();
    assert!(refused.to_string().contains("another host"), "{refused}");
    assert!(!back.exists());
    beats.leave().unwrap();
    drop(used);
    let refused = move_to(&path, &schema).unwrap_err().to_string();
    assert!(refused.contains("a host has used it"), "{refused}");
}

#[test]
fn a_copy_that_differs_is_not_kept() {
    let (folder, schema) = (TempDir::new().unwrap(), Schema::new());
    let path = original(folder.path());
    let target = Target::parse(&schema.url(), None).unwrap();
    host_store::postgres::admin::migrate(&target).unwrap();
    schema.run(
        "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN NEW.result := '[]'; RETURN NEW; END $$; \
         CREATE TRIGGER spoil BEFORE INSERT ON host_attempts FOR EACH ROW EXECUTE FUNCTION spoil()",
    );
    let refused = move_to(&path, &schema).unwrap_err().to_string();
    assert!(
        refused.contains("attempts: a row of the copy differs"),
        "{refused}"
    );
    schema.run("DROP TRIGGER spoil ON host_attempts");
    move_to(&path, &schema).unwrap();
}
