//! `host hero` and `/api/v1/hero` on a real Redis: every command, bad input, long lists, and a Redis
//! that is unreachable.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use host_tests::server::host;
use host_tests::{Options, Redis, Server, eventually};
use serde_json::{Value, json};

use crate::hero_serve::{Client, Fixture, WAIT_MAX, id};

pub(crate) const JOBS: &str = "/api/v1/hero/jobs";

/// Starts a host that runs the jobs of `w1` and writes log files. No host runs the jobs of `fo`.
pub(crate) fn start(fixture: &Fixture, name: &str) -> Server {
    let (config, logs) = (fixture.path(&format!("{name}.toml")), fixture.path("logs"));
    let text = format!(
        "[protocol.hero]\nurl = \"{}\"\nworker_ids = [\"w1\"]\nlog_dir = \"{}\"\n",
        fixture.redis.url(),
        logs.display()
    );
    fs::write(&config, text).unwrap();
    let mut options = Options::new(&fixture.path(name)).handlers(&fixture.path("handlers"));
    options.args = ["--cells", "2", "--config"].map(str::to_owned).to_vec();
    options.args.push(config.display().to_string());
    Server::start(&options)
}

/// The output of a command, and its exit code.
pub(crate) struct Ran {
    exit: i32,
    out: String,
    err: String,
}

