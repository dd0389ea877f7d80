//! The check finds nothing in an intact store, and names each damage.

use std::collections::BTreeSet;

use host_engine::audit::Note;
use host_engine::job::{Cancel, Retry, Tick};
use host_engine::schedule::Overlap;
use host_engine::{Ask as _, Command, StoreError};
use host_store::check;
use host_store::sqlite::SqliteStore;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::access::{put, token};
use crate::job_batches::new_batch;
use crate::jobs::{
    NOW, ask, claim, claimed, commit, complete, enqueue, failed, id, job, returned, revision,
    set_state,
};
use crate::limit_keys::one_waits;
use crate::schedules::{every, fire, set};

/// Makes a store with jobs in many states, one component and two queues.
pub(crate) fn store(folder: &TempDir) -> std::path::PathBuf {
    let path = folder.path().join("host.db");
    let mut store = SqliteStore::open(&path).unwrap();
    let mut dependent = job(5);
    dependent.depends_on = vec![id(4)];
    let mut keyed = job(6);
    keyed.unique_key = Some(crate::jobs::unique(
        "k",
        host_core::job::UniqueScope::Active,
    ));
    keyed.queue = "other".parse().unwrap();
    enqueue(
        &mut store,
        vec![job(1), job(2), job(3), job(4), dependent, keyed],
    );
    claimed(&mut store, NOW, claim([1, 2, 3], false));
    commit(
        &mut store,
        NOW,
        vec![
            revision("basics", &["noop"], 1),
            set_state("handler:noop", "ü", Some(b"17")),
            complete(1, 1, returned()),
            complete(2, 2, failed(true)),
            Command::from(Cancel {
                job: id(6),
                reason: None,
                grace_ms: None,
            }),
            put(token("000000000001"), true)
                .noted(Note::new("tokens", "first"))
                .into(),
            Command::from(Tick { limit: 0 })
                .noted(Note::new("operate", "second"))
                .into(),
            Command::from(Tick { limit: 0 })
                .noted(Note::new("operate", "third"))
                .into(),
            set(every("hourly", 3_600_000, Overlap::Skip), NOW),
        ],
    );
    let name = "hourly".parse().unwrap();
    let fired = fire(&store, &name, NOW, &[id(7)], Some(vec![NOW]));
    ask(&mut store, NOW, fired).unwrap();
    commit(&mut store, NOW, one_waits(8).to_vec());
    ask(&mut store, NOW, new_batch(1, false, vec![job(20)])).unwrap();
    path
}

#[test]
fn nothing_is_found_in_a_good_store() {
    let folder = TempDir::new().unwrap();
    let path = store(&folder);
    assert_eq!(check(&path), []);
    let open = SqliteStore::open(&path).unwrap();
    assert_eq!(check(&path), [], "it may be in use");
    drop(open);
}

#[test]
fn each_damage_is_named() {
    for (damage, what, message) in [
        (
            "UPDATE jobs SET state = 2 WHERE seq = 1",
            "job 1",
            "its state differs",
        ),
        (
            "UPDATE jobs SET wakeup_at = 5 WHERE seq = 4",
            "job 4",
            "its wakeup differs",
        ),
        (
            "UPDATE jobs SET runner = 'python' WHERE seq = 4",
            "job 4",
            "its runner differs",
        ),
        (
            "UPDATE jobs SET body = x'02ff' WHERE seq = 2",
            "job 2",
            "its record cannot be read",
        ),
        (
            "UPDATE jobs SET body = (SELECT body FROM jobs WHERE seq = 4) WHERE seq = 3",
            "job 3",
            "its id differs",
        ),
        (
            "UPDATE counters SET jobs = 7 WHERE state = 3",
            "queue default",
            "running jobs is 7, but there are 1",
        ),
        (
            "UPDATE live_jobs SET jobs = 7",
            "handler noop",
            "live jobs is 7, but there are",
        ),
        (
            "DELETE FROM payloads WHERE seq = 3",
            "job 3",
            "params are missing",
        ),
        (
            "DELETE FROM jobs WHERE seq = 1",
            "attempt 1 of job 1",
            "belongs to no job",
        ),
        (
            "DELETE FROM jobs WHERE seq = 6",
            "unique key k",
            "refers to no job",
        ),
        ("DELETE FROM dependencies", "job 5", "it waits for no job"),
        (
            "UPDATE attempts SET number = 9 WHERE seq = 1",
            "attempt 9 of job 1",
            "its number",
        ),
        (
            "UPDATE jobs SET waits_for = NULL WHERE seq = 9",
            "job 9",
            "its limit differs",
        ),
        ("DELETE FROM blobs", "component basics", "is missing"),
        (
            "UPDATE state_spaces SET bytes = 1",
            "the state handler:noop",
            "its size differs",
        ),
        (
            "DELETE FROM state_spaces",
            "the state handler:noop",
            "its size differs",
        ),
        (
            "UPDATE audit SET record = replace(record, 'first', 'worst') WHERE number = 1",
            "entry 1 of the audit",
            "it was changed",
        ),
        (
            "DELETE FROM audit WHERE number = 2",
            "entry 3 of the audit",
            "entries before it are missing",
        ),
        (
            "UPDATE tokens SET body = replace(body, 'enqueue', 'everything')",
            "token 000000000001",
            "expected one of",
        ),
    ] {
        is_named(damage, what, message);
    }
}

