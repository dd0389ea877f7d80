//! The Hero sessions with a real Redis: a client that knows only the protocol document sees the results it
//! expects.

mod driver;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use host_core::port::End;
use host_tests::{Redis, eventually};
use host_wires::hero::client::{self, JobView};
use host_wires::hero::{Execution, NewJob, Task};
use redis::{Commands as _, Connection};

use self::driver::{Dispatching, Host, ask, now};

fn id(n: u32) -> String {
    format!("3f2b8a1c-0000-4000-8000-{n:012}")
}

fn store(redis: &mut Connection, n: u32, fields: &[(&str, &str)]) {
    let mut all = vec![("id", id(n)), ("worker_id", "w1".to_owned())];
    all.extend([
        ("script", "40 + 2".to_owned()),
        ("status", "dispatched".to_owned()),
    ]);
    for (name, value) in fields {
        all.retain(|(other, _)| other != name);
        all.push((name, (*value).to_owned()));
    }
    let _: () = redis
        .hset_multiple(format!("hero:job:{}", id(n)), &all)
        .unwrap();
}

fn enqueue(redis: &mut Connection, n: u32, fields: &[(&str, &str)]) {
    store(redis, n, fields);
    let _: i64 = redis.lpush("hero:work_queue:w1", id(n)).unwrap();
}

fn field(redis: &mut Connection, n: u32, name: &str) -> String {
    let value: Option<String> = redis.hget(format!("hero:job:{}", id(n)), name).unwrap();
    value.unwrap_or_default()
}

fn replies(redis: &mut Connection, n: u32) -> Vec<String> {
    redis
        .lrange(format!("hero:reply:{}", id(n)), 0, -1)
        .unwrap()
}

fn length(redis: &mut Connection, list: &str) -> usize {
    redis.llen(format!("hero:{list}:w1")).unwrap()
}

/// Runs hosts until `done` returns true.
fn until(what: &str, hosts: &mut [Host], mut done: impl FnMut() -> bool) {
    eventually(what, Duration::from_mins(1), || {
        for host in &mut *hosts {
            host.turn();
        }
        done().then_some(())
    });
}

#[test]
fn a_job_lives_as_documented() {
    let server = Redis::start();
    let mut redis = server.connection();
    let mut host = [Host::new(&server, "host-a")];
    enqueue(&mut redis, 1, &[("timeout", "5"), ("extra", "kept")]);
    until("the reply", &mut host, || {
        !replies(&mut server.connection(), 1).is_empty()
    });
    assert_eq!(replies(&mut redis, 1), ["42"]);
    assert_eq!(field(&mut redis, 1, "status"), "finished");
    assert_eq!(field(&mut redis, 1, "output"), "42");
    assert_eq!(field(&mut redis, 1, "extra"), "kept");
    assert!(field(&mut redis, 1, "updated_at").ends_with('Z'));
    let ttl: i64 = redis.ttl(format!("hero:reply:{}", id(1))).unwrap();
    assert!((3_500..=3_600).contains(&ttl), "{ttl}");
    until("the rest", &mut host, || {
        length(&mut redis, "processing") == 0
    });
    let left: Vec<String> = redis.keys("*").unwrap();
    assert_eq!(left.len(), 2, "the hash and the reply: {left:?}");
}