pub(crate) fn hero(server: &Server, args: &[&str]) -> Ran {
    let output = Command::new(host())
        .arg("hero")
        .args(args)
        .env("HOST_SERVER", format!("http://{}", server.address()))
        .output()
        .unwrap();
    Ran {
        exit: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap().trim().to_owned(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Ran {
    /// Checks the exit code and a text on stderr, and returns stdout.
    pub(crate) fn exits(self, exit: i32, expected: &str) -> String {
        let Self { out, err, .. } = &self;
        assert_eq!(self.exit, exit, "{out}\n{err}");
        assert!(err.contains(expected), "{expected}: {out}\n{err}");
        self.out
    }
}

/// Submits a job for the worker `fo` that depends on others.
pub(crate) fn submit(server: &Server, n: u32, others: &[u32]) -> Value {
    let others: Vec<String> = others.iter().map(|n| id(*n)).collect();
    let job = json!({"id": id(n), "worker_id": "fo", "script": "1", "dependencies": others});
    let answer = server.client().post(JOBS, &job).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    answer.body
}

pub(crate) fn queued(client: &mut Client) -> Vec<String> {
    client.ask(&["LRANGE", "hero:work_queue:fo", "0", "-1"])
}

/// Ends a job as the document's worker does.
pub(crate) fn finish(client: &mut Client, n: u32, status: &str) {
    let key = format!("hero:job:{}", id(n));
    let _: i64 = client.ask(&["HSET", &key, "status", status, "output", "out"]);
}

#[test]
fn every_command_does_what_the_document_says() {
    let fixture = Fixture::new(Redis::start());
    let server = start(&fixture, "data");
    let mut client = fixture.client();
    let hero = |args: &[&str]| hero(&server, args);
    assert_eq!(hero(&["ls"]).exits(0, "no jobs"), "");
    let w1 = |verb, more: &[&'static str]| hero(&[&[verb, "--worker", "w1"], more].concat());
    assert_eq!(
        w1("run", &["--script", "40 + 2"]).exits(0, "finished"),
        "42"
    );
    let echo = ["--handler", "echo", "--params", r#"{"a": 1}"#, "-o", "json"];
    let ran: Value = serde_json::from_str(&w1("run", &echo).exits(0, "")).unwrap();
    assert_eq!(ran["output"], r#"{"a":1}"#);
    let options = [
        "--script",
        "[REGION, CALLER_ID, CONTEXT_ID]",
        "--env",
        "REGION=eu",
    ];
    let seen = [
        &options[..],
        &["--caller", "al", "--context-id", "office", "--alone"],
    ]
    .concat();
    let ran = w1("run", &seen).exits(0, "");
    assert_eq!(ran, r#"["eu","al","office"]"#);
    w1("run", &["--script", "throw \"no\""]).exits(3, "no");
    w1("run", &["--script", "loop {}", "--timeout", "1s"]).exits(3, "error: timeout");
    hero(&[
        "run", "--worker", "fo", "--script", "1", "--within", "100ms",
    ])
    .exits(7, "dispatched");

    // A job that runs until it is stopped, and is then requeued.
    let long = id(1);
    let spin: [&str; 8] = [
        "submit",
        "--worker",
        "w1",
        "--handler",
        "spin",
        "--timeout",
        "1h",
        "--id",
    ];
    let again = [&spin[..], &[&long]].concat();
    assert_eq!(hero(&again).exits(0, "queued for w1"), long);
    assert_eq!(hero(&again).exits(0, "unchanged"), long);
    client.until_status(1, "started");
    let status = hero(&["status", &long]).exits(0, "host hero stop");
    assert!(
        status.contains("spin") && status.contains("started"),
        "{status}"
    );
    hero(&["requeue", &long]).exits(1, "E_JOB_BUSY");
    hero(&["requeue", &long, "--force"]).exits(1, "a host is running the job");
    assert_eq!(
        hero(&["stop", &long]).exits(0, ""),
        format!("{long} was asked to stop")
    );
    hero(&["wait", &long]).exits(4, "stopped_by_request");
    hero(&["stop", &long]).exits(1, "E_JOB_ENDED");
    let list = hero(&["ls", "--worker", "w1", "--status", "error"]).exits(0, "");
    assert_eq!(list.lines().count(), 4, "{list}");
    hero(&["requeue", &long]).exits(0, "");
    client.until_status(1, "started");
    assert_eq!(client.field(1, "error"), "");
    hero(&["stop", &long, &id(99)]).exits(5, "has no job");
    let audit = server.client().get("/api/v1/audit?limit=100").unwrap().body;
    for (verb, object) in [("cancel", "stop"), ("retry", "requeue")] {
        let object = format!("POST /api/v1/hero/jobs/{long}/{object}");
        let entries = audit["items"].as_array().unwrap().iter();
        let is_it =
            |entry: &&Value| entry["record"]["verb"] == verb && entry["record"]["object"] == object;
        assert!(entries.filter(is_it).count() > 1, "{object}: {audit}");
    }
    hero(&["wait", &long]).exits(4, "");

    let worker: Value =
        serde_json::from_str(&hero(&["worker", "fo", "-o", "json"]).exits(0, "")).unwrap();
    assert_eq!(
        (&worker["queued"], &worker["processing"]),
        (&json!(1), &json!(0))
    );
    for list in ["work_queue", "processing", "dead_letter"] {
        assert_eq!(client.length(list), 0, "{list}");
    }
}

#[test]
fn jobs_that_a_worker_lost_are_queued_again() {
    let fixture = Fixture::new(Redis::start());
    let server = start(&fixture, "data");
    let mut client = fixture.client();
    for n in 1..=3 {
        submit(&server, n, &[]);
    }
    let taken: Vec<String> = client.ask(&["LPOP", "hero:work_queue:fo", "3"]);
    assert_eq!(taken.len(), 3);
    let stale = ("updated_at", "2026-01-01T00:00:00Z");
    for n in [1, 2] {
        client.store(n, &[("worker_id", "fo"), ("status", "started"), stale]);
    }
    client.store(
        3,
        &[
            ("worker_id", "fo"),
            ("status", "started"),
            ("timeout", "604800"),
        ],
    );
    let now = [
        "HSET",
        &format!("hero:job:{}", id(3)),
        "updated_at",
        "2999-01-01T00:00:00Z",
    ];
    let _: i64 = client.ask(&now);
    let list = hero(&server, &["ls", "--worker", "fo"]).exits(0, "");
    assert_eq!(list.matches("(stale)").count(), 2, "{list}");
    let requeued = hero(&server, &["requeue", "--stale", "--worker", "fo"]).exits(0, "");
    assert!(
        requeued.starts_with("2 stale jobs are queued again for fo"),
        "{requeued}"
    );
    let found: BTreeSet<String> = queued(&mut client).into_iter().collect();
    assert_eq!(found, [id(1), id(2)].into());
    let requeued = hero(&server, &["requeue", "--stale", "--worker", "fo"]).exits(0, "");
    assert_eq!(requeued, "0 stale jobs are queued again for fo");
    // If it were queued twice, that worker would run it twice.
    hero(&server, &["requeue", &id(1)]).exits(0, "");
    assert_eq!(queued(&mut client).len(), 2);
}

/// Makes it look as if the job was queued long ago.
fn age(client: &mut Client, n: u32) {
    let key = format!("hero:job:{}", id(n));
    let old = ["HSET", &key, "updated_at", "2026-01-01T00:00:00Z"];
    let _: i64 = client.ask(&old);
}

/// Queues four jobs of which the worker took the first and died, and returns that one. The second is
/// queued, the third was taken just now, and the fourth waits for the second.
fn lose_one(server: &Server, client: &mut Client) -> String {
    for n in 1..=3 {
        submit(server, n, &[]);
    }
    submit(server, 4, &[2]);
    for n in [1, 2, 4] {
        age(client, n);
    }
    for n in [1, 3] {
        let _: i64 = client.ask(&["LREM", "hero:work_queue:fo", "1", &id(n)]);
    }
    id(1)
}

#[test]
fn jobs_that_were_taken_and_never_started_are_queued_again() {
    let fixture = Fixture::new(Redis::start());
    let server = start(&fixture, "data");
    let mut client = fixture.client();
    let lost = lose_one(&server, &mut client);
    let requeued = hero(&server, &["requeue", "--stale", "--worker", "fo"]).exits(0, "");
    assert!(
        requeued.starts_with("1 stale job is queued again for fo"),
        "{requeued}"
    );
    assert_eq!(queued(&mut client), [lost, id(2)]);
    let requeued = hero(&server, &["requeue", "--stale", "--worker", "fo"]).exits(0, "");
    assert_eq!(requeued, "0 stale jobs are queued again for fo");
}

#[test]
fn a_host_queues_lost_jobs_again_by_itself_where_it_is_configured() {
    let fixture = Fixture::new(Redis::start());
    let url = fixture.redis.url();
    let text = format!("[protocol.hero]\nurl = {url:?}\nrequeue_stale = [\"fo\"]\n");
    let server = fixture.host_of("data", &text, &["basics"]);
    let mut client = fixture.client();
    let lost = lose_one(&server, &mut client);
    // This one has been lost too often.
    submit(&server, 5, &[]);
    age(&mut client, 5);
    let _: i64 = client.ask(&["LREM", "hero:work_queue:fo", "1", &id(5)]);
    let _: i64 = client.ask(&["HSET", &format!("hero:job:{}", id(5)), "requeued", "3"]);
    eventually("the lost job in its queue", WAIT_MAX, || {
        (queued(&mut client).contains(&lost)).then_some(())
    });
    let key = format!("hero:job:{lost}");
    let requeued: String = client.ask(&["HGET", &key, "requeued"]);
    assert_eq!(requeued, "1");
    assert!(!queued(&mut client).contains(&id(5)));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn log_files_are_read_only_below_log_dir() {
    let fixture = Fixture::new(Redis::start());
    let server = start(&fixture, "data");
    let mut client = fixture.client();
    let logs = fixture.path("logs");
    fs::create_dir_all(logs.join("deep")).unwrap();
    fs::write(logs.join("deep/a.log"), "first\nsecond\n").unwrap();
    fs::write(fixture.path("secret"), "hush").unwrap();
    std::os::unix::fs::symlink(fixture.path("secret"), logs.join("link")).unwrap();
    let inside = logs.join("deep/a.log").display().to_string();
    for (n, path) in [(1, "deep/a.log"), (2, &inside)] {
        client.store(n, &[("log_path", path)]);
        assert_eq!(
            hero(&server, &["logs", &id(n)]).exits(0, ""),
            "first\nsecond"
        );
    }
    let tail = hero(&server, &["logs", &id(1), "--tail-bytes", "7"]).exits(0, "6 B are left out");
    assert_eq!(tail, "second");
    let secret = fixture.path("secret").display().to_string();
    let paths = [
        "link",
        "../secret",
        &secret,
        "deep",
        "/dev/zero",
        "deep/../../secret",
    ];
    for (n, path) in (10..).zip(paths) {
        client.store(n, &[("log_path", path)]);
        let message = hero(&server, &["logs", &id(n)]).exits(5, "E_LOG_PATH");
        assert_eq!(message, "", "{path}");
    }
    client.store(20, &[("log_path", "none.log")]);
    hero(&server, &["logs", &id(20)]).exits(5, "written no log");
    client.store(21, &[]);
    hero(&server, &["logs", &id(21)]).exits(5, "names no log_path");
    let job = ["submit", "--worker", "w1", "--script", "1", "--log-path"];
    for path in ["../secret", &secret] {
        hero(&server, &[&job[..], &[path]].concat()).exits(1, "E_LOG_PATH");
    }
}

#[test]
fn requests_report_an_unreachable_redis_and_recover() {
    let mut fixture = Fixture::new(Redis::durable());
    let server = start(&fixture, "data");
    submit(&server, 1, &[]);
    submit(&server, 2, &[1]);
    fixture.redis.kill();
    let job = json!({"worker_id": "fo", "script": "1"});
    let answer = server.client().post(JOBS, &job).unwrap();
    assert_eq!(
        (answer.status, &answer.body["code"]),
        (503, &json!("hero_redis_away"))
    );
    let detail = answer.body["detail"].as_str().unwrap();
    assert!(detail.contains("send it again with this id"), "{detail}");
    hero(&server, &["ls"]).exits(1, "hero_redis_away");
    fixture.redis.start_again();
    let listed = hero(&server, &["ls", "-o", "name"]).exits(0, "");
    assert_eq!(listed.lines().count(), 2, "{listed}");
    submit(&server, 3, &[]);
    let mut client = fixture.client();
    finish(&mut client, 1, "finished");
    eventually("job 2 to be queued", WAIT_MAX, || {
        queued(&mut client).contains(&id(2)).then_some(())
    });
}

#[test]
fn bad_input_is_refused_and_never_used_as_a_pattern() {
    let fixture = Fixture::new(Redis::start());
    let server = start(&fixture, "data");
    let mut client = fixture.client();
    client.store(1, &[("status", "finished")]);
    let _: i64 = client.ask(&["LPUSH", &format!("hero:job:{}", id(2)), "no hash"]);
    let _: String = client.ask(&["SET", "hero:job:*", "no hash"]);
    let _: i64 = client.ask(&["HSET", "hero:job:x\ny", "status", "started"]);
    let api = server.client();
    for bad in [
        "*",
        "x%0Ay",
        "..",
        "5d2b8a1c",
        &format!("{}%0A", id(1)),
        &id(2),
        &id(3),
    ] {
        for (method, verb) in [
            ("GET", ""),
            ("GET", "/wait"),
            ("GET", "/logs"),
            ("POST", "/stop"),
            ("POST", "/requeue"),
        ] {
            let body = (method == "POST").then(|| json!({}));
            let answer = api
                .call(method, &format!("{JOBS}/{bad}{verb}"), body.as_ref())
                .unwrap();
            assert_eq!(answer.status, 404, "{method} {bad}{verb}: {}", answer.body);
        }
    }
    for (bad, expected) in [
        (json!({"id": "*"}), "E_ID"),
        (json!({"id": format!("{}\n", id(4))}), "E_ID"),
        (json!({"worker_id": "w\n1"}), "worker_id"),
        (json!({"worker_id": ""}), "worker_id"),
        (json!({"timeout_seconds": 0}), "E_FIELD_RANGE timeout"),
        (json!({"timeout_seconds": 1e7}), "E_FIELD_RANGE timeout"),
        (json!({"retries": -1}), "retries"),
        (json!({"retries": 1_001}), "E_FIELD_RANGE retries"),
        (json!({"concurrent": "yes"}), "concurrent"),
        (json!({"dependencies": ["*"]}), "dependencies"),
        (json!({"log_path": "../x"}), "E_LOG_PATH"),
        (json!({"env_vars": {"a b": "c"}}), "env_vars"),
        (json!({"handler": "x"}), "one of them"),
        (json!({"what": 1}), "what"),
    ] {
        let mut job = json!({"worker_id": "fo", "script": "1"});
        job.as_object_mut()
            .unwrap()
            .extend(bad.as_object().unwrap().clone());
        let answer = api.post(JOBS, &job).unwrap();
        let detail = answer.body["detail"].as_str().unwrap();
        assert_eq!(answer.status, 422, "{job}: {detail}");
        assert!(detail.contains(expected), "{job}: {detail}");
    }
    let list = api.get(&format!("{JOBS}?limit=1000")).unwrap().body;
    let ids: BTreeSet<&str> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, [id(1).as_str(), "x\ny"].into());
    assert_eq!(queued(&mut client), [""; 0]);
}

#[test]
fn long_lists_are_paged() {
    let fixture = Fixture::new(Redis::start());
    let server = start(&fixture, "data");
    let mut client = fixture.client();
    // A list is no job.
    let _: i64 = client.ask(&["LPUSH", "hero:job:actor_queue:osis", "x"]);
    for n in 0..2_500 {
        let (worker, status) = if n % 5 == 0 {
            ("fo", "finished")
        } else {
            ("w9", "error")
        };
        client.store(n, &[("worker_id", worker), ("status", status)]);
    }
    for (query, count) in [
        ("", 2_500),
        ("&worker_id=fo", 500),
        ("&status=error", 2_000),
        ("&worker_id=fo&status=error", 0),
    ] {
        let mut ids = BTreeSet::new();
        let mut cursor = String::new();
        loop {
            let page = server
                .client()
                .get(&format!("{JOBS}?limit=50{query}{cursor}"))
                .unwrap()
                .body;
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= 120, "{}", items.len());
            ids.extend(
                items
                    .iter()
                    .map(|job| job["id"].as_str().unwrap().to_owned()),
            );
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(ids.len(), count, "{query}");
    }
    let newest = hero(&server, &["ls", "--limit", "3"]).exits(0, "there are 2,500");
    assert_eq!(newest.lines().count(), 4);
}

#[test]
fn waiting_leaves_the_reply_and_does_not_block_other_requests() {
    let fixture = Fixture::new(Redis::start());
    let server = start(&fixture, "data");
    let mut client = fixture.client();
    submit(&server, 1, &[]);
    let waiters: Vec<_> = (0..20)
        .map(|_| {
            let api = server.client();
            std::thread::spawn(move || {
                let path = format!("{JOBS}/{}/wait?timeout_seconds=50", id(1));
                api.get(&path).unwrap().body
            })
        })
        .collect();
    submit(&server, 2, &[]);
    finish(&mut client, 1, "finished");
    // Here the worker replies, and the waiting client still gets the reply.
    let _: i64 = client.ask(&["LPUSH", &format!("hero:reply:{}", id(1)), "out"]);
    for waiter in waiters {
        let job = waiter.join().unwrap();
        assert_eq!(
            (&job["status"], &job["output"]),
            (&json!("finished"), &json!("out"))
        );
    }
    assert_eq!(client.reply(1), "out");
    finish(&mut client, 2, "finished");
    let silent = format!("{JOBS}/{}/wait?timeout_seconds=50", id(2));
    assert_eq!(
        server.client().get(&silent).unwrap().body["status"],
        "finished"
    );
}
