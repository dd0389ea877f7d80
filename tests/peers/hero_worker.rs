//! `host worker hero`: several workers on one queue, killed and stopped workers, and invalid options.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use host_tests::server::host;
use host_tests::{HeroWorker, Redis, eventually};

use crate::hero_crashes::{SOME, check, submit, until_ended};
use crate::hero_serve::{Client, Fixture, WAIT_MAX, id};
use crate::redis_monitor::RedisMonitor;

/// How long a worker may take to stop, even on a busy machine.
const STOP_TIME: Duration = Duration::from_secs(30);

const SLEEP: [(&str, &str); 2] = [("handler", "sleep"), ("script", r#"{"ms":600000}"#)];

fn worker(fixture: &Fixture, name: &str) -> HeroWorker {
    worker_at(fixture, name, &fixture.redis.url())
}

fn worker_at(fixture: &Fixture, name: &str, url: &str) -> HeroWorker {
    let handlers = fixture.path("handlers");
    HeroWorker::start(&fixture.path(""), name, &handlers, url, &["w1", "w2"])
}

/// Returns the holder of a job's claim.
fn holder(client: &mut Client, n: u32) -> String {
    let holder: Option<String> = client.ask(&["GET", &format!("hero:claim:{}", id(n))]);
    holder.unwrap_or_default()
}

#[test]
fn if_one_of_two_workers_dies_the_other_takes_its_jobs() {
    let fixture = Fixture::new(Redis::start());
    let mut client = fixture.client();
    let (first, second) = (worker(&fixture, "first"), worker(&fixture, "second"));
    let redis_monitor = RedisMonitor::start(&fixture.redis);
    submit(&mut client, SOME);
    until_ended(&redis_monitor, 60);
    first.kill();
    check(&mut client, SOME);
    assert_eq!(second.stop().0, Some(0));
}

#[test]
fn a_stopping_worker_gives_its_jobs_back() {
    let fixture = Fixture::new(Redis::start());
    let mut client = fixture.client();
    let first = worker(&fixture, "first");
    client.submit(1, &SLEEP);
    client.until_status(1, "started");
    let (code, took) = first.stop();
    assert_eq!(code, Some(0));
    assert!(took < STOP_TIME, "{took:?}");
    assert_eq!(client.field(1, "status"), "dispatched");
    let lists = (client.length("work_queue"), client.length("processing"));
    assert_eq!(lists, (1, 0));
    client.store(1, &[("script", r#"{"ms":1}"#)]);
    let _worker = worker(&fixture, "second");
    client.until_status(1, "finished");
}

#[test]
fn a_restarted_worker_is_recognized_by_its_name() {
    let fixture = Fixture::new(Redis::start());
    let mut client = fixture.client();
    let first = worker(&fixture, "first");
    client.submit(1, &SLEEP);
    client.until_status(1, "started");
    let name = holder(&mut client, 1);
    // A second worker has another name. Otherwise the two would take each other's jobs.
    let second = worker(&fixture, "second");
    for n in 2..20 {
        client.submit(n, &SLEEP);
        client.until_status(n, "started");
    }
    let names: Vec<String> = (2..20).map(|n| holder(&mut client, n)).collect();
    assert!(names.iter().any(|other| *other != name), "{name} {names:?}");
    assert_eq!(second.stop().0, Some(0));
    first.kill();
    // No other worker takes the job while this claim exists.
    let _: i64 = client.ask(&["PEXPIRE", &format!("hero:claim:{}", id(1)), "3600000"]);
    let again = worker(&fixture, "again");
    client.submit(30, &SLEEP);
    client.until_status(30, "started");
    assert_eq!(holder(&mut client, 30), name);
    client.stop(1);
    client.until_status(1, "error");
    assert_eq!(client.field(1, "error"), "stopped_by_request");
    assert_eq!(again.stop().0, Some(0));
}

#[test]
fn an_id_in_the_queues_of_two_worker_ids_is_run_once() {
    let fixture = Fixture::new(Redis::start());
    let mut client = fixture.client();
    let worker = worker(&fixture, "worker");
    client.submit(1, &[("handler", "sleep"), ("script", r#"{"ms":5000}"#)]);
    client.until_status(1, "started");
    let twice = client.ask::<i64>(&["LPUSH", "hero:work_queue:w2", &id(1)]);
    assert_eq!(twice, 1);
    client.until_status(1, "finished");
    assert_eq!(client.replies(1), 1);
    eventually("the second entry to be removed", WAIT_MAX, || {
        let left: i64 = client.ask(&["LLEN", "hero:processing:w2"]);
        (left == 0).then_some(())
    });
    assert_eq!(worker.stop().0, Some(0));
}

#[test]
fn a_worker_waits_for_its_redis_and_logs_no_password() {
    let mut fixture = Fixture::new(Redis::durable());
    let mut client = fixture.client();
    let protect = ["CONFIG", "SET", "requirepass", "hush-hush"];
    let _: String = client.ask(&protect);
    let url = format!("redis://:hush-hush@127.0.0.1:{}/0", fixture.redis.port());
    let worker = worker_at(&fixture, "worker", &url);
    client.submit(1, &[("script", "1")]);
    assert_eq!(client.reply(1), "1");
    fixture.redis.kill();
    eventually("the loss to be reported", WAIT_MAX, || {
        worker.log().contains("cannot be reached").then_some(())
    });
    fixture.redis.start_again();
    let mut client = fixture.client();
    let _: String = client.ask(&protect);
    client.submit(2, &[("script", "2")]);
    assert_eq!(client.reply(2), "2");
    assert!(!worker.log().contains("hush"), "{}", worker.log());
    assert_eq!(worker.stop().0, Some(0));
}

fn run_refused(folder: &Path, args: &[&str]) -> Output {
    let output = Command::new(host())
        .args(["worker", "hero"])
        .args(args)
        .args(["--handlers", "."])
        .env_remove("HOST_HERO_URL")
        .env("HOME", folder)
        .output();
    output.unwrap()
}

#[test]
fn missing_and_invalid_options_are_named() {
    let folder = tempfile::TempDir::new().unwrap();
    #[rustfmt::skip]
    let table: [(&[&str], &str); 6] = [
        (&["--url", "redis://127.0.0.1:1"], "--worker-id"),
        (&["--worker-id", "w1"], "HOST_HERO_URL"),
        (&[], "--url"),
        (&["--url", "http://hush@127.0.0.1:1", "--worker-id", "w1"], "redis://"),
        (&["--url", "redis://:hush@127.0.0.1:1", "--worker-id", "w1"], "--url-file"),
        (&["--url", "redis://127.0.0.1:1", "--worker-id", "w1", "--concurrency", "0"], "expected 1–1024"),
    ];
    for (args, words) in table {
        let output = run_refused(folder.path(), args);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(
            message.contains(words) && !message.contains("hush"),
            "{message}"
        );
        assert!(output.stdout.is_empty());
    }
}
