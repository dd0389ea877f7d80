//! What a worker does with invalid ids and hashes.

use host_core::time::Time;

use super::fixture::{Bench, completed, id};
use crate::tests::redis::Entry;
use crate::transport::driver::RedisSession as _;
use crate::worker::ExecutionAnswer;

fn letters(bench: &Bench) -> Vec<(String, String)> {
    let letters = bench.list("dead_letter");
    letters
        .iter()
        .map(|letter| {
            let letter: serde_json::Value = serde_json::from_str(letter).unwrap();
            let text = |key: &str| letter[key].as_str().unwrap().to_owned();
            (text("id"), text("code"))
        })
        .collect()
}

#[test]
fn ids_that_are_none_are_buried_and_used_nowhere() {
    for entry in [
        "*",
        "",
        "a\nb",
        "../../etc/passwd",
        "hero:job:x",
        &"x".repeat(70_000),
    ] {
        let mut bench = Bench::new();
        bench.redis.push("hero:work_queue:w1", entry);
        bench.settle();
        let letters = letters(&bench);
        assert_eq!(letters.len(), 1, "{entry:.20}");
        assert_eq!(letters[0].1, "E_ID");
        assert!(letters[0].0.len() <= 128 && !letters[0].0.contains('\n'));
        assert!(bench.list("processing").is_empty() && bench.worker.is_idle());
        assert!(
            !bench
                .redis
                .keys
                .keys()
                .any(|key| key.starts_with("hero:claim"))
        );
    }
}

#[test]
fn ids_without_a_job_to_run_are_buried() {
    let mut bench = Bench::new();
    bench.redis.push("hero:work_queue:w1", &id(1));
    bench.settle();
    let list = Entry::List(["x".to_owned()].into());
    bench.redis.keys.insert(format!("hero:job:{}", id(2)), list);
    bench.redis.push("hero:work_queue:w1", &id(2));
    bench.settle();
    bench.redis.enqueue(
        "w1",
        &id(3),
        &[("script", "1"), ("status", "finished"), ("output", "x")],
    );
    bench.settle();
    let codes: Vec<String> = letters(&bench).into_iter().map(|(_, code)| code).collect();
    assert_eq!(codes, ["E_JOB_ENDED", "E_JOB_TYPE", "E_JOB_MISSING"]);
    assert_eq!(bench.redis.field(&id(3), "output").as_deref(), Some("x"));
    assert!(bench.reply(3).is_empty() && bench.running().is_empty());
    assert_eq!(
        bench.counted,
        ["E_JOB_MISSING", "E_JOB_TYPE", "E_JOB_ENDED"]
    );
}

#[test]
fn an_id_that_is_queued_twice_runs_once() {
    let mut bench = Bench::new();
    bench.enqueue(1, &[]);
    bench.redis.push("hero:work_queue:w1", &id(1));
    bench.settle();
    assert_eq!(bench.running(), [1]);
    assert!(bench.list("processing").contains(&id(1)), "it is kept safe");
    bench.end(1, completed("1"));
    assert!(bench.list("processing").is_empty());
    bench.redis.push("hero:work_queue:w1", &id(1));
    bench.settle();
    let codes: Vec<String> = letters(&bench).into_iter().map(|(_, code)| code).collect();
    assert_eq!(codes, ["E_JOB_ENDED", "E_JOB_TWICE"]);
    assert_eq!(bench.reply(1).len(), 1);
}

#[test]
fn a_job_that_is_found_before_its_pop_is_heard_of_stays_safe() {
    let mut bench = Bench::new();
    let pop = bench.calls.remove(0);
    bench.redis.enqueue("w1", &id(1), &[("script", "1")]);
    let popped = bench.redis.answer(&pop);
    // Checks of the processing list happen in between.
    bench.pass(5_000);
    assert!(
        bench.running().is_empty(),
        "another host may be about to claim it"
    );
    bench.pass(5_000);
    assert_eq!(bench.running(), [1]);
    bench.drive(|worker, at, todo| worker.on_reply(at, pop.tag, &popped, todo));
    assert_eq!(
        bench.list("processing"),
        [id(1)],
        "a crash now loses nothing"
    );
    assert!(letters(&bench).is_empty());
    bench.end(1, completed("1"));
    assert!(bench.list("processing").is_empty() && bench.worker.is_idle());
}