#[test]
fn each_damage_of_limits_is_named() {
    for (damage, what, message) in [
        (
            "UPDATE limit_keys SET waiting = 7",
            "the key \"\" of limit 1000000",
            "jobs that wait is 7, but there are 1",
        ),
        (
            "UPDATE limit_keys SET reserved_units = 7",
            "the key \"\" of limit 1000000",
            "units of available jobs is 7, but there are 1",
        ),
        (
            "INSERT INTO limit_running SELECT 1000000, '', 1, id FROM jobs WHERE seq = 1",
            "the key \"\" of limit 1000000",
            "its list of running jobs is wrong about job",
        ),
        (
            "DELETE FROM limit_keys",
            "the key \"\" of limit 1000000",
            "available jobs is 0, but there are 1",
        ),
    ] {
        is_named(damage, what, message);
    }
}

#[test]
fn each_damage_of_schedules_is_named() {
    for (damage, what, message) in [
        (
            "UPDATE schedules SET body = '{}'",
            "schedule hourly",
            "missing field",
        ),
        (
            "UPDATE schedules SET fires_at = 1",
            "schedule hourly",
            "when it fires differs",
        ),
        (
            "UPDATE firings SET body = '{}'",
            "firing of schedule hourly 1",
            "missing field",
        ),
        (
            "DELETE FROM schedules",
            "firings of schedule hourly",
            "they belong to no schedule",
        ),
    ] {
        is_named(damage, what, message);
    }
}

/// Damages a store, and checks that this is found.
fn is_named(damage: &str, what: &str, message: &str) {
    let folder = TempDir::new().unwrap();
    let path = store(&folder);
    Connection::open(&path)
        .unwrap()
        .execute_batch(damage)
        .unwrap();
    let findings = check(&path);
    let found = findings
        .iter()
        .any(|finding| finding.what == what && finding.message.contains(message));
    assert!(found, "{damage}: {findings:?}");
}

#[test]
fn a_damaged_batch_is_named() {
    for (damage, what, message) in [
        (
            "UPDATE batches SET progress = replace(progress, '\"jobs\":1', '\"jobs\":2')",
            "batch 01990000-0000-7000-9000-000000000001",
            "its numbers are",
        ),
        (
            "UPDATE jobs SET batch = NULL WHERE batch IS NOT NULL",
            "job 10",
            "its batch differs",
        ),
    ] {
        is_named(damage, what, message);
    }
}

#[test]
fn a_job_that_waits_again_for_a_discarded_one_is_no_finding() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("host.db");
    let mut store = SqliteStore::open(&path).unwrap();
    let mut waits = job(2);
    waits.depends_on = vec![id(1)];
    enqueue(&mut store, vec![job(1), waits]);
    let cancel = Command::from(Cancel {
        job: id(1),
        reason: None,
        grace_ms: None,
    });
    ask(&mut store, NOW, cancel).unwrap();
    let retry = Command::from(Retry {
        job: id(2),
        force: false,
    });
    ask(&mut store, NOW, retry).unwrap();
    drop(store);
    assert_eq!(check(&path), []);
}

#[test]
fn a_file_with_a_torn_page_or_none_at_all_is_a_finding() {
    let folder = TempDir::new().unwrap();
    let path = store(&folder);
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 4096;
    bytes[last..].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    assert_ne!(check(&path), []);
    assert_ne!(check(&folder.path().join("nothing.db")), []);
}

/// Every page of the file in turn, zeroed or with random bytes at its head.
#[test]
fn a_damaged_page_is_found_and_its_table_is_named() {
    let folder = TempDir::new().unwrap();
    let path = store(&folder);
    let whole = std::fs::read(&path).unwrap();
    let pages = whole.len() / 4096;
    assert!(pages > 10, "{pages} pages");
    let mut of_no_table = BTreeSet::new();
    for (damage, page) in [0x00, 0xa5]
        .into_iter()
        .flat_map(|it| (1..pages).map(move |n| (it, n)))
    {
        let mut bytes = whole.clone();
        let at = page * 4096;
        bytes[at..at + 200].fill(damage);
        std::fs::write(&path, &bytes).unwrap();
        let findings = check(&path);
        let named = findings
            .iter()
            .any(|finding| finding.what.starts_with("the table "));
        if !named {
            let is_found = findings.iter().any(|finding| finding.what == "the store");
            assert!(is_found, "page {page} with {damage:#x}: {findings:?}");
            of_no_table.insert(page);
        }
    }
    // The list of tables has pages of its own.
    assert!(of_no_table.len() <= 3, "{of_no_table:?}");
}

/// A killed host leaves its log beside the file.
#[test]
fn a_store_that_was_not_closed_is_checked_when_it_is_opened() {
    let folder = TempDir::new().unwrap();
    let path = store(&folder);
    let whole = std::fs::read(&path).unwrap();
    let (mut refused, mut of_no_table) = (0, 0);
    for page in 1..whole.len() / 4096 {
        let mut bytes = whole.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0);
        std::fs::write(&path, &bytes).unwrap();
        std::fs::write(folder.path().join("host.db-wal"), b"cut off").unwrap();
        match SqliteStore::open(&path) {
            Ok(_) => {}
            Err(StoreError::Damaged { what, .. }) => {
                let is_table = what.starts_with("the table ");
                of_no_table += usize::from(!is_table);
                assert!(is_table || what == "the store", "page {page}: {what}");
                refused += 1;
            }
            Err(error) => panic!("page {page}: {error}"),
        }
    }
    assert_eq!(refused, whole.len() / 4096 - 1, "every page");
    // The list of tables has pages of its own.
    assert!(of_no_table <= 3, "{of_no_table}");
}
