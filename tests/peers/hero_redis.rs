//! `host serve` as a Hero worker and a Redis that does not do all it is told: users with few rights,
//! no memory, replicas.

use std::time::{Duration, Instant};

use host_tests::{HeroWorker, Redis, eventually};
use redis::Connection;

use crate::hero_serve::{Client, PATIENCE, Scene, doctor, id, log};

const SPEC: &str = include_str!("../../host/protocols/src/hero/SPEC.md");

/// Sends a line as people type it.
fn type_in(redis: &mut Connection, line: &str) {
    let mut words = line.split(' ');
    let mut cmd = redis::cmd(words.next().unwrap());
    let _: String = cmd.arg(words.collect::<Vec<_>>()).query(redis).unwrap();
}

/// Returns the `n`th `ACL SETUSER` of the specification, with a password.
fn setuser(n: usize) -> String {
    let mut lines = SPEC.lines().filter(|line| line.starts_with("ACL SETUSER "));
    lines.nth(n).unwrap().replace(">PASSWORD", ">hush-hush")
}

/// A client of database 3.
fn client(scene: &Scene) -> Client {
    let url = format!("redis://127.0.0.1:{}/3", scene.redis.port());
    let client = redis::Client::open(url).unwrap();
    Client(client.get_connection().unwrap())
}

fn url(scene: &Scene, password: &str) -> String {
    format!("redis://host:{password}@127.0.0.1:{}/3", scene.redis.port())
}

fn warnings(scene: &Scene, words: &str) -> usize {
    let log = log(&scene.path("data"));
    log.lines().filter(|line| line.contains(words)).count()
}

/// Waits until the host has said something about Redis.
fn told(scene: &Scene, words: &str) {
    eventually(&format!("`{words}` in the log"), PATIENCE, || {
        (warnings(scene, words) > 0).then_some(())
    });
}

/// Runs what a worker does: every script and every list.
fn work(scene: &Scene) {
    let mut client = client(scene);
    let flaky = r#"{"fail_times":1}"#;
    client.submit(1, &[("script", "40 + 2")]);
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
    eventually("the dead letter", PATIENCE, || {
        (client.length("dead_letter") == 1).then_some(())
    });
    eventually("nothing to be in work", PATIENCE, || {
        (client.length("processing") == 0).then_some(())
    });
}

#[test]
fn a_worker_with_the_rights_of_the_specification_does_all_work() {
    let scene = Scene::new(Redis::start());
    type_in(&mut scene.redis.connection(), &setuser(0));
    let (folder, handlers) = (scene.path(""), scene.path("handlers"));
    let url = url(&scene, "hush-hush");
    let worker = HeroWorker::start(&folder, "worker", &handlers, &url, &["w1"]);
    work(&scene);
    // What has not ended is given back.
    let mut client = client(&scene);
    client.submit(9, &[("script", "loop {}")]);
    client.until_status(9, "started");
    let (ended, said) = (worker.log(), worker.stop());
    assert_eq!(said.0, Some(0));
    assert_eq!(client.length("work_queue"), 1);
    assert_eq!(client.length("processing"), 0);
    let refused = ["NOPERM", "may not", "hush"];
    assert!(!refused.iter().any(|it| ended.contains(it)), "{ended}");
}

#[test]
fn a_host_with_the_rights_of_the_specification_does_all_else() {
    let scene = Scene::new(Redis::start());
    for n in 0..2 {
        type_in(&mut scene.redis.connection(), &setuser(n));
    }
    let url = url(&scene, "hush-hush");
    let host = scene.host_at("data", &url);
    work(&scene);
    let listed = host.client().get("/api/v1/hero/jobs").unwrap();
    assert_eq!(listed.status, 200, "{}", listed.body);
    assert_eq!(host.stop(), Some(0));
    let said = log(&scene.path("data"));
    assert!(!said.contains("NOPERM") && !said.contains("hush"), "{said}");
    let (status, said) = doctor(&[("HOST_HERO_URL", &url)]);
    assert_eq!(status, "warn", "{said}");
    assert!(
        said.contains("append-only") && !said.contains("hush"),
        "{said}"
    );
}

#[test]
fn a_user_with_too_few_rights_is_told_which_and_takes_no_work() {
    let scene = Scene::new(Redis::start());
    let mut redis = scene.redis.connection();
    type_in(&mut redis, &setuser(0));
    type_in(&mut redis, "ACL SETUSER host -lpos -hset");
    let mut client = client(&scene);
    client.submit(1, &[("script", "1")]);
    let _host = scene.host_at("data", &url(&scene, "hush-hush"));
    told(&scene, "may not run HSET, LPOS");
    assert_eq!(client.length("work_queue"), 1, "nothing is half done");
    assert!(!log(&scene.path("data")).contains("hush"));
    assert!(warnings(&scene, "may not run") < 10);
    type_in(&mut redis, "ACL SETUSER host +lpos +hset");
    assert_eq!(client.reply(1), "1");
    // One that may not even ask.
    type_in(&mut redis, "ACL SETUSER host -eval");
    let _: i64 = client.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    told(&scene, "'eval' command");
}

