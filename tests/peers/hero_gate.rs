//! The gate for jobs with dependencies: each job is queued exactly once, after its dependencies have
//! finished, with several hosts and if a host is killed.

use std::collections::BTreeSet;

use host_tests::{Redis, Server, eventually};
use serde_json::json;

use crate::hero_client::{JOBS, finish, hero, queued, start, submit};
use crate::hero_serve::{Client, Fixture, WAIT_MAX, id};

#[test]
fn jobs_are_queued_when_their_dependencies_have_finished() {
    let fixture = Fixture::new(Redis::start());
    let server = start(&fixture, "data");
    let mut client = fixture.client();
    submit(&server, 1, &[]);
    assert_eq!(
        submit(&server, 2, &[1, 9])["waits_for"],
        json!([id(1), id(9)])
    );
    submit(&server, 3, &[2]);
    submit(&server, 4, &[5]);
    let status = hero(&server, &["status", &id(2)]).exits(0, "does not exist yet");
    assert!(status.contains(&format!("{} (missing)", id(9))), "{status}");
    let list = hero(&server, &["ls"]).exits(0, "");
    assert_eq!(list.matches("waiting").count(), 3, "{list}");
    assert_eq!(client.field(1, "dependents"), json!([id(2)]).to_string());

    // When job 7 is queued, the gate has made a turn.
    let mut turn = 100;
    let mut a_turn = |client: &mut Client| {
        turn += 2;
        submit(&server, turn, &[]);
        submit(&server, turn + 1, &[turn]);
        finish(client, turn, "finished");
        eventually("a turn of the gate", WAIT_MAX, || {
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
    // The hash of a finished job may expire.
    let _: i64 = client.ask(&["DEL", &format!("hero:job:{}", id(1))]);
    submit(&server, 9, &[]);
    finish(&mut client, 9, "finished");
    eventually("job 2 to be queued", WAIT_MAX, || {
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

    // A requeued job waits at the gate again; a waiting job can be stopped.
    finish(&mut client, 2, "dispatched");
    hero(&server, &["requeue", &id(3)]).exits(0, "");
    a_turn(&mut client);
    finish(&mut client, 2, "finished");
    eventually("job 3 to be queued", WAIT_MAX, || {
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
fn our_worker_runs_jobs_that_passed_the_gate() {
    let fixture = Fixture::new(Redis::start());
    let server = start(&fixture, "data");
    let mut client = fixture.client();
    let post = |n: u32, script: &str, others: &[u32]| {
        let others: Vec<String> = others.iter().map(|n| id(*n)).collect();
        #[rustfmt::skip]
        let job = json!({"id": id(n), "worker_id": "w1", "script": script, "dependencies": others});
        assert_eq!(server.client().post(JOBS, &job).unwrap().status, 201);
    };
    post(3, "3", &[1, 2]);
    post(1, "1", &[]);
    assert_eq!(client.reply(1), "1");
    // Its hash is deleted before the job that depends on it is queued.
    eventually("job 3 to wait for one", WAIT_MAX, || {
        let waits_for = client.field(3, "waits_for");
        (waits_for == format!("[\"{}\"]", id(2))).then_some(())
    });
    let _: i64 = client.ask(&["DEL", &format!("hero:job:{}", id(1))]);
    post(2, "2", &[]);
    assert_eq!(client.reply(3), "3");
}

#[test]
fn cycles_are_refused_with_their_path() {
    let fixture = Fixture::new(Redis::start());
    let server = start(&fixture, "data");
    let mut client = fixture.client();
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
    // Two clients submit at the same time.
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

/// Submits jobs that all wait for job 1, and finishes job 1.
fn submit_waiting(
    server: &Server,
    client: &mut Client,
    ns: std::ops::Range<u32>,
) -> BTreeSet<String> {
    submit(server, 1, &[]);
    let _: Vec<String> = client.ask(&["LPOP", "hero:work_queue:fo", "1"]);
    let waiting = ns
        .map(|n| {
            submit(server, n, &[1]);
            id(n)
        })
        .collect();
    finish(client, 1, "finished");
    waiting
}

/// Checks that each of these jobs is queued exactly once.
fn all_queued_once(client: &mut Client, waiting: &BTreeSet<String>) {
    eventually("all to be queued", WAIT_MAX, || {
        let left: u32 = client.ask(&["ZCARD", "hero:waiting"]);
        (left == 0).then_some(())
    });
    let queued = queued(client);
    assert_eq!(queued.len(), waiting.len());
    assert_eq!(&queued.into_iter().collect::<BTreeSet<_>>(), waiting);
}

#[test]
fn several_hosts_queue_each_job_once() {
    let fixture = Fixture::new(Redis::start());
    let hosts = ["a", "b", "c"].map(|name| start(&fixture, name));
    let mut client = fixture.client();
    let waiting = submit_waiting(&hosts[0], &mut client, 100..700);
    all_queued_once(&mut client, &waiting);
}

#[test]
fn a_host_killed_at_the_gate_loses_no_job() {
    let fixture = Fixture::new(Redis::start());
    let mut client = fixture.client();
    let server = start(&fixture, "data");
    // There is no other host, so the restarted host must find the jobs of the killed one.
    let waiting = submit_waiting(&server, &mut client, 100..1_300);
    eventually("the first to be queued", WAIT_MAX, || {
        (!queued(&mut client).is_empty()).then_some(())
    });
    server.kill();
    let _server = start(&fixture, "data");
    all_queued_once(&mut client, &waiting);
}

#[test]
fn a_circle_through_two_worker_ids_ends() {
    let fixture = Fixture::new(Redis::start());
    let _host = fixture.host("data");
    let mut client = fixture.client();
    for (n, other, worker) in [(1, 2, "w1"), (2, 1, "w2")] {
        let waits = json!([id(other)]).to_string();
        let fields = [
            ("script", "1"),
            ("prerequisites", &waits),
            ("worker_id", worker),
        ];
        client.store(n, &fields);
        let _: i64 = client.ask(&["LPUSH", &format!("hero:work_queue:{worker}"), &id(n)]);
    }
    client.until_status(1, "error");
    client.until_status(2, "error");
    let error = client.field(1, "error");
    let path = [1, 2, 1].map(id).join(" -> ");
    assert!(
        error.starts_with("E_DEP_CYCLE") && error.ends_with(&path),
        "{error}"
    );
    let failed = format!("prerequisite_failed: {}", id(1));
    assert_eq!(client.field(2, "error"), failed);
}