#[test]
fn hashes_with_faults_end_with_their_code_and_reply() {
    for (field, value, code) in [
        ("timeout", "0", "E_FIELD_RANGE"),
        ("retries", "-1", "E_FIELD_RANGE"),
        ("concurrent", "yes", "E_FIELD_RANGE"),
        ("env_vars", "{", "E_FIELD_TYPE"),
        ("log_path", "../../etc/x", "E_LOG_PATH"),
        (
            "id",
            "3f2b8a1c-0000-4000-8000-999999999999",
            "E_JOB_TAMPERED",
        ),
        ("script", &"x".repeat(2 << 20), "E_FIELD_RANGE"),
    ] {
        let mut bench = Bench::new();
        bench.enqueue(1, &[(field, value)]);
        assert_eq!(bench.status(1), "error", "{field}");
        let error = bench.error(1);
        assert!(error.starts_with(&format!("{code} {field}: ")), "{error}");
        assert!(bench.reply(1)[0].contains(code));
        assert!(bench.running().is_empty() && bench.worker.is_idle());
        assert_eq!(bench.counted, [code]);
    }
}

#[test]
fn a_flood_of_stops_is_read_in_part() {
    let mut bench = Bench::new();
    for n in 0..100_000 {
        bench.redis.push("hero:stop_queue:w1", &id(1_000 + n));
    }
    bench.enqueue(1, &[]);
    bench.redis.push("hero:stop_queue:w1", &id(1));
    bench.pass(100);
    assert_eq!(bench.stops.len(), 1, "the newest are seen");
}

#[test]
fn answers_that_make_no_sense_are_asked_for_again() {
    use crate::messages::Value;
    let mut bench = Bench::new();
    bench.redis.enqueue("w1", &id(1), &[("script", "1")]);
    // The pop succeeds, then Redis refuses the claim.
    let pop = bench.calls.remove(0);
    bench.answer(&pop);
    let position = bench
        .calls
        .iter()
        .position(|call| format!("{call:?}").contains("Claim"));
    let claim = bench.calls.remove(position.unwrap());
    let oom = Value::Error("OOM command not allowed".to_owned());
    bench.hand_in(|worker, at, todo| worker.on_reply(at, claim.tag, &[oom], todo));
    bench.settle();
    assert!(bench.running().is_empty());
    bench.pass(1_000);
    assert_eq!(bench.running(), [1], "it is claimed a second later");
}

#[test]
fn what_redis_refuses_for_a_while_is_kept_and_sent_again() {
    for text in [
        "OOM command not allowed when used memory > 'maxmemory'.",
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to",
        "READONLY You can't write against a read only replica.",
        "LOADING Redis is loading the dataset in memory",
        "NOPERM this user has no permissions to run the 'hset' command",
    ] {
        let mut bench = Bench::new();
        bench.enqueue(1, &[]);
        bench.enqueue(2, &[]);
        assert_eq!(bench.running(), [1, 2]);
        bench.redis.refuses = Some(text);
        bench.written.clear();
        bench.end(1, completed("1"));
        for _ in 0..200 {
            bench.answer_all();
            bench.pass(100);
        }
        assert!(!bench.worker.is_idle() && bench.running() == [2], "{text}");
        let polls = ["LRANGE", "WAKE"];
        let is_poll = |written: &String| polls.iter().any(|poll| written.starts_with(poll));
        let writes = bench
            .written
            .iter()
            .filter(|written| !is_poll(written))
            .count();
        assert!((20..=60).contains(&writes), "{writes} in 20 s: {text}");
        assert!(bench.refused.iter().all(|(_, why)| why == text));
        // While it refuses, another job ends too and Redis is lost and found.
        bench.end(2, completed("2"));
        bench.disconnect();
        bench.connect();
        bench.redis.refuses = None;
        bench.enqueue(3, &[]);
        for _ in 0..30 {
            bench.answer_all();
            bench.pass(100);
        }
        for n in [1, 2] {
            assert_eq!(bench.status(n), "finished", "{text}");
            assert_eq!(bench.reply(n), [n.to_string()], "{text}");
        }
        assert_eq!(bench.running(), [3], "{text}");
    }
}

