//! The gate that jobs stand at which depend on others: workers that only know the document get them
//! once those have finished, each once, whoever looks after the gate and whatever happens to it.

use std::collections::BTreeSet;

use host_tests::{Redis, Server, eventually};
use serde_json::json;

use crate::hero_client::{JOBS, finish, hero, queued, start, submit};
use crate::hero_serve::{Client, PATIENCE, Scene, id};

#[test]
fn jobs_are_queued_when_those_they_need_have_finished() {
    let scene = Scene::new(Redis::start());
    let server = start(&scene, "data");
    let mut client = scene.client();
    submit(&server, 1, &[]);
    assert_eq!(
        submit(&server, 2, &[1, 9])["waits_for"],
        json!([id(1), id(9)])
    );
    submit(&server, 3, &[2]);
    submit(&server, 4, &[5]);
    let status = hero(&server, &["status", &id(2)]).exits(0, "not there yet");
    assert!(status.contains(&format!("{} (missing)", id(9))), "{status}");
    let list = hero(&server, &["ls"]).exits(0, "");
    assert_eq!(list.matches("waiting").count(), 3, "{list}");
    assert_eq!(client.field(1, "dependents"), json!([id(2)]).to_string());

    // The document's worker takes what is queued; the gate has had a turn when 7 is there.
    let mut turn = 100;
    let mut a_turn = |client: &mut Client| {
        turn += 2;
        submit(&server, turn, &[]);
        submit(&server, turn + 1, &[turn]);
        finish(client, turn, "finished");
        eventually("a turn of the gate", PATIENCE, || {
            let there = queued(client).contains(&id(turn + 1));
            there.then_some(())
        });
        for n in [turn, turn + 1] {
            let _: i64 = client.ask(&["LREM", "hero:work_queue:fo", "0", &id(n)]);
        }
    };
    a_turn(&mut client);
    assert_eq!(queued(&mut client), [id(1)]);
    let popped: (String, String) = client.ask(&["BLPOP", "hero:work_queue:fo", "5"]);
    assert_eq!(popped.1, id(1));
    finish(&mut client, 1, "finished");
    a_turn(&mut client);
    assert_eq!(queued(&mut client), [""; 0]);
    // Who has finished may be forgotten.
    let _: i64 = client.ask(&["DEL", &format!("hero:job:{}", id(1))]);
    submit(&server, 9, &[]);
    finish(&mut client, 9, "finished");
    eventually("job 2 to be queued", PATIENCE, || {
        queued(&mut client).contains(&id(2)).then_some(())
    });
    finish(&mut client, 2, "error");
    let error = format!("prerequisite_failed: {}", id(2));
    assert_eq!(client.reply(3), json!({ "error": error }).to_string());
    assert_eq!(
        (client.field(3, "status"), client.field(3, "error")),
        ("error".into(), error)
    );
    a_turn(&mut client);
    assert_eq!(queued(&mut client), [id(2), id(9)]);

    // What has waited and failed waits again, and what waits is stopped by us.
    finish(&mut client, 2, "dispatched");
    hero(&server, &["requeue", &id(3)]).exits(0, "");
    a_turn(&mut client);
    finish(&mut client, 2, "finished");
    eventually("job 3 to be queued", PATIENCE, || {
        queued(&mut client).contains(&id(3)).then_some(())
    });
    let stopped = hero(&server, &["stop", &id(4)]).exits(0, "");
    assert!(stopped.ends_with("it was not queued yet"), "{stopped}");
    assert_eq!(client.field(4, "error"), "stopped_by_request");
    hero(&server, &["wait", &id(4)]).exits(4, "");
    let waiting: u32 = client.ask(&["ZCARD", "hero:waiting"]);
    assert_eq!(waiting, 0);
}

