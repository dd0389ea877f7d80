//! Bad data in a shared Redis: each kind is answered with its own code, and the next job runs normally.

use std::fs;
use std::time::{Duration, Instant};

use host_tests::{Redis, Server, eventually};
use redis::{Commands as _, Connection};
use serde_json::Value;

use crate::hero_serve::{Client, Fixture, WAIT_MAX, id};

/// How much the host's memory may grow from all bad input together, in bytes.
const GROWTH_BYTES_MAX: u64 = 192 << 20;

struct Target {
    fixture: Fixture,
    host: Server,
    client: Client,
    redis: Connection,
    jobs: u32,
}

impl Target {
    /// Starts a host with these components. It starts faster with fewer components.
    fn new(components: &[&str]) -> Self {
        let fixture = Fixture::new(Redis::start());
        let url = fixture.redis.url();
        let text = format!("[protocol.hero]\nurl = {url:?}\nworker_ids = [\"w1\"]\n");
        let host = fixture.host_of("data", &text, components);
        let (client, redis) = (fixture.client(), fixture.redis.connection());
        Self {
            fixture,
            host,
            client,
            redis,
            jobs: 0,
        }
    }

    /// Returns an unused job number.
    fn next(&mut self) -> u32 {
        self.jobs += 1;
        self.jobs
    }

    fn submit(&mut self, fields: &[(&str, &str)]) -> u32 {
        let n = self.next();
        self.client.submit(n, fields);
        n
    }

    fn push(&mut self, list: &str, entry: &[u8]) {
        let _: i64 = self.redis.lpush(format!("hero:{list}:w1"), entry).unwrap();
    }

