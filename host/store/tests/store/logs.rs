//! The logs of guests, in a file and in a database: lines stay in order, are removed with their job, and
//! are limited in total size.

use host_core::cell::{Level, LogSource};
use host_core::json::JsonText;
use host_core::time::Time;
use host_store::logs::{LOG_BYTES_MAX, LogEntry, LogPage, LogReader, LogWriter};
use host_store::postgres::logs::PostgresLogs;
use host_store::postgres::target::Target;
use host_store::sqlite::logs::LogStore;
use tempfile::TempDir;

use crate::jobs::id;
use crate::proxy::Break;
use crate::server::Schema;

/// Calls `test` with new logs of each backend.
fn check(bytes_max: u64, test: impl Fn(&mut dyn LogWriter)) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("logs.db");
    test(&mut LogStore::open_bounded(&path, bytes_max).unwrap());
    test(&mut open(&Schema::new(), bytes_max));
}

fn open(schema: &Schema, bytes_max: u64) -> PostgresLogs {
    let target = Target::parse(&schema.url(), None).unwrap();
    PostgresLogs::open(&target, bytes_max).unwrap()
}

fn entry(n: u128, message: &str) -> LogEntry {
    LogEntry {
        job: id(n),
        attempt: 2,
        at: Time(1_000),
        level: Level::Warn,
        source: LogSource::Stderr,
        message: message.to_owned(),
        fields: Vec::new(),
    }
}

fn messages(page: &LogPage) -> Vec<&str> {
    let items = page.items.iter();
    items.map(|(_, entry)| entry.message.as_str()).collect()
}

fn all_of(reader: &dyn LogReader, n: u128) -> Vec<LogEntry> {
    let page = reader.page(id(n), None, 1_000).unwrap();
    assert_eq!(page.next, None);
    page.items.into_iter().map(|(_, entry)| entry).collect()
}

#[test]
fn lines_come_back_as_they_were_and_by_job() {
    check(LOG_BYTES_MAX, |logs| {
        let mut all = Vec::new();
        for level in ["trace", "debug", "info", "warn", "error"] {
            for source in ["log", "stdout", "stderr", "host"] {
                all.push(LogEntry {
                    level: serde_json::from_value(level.into()).unwrap(),
                    source: serde_json::from_value(source.into()).unwrap(),
                    fields: vec![
                        ("z".to_owned(), JsonText::string("1\n2\0")),
                        ("a".to_owned(), JsonText("{\"b\":[1.50,null]}".to_owned())),
                    ],
                    ..entry(1, "two\nlines and \0 and ä")
                });
            }
        }
        logs.append(all.clone()).unwrap();
        logs.append(vec![entry(2, "other")]).unwrap();
        let reader = logs.reader().unwrap();
        assert_eq!(all_of(&*reader, 1), all);
        assert_eq!(all_of(&*reader, 2), [entry(2, "other")]);
        assert_eq!(all_of(&*reader, 3), []);
    });
}

#[test]
fn pages_go_on_where_the_last_one_ended_and_follow_a_growing_log() {
    check(LOG_BYTES_MAX, |logs| {
        let reader = logs.reader().unwrap();
        let of = |job, texts: &[&str]| texts.iter().map(|text| entry(job, text)).collect();
        logs.append(of(1, &["a", "b"])).unwrap();
        logs.append(of(2, &["x"])).unwrap();
        logs.append(of(1, &["c"])).unwrap();
        let first = reader.page(id(1), None, 2).unwrap();
        assert_eq!(messages(&first), ["a", "b"]);
        let second = reader.page(id(1), first.next, 2).unwrap();
        assert_eq!((messages(&second), second.next), (vec!["c"], None));
        let last = second.items[0].0;
        logs.append(of(1, &["d"])).unwrap();
        let third = reader.page(id(1), Some(last), 2).unwrap();
        assert_eq!(messages(&third), ["d"]);
    });
}

#[test]
fn forgotten_lines_are_gone_and_their_numbers_not_given_again() {
    check(LOG_BYTES_MAX, |logs| {
        let reader = logs.reader().unwrap();
        let lines = vec![entry(1, "a"), entry(2, "b"), entry(3, "c")];
        logs.append(lines).unwrap();
        let newest = reader.page(id(3), None, 1).unwrap().items[0].0;
        logs.forget(&[id(1), id(3), id(9)]).unwrap();
        assert_eq!(all_of(&*reader, 1), []);
        assert_eq!(all_of(&*reader, 2), [entry(2, "b")]);
        logs.append(vec![entry(3, "later")]).unwrap();
        let page = reader.page(id(3), Some(newest), 10).unwrap();
        assert_eq!(messages(&page), ["later"]);
    });
}

#[test]
fn the_oldest_lines_make_room() {
    const BYTES_MAX: u64 = 4 << 20;
    check(BYTES_MAX, |logs| {
        let text = "x".repeat(150);
        for round in 0..30 {
            let lines = (0..2_000).map(|_| entry(round, &text));
            logs.append(lines.collect()).unwrap();
        }
        let reader = logs.reader().unwrap();
        assert!(reader.page(id(0), None, 1).unwrap().items.is_empty());
        assert_eq!(reader.page(id(29), None, 1).unwrap().items.len(), 1);
        // Removed lines make room, too.
        logs.forget(&(0..29).map(id).collect::<Vec<_>>()).unwrap();
        logs.append(vec![entry(30, &text)]).unwrap();
        assert_eq!(reader.page(id(29), None, 1_000).unwrap().items.len(), 1_000);
    });
}

#[test]
fn no_more_lines_are_dropped_than_exceed_the_limit() {
    const BYTES_MAX: u64 = 1 << 20;
    check(BYTES_MAX, |logs| {
        let text = "x".repeat(1_900);
        for _ in 0..50 {
            logs.append((0..20).map(|_| entry(1, &text)).collect())
                .unwrap();
        }
        let reader = logs.reader().unwrap();
        let kept = reader.page(id(1), None, 1_000).unwrap().items.len() as u64;
        assert!(kept * 1_900 >= BYTES_MAX * 8 / 10, "{kept}");
        assert!(kept * 1_900 <= BYTES_MAX, "{kept}");
    });
}

#[test]
fn hosts_write_to_one_database_and_each_reads_all() {
    let schema = Schema::new();
    let mut hosts = [1, 2, 3].map(|_| open(&schema, LOG_BYTES_MAX));
    std::thread::scope(|scope| {
        for host in &mut hosts {
            scope.spawn(|| {
                for round in 0..50 {
                    let text = round.to_string();
                    host.append(vec![entry(1, &text), entry(1, &text)]).unwrap();
                }
            });
        }
    });
    for host in &hosts {
        let page = host.reader().unwrap().page(id(1), None, 1_000).unwrap();
        let numbers: Vec<u64> = page.items.iter().map(|(n, _)| *n).collect();
        assert_eq!(numbers, (1..=300).collect::<Vec<_>>());
    }
}

#[test]
fn lines_are_written_over_a_new_connection_when_one_breaks() {
    let schema = Schema::new();
    let (proxy, url) = schema.proxy();
    let target = Target::parse(&url, None).unwrap();
    let mut logs = PostgresLogs::open(&target, LOG_BYTES_MAX).unwrap();
    logs.append(vec![entry(1, "a")]).unwrap();
    proxy.break_next(Break::BeforeCommit);
    logs.append(vec![entry(1, "b")]).unwrap();
    let reader = logs.reader().unwrap();
    assert!(proxy.has_broken());
    assert_eq!(all_of(&*reader, 1), [entry(1, "a"), entry(1, "b")]);
}
