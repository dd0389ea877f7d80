//! `host worker hero`: several on one queue, their deaths and ends, and what they are told.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use host_tests::server::host;
use host_tests::{HeroWorker, Redis, eventually};

use crate::hero_crashes::{SOME, check, submit, until_ended};
use crate::hero_serve::{Client, PATIENCE, Scene, id};
use crate::witness::Witness;

/// How long a worker that is asked to stop may take, on a machine that does much else.
const STOP_TIME: Duration = Duration::from_secs(5);

const SLEEP: [(&str, &str); 2] = [("handler", "sleep"), ("script", r#"{"ms":600000}"#)];

fn worker(scene: &Scene, name: &str) -> HeroWorker {
    worker_at(scene, name, &scene.redis.url())
}

fn worker_at(scene: &Scene, name: &str, url: &str) -> HeroWorker {
    let handlers = scene.path("handlers");
    HeroWorker::start(&scene.path(""), name, &handlers, url, &["w1", "w2"])
}

/// Returns who has a job.
fn holder(client: &mut Client, n: u32) -> String {
    let holder: Option<String> = client.ask(&["GET", &format!("hero:claim:{}", id(n))]);
    holder.unwrap_or_default()
}

#[test]
fn of_two_workers_on_one_queue_one_may_die() {
    let scene = Scene::new(Redis::start());
    let mut client = scene.client();
    let (first, second) = (worker(&scene, "first"), worker(&scene, "second"));
    let witness = Witness::start(&scene.redis);
    submit(&mut client, SOME);
    until_ended(&witness, 60);
    first.kill();
    check(&mut client, SOME);
    assert_eq!(second.stop().0, Some(0));
}

#[test]
fn a_worker_that_stops_gives_its_jobs_back() {
    let scene = Scene::new(Redis::start());
    let mut client = scene.client();
    let first = worker(&scene, "first");
    client.submit(1, &SLEEP);
    client.until_status(1, "started");
    let (code, took) = first.stop();
    assert_eq!(code, Some(0));
    assert!(took < STOP_TIME, "{took:?}");
    assert_eq!(client.field(1, "status"), "dispatched");
    let lists = (client.length("work_queue"), client.length("processing"));
    assert_eq!(lists, (1, 0));
    client.store(1, &[("script", r#"{"ms":1}"#)]);
    let _second = worker(&scene, "second");
    client.until_status(1, "finished");
}

#[test]
fn a_worker_that_starts_again_is_known_by_its_name() {
    let scene = Scene::new(Redis::start());
    let mut client = scene.client();
    let first = worker(&scene, "first");
    client.submit(1, &SLEEP);
    client.until_status(1, "started");
    let name = holder(&mut client, 1);
    // Another one beside it has another name, or the two would run each other's jobs.
    let second = worker(&scene, "second");
    for n in 2..20 {
        client.submit(n, &SLEEP);
        client.until_status(n, "started");
    }
    let names: Vec<String> = (2..20).map(|n| holder(&mut client, n)).collect();
    assert!(names.iter().any(|other| *other != name), "{name} {names:?}");
    assert_eq!(second.stop().0, Some(0));
    first.kill();
    // Nobody else takes the job while this claim holds.
    let _: i64 = client.ask(&["PEXPIRE", &format!("hero:claim:{}", id(1)), "3600000"]);
    let again = worker(&scene, "again");
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
    let scene = Scene::new(Redis::start());
    let mut client = scene.client();
    let worker = worker(&scene, "worker");
    client.submit(1, &[("handler", "sleep"), ("script", r#"{"ms":1000}"#)]);
    client.until_status(1, "started");
    let twice = client.ask::<i64>(&["LPUSH", "hero:work_queue:w2", &id(1)]);
    assert_eq!(twice, 1);
    client.until_status(1, "finished");
    assert_eq!(client.replies(1), 1);
    eventually("the second entry to be taken away", PATIENCE, || {
        let left: i64 = client.ask(&["LLEN", "hero:processing:w2"]);
        (left == 0).then_some(())
    });
    assert_eq!(worker.stop().0, Some(0));
}

#[test]
fn a_worker_waits_for_its_redis_and_tells_no_password() {
    let mut scene = Scene::new(Redis::durable());
    let mut client = scene.client();
    let protect = ["CONFIG", "SET", "requirepass", "hush-hush"];
    let _: String = client.ask(&protect);
    let url = format!("redis://:hush-hush@127.0.0.1:{}/0", scene.redis.port());
    let worker = worker_at(&scene, "worker", &url);
    client.submit(1, &[("script", "1")]);
    assert_eq!(client.reply(1), "1");
    scene.redis.kill();
    eventually("the loss to be told", PATIENCE, || {
        worker.log().contains("cannot be reached").then_some(())
    });
    scene.redis.start_again();
    let mut client = scene.client();
    let _: String = client.ask(&protect);
    client.submit(2, &[("script", "2")]);
    assert_eq!(client.reply(2), "2");
    assert!(!worker.log().contains("hush"), "{}", worker.log());
    assert_eq!(worker.stop().0, Some(0));
}

fn refused(folder: &Path, args: &[&str]) -> Output {
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
fn what_is_missing_or_wrong_is_named() {
    let folder = tempfile::TempDir::new().unwrap();
    #[rustfmt::skip]
    let table: [(&[&str], &str); 5] = [
        (&["--url", "redis://127.0.0.1:1"], "--worker-id"),
        (&["--worker-id", "w1"], "HOST_HERO_URL"),
        (&[], "--url"),
        (&["--url", "http://hush@127.0.0.1:1", "--worker-id", "w1"], "redis://"),
        (&["--url", "redis://127.0.0.1:1", "--worker-id", "w1", "--concurrency", "0"], "1 to 1024"),
    ];
    for (args, words) in table {
        let output = refused(folder.path(), args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(words) && !said.contains("hush"), "{said}");
        assert!(output.stdout.is_empty());
    }
}