#[test]
fn a_wrong_password_is_told_and_tried_again_with_pauses() {
    let scene = Scene::new(Redis::start());
    let mut redis = scene.redis.connection();
    type_in(&mut redis, &setuser(0));
    let mut client = client(&scene);
    client.submit(1, &[("script", "1")]);
    let _host = scene.host_at("data", &url(&scene, "wrong-one"));
    told(&scene, "the user or the password in the address is wrong");
    let before = connections(&mut redis);
    let since = Instant::now();
    eventually("some more tries", PATIENCE, || {
        (connections(&mut redis) > before + 4).then_some(())
    });
    let tried = connections(&mut redis) - before;
    // Two worker ids and the gate, each of them at most every 25 ms at first and every second then.
    let most = 60 + 4 * since.elapsed().as_secs();
    assert!(tried < most, "{tried} tries");
    let said = log(&scene.path("data"));
    assert!(!said.contains("wrong-one"), "{said}");
    type_in(&mut redis, "ACL SETUSER host >wrong-one");
    assert_eq!(client.reply(1), "1", "it goes on by itself");
}

fn connections(redis: &mut Connection) -> u64 {
    let told: String = redis::cmd("INFO").arg("stats").query(redis).unwrap();
    let line = told
        .lines()
        .find_map(|line| line.strip_prefix("total_connections_received:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn without_memory_results_are_kept_and_work_waits() {
    let scene = Scene::new(Redis::start());
    let mut redis = scene.redis.connection();
    let mut client = scene.client();
    let host = scene.host("data");
    client.submit(1, &[("handler", "spin"), ("timeout", "1")]);
    client.until_status(1, "started");
    type_in(&mut redis, "CONFIG SET maxmemory 1");
    let full = redis::cmd("SET")
        .arg("x")
        .arg("y")
        .query::<String>(&mut redis);
    assert!(full.unwrap_err().to_string().contains("OOM"));
    told(&scene, "OOM");
    // The end of what runs is written all the same, or as soon as it can be.
    eventually("some refusals", Duration::from_secs(5), || {
        (warnings(&scene, "refuses a command") > 1).then_some(())
    });
    let said = log(&scene.path("data"));
    assert!(warnings(&scene, "refuses a command") < 20, "{said}");
    type_in(&mut redis, "CONFIG SET maxmemory 0");
    client.failed(1, "timeout");
    client.submit(2, &[("script", "2")]);
    assert_eq!(client.reply(2), "2");
    assert_eq!(client.replies(1), 0, "it replied once");
    assert_eq!(host.stop(), Some(0));
}

#[test]
fn a_replica_is_named_and_left_and_used_once_it_takes_writes() {
    let scene = Scene::new(Redis::start());
    let master = Redis::start();
    let mut redis = scene.redis.connection();
    let mut client = scene.client();
    let host = scene.host("data");
    client.submit(1, &[("handler", "spin"), ("timeout", "2")]);
    client.until_status(1, "started");
    // The other one has all there is, and becomes the master.
    let mut other = master.connection();
    type_in(
        &mut other,
        &format!("REPLICAOF 127.0.0.1 {}", scene.redis.port()),
    );
    eventually("a copy", PATIENCE, || {
        let keys: i64 = redis::cmd("DBSIZE").query(&mut other).unwrap();
        (keys > 0).then_some(())
    });
    type_in(&mut other, "REPLICAOF NO ONE");
    type_in(
        &mut redis,
        &format!("REPLICAOF 127.0.0.1 {}", master.port()),
    );
    told(&scene, "a replica");
    let before = connections(&mut redis);
    let log_lines = log(&scene.path("data")).lines().count();
    let since = Instant::now();
    eventually("some more tries", PATIENCE, || {
        (connections(&mut redis) > before + 6).then_some(())
    });
    let tried = connections(&mut redis) - before;
    assert!(
        tried < 60 + 6 * since.elapsed().as_secs(),
        "{tried} connections"
    );
    let lines = log(&scene.path("data")).lines().count() - log_lines;
    assert!(lines < 20, "{}", log(&scene.path("data")));
    type_in(&mut redis, "REPLICAOF NO ONE");
    // How it ended was kept meanwhile.
    client.failed(1, "timeout");
    client.submit(2, &[("script", "2")]);
    assert_eq!(client.reply(2), "2");
    assert_eq!(host.stop(), Some(0));
}
