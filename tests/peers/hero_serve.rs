//! `host serve` as a worker of Hero dispatchers, as seen by a client that knows only the protocol
//! document. Also the fixtures for the other Hero tests.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use host_tests::server::host;
use host_tests::{Options, Redis, Server, eventually, guests};
use redis::Connection;
use tempfile::TempDir;

/// How long to wait for anything, even on a busy machine.
pub(crate) const WAIT_MAX: Duration = Duration::from_mins(2);

/// The components that these tests need.
const COMPONENTS: &[&str] = &["basics", "hero-rhai", "hero-heroscript", "actions"];

/// A Redis, and a folder for the data of hosts.
pub(crate) struct Fixture {
    pub(crate) redis: Redis,
    folder: TempDir,
}

/// A client that knows only the protocol document.
pub(crate) struct Client(pub(crate) Connection);

impl Fixture {
    pub(crate) fn new(redis: Redis) -> Self {
        let folder = TempDir::new().unwrap();
        deploy(&folder.path().join("handlers"), COMPONENTS);
        Self { redis, folder }
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Starts the host whose data directory is `name`.
    pub(crate) fn host(&self, name: &str) -> Server {
        self.host_at(name, &self.redis.url())
    }

    pub(crate) fn host_at(&self, name: &str, url: &str) -> Server {
        self.host_with(name, url, "")
    }

    /// Starts a host with additional lines in `[protocol.hero]`.
    pub(crate) fn host_with(&self, name: &str, url: &str, lines: &str) -> Server {
        let text =
            format!("[protocol.hero]\nurl = {url:?}\nworker_ids = [\"w1\", \"w2\"]\n{lines}\n");
        self.configured(name, &text, &self.path("handlers"))
    }

    /// Starts a host with only these components. It starts faster with fewer components.
    pub(crate) fn host_of(&self, name: &str, text: &str, components: &[&str]) -> Server {
        let handlers = self.path(&format!("{name}-handlers"));
        deploy(&handlers, components);
        self.configured(name, text, &handlers)
    }

    fn configured(&self, name: &str, text: &str, handlers: &Path) -> Server {
        let config = self.path(&format!("{name}.toml"));
        fs::write(&config, text).unwrap();
        let mut options = Options::new(&self.path(name)).handlers(handlers);
        options.args = ["--cells", "2", "--config"].map(str::to_owned).to_vec();
        options.args.push(config.display().to_string());
        Server::start(&options)
    }

    pub(crate) fn client(&self) -> Client {
        Client(self.redis.connection())
    }
}

fn deploy(folder: &Path, components: &[&str]) {
    fs::create_dir_all(folder).unwrap();
    for name in components {
        let component = guests::component(name);
        let manifest = component.with_extension("toml");
        fs::copy(component, folder.join(format!("{name}.wasm"))).unwrap();
        if manifest.exists() {
            fs::copy(manifest, folder.join(format!("{name}.toml"))).unwrap();
        }
    }
}

/// Returns the id of the `n`th job.
pub(crate) fn id(n: u32) -> String {
    format!("5d2b8a1c-0000-4000-8000-{n:012}")
}

/// Returns the command that stores a job.
pub(crate) fn store_command(n: u32, fields: &[(&str, &str)]) -> redis::Cmd {
    let mut words = redis::cmd("HSET");
    words.arg(format!("hero:job:{}", id(n)));
    #[rustfmt::skip]
    words.arg(&[
        "id", &id(n), "caller_id", "alice", "worker_id", "w1", "context_id", "office",
        "timeout", "60", "retries", "0", "concurrent", "true", "status", "dispatched",
        "created_at", "2026-01-01T00:00:00Z", "updated_at", "2026-01-01T00:00:00Z",
    ]);
    for (name, value) in fields {
        words.arg(*name).arg(*value);
    }
    words
}

impl Client {
    pub(crate) fn ask<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> T {
        let (name, args) = words.split_first().unwrap();
        redis::cmd(name).arg(args).query(&mut self.0).unwrap()
    }

    /// Stores a job and pushes its id.
    pub(crate) fn submit(&mut self, n: u32, fields: &[(&str, &str)]) {
        self.store(n, fields);
        let _: i64 = self.ask(&["LPUSH", "hero:work_queue:w1", &id(n)]);
    }

    pub(crate) fn store(&mut self, n: u32, fields: &[(&str, &str)]) {
        let _: i64 = store_command(n, fields).query(&mut self.0).unwrap();
    }