#[test]
fn a_log_file_that_cannot_be_opened_ends_its_job_before_it_starts() {
    let mut bench = Bench::with(|config| config.log_root = Some("/logs".to_owned()));
    bench.enqueue(1, &[("retries", "5"), ("log_path", "a.log")]);
    bench.settle();
    assert_eq!(bench.running(), [1]);
    bench.end_with(
        1,
        ExecutionAnswer::NoLog("a link is on the way to it".to_owned()),
    );
    let error = bench.redis.field(&id(1), "error").unwrap();
    assert_eq!(error, "E_LOG_PATH log_path: a link is on the way to it");
    assert_eq!(bench.reply(1).len(), 1);
    assert_eq!(bench.counted, ["E_LOG_PATH"]);
    assert!(bench.worker.is_idle());
}

#[test]
fn a_queue_of_another_type_is_asked_again_once_a_second() {
    let mut bench = Bench::new();
    let queue = "hero:work_queue:w1".to_owned();
    let text = Entry::Text("no list".to_owned(), Time(i64::MAX));
    bench.redis.keys.insert(queue.clone(), text);
    let before = bench.pops();
    for _ in 0..50 {
        bench.answer_all();
        bench.pass(100);
    }
    let pops = bench.pops() - before;
    assert!((4..=8).contains(&pops), "{pops} pops in 5 s");
    assert!(bench.counted.contains(&"E_REPLY"), "{:?}", bench.counted);
    let reported: Vec<_> = bench.refused.iter().map(|(times, _)| *times).collect();
    assert_eq!(reported[..3], [1, 2, 3]);
    assert!(bench.refused[0].1.contains("WRONGTYPE"));
    bench.redis.keys.remove(&queue);
    bench.enqueue(1, &[]);
    bench.pass(1_000);
    bench.answer_all();
    assert_eq!(bench.running(), [1], "it continues by itself");
    bench.redis.keys.remove("hero:processing:w1");
    let text = Entry::Text("no list".to_owned(), Time(i64::MAX));
    bench.redis.keys.insert(queue, text);
    bench.pass(20_000);
    bench.answer_all();
    let last = bench.refused.last().unwrap();
    assert_eq!(last.0, 1, "a trouble that is over counts no more");
}

#[test]
fn a_flood_of_stops_for_ended_jobs_is_removed_by_what_was_seen() {
    let mut bench = Bench::new();
    bench.enqueue(1, &[]);
    bench.enqueue(2, &[]);
    bench.end(1, completed("1"));
    for n in 0..5_000 {
        bench.redis.push("hero:stop_queue:w1", &id(1));
        if n % 1_000 == 0 {
            bench.redis.push("hero:stop_queue:w1", &id(10_000 + n));
        }
    }
    bench.written.clear();
    bench.pass(3_000);
    let kept = bench.list("stop_queue");
    assert_eq!(kept.len(), 5, "those without an owner stay for a while");
    let removals = bench
        .written
        .iter()
        .filter(|written| written.starts_with("LREM hero:stop"));
    for removal in removals {
        let count: usize = removal.split(' ').nth(2).unwrap().parse().unwrap();
        assert!(
            (1..=1_024).contains(&count),
            "it searches the whole list: {removal}"
        );
    }
}
