//! Whatever record this host cannot read, it is found, is set aside, and the rest continues with right numbers.

use std::io;
use std::path::Path;

use host_core::cell::{Level, LogSource};
use host_core::job::State;
use host_core::json::JsonText;
use host_engine::job::Tick;
use host_engine::limit::tables::read_limits;
use host_engine::schedule::{KeptSchedule, Overlap, RemoveSchedule};
use host_engine::table::Range;
use host_engine::{Command, Heartbeat as _, Store, StoreError};
use host_store::logs::{LogEntry, LogWriter as _};
use host_store::postgres::target::Target;
use host_store::sqlite::logs::LogStore;
use host_store::sqlite::{SqliteStore, aside};
use host_store::{Finding, Keep, SetAside, check, check_logs, postgres};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::check::store;
use crate::database_check::found;
use crate::jobs::{NOW, ask, claim, claimed, commit, complete, enqueue, id, job, returned};
use crate::schedules::{every, set};
use crate::server::Schema;

/// What is set aside, in memory.
#[derive(Default)]
struct MemoryAside {
    records: Vec<SetAside>,
    is_synced: bool,
}

impl Keep for MemoryAside {
    fn keep(&mut self, record: &SetAside) -> io::Result<()> {
        self.records.push(record.clone());
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.is_synced = true;
        Ok(())
    }
}

impl MemoryAside {
    fn names(&self) -> Vec<String> {
        let names = self.records.iter();
        names.map(|it| format!("{} {}", it.kind, it.id)).collect()
    }
}

