//! A store of each version, as the host of that version wrote it, opens and works. `story` makes the dumps in
//! `golden/`. `UPDATE_GOLDENS=1` writes the dump of the current version; that of an earlier version never
//! changes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use host_core::job::{NewJob, State, UniqueScope};
use host_engine::audit::Note;
use host_engine::component::tables::Blob;
use host_engine::job::{Cancel, Retry, Tick};
use host_engine::schedule::Overlap;
use host_engine::{Ask as _, Command, Store, schedule};
use host_store::check;
use host_store::sqlite::{SqliteStore, open_reader};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use tempfile::TempDir;

use crate::access::{put, token};
use crate::job_batches::new_batch;
use crate::jobs::{
    NODE, NOW, ask, claim, claimed, commit, complete, enqueue, failed, id, job, read, recover,
    returned, revision, set_state, unique,
};
use crate::limit_keys::one_waits;
use crate::schedules::{every, fire, set};

/// Set to write the golden of the current version.
const UPDATE: &str = "UPDATE_GOLDENS";

/// The states of the story's jobs 1 to 8.
const STATES: [State; 8] = [
    State::Completed,
    State::Retryable,
    State::Running,
    State::Available,
    State::Pending,
    State::Scheduled,
    State::Cancelled,
    State::Discarded,
];

/// Keeps a token, an entry of the audit, a schedule that has fired, a limit and a batch, and puts a job into each state, with attempts, failures, a dependency, a unique key and a component.
pub(crate) fn story(store: &mut SqliteStore) {
    store.node(NODE).unwrap();
    commit(
        store,
        NOW,
        vec![
            revision("basics", &["noop"], 1),
            revision("basics", &["noop", "echo"], 2),
        ],
    );
    let kept = put(token("000000000001"), true)
        .noted(Note::new("tokens", "token 000000000001"))
        .into();
    commit(store, NOW, vec![kept]);
    let nightly = every("nightly", 60_000, Overlap::QueueOne);
    commit(store, NOW, vec![set(nightly.clone(), NOW)]);
    let mut fire = fire(store, &nightly.name, NOW.plus_ms(90_000), &[id(9)], None);
    if let Command::Schedule(schedule::Command::Fire(fire)) = &mut fire {
        fire.job = Err("no handler is named noop".to_owned());
    }
    commit(store, NOW, vec![fire]);
    enqueue(store, vec![job(1), job(2), job(3), job(8)]);
    assert_eq!(claimed(store, NOW, claim([1, 2, 3, 8], false)).len(), 4);
    let scheduled = NewJob {
        run_at: Some(NOW.plus_ms(60_000)),
        ..job(6)
    };
    let dependent = NewJob {
        depends_on: vec![id(4)],
        ..job(5)
    };
    let mut keyed = job(7);
    keyed.unique_key = Some(unique("key", UniqueScope::Active));
    keyed.payload.attributes = vec![("team".to_owned(), "a".to_owned())];
    keyed.queue = "other".parse().unwrap();
    enqueue(store, vec![job(4), dependent, scheduled, keyed]);
    commit(
        store,
        NOW,
        vec![
            complete(1, 1, returned()),
            complete(2, 2, failed(true)),
            complete(8, 8, failed(false)),
            set_state("handler:noop", "cursor", Some(b"17")),
            Command::from(Cancel {
                job: id(7),
                reason: Some("enough".to_owned()),
                grace_ms: None,
            }),
        ],
    );
    commit(store, NOW, one_waits(10).to_vec());
    ask(store, NOW, new_batch(1, true, vec![job(30)])).unwrap();
}

fn states(store: &SqliteStore) -> [State; 8] {
    let reader = store.reader().unwrap();
    [1, 2, 3, 4, 5, 6, 7, 8].map(|n| reader.state(id(n)).unwrap().unwrap())
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/store/golden")
}

/// Returns the versions that have a golden.
fn versions() -> BTreeSet<i64> {
    let files = std::fs::read_dir(folder()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names
        .map(|name| {
            let number = name
                .strip_prefix("version_")
                .and_then(|it| it.strip_suffix(".sql"));
            number.unwrap().parse().unwrap()
        })
        .collect()
}

fn golden(version: i64) -> PathBuf {
    folder().join(format!("version_{version}.sql"))
}

fn version(connection: &Connection) -> i64 {
    let version = connection.pragma_query_value(None, "user_version", |row| row.get(0));
    version.unwrap()
}

/// Dumps a SQLite file as the statements that create it.
fn dump(path: &Path) -> String {
    let connection = Connection::open(path).unwrap();
    let mut text = String::new();
    let sql = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL \
               ORDER BY type = 'index', rowid";
    let mut schema = connection.prepare(sql).unwrap();
    let mut rows = schema.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let (name, sql): (String, String) = (row.get(0).unwrap(), row.get(1).unwrap());
        writeln!(text, "{sql};").unwrap();
        if sql.starts_with("CREATE TABLE") {
            values(&connection, &name, &mut text);
        }
    }
    writeln!(text, "PRAGMA user_version = {};", version(&connection)).unwrap();
    text
}

