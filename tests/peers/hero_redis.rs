//! `host serve` as a Hero worker with a Redis that refuses commands: missing permissions, no memory, a
//! replica.

use std::time::{Duration, Instant};

use host_tests::{HeroWorker, Redis, eventually};
use redis::Connection;

use crate::hero_serve::{Client, Fixture, WAIT_MAX, doctor, id, log};

/// The time limit of jobs that end while Redis accepts no writes: long enough to see them run, and shorter
/// than their claims last without renewal.
const JOB_TIME: Duration = Duration::from_secs(4);

const SPEC: &str = include_str!("../../host/wires/hero/SPEC.md");

/// The password of the worker, which is also a value in the environment of a job.
const PASSWORD: &str = host_tests::secrets::VARIABLE.1;

/// Sends a command given as one line.
fn send_line(redis: &mut Connection, line: &str) {
    let mut words = line.split(' ');
    let mut cmd = redis::cmd(words.next().unwrap());
    let _: String = cmd.arg(words.collect::<Vec<_>>()).query(redis).unwrap();
}

/// Returns the `n`th `ACL SETUSER` of the specification, with a password.
fn setuser(n: usize) -> String {
    let mut lines = SPEC.lines().filter(|line| line.starts_with("ACL SETUSER "));
    let password = format!(">{PASSWORD}");
    lines.nth(n).unwrap().replace(">PASSWORD", &password)
}

/// A client of database 3.
fn client(fixture: &Fixture) -> Client {
    let url = format!("redis://127.0.0.1:{}/3", fixture.redis.port());
    let client = redis::Client::open(url).unwrap();
    Client(client.get_connection().unwrap())
}

fn url(fixture: &Fixture, password: &str) -> String {
    format!(
        "redis://host:{password}@127.0.0.1:{}/3",
        fixture.redis.port()
    )
}

fn warnings(fixture: &Fixture, words: &str) -> usize {
    let log = log(&fixture.path("data"));
    log.lines().filter(|line| line.contains(words)).count()
}

/// Waits until the log of the host contains a warning with these words.
fn wait_for_warning(fixture: &Fixture, words: &str) {
    eventually(&format!("`{words}` in the log"), WAIT_MAX, || {
        (warnings(fixture, words) > 0).then_some(())
    });
}