/// A record that cannot be read: how it comes about in a file and in a database, and what is set aside first. A database does not
/// accept some of them.
const DAMAGES: [(&str, &str, &str); 31] = [
    (
        "UPDATE queues SET name = 'a b' WHERE name = 'other'",
        "UPDATE host_queues SET name = 'a b' WHERE name = 'other'",
        "queue a b",
    ),
    (
        "UPDATE jobs SET body = x'02ff' WHERE seq = 3",
        "UPDATE host_live SET body = '\\x02ff' WHERE seq = 3",
        "job 3",
    ),
    (
        "UPDATE jobs SET body = x'' WHERE seq = 4",
        "UPDATE host_live SET body = '' WHERE seq = 4",
        "job 4",
    ),
    (
        "UPDATE jobs SET body = x'01' WHERE seq = 8",
        "UPDATE host_live SET body = '\\x01' WHERE seq = 8",
        "job 8",
    ),
    (
        "UPDATE jobs SET body = x'01' WHERE seq = 9",
        "UPDATE host_live SET body = '\\x01' WHERE seq = 9",
        "job 9",
    ),
    (
        "UPDATE jobs SET body = x'01' WHERE seq = 10",
        "UPDATE host_live SET body = '\\x01' WHERE seq = 10",
        "job 20",
    ),
    (
        "UPDATE jobs SET body = x'02ff' WHERE seq = 1",
        "UPDATE host_ended SET body = '\\x02ff' WHERE seq = 1",
        "job 1",
    ),
    (
        "UPDATE jobs SET body = (SELECT body FROM jobs WHERE seq = 4) WHERE seq = 3",
        "UPDATE host_live SET body = (SELECT body FROM host_live WHERE seq = 4) WHERE seq = 3",
        "job 3",
    ),
    (
        "UPDATE jobs SET state = 2, wakeup_at = 7, priority = 700 WHERE seq = 3",
        "UPDATE host_live SET state = 2, wakeup_at = 7, priority = 700 WHERE seq = 3",
        "job 3",
    ),
    (
        "UPDATE payloads SET extra = x'02ff' WHERE seq = 4",
        "UPDATE host_payloads SET extra = '\\x02ff' FROM host_live WHERE job = id AND seq = 4",
        "job 4",
    ),
    (
        "UPDATE payloads SET params = '{' WHERE seq = 3",
        "UPDATE host_payloads SET params = '{' FROM host_live WHERE job = id AND seq = 3",
        "job 3",
    ),
    (
        "UPDATE payloads SET params = CAST(x'22ff22' AS TEXT) WHERE seq = 3",
        "",
        "job 3",
    ),
    (
        "UPDATE attempts SET body = x'02ff' WHERE seq = 1",
        "UPDATE host_attempts SET body = '\\x02ff' FROM host_ended WHERE job = id AND seq = 1",
        "attempt of job 1",
    ),
    (
        "INSERT INTO failures VALUES (2, 1, x'02ff')",
        "INSERT INTO host_failures SELECT id, 1, '\\x02ff' FROM host_live WHERE seq = 2",
        "failure of job 2",
    ),
    (
        "UPDATE unique_keys SET key = CAST(x'ff' AS TEXT)",
        "UPDATE host_unique_keys SET key = '\\xff'",
        "unique key of queue other",
    ),
    ("UPDATE dependencies SET job = x'00'", "", "job 5"),
    (
        "INSERT INTO cascades SELECT 1, id, 1 FROM jobs WHERE seq = 1",
        "INSERT INTO host_cascades SELECT 1, id, 1 FROM host_ended WHERE seq = 1",
        "cascade 1",
    ),
    (
        "UPDATE components SET name = 'a b'",
        "UPDATE host_components SET name = 'a b'",
        "component a b",
    ),
    (
        "UPDATE revisions SET body = '{}'",
        "UPDATE host_revisions SET body = '{}'",
        "revision of component basics 1",
    ),
    (
        "UPDATE blobs SET digest = x'00'",
        "UPDATE host_blobs SET digest = '\\x00'",
        "component file \\x00",
    ),
    (
        "UPDATE state SET space = 'nowhere'",
        "UPDATE host_state SET space = 'nowhere'",
        "value of state nowhere ü",
    ),
    (
        "UPDATE state_spaces SET space = 'nowhere'",
        "UPDATE host_state_spaces SET space = 'nowhere'",
        "size of state nowhere",
    ),
    (
        "UPDATE changes SET body = x'02ff'",
        "UPDATE host_changes SET body = '\\x02ff'",
        "changes 1",
    ),
    (
        "UPDATE tokens SET body = '{}'",
        "UPDATE host_tokens SET body = '{}'",
        "token 000000000001",
    ),
    (
        "INSERT INTO owned VALUES (CAST(x'ff' AS TEXT), 1)",
        "",
        "number of principal \\xff",
    ),
    (
        "UPDATE audit SET hash = x'00' WHERE number = 3",
        "UPDATE host_audit SET hash = '\\x00' WHERE number = 3",
        "entry of the audit 3",
    ),
    (
        "UPDATE schedules SET progress = '{'",
        "UPDATE host_schedules SET progress = '{'",
        "schedule hourly",
    ),
    (
        "UPDATE firings SET body = '{}'",
        "UPDATE host_firings SET body = '{}'",
        "firing of schedule hourly 1",
    ),
    (
        "UPDATE limits SET body = '{}'",
        "UPDATE host_limits SET body = '{}'",
        "limit 1000000",
    ),
    (
        "UPDATE limit_keys SET reserved = -1",
        "UPDATE host_limit_keys SET reserved = -1",
        "key of limit 1000000 ",
    ),
    (
        "UPDATE batches SET progress = '{}'",
        "UPDATE host_batches SET progress = '{}'",
        "batch 01990000-0000-7000-9000-000000000001",
    ),
];

/// Returns the name that a case gives to what is set aside: jobs are numbered there.
fn full(name: &str) -> String {
    let (start, number) = name.rsplit_once(' ').unwrap();
    let number = number.parse().ok().filter(|_| start.ends_with("job"));
    number.map_or(name.to_owned(), |number| format!("{start} {}", id(number)))
}

/// The attempt is the last word of its name.
fn is_named(names: &[String], name: &str) -> bool {
    names.iter().any(|it| it.starts_with(&full(name)))
}

/// Uses what is left: a tick, which moves on what waits, and a new job that runs.
fn use_rest(store: &mut dyn Store) {
    ask(store, NOW, Command::from(Tick { limit: 100 })).unwrap();
    enqueue(store, vec![job(90)]);
    let runs = claimed(store, NOW, claim([91, 92, 93, 94, 95, 96], false));
    assert!(!runs.is_empty());
    let last = runs.len() as u128 + 90;
    let _ = ask(store, NOW, complete(90, last, returned()));
    let reader = store.reader().unwrap();
    reader.list::<KeptSchedule>(Range::all()).unwrap();
    read_limits(&*reader).unwrap();
    store.reader().unwrap().changes(0, 1_000).unwrap();
}