    /// Stores many jobs and pushes their ids in one batch.
    pub(crate) fn submit_many(
        &mut self,
        numbers: RangeInclusive<u32>,
        fields: impl Fn(u32) -> Vec<(&'static str, String)>,
    ) {
        let mut all = redis::pipe();
        for n in numbers {
            let owned = fields(n);
            let fields: Vec<_> = owned
                .iter()
                .map(|(name, it)| (*name, it.as_str()))
                .collect();
            all.add_command(store_command(n, &fields)).ignore();
            all.lpush("hero:work_queue:w1", id(n)).ignore();
        }
        let () = all.query(&mut self.0).unwrap();
    }

    /// Returns the statuses of jobs.
    pub(crate) fn statuses(&mut self, numbers: &[u32]) -> Vec<String> {
        let mut all = redis::pipe();
        for n in numbers {
            all.hget(format!("hero:job:{}", id(*n)), "status");
        }
        all.query(&mut self.0).unwrap()
    }

    /// Returns how many replies each of the first `count` jobs has.
    pub(crate) fn reply_counts(&mut self, count: u32) -> Vec<usize> {
        let mut all = redis::pipe();
        for n in 1..=count {
            all.llen(format!("hero:reply:{}", id(n)));
        }
        all.query(&mut self.0).unwrap()
    }

    /// Waits for the reply, as clients of the document do.
    pub(crate) fn reply(&mut self, n: u32) -> String {
        let key = format!("hero:reply:{}", id(n));
        let found: Option<(String, String)> = self.ask(&["BLPOP", &key, "120"]);
        found.expect("a reply comes in time").1
    }

    pub(crate) fn field(&mut self, n: u32, name: &str) -> String {
        let key = format!("hero:job:{}", id(n));
        let value: Option<String> = self.ask(&["HGET", &key, name]);
        value.unwrap_or_default()
    }

    pub(crate) fn stop(&mut self, n: u32) {
        let _: i64 = self.ask(&["LPUSH", "hero:stop_queue:w1", &id(n)]);
    }

    pub(crate) fn replies(&mut self, n: u32) -> usize {
        self.ask(&["LLEN", &format!("hero:reply:{}", id(n))])
    }

    pub(crate) fn length(&mut self, list: &str) -> usize {
        self.ask(&["LLEN", &format!("hero:{list}:w1")])
    }

    pub(crate) fn until_status(&mut self, n: u32, status: &str) {
        eventually(&format!("job {n} to be {status}"), WAIT_MAX, || {
            (self.field(n, "status") == status).then_some(())
        });
    }

    /// Waits until a job has ended, and checks that its error contains `error`.
    pub(crate) fn failed(&mut self, n: u32, error: &str) {
        let reply = self.reply(n);
        let found = self.field(n, "error");
        assert!(found.contains(error), "{n}: {found}");
        assert_eq!(self.field(n, "status"), "error");
        assert_eq!(self.field(n, "output"), "");
        let reply: serde_json::Value = serde_json::from_str(&reply).unwrap();
        assert_eq!(reply["error"], found.as_str());
    }
}

#[test]
fn jobs_run_as_documented() {
    let fixture = Fixture::new(Redis::start());
    let host = fixture.host("data");
    let mut client = fixture.client();
    let heroscript = "!!vm.define name:'box' cpu:2\n!!vm.define name:other";
    let env = r#"{"REGION":"eu"}"#;
    client.submit(1, &[("handler", "echo"), ("script", r#"{"a":1}"#)]);
    client.submit(2, &[("script", "40 + 2"), ("extra", "kept")]);
    client.submit(
        3,
        &[
            ("script", "[CALLER_ID, CONTEXT_ID, REGION]"),
            ("env_vars", env),
        ],
    );
    client.submit(4, &[("script", heroscript)]);
    client.submit(5, &[("script", "\"text\"")]);
    assert_eq!(client.reply(1), r#"{"a":1}"#);
    assert_eq!(client.reply(2), "42");
    assert_eq!(client.reply(3), r#"["alice","office","eu"]"#);
    let results: serde_json::Value = serde_json::from_str(&client.reply(4)).unwrap();
    assert_eq!(results[0]["name"], "box", "{results}");
    assert_eq!(results[1]["name"], "other", "{results}");
    assert_eq!(client.reply(5), "text");
    for n in 1..=5 {
        assert_eq!(client.field(n, "status"), "finished", "{n}");
        assert!(client.field(n, "updated_at") > client.field(n, "created_at"));
        assert!(client.field(n, "updated_at").ends_with('Z'));
    }
    assert_eq!(client.field(2, "output"), "42");
    assert_eq!(client.field(2, "extra"), "kept");
    // Another client makes Redis forget our scripts.
    let _: String = client.ask(&["SCRIPT", "FLUSH"]);
    client.submit(6, &[("script", "1"), ("timeout", "7200")]);
    client.until_status(6, "finished");
    let ttl: i64 = client.ask(&["TTL", &format!("hero:reply:{}", id(6))]);
    assert!((7_100..=7_200).contains(&ttl), "{ttl}");
    for list in ["work_queue", "processing", "dead_letter"] {
        assert_eq!(client.length(list), 0, "{list}");
    }
    let claims: Vec<String> = client.ask(&["KEYS", "hero:claim:*"]);
    assert_eq!(claims, Vec::<String>::new());
    // The API lists them with the host's other jobs.
    eventually("the history", WAIT_MAX, || {
        let list = host.client().get("/api/v1/jobs?limit=100").unwrap().body;
        let items = list["items"].as_array().unwrap();
        let ours = items.iter().filter(|job| job["wire"] == "hero").count();
        (ours == 6).then_some(())
    });
    assert_eq!(host.stop(), Some(0));
}

#[test]
fn failures_retries_and_time_limits_are_as_documented() {
    let fixture = Fixture::new(Redis::start());
    let _host = fixture.host("data");
    let mut client = fixture.client();
    let broken = r#"{"message":"no"}"#;
    client.submit(1, &[("handler", "fail"), ("script", broken)]);
    client.submit(2, &[("handler", "spin"), ("timeout", "0.3")]);
    client.submit(3, &[("script", "loop {}"), ("timeout", "0.3")]);
    client.submit(4, &[("handler", "missing")]);
    client.submit(5, &[("script", "let x = ")]);
    client.submit(6, &[("script", "1"), ("timeout", "0")]);
    client.submit(7, &[("script", "1"), ("log_path", "/etc/x")]);
    let flaky = r#"{"fail_times":2}"#;
    client.submit(
        8,
        &[("handler", "flaky"), ("script", flaky), ("retries", "1")],
    );
    client.submit(
        9,
        &[("handler", "flaky"), ("script", flaky), ("retries", "2")],
    );
    client.failed(1, "told_to_fail: no");
    client.failed(2, "timeout");
    assert_eq!(client.field(2, "error"), "timeout");
    client.failed(3, "timeout");
    client.failed(4, "handler_not_found");
    client.failed(5, "");
    client.failed(6, "E_FIELD_RANGE timeout");
    client.failed(7, "E_LOG_PATH");
    client.failed(8, "attempt 2 of 2");
    assert_eq!(client.reply(9), r#"{"attempt":3}"#);
}

#[test]
fn stop_requests_reach_queued_waiting_and_running_jobs() {
    let fixture = Fixture::new(Redis::start());
    let mut client = fixture.client();
    client.submit(1, &[("script", "1")]);
    client.stop(1);
    let _host = fixture.host("data");
    client.failed(1, "stopped_by_request");
    client.submit(2, &[("script", "loop {}")]);
    client.submit(3, &[("handler", "spin")]);
    let waits = format!("[\"{}\"]", id(90));
    client.store(90, &[("script", "1")]);
    client.submit(4, &[("script", "1"), ("prerequisites", &waits)]);
    client.until_status(2, "started");
    client.until_status(3, "started");
    for n in 2..=4 {
        client.stop(n);
    }
    for n in 2..=4 {
        client.failed(n, "stopped_by_request");
    }
    client.stop(2);
    client.submit(5, &[("script", "5")]);
    assert_eq!(client.reply(5), "5");
    eventually("requests for ended jobs to go", WAIT_MAX, || {
        (client.length("stop_queue") == 0).then_some(())
    });
}

#[test]
fn jobs_that_are_not_concurrent_run_one_at_a_time() {
    let fixture = Fixture::new(Redis::start());
    let _host = fixture.host("data");
    let mut client = fixture.client();
    let alone = ("concurrent", "false");
    client.submit(1, &[("handler", "spin"), alone]);
    client.until_status(1, "started");
    client.submit(2, &[("script", "2"), alone]);
    client.submit(3, &[("script", "3"), alone, ("context_id", "shop")]);
    client.submit(4, &[("script", "4")]);
    assert_eq!((client.reply(3), client.reply(4)), ("3".into(), "4".into()));
    assert_eq!(client.field(2, "status"), "dispatched");
    client.stop(1);
    client.failed(1, "stopped_by_request");
    assert_eq!(client.reply(2), "2");
}

#[test]
fn a_context_has_one_turn_over_worker_ids_and_hosts_and_outlives_a_killed_one() {
    let fixture = Fixture::new(Redis::start());
    let of = |name: &str, worker: &str| {
        let url = fixture.redis.url();
        let text = format!("[protocol.hero]\nurl = {url:?}\nworker_ids = [{worker:?}]\n");
        fixture.host_of(name, &text, &["basics", "hero-rhai"])
    };
    let (first, _second) = (of("first", "w1"), of("second", "w2"));
    let mut client = fixture.client();
    let on_second = [("worker_id", "w2"), ("concurrent", "false")];
    let queue = |client: &mut Client, n: u32, fields: &[(&str, &str)]| {
        client.store(n, fields);
        let _: i64 = client.ask(&["LPUSH", "hero:work_queue:w2", &id(n)]);
    };
    client.submit(1, &[("handler", "spin"), on_second[1]]);
    client.until_status(1, "started");
    queue(
        &mut client,
        2,
        &[on_second[0], on_second[1], ("script", "2")],
    );
    queue(&mut client, 3, &[on_second[0], ("script", "3")]);
    assert_eq!(client.reply(3), "3");
    let turn: String = client.ask(&["GET", "hero:context:office"]);
    assert_eq!(
        (turn, client.field(2, "status")),
        (id(1), "dispatched".into())
    );
    first.kill();
    assert_eq!(client.reply(2), "2");
    assert_eq!(
        client.field(1, "status"),
        "started",
        "no worker takes the jobs of w1"
    );
}

#[test]
fn jobs_wait_for_their_dependencies() {
    let fixture = Fixture::new(Redis::start());
    let _host = fixture.host("data");
    let mut client = fixture.client();
    let on = |n: u32| format!("[\"{}\"]", id(n));
    client.submit(2, &[("script", "2"), ("prerequisites", &on(1))]);
    client.submit(3, &[("script", "3"), ("dependencies", &on(2))]);
    client.submit(5, &[("script", "5"), ("dependencies", &on(4))]);
    client.submit(6, &[("script", "6"), ("dependencies", &on(7))]);
    client.submit(7, &[("script", "7"), ("dependencies", &on(6))]);
    client.submit(8, &[("script", "8")]);
    assert_eq!(client.reply(8), "8");
    assert_eq!(client.field(2, "status"), "dispatched");
    client.submit(4, &[("script", "throw \"no\"")]);
    client.submit(1, &[("script", "1")]);
    assert_eq!(client.reply(3), "3");
    assert!(client.field(1, "updated_at") <= client.field(2, "updated_at"));
    client.failed(5, &format!("prerequisite_failed: {}", id(4)));
    let cycle = [client.reply(6), client.reply(7)].concat();
    assert!(cycle.contains("E_DEP_CYCLE"), "{cycle}");
}

#[test]
fn a_password_is_used_and_never_logged() {
    let fixture = Fixture::new(Redis::start());
    let mut client = fixture.client();
    let _: String = client.ask(&["CONFIG", "SET", "requirepass", "hush-hush"]);
    let url = |password: &str| format!("redis://:{password}@127.0.0.1:{}", fixture.redis.port());
    let host = fixture.host_at("right", &url("hush-hush"));
    client.submit(1, &[("script", "1")]);
    assert_eq!(client.reply(1), "1");
    drop(host);
    let host = fixture.host_at("wrong", &url("wrong-one"));
    let log = |name: &str| log(&fixture.path(name));
    eventually("the refusal", WAIT_MAX, || {
        log("wrong").contains("cannot be reached").then_some(())
    });
    let ready = host.client().get("/readyz").unwrap();
    assert_eq!(ready.status, 200, "{:?}", ready.body);
    for (name, secret) in [("right", "hush-hush"), ("wrong", "wrong-one")] {
        assert!(!log(name).contains(secret), "{}", log(name));
    }
}

#[test]
fn the_doctor_warns_of_a_redis_without_an_append_only_file() {
    let (forgets, keeps) = (Redis::start(), Redis::durable());
    let gone = "redis://:hush@127.0.0.1:1".to_owned();
    let table = [
        (forgets.url(), "warn", "no append-only file"),
        (keeps.url(), "ok", "keeps an append-only file"),
        (gone, "warn", "cannot query"),
    ];
    for (url, status, words) in table {
        let (found, stderr) = doctor(&[("HOST_HERO_URL", &url)]);
        assert_eq!(found, status, "{stderr}");
        assert!(
            stderr.contains(words) && !stderr.contains("hush"),
            "{stderr}"
        );
    }
}

/// Returns the status and text of `host doctor` for the Redis in these variables.
pub(crate) fn doctor(variables: &[(&str, &str)]) -> (String, String) {
    let output = Command::new(host())
        .args(["doctor", "-o", "jsonl"])
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let line = lines
        .lines()
        .find(|line| line.contains(r#""name":"redis""#));
    let check: serde_json::Value = serde_json::from_str(line.unwrap()).unwrap();
    let text = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
    (
        text("status"),
        format!("{} {}", text("found"), text("next")),
    )
}

pub(crate) fn log(data: &Path) -> String {
    fs::read_to_string(data.join("serve.log")).unwrap()
}