#[test]
fn our_worker_runs_what_has_waited() {
    let scene = Scene::new(Redis::start());
    let server = start(&scene, "data");
    let mut client = scene.client();
    let post = |n: u32, script: &str, others: &[u32]| {
        let others: Vec<String> = others.iter().map(|n| id(*n)).collect();
        #[rustfmt::skip]
        let job = json!({"id": id(n), "worker_id": "w1", "script": script, "dependencies": others});
        assert_eq!(server.client().post(JOBS, &job).unwrap().status, 201);
    };
    post(3, "3", &[1, 2]);
    post(1, "1", &[]);
    assert_eq!(client.reply(1), "1");
    // Its hash goes before the job that needs it is queued.
    eventually("job 3 to wait for one", PATIENCE, || {
        let waits_for = client.field(3, "waits_for");
        (waits_for == format!("[\"{}\"]", id(2))).then_some(())
    });
    let _: i64 = client.ask(&["DEL", &format!("hero:job:{}", id(1))]);
    post(2, "2", &[]);
    assert_eq!(client.reply(3), "3");
}

#[test]
fn circles_are_refused_with_their_path() {
    let scene = Scene::new(Redis::start());
    let server = start(&scene, "data");
    let mut client = scene.client();
    submit(&server, 1, &[2]);
    submit(&server, 2, &[3]);
    let (one, two, three) = (id(1), id(2), id(3));
    let path = format!(
        "E_DEP_CYCLE dependencies: the jobs wait for each other: {three} -> {one} -> {two} -> {three}"
    );
    let job = [
        "submit", "--worker", "fo", "--script", "1", "--id", &three, "--after",
    ];
    hero(&server, &[&job[..], &[&one]].concat()).exits(1, &path);
    hero(&server, &[&job[..], &[&three]].concat()).exits(1, "E_DEP_CYCLE");
    assert_eq!(client.field(3, "id"), "");
    // Two clients that did not see each other.
    let on = |n: u32| json!([id(n)]).to_string();
    for (n, other) in [(11, 12), (12, 11)] {
        client.store(n, &[("worker_id", "fo"), ("waits_for", &on(other))]);
    }
    let _: i64 = client.ask(&["ZADD", "hero:waiting", "1", &id(11), "1", &id(12)]);
    let replies = [client.reply(11), client.reply(12)].concat();
    assert!(
        replies.contains("E_DEP_CYCLE") && replies.contains("prerequisite_failed"),
        "{replies}"
    );
    assert_eq!(queued(&mut client), [""; 0]);
}

/// Submits jobs that all wait for job 1, and lets it finish.
fn a_crowd(server: &Server, client: &mut Client, ns: std::ops::Range<u32>) -> BTreeSet<String> {
    submit(server, 1, &[]);
    let _: Vec<String> = client.ask(&["LPOP", "hero:work_queue:fo", "1"]);
    let crowd = ns.map(|n| {
        submit(server, n, &[1]);
        id(n)
    });
    let crowd = crowd.collect();
    finish(client, 1, "finished");
    crowd
}

/// Checks that each of the crowd is queued, once.
fn all_queued_once(client: &mut Client, crowd: &BTreeSet<String>) {
    eventually("all to be queued", PATIENCE, || {
        let waiting: u32 = client.ask(&["ZCARD", "hero:waiting"]);
        (waiting == 0).then_some(())
    });
    let queued = queued(client);
    assert_eq!(queued.len(), crowd.len());
    assert_eq!(&queued.into_iter().collect::<BTreeSet<_>>(), crowd);
}

#[test]
fn hosts_at_one_gate_queue_each_job_once() {
    let scene = Scene::new(Redis::start());
    let hosts = ["a", "b", "c"].map(|name| start(&scene, name));
    let mut client = scene.client();
    let crowd = a_crowd(&hosts[0], &mut client, 100..700);
    all_queued_once(&mut client, &crowd);
}

#[test]
fn a_host_that_is_killed_at_the_gate_loses_no_job() {
    let scene = Scene::new(Redis::start());
    let mut client = scene.client();
    let server = start(&scene, "data");
    // No other host: what the killed one leaves must be found by the next.
    let crowd = a_crowd(&server, &mut client, 100..1_300);
    eventually("the first to be queued", PATIENCE, || {
        (!queued(&mut client).is_empty()).then_some(())
    });
    server.kill();
    let _server = start(&scene, "data");
    all_queued_once(&mut client, &crowd);
}