/// Whatever the store of a file keeps, it is found and set aside, and nothing is wrong with the rest.
#[test]
fn what_cannot_be_read_of_a_file_is_set_aside() {
    for (damage, _, name) in DAMAGES {
        let folder = TempDir::new().unwrap();
        let path = store(&folder);
        let damaged = Connection::open(&path).unwrap();
        damaged.execute_batch(damage).unwrap();
        drop(damaged);
        assert_ne!(check(&path), [], "{damage}");
        let mut kept = MemoryAside::default();
        aside::set_aside(&path, &mut kept).unwrap();
        let names = kept.names();
        assert!(
            kept.is_synced && is_named(&names, name),
            "{damage}: {names:?}"
        );
        assert_eq!(check(&path), [], "{damage}: {names:?}");
        let again = aside::set_aside(&path, &mut MemoryAside::default()).unwrap();
        assert_eq!(again, 0, "{damage}: {names:?}");
        use_rest(&mut SqliteStore::open(&path).unwrap());
        assert_eq!(check(&path), [], "{damage}: {names:?}");
    }
}

#[test]
fn what_cannot_be_read_of_a_database_is_set_aside() {
    let folder = TempDir::new().unwrap();
    let path = store(&folder);
    for (_, damage, name) in DAMAGES {
        if damage.is_empty() {
            continue;
        }
        let schema = Schema::new();
        let target = Target::parse(&schema.url(), None).unwrap();
        let node = crate::jobs::NODE;
        host_store::copy::to_postgres(&path, &target, true, node, &mut |_| {}).unwrap();
        schema.run(damage);
        assert_ne!(found(&target), [], "{damage}");
        let mut kept = MemoryAside::default();
        postgres::aside::set_aside(&target, &mut kept).unwrap();
        let names = kept.names();
        assert!(
            kept.is_synced && is_named(&names, name),
            "{damage}: {names:?}"
        );
        assert_eq!(found(&target), [], "{damage}: {names:?}");
        let mut store = crate::postgres::open(&schema);
        use_rest(&mut store);
        store.heartbeat().leave().unwrap();
        assert_eq!(found(&target), [], "{damage}: {names:?}");
    }
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

#[test]
fn lines_of_logs_that_cannot_be_read_are_set_aside() {
    let folder = TempDir::new().unwrap();
    let path = store(&folder);
    let logs = path.with_file_name("logs.db");
    let mut lines = LogStore::open(&logs).unwrap();
    lines.append(vec![line("one"), line("two")]).unwrap();
    drop(lines);
    let damaged = Connection::open(&logs).unwrap();
    let sql = "UPDATE lines SET fields = '{' WHERE n = 1";
    damaged.execute_batch(sql).unwrap();
    drop(damaged);
    let mut kept = MemoryAside::default();
    aside::set_aside(&path, &mut kept).unwrap();
    assert_eq!(kept.names(), ["line of logs 1"]);
    let page = LogStore::open(&logs).unwrap().reader().unwrap();
    let page = page.page(id(1), None, 10).unwrap();
    assert_eq!(page.items.len(), 1);
    assert_eq!(check_logs(&logs), None::<Finding>);
}

/// What belongs to a job is set aside with it, so that nothing is lost.
#[test]
fn a_job_is_set_aside_with_all_that_belongs_to_it() {
    let folder = TempDir::new().unwrap();
    let path = store(&folder);
    let damaged = Connection::open(&path).unwrap();
    let sql = "UPDATE jobs SET body = x'02ff' WHERE seq IN (4, 6)";
    damaged.execute_batch(sql).unwrap();
    drop(damaged);
    let mut kept = MemoryAside::default();
    aside::set_aside(&path, &mut kept).unwrap();
    let of = |kind: &str, n| format!("{kind} {}", id(n));
    let names = kept.names();
    for name in [
        of("job", 4),
        of("job", 6),
        of("params of job", 4),
        of("params of job", 6),
        "unique key of queue other k".to_owned(),
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    let row = &kept.records[0].row;
    assert_eq!(row["body"], "\\x02ff");
    assert_eq!(row["queue"], "default");
    // Jobs that waited for it learn that it will not complete.
    let mut store = SqliteStore::open(&path).unwrap();
    ask(&mut store, NOW, Command::from(Tick { limit: 100 })).unwrap();
    let state = store.reader().unwrap().state(id(5)).unwrap().unwrap();
    assert_eq!(state, State::Discarded);
}

/// Where too much cannot be read, a copy is better, or the host that wrote it.
#[test]
fn a_store_full_of_records_that_cannot_be_read_stays_as_it_is() {
    let folder = TempDir::new().unwrap();
    let path = store(&folder);
    let damaged = Connection::open(&path).unwrap();
    let sql = "WITH RECURSIVE n (n) AS (SELECT 10 UNION ALL SELECT n + 1 FROM n WHERE n < 1010) \
               INSERT INTO firings SELECT 'hourly', n, '{}' FROM n";
    damaged.execute_batch(sql).unwrap();
    drop(damaged);
    let bytes = std::fs::read(&path).unwrap();
    let mut kept = MemoryAside::default();
    let refused = aside::set_aside(&path, &mut kept).unwrap_err().to_string();
    assert!(refused.contains("more than 1000 records"), "{refused}");
    assert_eq!(kept.names(), Vec::<String>::new());
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

/// A file of which the host cannot read one job still takes commands about others.
#[test]
fn a_record_that_cannot_be_read_harms_only_commands_about_it() {
    let folder = TempDir::new().unwrap();
    let path = store(&folder);
    damage_job(&path, 6);
    let mut store = SqliteStore::open(&path).unwrap();
    let cancel = host_engine::job::Retry {
        job: id(6),
        force: false,
    };
    let refused = store.commit(NOW, &[Command::from(cancel)]);
    match refused.unwrap_err() {
        StoreError::Unreadable { what, .. } => assert_eq!(what, format!("job {}", id(6))),
        error => panic!("{error}"),
    }
    enqueue(&mut store, vec![job(90)]);
}

/// A job that neither a tick nor a claim can read is named once, and is neither due nor claimable again.
fn pass_over(store: &mut dyn Store, case: &str) {
    let named: Vec<String> = (0..2)
        .flat_map(|_| {
            let tick = Command::from(Tick { limit: 100 });
            let ticked = commit(store, NOW, vec![tick]);
            assert!(
                ticked.next_wakeup.is_none_or(|at| at > NOW),
                "{case}: {ticked:?}"
            );
            ticked.unreadable
        })
        .collect();
    enqueue(store, vec![job(90)]);
    let claim = || claim([91, 92, 93, 94, 95, 96], false);
    let claimed = commit(store, NOW, vec![claim()]);
    let state = store.reader().unwrap().state(id(90)).unwrap();
    assert_eq!(state, Some(State::Running), "{case}");
    let again = commit(store, NOW, vec![claim()]);
    assert_eq!(again.unreadable, [] as [String; 0], "{case}");
    let mut named = [named, claimed.unreadable].concat();
    let all = named.len();
    named.sort_unstable();
    named.dedup();
    assert_eq!(named.len(), all, "{case}: {named:?}");
    assert!(all > 0, "{case}");
}

/// How jobs become unreadable that are due or claimable, in a file and in a database.
const UNREADABLE_JOBS: [(&str, &str); 4] = [
    (
        "UPDATE jobs SET body = x'02ff' WHERE state < 5",
        "UPDATE host_live SET body = '\\x02ff'",
    ),
    (
        "UPDATE jobs SET body = x'02ff', wakeup_at = 1",
        "UPDATE host_live SET body = '\\x02ff', wakeup_at = 1; UPDATE host_ended SET body = '', wakeup_at = 1",
    ),
    (
        "UPDATE jobs SET body = (SELECT body FROM jobs WHERE seq = 1) WHERE seq = 4",
        "UPDATE host_live SET body = (SELECT body FROM host_ended WHERE seq = 1) WHERE seq = 4",
    ),
    (
        "UPDATE payloads SET extra = x'02ff' WHERE seq = 4",
        "UPDATE host_payloads SET extra = '\\x02ff' FROM host_live WHERE job = id AND seq = 4",
    ),
];

#[test]
fn a_job_that_cannot_be_read_keeps_no_other_from_running() {
    for (damage, _) in UNREADABLE_JOBS {
        let folder = TempDir::new().unwrap();
        let path = store(&folder);
        let damaged = Connection::open(&path).unwrap();
        damaged.execute_batch(damage).unwrap();
        drop(damaged);
        pass_over(&mut SqliteStore::open(&path).unwrap(), damage);
    }
}

#[test]
fn a_job_of_a_database_that_cannot_be_read_keeps_no_other_from_running() {
    let folder = TempDir::new().unwrap();
    let path = store(&folder);
    for (_, damage) in UNREADABLE_JOBS {
        let schema = Schema::new();
        let target = Target::parse(&schema.url(), None).unwrap();
        let node = crate::jobs::NODE;
        host_store::copy::to_postgres(&path, &target, true, node, &mut |_| {}).unwrap();
        schema.run(damage);
        let mut store = crate::postgres::open(&schema);
        pass_over(&mut store, damage);
        store.heartbeat().leave().unwrap();
    }
}

/// A batch of jobs that cannot be read harms neither ticks nor its jobs. It is read again later, because another host may have
/// written it.
#[test]
fn a_batch_that_cannot_be_read_harms_nothing_else() {
    let folder = TempDir::new().unwrap();
    let path = store(&folder);
    let damaged = Connection::open(&path).unwrap();
    let sql = "UPDATE batches SET progress = '{}', wake_at = 0";
    damaged.execute_batch(sql).unwrap();
    drop(damaged);
    let mut store = SqliteStore::open(&path).unwrap();
    let tick = Command::from(Tick { limit: 100 });
    let ticked = commit(&mut store, NOW, vec![tick.clone()]);
    let [flaw] = &ticked.unreadable[..] else {
        panic!("{:?}", ticked.unreadable);
    };
    assert!(flaw.starts_with("batch 01990000-"), "{flaw}");
    assert!(ticked.next_wakeup > Some(NOW), "{ticked:?}");
    let again = commit(&mut store, NOW, vec![tick]);
    assert_eq!(again.unreadable, [] as [String; 0]);
    let runs = claimed(&mut store, NOW, claim([91, 92, 93, 94, 95, 96], false));
    let lease = runs.iter().position(|run| run.lifecycle.id == id(20));
    let lease = lease.expect("it runs") as u128 + 91;
    ask(&mut store, NOW, complete(20, lease, returned())).unwrap();
    let state = store.reader().unwrap().state(id(20)).unwrap();
    assert_eq!(state, Some(State::Completed));
}

/// Those that can be read are listed, and the others can be removed.
#[test]
fn a_schedule_that_cannot_be_read_harms_no_other() {
    let folder = TempDir::new().unwrap();
    let path = store(&folder);
    let mut store = SqliteStore::open(&path).unwrap();
    let set = set(every("daily", 86_400_000, Overlap::Skip), NOW);
    ask(&mut store, NOW, set).unwrap();
    drop(store);
    for (name, sql) in [
        (
            "hourly",
            "UPDATE schedules SET progress = '{' WHERE name = 'hourly'",
        ),
        (
            "daily",
            "UPDATE schedules SET body = replace(body, 'daily', 'weekly')",
        ),
    ] {
        let damaged = Connection::open(&path).unwrap();
        damaged.execute_batch(sql).unwrap();
        drop(damaged);
        let mut store = SqliteStore::open(&path).unwrap();
        let reader = store.reader().unwrap();
        let listing = reader.list_readable::<KeptSchedule>(Range::all()).unwrap();
        let readable = reader.count_records::<KeptSchedule>(Range::all()).unwrap() - 1;
        assert_eq!(listing.records.len() as u64, readable, "{name}");
        let [flaw] = &listing.flaws[..] else {
            panic!("{name}: {:?}", listing.flaws);
        };
        let flaw = flaw.to_string();
        assert!(flaw.starts_with(&format!("schedule {name}")), "{flaw}");
        let schedule = name.parse().unwrap();
        ask(&mut store, NOW, RemoveSchedule { schedule }.into()).unwrap();
    }
    assert_eq!(check(&path), []);
}

fn damage_job(path: &Path, seq: u32) {
    let damaged = Connection::open(path).unwrap();
    let sql = format!("UPDATE jobs SET body = x'02ff' WHERE seq = {seq}");
    damaged.execute_batch(&sql).unwrap();
}