/// Makes a worker use every script and every list.
fn work(fixture: &Fixture) {
    let mut client = client(fixture);
    let flaky = r#"{"fail_times":1}"#;
    let env = format!(r#"{{"DB_PASSWORD":"{PASSWORD}"}}"#);
    client.submit(1, &[("script", "40 + 2"), ("env_vars", &env)]);
    client.submit(
        2,
        &[("handler", "flaky"), ("script", flaky), ("retries", "1")],
    );
    client.submit(3, &[("script", "loop {}")]);
    let on_one = format!("[\"{}\"]", id(1));
    client.submit(4, &[("script", "4"), ("dependencies", &on_one)]);
    let _: i64 = client.ask(&["LPUSH", "hero:work_queue:w1", "no id"]);
    assert_eq!(client.reply(1), "42");
    assert_eq!(client.reply(2), r#"{"attempt":2}"#);
    assert_eq!(client.reply(4), "4");
    client.until_status(3, "started");
    client.stop(3);
    client.failed(3, "stopped_by_request");
    eventually("the dead letter", WAIT_MAX, || {
        (client.length("dead_letter") == 1).then_some(())
    });
    eventually("nothing to be in work", WAIT_MAX, || {
        (client.length("processing") == 0).then_some(())
    });
}

#[test]
fn the_documented_worker_permissions_are_enough() {
    let fixture = Fixture::new(Redis::start());
    send_line(&mut fixture.redis.connection(), &setuser(0));
    let (folder, handlers) = (fixture.path(""), fixture.path("handlers"));
    let url = url(&fixture, PASSWORD);
    let worker = HeroWorker::start(&folder, "worker", &handlers, &url, &["w1"]);
    work(&fixture);
    // A job that has not ended is given back.
    let mut client = client(&fixture);
    client.submit(9, &[("script", "loop {}")]);
    client.until_status(9, "started");
    let (ended, output) = (worker.log(), worker.stop());
    assert_eq!(output.0, Some(0));
    assert_eq!(client.length("work_queue"), 1);
    assert_eq!(client.length("processing"), 0);
    let refused = ["NOPERM", "may not", PASSWORD];
    assert!(!refused.iter().any(|it| ended.contains(it)), "{ended}");
}

#[test]
fn the_documented_host_permissions_are_enough() {
    let fixture = Fixture::new(Redis::start());
    for n in 0..2 {
        send_line(&mut fixture.redis.connection(), &setuser(n));
    }
    let url = url(&fixture, PASSWORD);
    let host = fixture.host_at("data", &url);
    work(&fixture);
    let listed = host.client().get("/api/v1/hero/jobs").unwrap();
    assert_eq!(listed.status, 200, "{}", listed.body);
    assert_eq!(host.stop(), Some(0));
    let output = log(&fixture.path("data"));
    assert!(
        !output.contains("NOPERM") && !output.contains(PASSWORD),
        "{output}"
    );
    let (status, output) = doctor(&[("HOST_HERO_URL", &url)]);
    assert_eq!(status, "warn", "{output}");
    assert!(
        output.contains("append-only") && !output.contains(PASSWORD),
        "{output}"
    );
}

#[test]
fn a_user_with_too_few_permissions_takes_no_work_and_names_them() {
    let fixture = Fixture::new(Redis::start());
    let mut redis = fixture.redis.connection();
    send_line(&mut redis, &setuser(0));
    send_line(&mut redis, "ACL SETUSER host -lpos -hset");
    let mut client = client(&fixture);
    client.submit(1, &[("script", "1")]);
    let _host = fixture.host_at("data", &url(&fixture, PASSWORD));
    wait_for_warning(&fixture, "may not run HSET, LPOS");
    assert_eq!(client.length("work_queue"), 1, "no job was taken");
    assert!(!log(&fixture.path("data")).contains(PASSWORD));
    assert!(warnings(&fixture, "may not run") < 10);
    send_line(&mut redis, "ACL SETUSER host +lpos +hset");
    assert_eq!(client.reply(1), "1");
    // A user that may not even check its permissions.
    send_line(&mut redis, "ACL SETUSER host -eval");
    let _: i64 = client.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    wait_for_warning(&fixture, "'eval' command");
}

#[test]
fn a_wrong_password_is_reported_and_retried_with_pauses() {
    let fixture = Fixture::new(Redis::start());
    let mut redis = fixture.redis.connection();
    send_line(&mut redis, &setuser(0));
    let mut client = client(&fixture);
    client.submit(1, &[("script", "1")]);
    let _host = fixture.host_at("data", &url(&fixture, "wrong-one"));
    wait_for_warning(&fixture, "the user or the password in the address is wrong");
    let before = connections(&mut redis);
    let since = Instant::now();
    eventually("some more tries", WAIT_MAX, || {
        (connections(&mut redis) > before + 4).then_some(())
    });
    let tried = connections(&mut redis) - before;
    // Two worker ids and the gate each try again after 25 ms or more at first, and every second later.
    let most = 60 + 4 * since.elapsed().as_secs();
    assert!(tried < most, "{tried} tries");
    let output = log(&fixture.path("data"));
    assert!(!output.contains("wrong-one"), "{output}");
    send_line(&mut redis, "ACL SETUSER host >wrong-one");
    assert_eq!(client.reply(1), "1", "the host recovers by itself");
}

fn connections(redis: &mut Connection) -> u64 {
    let stats: String = redis::cmd("INFO").arg("stats").query(redis).unwrap();
    let line = stats
        .lines()
        .find_map(|line| line.strip_prefix("total_connections_received:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn if_redis_is_out_of_memory_results_are_kept_and_jobs_wait() {
    let fixture = Fixture::new(Redis::start());
    let mut redis = fixture.redis.connection();
    let mut client = fixture.client();
    let host = fixture.host("data");
    client.submit(1, &[("handler", "spin"), ("timeout", "4")]);
    client.until_status(1, "started");
    let started = Instant::now();
    send_line(&mut redis, "CONFIG SET maxmemory 1");
    let full = redis::cmd("SET")
        .arg("x")
        .arg("y")
        .query::<String>(&mut redis);
    assert!(full.unwrap_err().to_string().contains("OOM"));
    wait_for_warning(&fixture, "OOM");
    // The end of a running job is still written, immediately or as soon as possible.
    eventually("some refusals", WAIT_MAX, || {
        (warnings(&fixture, "refuses a command") > 1).then_some(())
    });
    let output = log(&fixture.path("data"));
    assert!(warnings(&fixture, "refuses a command") < 20, "{output}");
    eventually("the time of the job to be over", WAIT_MAX, || {
        (started.elapsed() > JOB_TIME + Duration::from_secs(1)).then_some(())
    });
    send_line(&mut redis, "CONFIG SET maxmemory 0");
    client.failed(1, "timeout");
    client.submit(2, &[("script", "2")]);
    assert_eq!(client.reply(2), "2");
    assert_eq!(client.replies(1), 0, "there was one reply");
    assert_eq!(host.stop(), Some(0));
}

#[test]
fn a_replica_is_reported_and_used_once_it_takes_writes() {
    let fixture = Fixture::new(Redis::start());
    let master = Redis::start();
    let mut redis = fixture.redis.connection();
    let mut client = fixture.client();
    let host = fixture.host("data");
    client.submit(1, &[("handler", "spin"), ("timeout", "4")]);
    client.until_status(1, "started");
    let started = Instant::now();
    // The replica has all data and becomes the master.
    let mut other = master.connection();
    send_line(
        &mut other,
        &format!("REPLICAOF 127.0.0.1 {}", fixture.redis.port()),
    );
    eventually("a copy", WAIT_MAX, || {
        let keys: i64 = redis::cmd("DBSIZE").query(&mut other).unwrap();
        (keys > 0).then_some(())
    });
    send_line(&mut other, "REPLICAOF NO ONE");
    send_line(
        &mut redis,
        &format!("REPLICAOF 127.0.0.1 {}", master.port()),
    );
    wait_for_warning(&fixture, "a replica");
    let before = connections(&mut redis);
    let log_lines = log(&fixture.path("data")).lines().count();
    let since = Instant::now();
    eventually("some more tries", WAIT_MAX, || {
        (connections(&mut redis) > before + 6).then_some(())
    });
    let tried = connections(&mut redis) - before;
    assert!(
        tried < 60 + 6 * since.elapsed().as_secs(),
        "{tried} connections"
    );
    let lines = log(&fixture.path("data")).lines().count() - log_lines;
    assert!(lines < 20, "{}", log(&fixture.path("data")));
    eventually("the time of the job to be over", WAIT_MAX, || {
        (started.elapsed() > JOB_TIME + Duration::from_secs(1)).then_some(())
    });
    send_line(&mut redis, "REPLICAOF NO ONE");
    // The host kept the outcome.
    client.failed(1, "timeout");
    client.submit(2, &[("script", "2")]);
    assert_eq!(client.reply(2), "2");
    assert_eq!(host.stop(), Some(0));
}