#[test]
fn stops_reach_jobs_before_they_start_and_while_they_run() {
    let server = Redis::start();
    let mut redis = server.connection();
    let _: i64 = redis.lpush("hero:stop_queue:w1", id(1)).unwrap();
    enqueue(&mut redis, 1, &[]);
    enqueue(&mut redis, 2, &[("script", "hang")]);
    let mut host = [Host::new(&server, "host-a")];
    let mut other = server.connection();
    until("a start", &mut host, || {
        field(&mut other, 2, "status") == "started"
    });
    let _: i64 = redis.lpush("hero:stop_queue:w1", id(2)).unwrap();
    until("the stop", &mut host, || {
        field(&mut other, 2, "status") == "error"
    });
    for n in [1, 2] {
        assert_eq!(field(&mut redis, n, "error"), "stopped_by_request", "{n}");
        assert_eq!(
            replies(&mut redis, n),
            [r#"{"error":"stopped_by_request"}"#]
        );
    }
    assert_eq!(host[0].ran.get(&id(1)), None);
    assert_eq!(length(&mut redis, "stop_queue"), 0);
}

#[test]
fn two_hosts_on_one_queue_run_each_job_once() {
    const JOBS: u32 = 500;
    let server = Redis::start();
    let mut redis = server.connection();
    let mut hosts = [Host::new(&server, "host-a"), Host::new(&server, "host-b")];
    for n in 0..JOBS {
        enqueue(&mut redis, n, &[]);
        if n % 7 == 0 {
            let _: i64 = redis.lpush("hero:work_queue:w1", id(n)).unwrap();
        }
    }
    until("all to end", &mut hosts, || {
        length(&mut redis, "work_queue") == 0 && length(&mut redis, "processing") == 0
    });
    let mut ran: BTreeMap<String, usize> = BTreeMap::new();
    for host in &hosts {
        assert!(!host.ran.is_empty(), "both hosts ran jobs");
        for (id, times) in &host.ran {
            *ran.entry(id.clone()).or_default() += times;
        }
    }
    assert_eq!(ran.len(), JOBS as usize);
    assert!(ran.values().all(|times| *times == 1), "{ran:?}");
    for n in 0..JOBS {
        assert_eq!(replies(&mut redis, n), ["42"], "{n}");
    }
    // Duplicates that arrived while the other host had the job are only counted.
    assert!(length(&mut redis, "dead_letter") <= JOBS.div_ceil(7) as usize);
}

#[test]
fn a_restarted_host_ends_its_earlier_jobs() {
    let server = Redis::start();
    let mut redis = server.connection();
    let mut first = [Host::new(&server, "host-a")];
    enqueue(&mut redis, 1, &[("script", "hang once")]);
    until("a start", &mut first, || {
        field(&mut redis, 1, "status") == "started"
    });
    drop(first);
    assert_eq!(length(&mut redis, "processing"), 1);
    let _: () = redis
        .hset(format!("hero:job:{}", id(1)), "script", "1")
        .unwrap();
    let mut second = [Host::new(&server, "host-a")];
    until("its end", &mut second, || {
        field(&mut redis, 1, "status") == "finished"
    });
    assert_eq!(replies(&mut redis, 1).len(), 1);
}

#[test]
fn bad_input_is_reported_and_does_not_affect_other_jobs() {
    let server = Redis::start();
    let mut redis = server.connection();
    let large = "x".repeat(2 << 20);
    let faults = [
        ("timeout", "0", "E_FIELD_RANGE timeout: "),
        ("retries", "-1", "E_FIELD_RANGE retries: "),
        ("env_vars", "{", "E_FIELD_TYPE env_vars: "),
        ("log_path", "../x", "E_LOG_PATH log_path: "),
        ("id", "other", "E_JOB_TAMPERED id: "),
        ("script", &large, "E_FIELD_RANGE script: "),
    ];
    for (n, (name, value, _)) in (1..).zip(&faults) {
        enqueue(&mut redis, n, &[(name, value)]);
    }
    for entry in ["*", "a\nb", "", &id(99)] {
        let _: i64 = redis.lpush("hero:work_queue:w1", entry).unwrap();
    }
    let _: i64 = redis
        .lpush(format!("hero:job:{}", id(98)), "a list")
        .unwrap();
    let _: i64 = redis.lpush("hero:work_queue:w1", id(98)).unwrap();
    enqueue(&mut redis, 50, &[]);
    let mut host = [Host::new(&server, "host-a")];
    let mut other = server.connection();
    until("a good one", &mut host, || {
        field(&mut other, 50, "status") == "finished"
    });
    until("the rest", &mut host, || {
        length(&mut other, "processing") == 0
    });
    for (n, (.., starts)) in (1..).zip(&faults) {
        let error = field(&mut redis, n, "error");
        assert!(error.starts_with(starts), "{error}");
    }
    assert_eq!(length(&mut redis, "dead_letter"), 5);
}

#[test]
fn entries_that_are_not_utf8_are_removed_from_their_lists() {
    let server = Redis::start();
    let mut redis = server.connection();
    for list in ["work_queue", "stop_queue"] {
        let _: i64 = redis.lpush(format!("hero:{list}:w1"), b"\xff\xfe").unwrap();
    }
    enqueue(&mut redis, 1, &[("script", "hang")]);
    let mut host = [Host::new(&server, "host-a")];
    until("only the job to be left", &mut host, || {
        (
            length(&mut redis, "stop_queue"),
            length(&mut redis, "processing"),
        ) == (0, 1)
    });
    for _ in 0..4 {
        host[0].pass(6_000);
    }
    assert_eq!(
        length(&mut redis, "dead_letter"),
        1,
        "there is one dead letter"
    );
}

#[test]
fn a_key_of_another_type_affects_only_its_own_job() {
    let server = Redis::start();
    let mut redis = server.connection();
    let set = |redis: &mut Connection, key: &str| redis.set::<_, _, ()>(key, "no list").unwrap();
    set(&mut redis, "hero:stop_queue:w1");
    for n in 1..=4 {
        enqueue(&mut redis, n, &[("script", "hang")]);
    }
    let mut host = [Host::new(&server, "host-a")];
    until("all to start", &mut host, || {
        (1..=4).all(|n| field(&mut redis, n, "status") == "started")
    });
    // Overwrite another key for each job.
    let (job, claim) = (
        format!("hero:job:{}", id(1)),
        format!("hero:claim:{}", id(2)),
    );
    for key in [&job, &claim, "hero:stop_queue:w1"] {
        let _: i64 = redis.del(key).unwrap();
        let _: i64 = redis.lpush(key, "x").unwrap();
    }
    set(&mut redis, &format!("hero:reply:{}", id(3)));
    let fourth = format!("hero:claim:{}", id(4));
    let _: bool = redis.pexpire(&fourth, 9_000).unwrap();
    host[0].pass(6_000);
    until("the claims of others to be renewed", &mut host, || {
        let ms: i64 = redis.pttl(&fourth).unwrap();
        ms > 9_000
    });
    host[0].let_go();
    until("all but the second to be over", &mut host, || {
        length(&mut redis, "processing") == 1
    });
    assert_eq!(
        replies(&mut redis, 1),
        ["42"],
        "a waiting client gets the reply"
    );
    assert_eq!(field(&mut redis, 3, "status"), "finished");
    assert_eq!(replies(&mut redis, 4), ["42"]);
    // Job 2 is recovered when its claim is free and no host was seen to have it.
    let _: i64 = redis.del(&claim).unwrap();
    let _: i64 = redis
        .hset(format!("hero:job:{}", id(2)), "script", "1")
        .unwrap();
    for _ in 0..2 {
        host[0].pass(6_000);
    }
    until("the second", &mut host, || replies(&mut redis, 2) == ["42"]);
}

#[test]
fn the_operations_of_the_document_work() {
    let server = Redis::start();
    let mut redis = server.connection();
    for n in 1..=3 {
        store(&mut redis, n, &[]);
    }
    let _: i64 = redis.lpush("hero:job:actor_queue:osis", "x").unwrap();
    let (mut cursor, mut found) = (0, Vec::new());
    loop {
        let (next, ids) = client::scanned(&ask(&mut redis, &client::scan(cursor, 10))).unwrap();
        found.extend(ids);
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    found.sort();
    assert_eq!(
        found,
        [id(1), id(2), id(3)],
        "the list is not listed as a job"
    );
    let view = |redis: &mut Connection| -> JobView {
        let one = id(1);
        let value = ask(redis, &client::read([one.as_str()], client::FULL));
        let mut views = client::parse([one.as_str()], client::FULL, &value).unwrap();
        views.remove(0).unwrap()
    };
    store(&mut redis, 1, &[("status", "error"), ("error", "x")]);
    let again = client::requeue(&view(&mut redis), false, now()).unwrap();
    let answer = ask(&mut redis, &again);
    assert_eq!(client::requeued(&answer), Ok(Some(())), "{answer:?}");
    let again = view(&mut redis);
    assert_eq!((again.status(), again.get("error")), ("dispatched", None));
    let mut host = [Host::new(&server, "host-a")];
    until("its end", &mut host, || {
        view(&mut redis).status() == "finished"
    });
}

#[test]
fn a_worker_written_from_the_document_executes_our_jobs() {
    let server = Redis::start();
    let mut redis = server.connection();
    let mut ours = Dispatching::new(&server, "host-a");
    for n in 1..=3 {
        let job = NewJob {
            id: id(n),
            worker_id: "w1".to_owned(),
            task: Task::Script(format!("{n}")),
            script_type: None,
            caller_id: "host".to_owned(),
            context_id: String::new(),
            timeout_seconds: 5,
            retries: 0,
            concurrent: true,
            log_path: None,
            env: BTreeMap::new(),
            dependencies: BTreeSet::new(),
            attributes: BTreeMap::new(),
        };
        ours.start(Execution {
            host_job: format!("job-{n}"),
            job,
            timeout_ms: 5_000,
            deadline: None,
        });
    }
    // The loop of the protocol document: pop, read, mark, run, write.
    for _ in 0..3 {
        let (_, job): (String, String) = redis.blpop("hero:work_queue:w1", 5.0).unwrap();
        let key = format!("hero:job:{job}");
        let script: String = redis.hget(&key, "script").unwrap();
        let _: () = redis.hset(&key, "status", "started").unwrap();
        let written = [("status", "finished"), ("output", script.as_str())];
        let _: () = redis.hset_multiple(&key, &written).unwrap();
    }
    eventually("three ends", Duration::from_secs(20), || {
        ours.turn();
        (ours.ended.len() == 3).then_some(())
    });
    for end in &ours.ended {
        assert!(matches!(end, End::Outcome(_)), "{end:?}");
    }
}
