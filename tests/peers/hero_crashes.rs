//! Hero's jobs through the deaths of hosts and of Redis: none is lost, each ends once.

use std::collections::BTreeSet;

use host_tests::{Redis, Server, eventually};

use crate::hero_serve::{Client, PATIENCE, Scene};

pub(crate) const JOBS: u32 = 300;

/// Submits jobs that take a moment each.
pub(crate) fn submit(client: &mut Client) {
    for n in 1..=JOBS {
        let script = format!(r#"{{"ms":{}}}"#, n % 40);
        client.submit(n, &[("handler", "sleep"), ("script", &script)]);
    }
}

/// Waits until `count` jobs have ended.
pub(crate) fn until_ended(client: &mut Client, count: usize) {
    let mut open: BTreeSet<u32> = (1..=JOBS).collect();
    eventually(&format!("{count} jobs to end"), PATIENCE, || {
        open.retain(|n| client.field(*n, "status") != "finished");
        (JOBS as usize - open.len() >= count).then_some(())
    });
}

/// Checks that every job has ended well, once, and that nothing is left of them.
pub(crate) fn check(client: &mut Client) {
    for n in 1..=JOBS {
        assert_eq!(client.field(n, "status"), "finished", "{n}");
        assert_eq!(client.replies(n), 1, "{n} has ended once");
    }
    for list in ["work_queue", "processing"] {
        eventually(list, PATIENCE, || (client.length(list) == 0).then_some(()));
    }
}

#[test]
fn a_host_that_is_killed_again_and_again_loses_no_job() {
    let scene = Scene::new(Redis::start());
    let mut client = scene.client();
    submit(&mut client);
    for count in [40, 120, 200] {
        let host = scene.host("data");
        until_ended(&mut client, count);
        host.kill();
    }
    let _host = scene.host("data");
    until_ended(&mut client, JOBS as usize);
    check(&mut client);
}

#[test]
fn a_host_takes_over_what_another_one_had() {
    let scene = Scene::new(Redis::start());
    let mut client = scene.client();
    let (first, second) = (scene.host("first"), scene.host("second"));
    submit(&mut client);
    until_ended(&mut client, 60);
    first.kill();
    until_ended(&mut client, JOBS as usize);
    check(&mut client);
    assert_eq!(second.stop(), Some(0));
}

/// Returns how many runs a host has in its history.
fn ran(host: &Server) -> usize {
    let mut runs = 0;
    let mut path = "/api/v1/jobs?limit=100".to_owned();
    loop {
        let page = host.client().get(&path).unwrap().body;
        runs += page["items"].as_array().unwrap().len();
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/api/v1/jobs?limit=100&cursor={cursor}"),
            None => return runs,
        }
    }
}

#[test]
fn two_hosts_on_one_queue_run_no_job_twice() {
    let scene = Scene::new(Redis::start());
    let mut client = scene.client();
    let hosts = [scene.host("first"), scene.host("second")];
    submit(&mut client);
    until_ended(&mut client, JOBS as usize);
    check(&mut client);
    eventually("both histories to have all jobs once", PATIENCE, || {
        let (first, second) = (ran(&hosts[0]), ran(&hosts[1]));
        assert!(first + second <= JOBS as usize, "{first} and {second}");
        (first + second == JOBS as usize && first > 0 && second > 0).then_some(())
    });
}

#[test]
fn jobs_survive_a_redis_that_is_killed() {
    let mut scene = Scene::new(Redis::durable());
    let mut client = scene.client();
    let host = scene.host("data");
    submit(&mut client);
    until_ended(&mut client, 60);
    let long = [("handler", "sleep"), ("script", r#"{"ms":1500}"#)];
    client.submit(JOBS + 1, &long);
    eventually("the long one to start", PATIENCE, || {
        (client.field(JOBS + 1, "status") != "dispatched").then_some(())
    });
    scene.redis.kill();
    let ready = host.client().get("/readyz").unwrap();
    assert_eq!(ready.status, 200, "{:?}", ready.body);
    scene.redis.start_again();
    let mut client = scene.client();
    until_ended(&mut client, JOBS as usize);
    check(&mut client);
    client.until_status(JOBS + 1, "finished");
    // What ran while Redis was away was not run again.
    eventually("each run in the history", PATIENCE, || {
        let runs = ran(&host);
        assert!(runs <= JOBS as usize + 1, "{runs}");
        (runs == JOBS as usize + 1).then_some(())
    });
    assert_eq!(host.stop(), Some(0));
}

#[test]
fn a_host_starts_and_stops_without_its_redis() {
    let mut scene = Scene::new(Redis::durable());
    scene.redis.kill();
    let host = scene.host("data");
    assert_eq!(host.client().get("/readyz").unwrap().status, 200);
    scene.redis.start_again();
    let mut client = scene.client();
    client.submit(1, &[("script", "1")]);
    assert_eq!(client.reply(1), "1");
    client.submit(2, &[("handler", "spin")]);
    client.until_status(2, "started");
    scene.redis.kill();
    assert_eq!(host.stop(), Some(0));
    scene.redis.start_again();
    let mut client = scene.client();
    assert_eq!(client.length("processing"), 1, "nobody could give it back");
    let _host = scene.host("data");
    client.stop(2);
    client.until_status(2, "error");
}

#[test]
fn a_host_that_stops_gives_its_jobs_back() {
    let scene = Scene::new(Redis::start());
    let mut client = scene.client();
    let host = scene.host("first");
    client.submit(1, &[("handler", "sleep"), ("script", r#"{"ms":60000}"#)]);
    client.until_status(1, "started");
    assert_eq!(host.stop(), Some(0));
    assert_eq!(client.field(1, "status"), "dispatched");
    assert_eq!(
        (client.length("work_queue"), client.length("processing")),
        (1, 0)
    );
    client.store(1, &[("script", r#"{"ms":1}"#)]);
    let _host = scene.host("second");
    client.until_status(1, "finished");
}