    /// Checks that another job runs and that the host is ready.
    fn check_unaffected(&mut self, after: &str) {
        let n = self.submit(&[("handler", "echo"), ("script", r#"{"good":1}"#)]);
        assert_eq!(self.client.reply(n), r#"{"good":1}"#, "after {after}");
        let ready = self.host.client().get("/readyz").unwrap();
        assert_eq!(ready.status, 200, "after {after}: {:?}", ready.body);
    }

    /// Takes the newest dead letter and checks its code.
    fn take_dead_letter(&mut self, what: &str, code: &str) -> Value {
        let key = "hero:dead_letter:w1";
        let popped: Option<(String, String)> = self.redis.blpop(key, 60.0).unwrap();
        let text = popped
            .unwrap_or_else(|| panic!("{what}: there is no dead letter"))
            .1;
        let letter: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(letter["code"], code, "{what}: {letter}");
        letter
    }
}

#[test]
fn invalid_fields_are_reported() {
    let mut all = Target::new(&["basics"]);
    let itself = format!("[\"{}\"]", id(1));
    let crowd = format!(
        "[{}\"{}\"]",
        format!("\"{}\",", id(9)).repeat(999_999),
        id(9)
    );
    let huge = "x".repeat(10 << 20);
    let huge_env = format!("{{\"A\":\"{huge}\"}}");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let bomb = "x".repeat(100 << 20);
    let before = all.host.resident_bytes();
    #[rustfmt::skip]
    let table = [
        // Job 1 depends on itself.
        ("prerequisites", itself.as_str(), "E_DEP_CYCLE dependencies: "),
        ("prerequisites", crowd.as_str(), "E_FIELD_RANGE prerequisites: "),
        ("prerequisites", r#"["*"]"#, "E_FIELD_RANGE prerequisites: "),
        ("prerequisites", r#"{"a":1}"#, "E_FIELD_TYPE prerequisites: "),
        ("dependencies", "[1]", "E_FIELD_TYPE dependencies: "),
        ("dependencies", deep.get(..60_000).unwrap(), "E_FIELD_TYPE dependencies: "),
        ("timeout", "0", "E_FIELD_RANGE timeout: "),
        ("timeout", "-1", "E_FIELD_RANGE timeout: "),
        ("timeout", "1e12", "E_FIELD_RANGE timeout: "),
        ("timeout", "1000000000000", "E_FIELD_RANGE timeout: "),
        ("timeout", "abc", "E_FIELD_RANGE timeout: "),
        ("timeout", "NaN", "E_FIELD_RANGE timeout: "),
        ("retries", "-1", "E_FIELD_RANGE retries: "),
        ("retries", "2147483648", "E_FIELD_RANGE retries: "),
        ("retries", "1.5", "E_FIELD_RANGE retries: "),
        ("concurrent", "yes", "E_FIELD_RANGE concurrent: "),
        ("env_vars", "REGION=eu", "E_FIELD_TYPE env_vars: "),
        ("env_vars", r#"["REGION"]"#, "E_FIELD_TYPE env_vars: "),
        ("env_vars", r#"{"A":1}"#, "E_FIELD_TYPE env_vars: "),
        ("env_vars", r#"{"A":"1","A":"2"}"#, "E_FIELD_TYPE env_vars: "),
        ("env_vars", r#"{"A=B":"1"}"#, "E_FIELD_RANGE env_vars: "),
        ("env_vars", r#"{"A":"\u0000"}"#, "E_FIELD_RANGE env_vars: "),
        ("env_vars", &huge_env, "E_FIELD_RANGE env_vars: "),
        ("log_path", "../../etc/x", "E_LOG_PATH log_path: "),
        ("log_path", "/etc/passwd", "E_LOG_PATH log_path: "),
        ("log_path", "/dev/zero", "E_LOG_PATH log_path: "),
        ("script", &bomb, "E_FIELD_RANGE script: "),
        ("script_type", "cobol", "E_FIELD_RANGE script_type: "),
        ("handler", "..\\..\\x", "E_FIELD_RANGE handler: "),
        ("handler", "echo", "E_FIELD_TYPE script: "),
        ("caller_id", &huge, "E_FIELD_RANGE caller_id: "),
        ("id", "5d2b8a1c-0000-4000-8000-999999999999", "E_JOB_TAMPERED id: "),
        ("worker_id", "w2", "E_JOB_TAMPERED worker_id: "),
    ];
    for (field, value, error) in table {
        let shown: String = format!("{field} {value}").chars().take(60).collect();
        let n = all.submit(&[("script", "let it = 1;"), (field, value)]);
        let reply: Value = serde_json::from_str(&all.client.reply(n)).unwrap();
        let found = all.client.field(n, "error");
        assert!(found.starts_with(error), "{shown}: {found}");
        assert!(found.len() < 300, "{shown}: it quotes its input: {found}");
        assert_eq!(reply["error"], found.as_str(), "{shown}");
        assert_eq!(all.client.field(n, "status"), "error", "{shown}");
        all.check_unaffected(&shown);
    }
    for field in ["script", "caller_id", "env_vars", "timeout", "handler"] {
        let n = all.next();
        all.client.store(n, &[("handler", "echo")]);
        let _: i64 = all
            .redis
            .hset(format!("hero:job:{}", id(n)), field, b"\xff\xfe")
            .unwrap();
        all.push("work_queue", id(n).as_bytes());
        all.client.failed(n, &format!("E_FIELD_TYPE {field}: "));
        all.check_unaffected(field);
    }
    let grown = all.host.resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH_BYTES_MAX, "the memory grew by {grown} bytes");
    counted(
        &all,
        &[
            "E_DEP_CYCLE",
            "E_FIELD_RANGE",
            "E_FIELD_TYPE",
            "E_LOG_PATH",
            "E_JOB_TAMPERED",
        ],
    );
}

/// Checks that the metrics count refusals with these codes.
fn counted(all: &Target, codes: &[&str]) {
    let metrics = all.host.client().get("/metrics").unwrap().body.to_string();
    for code in codes {
        let counted = metrics.contains("hero") && metrics.contains(code);
        assert!(counted, "{code} is not counted: {metrics}");
    }
}

#[test]
fn invalid_queue_entries_become_dead_letters() {
    let mut all = Target::new(&["basics"]);
    let ended = all.submit(&[("handler", "echo")]);
    all.client.until_status(ended, "finished");
    let list = all.next();
    let _: i64 = all
        .redis
        .lpush(format!("hero:job:{}", id(list)), "no hash")
        .unwrap();
    let (missing, ended, list) = (id(900_000), id(ended), id(list));
    let long = "a".repeat(70_000);
    let pattern = format!("{}*", &missing[..35]);
    #[rustfmt::skip]
    let table: [(&[u8], &str); 13] = [
        (missing.as_bytes(), "E_JOB_MISSING"),
        (ended.as_bytes(), "E_JOB_ENDED"),
        (list.as_bytes(), "E_JOB_TYPE"),
        (b"", "E_ID"),
        (b"*", "E_ID"),
        (pattern.as_bytes(), "E_ID"),
        (b"a\nb\r\nDEL x", "E_ID"),
        (b"../../etc/passwd", "E_ID"),
        (b"5d2b8a1c00004000800000000000000a", "E_ID"),
        (b"{5d2b8a1c-0000-4000-8000-00000000000}", "E_ID"),
        (b"\xff\xfe\x00", "E_ID"),
        ("\u{202e}gnp.\u{1b}[2J".as_bytes(), "E_ID"),
        (long.as_bytes(), "E_ID"),
    ];
    for (entry, code) in table {
        let shown = entry[..entry.len().min(40)].escape_ascii().to_string();
        all.push("work_queue", entry);
        let letter = all.take_dead_letter(&shown, code);
        let named = letter["id"].as_str().unwrap();
        assert!(
            named.len() <= 512 && !named.contains(['\n', '\u{1b}', '\u{202e}']),
            "{named}"
        );
        all.check_unaffected(&shown);
    }
    assert_eq!(all.client.field(1, "output"), "{}");
    // The same id is queued many times, while its job runs and after it ended: it runs once.
    let n = all.submit(&[("handler", "spin")]);
    all.client.until_status(n, "started");
    for _ in 0..20 {
        all.push("work_queue", id(n).as_bytes());
    }
    for _ in 0..20 {
        all.take_dead_letter("a second one", "E_JOB_TWICE");
    }
    all.client.stop(n);
    all.client.failed(n, "stopped_by_request");
    all.push("work_queue", id(n).as_bytes());
    all.take_dead_letter("one that has ended", "E_JOB_ENDED");
    assert_eq!(all.client.length("reply"), 0);
    all.check_unaffected("all of it");
    eventually("nothing to be left", WAIT_MAX, || {
        (all.client.length("processing") == 0).then_some(())
    });
    assert_eq!(all.client.length("dead_letter"), 0, "each was left once");
    counted(
        &all,
        &[
            "E_ID",
            "E_JOB_MISSING",
            "E_JOB_TYPE",
            "E_JOB_ENDED",
            "E_JOB_TWICE",
        ],
    );
}

#[test]
fn hostile_scripts_end_at_their_limits() {
    let mut all = Target::new(&["basics", "hero-rhai", "hero-heroscript", "actions"]);
    let env = r#"{"LD_PRELOAD":"/tmp/x.so","PATH":"/x"}"#;
    let deep = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
    let steps = "!!vm.spin x:1\n".repeat(20);
    #[rustfmt::skip]
    let table: [(&str, &[&str]); 12] = [
        ("loop {}", &["timeout"]),
        (r#"eval("loop {}")"#, &["timeout"]),
        (r#"let s = "x"; loop { s += s; }"#, &["memory_limit", "trapped"]),
        (r#"let a = []; loop { a.push("a longer text " + a.len); }"#, &["memory_limit", "timeout", "trapped"]),
        ("let a = []; a.pad(1_000_000_000, 0); a.len", &["memory_limit", "trapped", "timeout"]),
        ("fn f(n) { f(n + 1) } f(0)", &["trapped", "memory_limit", "script_error"]),
        (&deep, &["trapped", "memory_limit", "script_syntax", "timeout"]),
        (r#"import "/etc/passwd" as x; 1"#, &["script_"]),
        (r#"open_file("/etc/passwd")"#, &["script_"]),
        ("let x = ", &["script_syntax"]),
        (&steps, &["timeout"]),
        ("!!!!!a.b", &["script_"]),
    ];
    for (script, errors) in table {
        let shown = &script[..script.len().min(60)];
        // A script that another limit ends has time for that, even on a busy machine.
        let timeout = if errors.contains(&"timeout") {
            "1.5"
        } else {
            "60"
        };
        let n = all.submit(&[("script", script), ("timeout", timeout), ("retries", "0")]);
        all.client.reply(n);
        let found = all.client.field(n, "error");
        assert!(
            errors.iter().any(|error| found.contains(error)),
            "{shown}: {found}"
        );
        all.check_unaffected(shown);
    }
    let n = all.submit(&[("script", "ENV.LD_PRELOAD"), ("env_vars", env)]);
    assert_eq!(
        all.client.reply(n),
        "/tmp/x.so",
        "it is a text for the script alone"
    );
    all.check_unaffected("LD_PRELOAD");
}

#[test]
fn stop_requests_for_no_job_are_harmless() {
    const FLOOD: u32 = 100_000;
    let mut all = Target::new(&["basics"]);
    let ended = all.submit(&[("handler", "echo")]);
    all.client.until_status(ended, "finished");
    let other = all.next();
    all.client
        .store(other, &[("worker_id", "w9"), ("handler", "echo")]);
    let (ended, absent) = (id(ended), id(900_000));
    for entry in [
        ended.as_bytes(),
        id(other).as_bytes(),
        absent.as_bytes(),
        b"*",
        b"\n",
        b"\xff\xfe",
    ] {
        all.push("stop_queue", entry);
        all.check_unaffected(&entry.escape_ascii().to_string());
    }
    eventually("what is no text to be removed", WAIT_MAX, || {
        let mut lpos = redis::cmd("LPOS");
        let find = lpos.arg("hero:stop_queue:w1").arg(b"\xff\xfe");
        let found: Option<usize> = find.query(&mut all.redis).unwrap();
        found.is_none().then_some(())
    });
    assert_eq!(all.client.field(other, "status"), "dispatched");
    let spins = all.submit(&[("handler", "spin"), ("timeout", "600")]);
    all.client.until_status(spins, "started");
    let mut flood = redis::pipe();
    for n in 0..FLOOD {
        let stopped = if n % 2 == 0 {
            ended.clone()
        } else {
            id(1_000_000 + n)
        };
        flood.lpush("hero:stop_queue:w1", stopped).ignore();
    }
    let () = flood.query(&mut all.redis).unwrap();
    all.check_unaffected("a flood of stops");
    let start = Instant::now();
    all.client.stop(spins);
    all.client.failed(spins, "stopped_by_request");
    let took = start.elapsed();
    assert!(
        took < Duration::from_secs(30),
        "a stop took {took:?} in the flood"
    );
    // Redis still answers other clients.
    let start = Instant::now();
    let _: String = redis::cmd("PING").query(&mut all.redis).unwrap();
    assert!(start.elapsed() < Duration::from_secs(30));
    all.check_unaffected("the stop");
}

#[test]
fn a_key_of_another_type_affects_only_its_own_job() {
    let mut all = Target::new(&["basics"]);
    let stop_queue = "hero:stop_queue:w1";
    let _: () = all.redis.set(stop_queue, "no list").unwrap();
    let [hash, claim, reply, fine] = [(); 4].map(|()| all.submit(&[("handler", "spin")]));
    for n in [hash, claim, reply, fine] {
        all.client.until_status(n, "started");
    }
    let claimed = format!("hero:claim:{}", id(claim));
    for key in [&format!("hero:job:{}", id(hash)), &claimed, stop_queue] {
        let _: i64 = all.redis.del(key).unwrap();
        let _: i64 = all.redis.lpush(key, "x").unwrap();
    }
    let _: () = all
        .redis
        .set(format!("hero:reply:{}", id(reply)), "no list")
        .unwrap();
    let fourth = format!("hero:claim:{}", id(fine));
    let _: bool = all.redis.pexpire(&fourth, 9_000).unwrap();
    eventually("the claims of others to be renewed", WAIT_MAX, || {
        let ms: i64 = all.redis.pttl(&fourth).unwrap();
        (ms > 9_000).then_some(())
    });
    for n in [hash, claim, reply, fine] {
        all.client.stop(n);
    }
    let stopped = r#"{"error":"stopped_by_request"}"#;
    assert_eq!(
        all.client.reply(hash),
        stopped,
        "a client that waits gets it"
    );
    all.client.failed(fine, "stopped_by_request");
    all.client.until_status(reply, "error");
    eventually("all but one to be over", WAIT_MAX, || {
        (all.client.length("processing") == 1).then_some(())
    });
    let _: i64 = all.redis.del(&claimed).unwrap();
    all.client.reply(claim);
    assert_eq!(all.client.replies(claim), 0, "it is answered once");
    all.check_unaffected("all of it");
}

#[test]
fn forged_status_fields_are_not_trusted() {
    let mut all = Target::new(&["basics"]);
    // Forged before the job is popped: the hash says that it has ended, so it does not run.
    let n = all.submit(&[
        ("status", "finished"),
        ("output", "forged"),
        ("handler", "echo"),
    ]);
    all.take_dead_letter("a forged end", "E_JOB_ENDED");
    assert_eq!(all.client.field(n, "output"), "forged");
    all.check_unaffected("a forged end");
    let n = all.submit(&[("output", "forged"), ("handler", "missing")]);
    all.client.failed(n, "handler_not_found");
    // Forged while the job runs: the values from the start are used.
    let n = all.submit(&[("handler", "sleep"), ("script", r#"{"ms":4000}"#)]);
    all.client.until_status(n, "started");
    for (field, value) in [
        ("id", "x"),
        ("script", "9"),
        ("timeout", "0"),
        ("output", "x"),
    ] {
        let key = format!("hero:job:{}", id(n));
        let _: i64 = all.redis.hset(key, field, value).unwrap();
    }
    all.client.until_status(n, "finished");
    assert_ne!(all.client.field(n, "output"), "x");
    all.check_unaffected("tampering");
    // If a hash disappears, the jobs that wait for it keep waiting.
    let n = all.submit(&[("handler", "sleep"), ("script", r#"{"ms":4000}"#)]);
    all.client.until_status(n, "started");
    let _: i64 = all.redis.del(format!("hero:job:{}", id(n))).unwrap();
    all.client.reply(n);
    all.check_unaffected("a hash that is gone");
}

/// Returns how often Redis received a command since its start, including refused calls.
fn calls(redis: &mut Connection, command: &str) -> u64 {
    let stats: String = redis::cmd("INFO").arg("commandstats").query(redis).unwrap();
    let prefix = format!("cmdstat_{command}:");
    let line = stats.lines().find_map(|line| line.strip_prefix(&prefix));
    let numbers = line.into_iter().flat_map(|line| line.split(','));
    let counts = numbers.filter_map(|number| {
        let count = number.strip_prefix("calls=");
        count.or_else(|| number.strip_prefix("rejected_calls="))
    });
    counts.map(|count| count.parse::<u64>().unwrap()).sum()
}

#[test]
fn commands_that_redis_refuses_are_repeated_with_pauses() {
    let mut all = Target::new(&["basics"]);
    all.check_unaffected("the start");
    let log_path = all.fixture.path("data").join("serve.log");
    let log = || fs::read_to_string(&log_path).unwrap();
    let set = |redis: &mut Connection, key: &str, value: &str| {
        let _: String = redis::cmd("CONFIG")
            .arg("SET")
            .arg(key)
            .arg(value)
            .query(redis)
            .unwrap();
    };
    // The queue has another type; Redis is out of memory; Redis refuses writes because it has too few
    // replicas.
    for trouble in ["work_queue", "maxmemory", "min-replicas-to-write"] {
        let key = format!("hero:{trouble}:w1");
        let is_key = trouble == "work_queue";
        if is_key {
            all.redis.set::<_, _, ()>(&key, "no list").unwrap();
        } else {
            set(&mut all.redis, trouble, "1");
        }
        let refused = |log: &str| log.matches("Redis refuses a command").count();
        eventually("the log to report it", WAIT_MAX, || {
            (refused(&log()) > 0).then_some(())
        });
        let pops = |redis: &mut Connection| calls(redis, "blmove") + calls(redis, "lmove");
        let (start, first) = (Instant::now(), pops(&mut all.redis));
        eventually(&format!("more tries: {trouble}"), WAIT_MAX, || {
            (pops(&mut all.redis) >= first + 3).then_some(())
        });
        let took = start.elapsed();
        assert!(
            took > Duration::from_millis(500),
            "{trouble}: it is called again within {took:?}"
        );
        if is_key {
            let _: i64 = all.redis.del(&key).unwrap();
        } else {
            set(&mut all.redis, trouble, "0");
        }
        all.check_unaffected(trouble);
    }
    all.redis
        .set::<_, _, ()>("hero:stop_queue:w1", "no list")
        .unwrap();
    all.check_unaffected("stops of another type");
    let log = log();
    assert!(log.len() < 100_000, "the log has {} bytes", log.len());
}
