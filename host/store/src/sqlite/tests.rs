//! When the disk is full, new jobs are refused and accepted ones can end.

mod bounded;

use std::collections::BTreeSet;

use host_core::id::{JobId, LeaseId, NodeId};
use host_core::job::{Lane, NewJob, Payload};
use host_core::json::JsonText;
use host_core::lease::{Fence, Hold};
use host_core::outcome::{Meter, Outcome, Report};
use host_core::policy::Policy;
use host_engine::Reply;
use host_engine::job::Enqueue;
use host_engine::lease::{Claim, Complete, Slot};
use tempfile::TempDir;
use uuid::Uuid;

use super::*;

fn enqueue(n: u128) -> Command {
    Command::from(Enqueue(vec![NewJob {
        id: JobId(Uuid::from_u128(n)),
        handler: "noop".parse().unwrap(),
        executor: None,
        component: None,
        queue: "default".parse().unwrap(),
        priority: 5,
        run_at: None,
        deadline: None,
        policy: Policy::default(),
        unique_key: None,
        depends_on: Vec::new(),
        conditions: None,
        batch: None,
        notify: Vec::new(),
        files: Vec::new(),
        payload: Payload {
            params: JsonText("1".repeat(4_000)),
            wire: "http".to_owned(),
            external_id: None,
            trace_context: Vec::new(),
            attributes: Vec::new(),
            origin: None,
            latest_start: None,
        },
    }]))
}

fn claim() -> Command {
    Command::from(Claim {
        node: NodeId(Uuid::from_u128(1)),
        slots: vec![Slot {
            lease: LeaseId(Uuid::from_u128(1)),
            worker: "cell-1".to_owned(),
            lane: Lane::Shared,
            hold: Hold::Connection,
        }],
        except: BTreeSet::new(),
        params_bytes_max: usize::MAX,
    })
}

fn complete(n: u128) -> Command {
    Command::from(Complete {
        job: JobId(Uuid::from_u128(n)),
        fence: Fence::Lease(LeaseId(Uuid::from_u128(1))),
        report: Box::new(Report {
            outcome: Outcome::Completed { result: None },
            meter: Meter::default(),
            progress: None,
            executor: "cell-1".to_owned(),
            revision: None,
            worker: None,
            requests: None,
        }),
        writes: None,
    })
}

#[test]
fn a_store_keeps_the_id_of_its_host() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("host.db");
    let [first, second] = [1, 2].map(|n| NodeId(Uuid::from_u128(n)));
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.node(first).unwrap(), first);
    assert_eq!(store.node(second).unwrap(), first);
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.node(second).unwrap(), first);
}

/// A limit on pages makes the disk full. Giving up the reserve makes room again.
#[test]
fn a_full_disk_refuses_new_jobs_and_lets_accepted_ones_end() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("host.db");
    let mut store = SqliteStore::open(&path).unwrap();
    let reserve = folder.path().join("host.db-reserve");
    let limit = |store: &SqliteStore, pages: i64| {
        let set = store
            .connection
            .pragma_update(None, "max_page_count", pages);
        set.unwrap();
    };
    store.commit(Time(1), &[enqueue(1), claim()]).unwrap();
    limit(&store, 1);
    let mut accepted = 1;
    let full = loop {
        match store.commit(Time(2), &[enqueue(accepted + 1)]) {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 1_000);
    };
    assert!(matches!(full, StoreError::Full), "{full}");
    assert!(!reserve.exists(), "the reserve is given up");
    limit(&store, 1_000);
    let ended = store.commit(Time(3), &[complete(1)]).unwrap();
    assert!(
        matches!(ended.replies[..], [Ok(Reply::Moved(_))]),
        "{ended:?}"
    );
    let again = store.commit(Time(4), &[enqueue(accepted + 1)]).unwrap();
    assert_eq!(again.available, u64::try_from(accepted).unwrap());
    assert!(reserve.exists(), "it is set aside again first");
    drop(store);
    assert_eq!(check::check(&path), []);
}

#[test]
fn a_batch_that_fails_has_no_effect_and_others_go_on() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("host.db");
    let mut store = SqliteStore::open(&path).unwrap();
    let batch = [enqueue(1), claim()];
    let interrupt = |store: &mut SqliteStore, at_once: bool| {
        let set = store
            .connection
            .progress_handler(1, at_once.then_some(|| true));
        set.unwrap();
    };
    interrupt(&mut store, true);
    let failing = store.commit(Time(1), &batch);
    assert!(
        matches!(failing, Err(StoreError::Failing { .. })),
        "{failing:?}"
    );
    interrupt(&mut store, false);
    let committed = store.commit(Time(2), &batch).unwrap();
    assert_eq!((committed.first_change, committed.available), (Some(1), 0));
    drop(store);
    assert_eq!(check::check(&path), []);
}

#[test]
fn a_store_that_is_not_where_it_was_refuses_new_jobs_and_lets_accepted_ones_end() {
    let folder = TempDir::new().unwrap();
    let (data, away) = (folder.path().join("data"), folder.path().join("away"));
    fs::create_dir(&data).unwrap();
    let path = data.join("host.db");
    let mut store = SqliteStore::open(&path).unwrap();
    let is_moved = |result: Result<Committed, StoreError>| matches!(&result, Err(StoreError::Moved { path }) if path.ends_with("data/host.db"));
    store.commit(Time(1), &[enqueue(1), claim()]).unwrap();
    fs::rename(&data, &away).unwrap();
    assert!(is_moved(store.commit(Time(2), &[enqueue(2)])));
    assert!(store.room().is_err());
    store.commit(Time(3), &[complete(1)]).unwrap();
    // Another store in its place.
    fs::create_dir(&data).unwrap();
    drop(SqliteStore::open(&path).unwrap());
    assert!(is_moved(store.commit(Time(4), &[enqueue(2)])));
    fs::remove_dir_all(&data).unwrap();
    fs::rename(&away, &data).unwrap();
    assert!(store.room().is_ok());
    store.commit(Time(5), &[enqueue(2)]).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(is_moved(store.commit(Time(6), &[enqueue(3)])));
}
