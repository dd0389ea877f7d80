//! A copy of a store is what was committed at one moment, whatever is written during it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use host_engine::audit::Entry;
use host_engine::component::tables::Blob;
use host_engine::table::Range;
use host_engine::token::KeptToken;
use host_engine::{Reader, Store, StoreError};
use host_store::backup::{Copied, Original};
use host_store::check;
use host_store::sqlite::{SqliteStore, open_reader};
use tempfile::TempDir;

use crate::jobs::{NOW, ask, enqueue, id, job, read, revision};

/// How many jobs a batch of the load has.
const BATCH_JOBS: u128 = 50;

fn jobs_in(path: &Path) -> u64 {
    let reader = open_reader(path).unwrap();
    let queues = reader.queues().unwrap();
    queues.iter().flat_map(|queue| queue.counts).sum()
}

#[test]
fn a_copy_is_the_store_in_one_file() {
    let folder = TempDir::new().unwrap();
    let (path, copy) = (folder.path().join("host.db"), folder.path().join("copy.db"));
    let mut store = SqliteStore::open(&path).unwrap();
    crate::golden::story(&mut store);
    ask(&mut store, NOW, revision("last", &["other"], 7)).unwrap();
    let mut steps = Vec::new();
    copy_file(&path, &copy, |copied| steps.push(copied)).unwrap();
    let last = steps.last().unwrap();
    assert!(
        last.pages > 10 && last.pages == last.pages_total,
        "{steps:?}"
    );
    assert_eq!(check(&copy), []);
    let whole = read(&*store.reader().unwrap());
    assert_eq!(read(&*open_reader(&copy).unwrap()), whole);
    assert_eq!(whole.state.len(), 1, "what handlers keep");
    let copied = open_reader(&copy).unwrap();
    let is_last = |it: &&host_engine::component::Revision| it.component.as_str() == "last";
    let digest = whole.components.iter().find(is_last).unwrap().digest;
    let blob: Option<Blob> = copied.get(digest).unwrap();
    assert_eq!(blob.map(|it| it.bytes), Some(vec![7; 10]));
    let kept = store.reader().unwrap();
    assert_eq!(
        copied.list::<KeptToken>(Range::all()).unwrap(),
        kept.list::<KeptToken>(Range::all()).unwrap()
    );
    assert_eq!(copied.list::<KeptToken>(Range::all()).unwrap().len(), 1);
    let audit = |reader: &dyn Reader| reader.list::<Entry>(Range::all().first(100)).unwrap();
    assert_eq!(audit(&*copied), audit(&*kept));
    assert_eq!(audit(&*copied).len(), 1);
    let files = std::fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    names.retain(|name| name.to_string_lossy().starts_with("copy"));
    assert_eq!(names, ["copy.db"], "nothing is beside it");
    let store = SqliteStore::open(&copy).unwrap();
    assert_eq!(read(&*store.reader().unwrap()), whole, "a host can use it");
}

#[test]
fn a_copy_made_under_load_is_of_one_moment() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("host.db");
    let mut store = SqliteStore::open(&path).unwrap();
    enqueue(&mut store, (1..=5_000).map(job).collect());
    let (stop, kept) = (AtomicBool::new(false), AtomicU64::new(5_000));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut next = 5_001;
            while !stop.load(Ordering::Relaxed) {
                enqueue(&mut store, (next..next + BATCH_JOBS).map(job).collect());
                next += BATCH_JOBS;
                kept.store(u64::try_from(next).unwrap() - 1, Ordering::Release);
            }
        });
        for n in 0..5 {
            let copy = folder.path().join(format!("copy-{n}.db"));
            let before = kept.load(Ordering::Acquire);
            copy_file(&path, &copy, |_| {}).unwrap();
            let jobs = jobs_in(&copy);
            assert!(jobs >= before, "{jobs} of the {before} that were committed");
            assert_eq!(u128::from(jobs) % BATCH_JOBS, 0, "no batch is partial");
            assert_eq!(check(&copy), []);
            let newest = open_reader(&copy)
                .unwrap()
                .state(id(before.into()))
                .unwrap();
            assert!(newest.is_some());
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn nothing_is_overwritten_and_nothing_is_left_of_a_failure() {
    let folder = TempDir::new().unwrap();
    let (path, copy) = (folder.path().join("host.db"), folder.path().join("copy.db"));
    let missing = copy_file(&path, &copy, |_| {}).unwrap_err();
    assert!(matches!(missing, StoreError::Broken { .. }), "{missing}");
    std::fs::write(&path, vec![b'x'; 10_000]).unwrap();
    let damaged = copy_file(&path, &copy, |_| {}).unwrap_err();
    assert!(matches!(damaged, StoreError::Damaged { .. }), "{damaged}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    std::fs::write(&copy, "mine").unwrap();
    copy_file(&path, &copy, |_| {}).unwrap_err();
    assert_eq!(std::fs::read(&copy).unwrap(), b"mine");
}

fn copy_file(from: &Path, to: &Path, on_step: impl FnMut(Copied)) -> Result<(), StoreError> {
    Original::open(from)?.copy(to, on_step)
}
