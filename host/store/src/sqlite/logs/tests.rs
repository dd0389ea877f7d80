//! Lines stay in order, are removed with their job, and are limited in total size.

use tempfile::TempDir;
use uuid::Uuid;

use super::*;

fn job(n: u128) -> JobId {
    JobId(Uuid::from_u128(n))
}

fn entry(n: u128, message: &str) -> LogEntry {
    LogEntry {
        job: job(n),
        attempt: 2,
        at: Time(1_000),
        level: Level::Warn,
        source: LogSource::Stderr,
        message: message.to_owned(),
        fields: Vec::new(),
    }
}

fn messages(page: &LogPage) -> Vec<&str> {
    page.items
        .iter()
        .map(|(_, entry)| entry.message.as_str())
        .collect()
}

#[test]
fn lines_come_back_as_they_were_and_by_job() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("logs.db");
    let mut all = Vec::new();
    for level in LEVELS {
        for source in SOURCES {
            all.push(LogEntry {
                level,
                source,
                fields: vec![
                    ("z".to_owned(), "1\n2".to_owned()),
                    ("a".to_owned(), String::new()),
                ],
                ..entry(1, "two\nlines")
            });
        }
    }
    let mut logs = LogStore::open(&path).unwrap();
    logs.append(all.clone()).unwrap();
    logs.append(vec![entry(2, "other")]).unwrap();
    drop(logs);
    let reader = LogStore::open(&path).unwrap().reader().unwrap();
    let page = reader.page(job(1), None, 1_000).unwrap();
    let read: Vec<LogEntry> = page.items.into_iter().map(|(_, entry)| entry).collect();
    assert_eq!((read, page.next), (all, None));
    assert_eq!(messages(&reader.page(job(2), None, 10).unwrap()), ["other"]);
    assert!(reader.page(job(3), None, 10).unwrap().items.is_empty());
}

#[test]
fn pages_go_on_where_the_last_one_ended_and_follow_a_growing_log() {
    let folder = TempDir::new().unwrap();
    let mut logs = LogStore::open(&folder.path().join("logs.db")).unwrap();
    let reader = logs.reader().unwrap();
    let of = |job, texts: &[&str]| texts.iter().map(|text| entry(job, text)).collect();
    logs.append(of(1, &["a", "b"])).unwrap();
    logs.append(of(2, &["x"])).unwrap();
    logs.append(of(1, &["c"])).unwrap();
    let first = reader.page(job(1), None, 2).unwrap();
    assert_eq!(messages(&first), ["a", "b"]);
    let second = reader.page(job(1), first.next, 2).unwrap();
    assert_eq!((messages(&second), second.next), (vec!["c"], None));
    let last = second.items[0].0;
    logs.append(of(1, &["d"])).unwrap();
    let third = reader.page(job(1), Some(last), 2).unwrap();
    assert_eq!(messages(&third), ["d"]);
}

#[test]
fn forgotten_lines_are_gone_and_their_numbers_not_given_again() {
    let folder = TempDir::new().unwrap();
    let mut logs = LogStore::open(&folder.path().join("logs.db")).unwrap();
    let reader = logs.reader().unwrap();
    logs.append(vec![entry(1, "a"), entry(2, "b"), entry(3, "c")])
        .unwrap();
    let newest = reader.page(job(3), None, 1).unwrap().items[0].0;
    logs.forget(&[job(1), job(3), job(9)]).unwrap();
    assert!(reader.page(job(1), None, 10).unwrap().items.is_empty());
    assert_eq!(messages(&reader.page(job(2), None, 10).unwrap()), ["b"]);
    logs.append(vec![entry(3, "later")]).unwrap();
    let page = reader.page(job(3), Some(newest), 10).unwrap();
    assert_eq!(messages(&page), ["later"]);
}

#[test]
fn the_oldest_lines_make_room_and_the_file_stays_bounded() {
    const BYTES_MAX: u64 = 4 << 20;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("logs.db");
    let mut logs = LogStore::open_bounded(&path, BYTES_MAX).unwrap();
    let text = "x".repeat(150);
    for round in 0..50_u128 {
        logs.append((0..2_000).map(|_| entry(round, &text)).collect())
            .unwrap();
    }
    let reader = logs.reader().unwrap();
    assert!(reader.page(job(0), None, 1).unwrap().items.is_empty());
    assert_eq!(reader.page(job(49), None, 1).unwrap().items.len(), 1);
    let file = std::fs::metadata(&path).unwrap().len();
    assert!(file <= BYTES_MAX + (1 << 20), "{file}");
}

#[test]
fn a_file_of_a_later_version_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("logs.db");
    drop(LogStore::open(&path).unwrap());
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 9).unwrap();
    let error = LogStore::open(&path).map(drop).unwrap_err();
    assert!(error.to_string().contains("version"), "{error}");
}