fn values(connection: &Connection, table: &str, text: &mut String) {
    let mut statement = connection
        .prepare(&format!("SELECT * FROM {table}"))
        .unwrap();
    let columns = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let values: Vec<_> = (0..columns)
            .map(|column| match row.get_ref(column).unwrap() {
                ValueRef::Null => "NULL".to_owned(),
                ValueRef::Integer(number) => number.to_string(),
                ValueRef::Real(number) => number.to_string(),
                ValueRef::Text(text) => {
                    format!("'{}'", String::from_utf8_lossy(text).replace('\'', "''"))
                }
                ValueRef::Blob(bytes) => {
                    let mut hex = String::new();
                    for byte in bytes {
                        write!(hex, "{byte:02x}").unwrap();
                    }
                    format!("X'{hex}'")
                }
            })
            .collect();
        writeln!(text, "INSERT INTO {table} VALUES({});", values.join(",")).unwrap();
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a variable asks for the golden to be written"
)]
fn the_current_layout_has_its_golden() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("host.db");
    let mut store = SqliteStore::open(&path).unwrap();
    story(&mut store);
    assert_eq!(states(&store), STATES);
    drop(store);
    let current = version(&Connection::open(&path).unwrap());
    let made = dump(&path);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(golden(current), &made).unwrap();
    }
    let kept = std::fs::read_to_string(golden(current)).unwrap_or_default();
    assert_eq!(
        without_manifests(&kept),
        without_manifests(&made),
        "the layout or its records differ from the golden. If version {current} has been released, raise \
         the version and keep the golden. Otherwise rewrite it with {UPDATE}=1"
    );
    let all: BTreeSet<_> = (1..=current).collect();
    assert_eq!(versions(), all, "each version has a golden");
}

/// Leaves out the rows of revisions: manifests get new keys, which stores of the same version may lack.
fn without_manifests(dump: &str) -> Vec<&str> {
    let is_revision = |line: &&str| line.starts_with("INSERT INTO revisions");
    dump.lines().filter(|line| !is_revision(line)).collect()
}

#[test]
fn a_store_of_each_layout_opens_and_goes_on() {
    for version in versions() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("host.db");
        let text = std::fs::read_to_string(golden(version)).unwrap();
        Connection::open(&path)
            .unwrap()
            .execute_batch(&text)
            .unwrap();
        assert_eq!(check(&path), [], "version {version}, unchanged");
        let before = read(&*open_reader(&path).unwrap());

        let mut store = SqliteStore::open(&path).unwrap();
        assert_eq!(store.node(NODE).unwrap(), NODE);
        assert_eq!(states(&store), STATES, "version {version}");
        assert_eq!(read(&*store.reader().unwrap()), before);
        let components = &before.components;
        assert_eq!((components.len(), components[0].revision), (1, 2));
        let reader = store.reader().unwrap();
        let blob: Option<Blob> = reader.get(components[0].digest).unwrap();
        assert_eq!(blob.map(|it| it.bytes), Some(vec![2; 10]));
        let keyed = reader.job(id(7)).unwrap().unwrap();
        assert_eq!(keyed.unique_key.as_deref(), Some("key"));
        assert_eq!(keyed.payload.attributes[0].1, "a");
        goes_on(&mut store);
        drop((reader, store));
        assert_eq!(check(&path), [], "version {version}, in use");
    }
}

/// Runs all jobs to their end.
fn goes_on(store: &mut SqliteStore) {
    ask(store, NOW, recover(NODE)).unwrap();
    for n in [7, 8] {
        let retry = Command::from(Retry {
            job: id(n),
            force: false,
        });
        ask(store, NOW, retry).unwrap();
    }
    let later = NOW.plus_ms(120_000);
    ask(store, later, Command::from(Tick { limit: 100 })).unwrap();
    let mut lease = 100;
    loop {
        let jobs = claimed(store, later, claim([lease], false));
        let Some(claimed) = jobs.first() else { break };
        let n = claimed.lifecycle.id.0.as_u128() & 0xff;
        ask(store, later, complete(n, lease, returned())).unwrap();
        lease += 1;
    }
    assert_eq!(states(store), [State::Completed; 8]);
}
