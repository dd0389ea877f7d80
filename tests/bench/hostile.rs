//! What hostile guests and bombs do to a host beside good jobs: the longest turn of its dispatch loop, how long
//! a good job takes at most, and what memory it keeps.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host_tests::{Client, from_wat, guests};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::Stage;
use crate::numbers::ms;
use crate::process::status_mib;
use crate::report::{Report, Target};

/// How long the loop may be busy with one turn, in milliseconds.
const TURN_MS_MAX: f64 = 50.0;

/// How much memory the orchestrator may keep, in MiB.
const KEPT_MIB_MAX: f64 = 24.0;

/// How long memory may take to come back.
const SETTLE: Duration = Duration::from_secs(5);

/// Guests that waste, write too much, or end in a way that they should not.
const HOSTILE: &[&str] = &[
    "busy_loop",
    "burn",
    "host_calls",
    "sleep_forever",
    "memcpy_loop",
    "memory_bomb",
    "memory_many",
    "memory_refused",
    "deep_recursion",
    "deep_frames",
    "log_flood",
    "log_huge_line",
    "log_fields",
    "stdout_flood",
    "progress_flood",
    "random_flood",
    "pollable_flood",
    "giant_error",
    "giant_result",
    "trap",
    "abort",
    "panic_loop",
    "deep_result",
];

/// A schema that is accepted, and whose check visits hundreds of states for each byte.
const EXPENSIVE: &str = r#"{"type":"string","pattern":"^(a?){1,700}b$"}"#;

/// How many actions the script of the bombs has.
const ACTIONS: usize = 1_000;

/// How many clients ask for an expensive check and go.
const CLIENTS: usize = 40;

type Attack = fn(&Stage) -> Result<()>;

pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let attacks: [(&str, Attack); 3] = [
        ("good jobs alone", |_| Ok(())),
        ("hostile guests", hostile),
        ("bombs", bombs),
    ];
    for (name, attack) in attacks {
        eprintln!("beside {name}");
        beside(name, attack, report)?;
    }
    Ok(())
}

fn beside(name: &str, attack: Attack, report: &mut Report) -> Result<()> {
    let stage = Stage::start()?;
    let client = stage.server.client();
    good_jobs(&client)?;
    let memory = || status_mib(stage.server.pid(), "VmRSS");
    let before = memory()?;
    attack(&stage)?;
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        slowest = slowest.max(good_jobs(&client)?);
    }
    Handle::current().block_on(tokio::time::sleep(SETTLE));
    let turn = longest(&client, "host_turn_longest_seconds")?;
    let commit = longest(&client, "host_store_commit_longest_seconds")?;
    let target = Some(Target::AtMost(TURN_MS_MAX));
    let row = |what: &str| format!("{name}: {what}");
    report.add(row("longest turn of the loop"), "ms", vec![turn], target);
    report.add(row("longest commit in it"), "ms", vec![commit], None);
    report.add(row("slowest good job"), "ms", vec![ms(slowest)], None);
    let kept = Some(Target::AtMost(KEPT_MIB_MAX));
    let memory = vec![memory()? - before];
    report.add(row("memory that remains"), "MiB", memory, kept);
    stage.stop()
}

/// Runs eight good jobs and returns how long the slowest takes.
fn good_jobs(client: &Client) -> Result<Duration> {
    let begun = Instant::now();
    let jobs = (0..8).map(|n| client.enqueue(&json!({"handler": "echo", "params": {"n": n}})));
    let jobs: Vec<_> = jobs.collect();
    for id in jobs {
        let job = client.wait(&id);
        ensure!(job["state"] == "completed", "a good job ended so: {job}");
    }
    Ok(begun.elapsed())
}

fn hostile(stage: &Stage) -> Result<()> {
    let client = stage.server.client();
    let enqueue = |handler: &&str| {
        client.enqueue(&json!({"handler": handler, "params": {}, "max_attempts": 1}))
    };
    let hostile: Vec<_> = HOSTILE.iter().map(enqueue).collect();
    good_jobs(&client)?;
    for id in hostile {
        client.wait(&id);
    }
    Ok(())
}

fn bombs(stage: &Stage) -> Result<()> {
    let client = stage.server.client();
    for schema in refused_schemas() {
        let answer = client.deploy("bomb", &from_wat::with_schema(&schema), None)?;
        ensure!(answer.status == 422, "a bomb was taken: {}", answer.body);
        good_jobs(&client)?;
    }
    let expensive = from_wat::with_schema(EXPENSIVE);
    let answer = client.deploy("expensive", &expensive, None)?;
    ensure!(answer.status == 201, "{}", answer.body);
    let gone = clients_that_go(stage.server.address())?;
    good_jobs(&client)?;
    drop(gone);
    violations(&client)?;
    let uploads = deploys_that_stall(stage.server.address())?;
    good_jobs(&client)?;
    drop(uploads);
    for name in ["hero-heroscript", "actions"] {
        let path = guests::component(name);
        let manifest = std::fs::read_to_string(path.with_extension("toml")).ok();
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {name}"))?;
        let answer = client.deploy_accepted(name, &bytes, manifest.as_deref())?;
        ensure!(answer.status == 201, "{name}: {}", answer.body);
    }
    let script = "!!vm.define name:'a' cpu:4\n".repeat(ACTIONS);
    let job = client.enqueue(&json!({
        "handler": "hero.heroscript", "params": {"script": script}, "max_attempts": 1
    }));
    good_jobs(&client)?;
    client.wait(&job);
    Ok(())
}

/// Sends params with millions of violations.
fn violations(client: &Client) -> Result<()> {
    let names: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    let schema = json!({"items": {"required": names}}).to_string();
    let answer = client.deploy("expensive", &from_wat::with_schema(&schema), None)?;
    ensure!(answer.status == 201, "{}", answer.body);
    let params = vec![json!({}); 9_000];
    for _ in 0..3 {
        let answer = client.post(
            "/api/v1/jobs",
            &json!({"handler": "by_hand", "params": params}),
        )?;
        ensure!(answer.status == 422, "it was taken: {}", answer.body);
        good_jobs(client)?;
    }
    Ok(())
}

/// Begins more deploys than are carried out at once, and ends none.
fn deploys_that_stall(address: &str) -> Result<Vec<TcpStream>> {
    let head = format!(
        "PUT /api/v1/components/stalls HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/wasm\r\n\
         content-length: {}\r\n\r\n",
        32 << 20
    );
    let begun = (0..8).map(|_| {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(head.as_bytes())?;
        stream.write_all(&[b'x'; 4 << 10])?;
        Ok(stream)
    });
    begun.collect()
}

fn refused_schemas() -> [String; 2] {
    let patterns: Vec<Value> = (0..1_400)
        .map(|n| json!({"pattern": format!("^\\w{{{n}}}x")}))
        .collect();
    [
        r#"{"type":"string","pattern":"(a{1,100}){1,100}b{1,5000}\\w{500}"}"#.to_owned(),
        json!({"allOf": patterns}).to_string(),
    ]
}

/// Asks for expensive checks and waits for no answer.
fn clients_that_go(address: &str) -> Result<Vec<TcpStream>> {
    let body = json!({"handler": "by_hand", "params": "a".repeat(400_000)}).to_string();
    let request = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut open = Vec::new();
    for _ in 0..CLIENTS {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(request.as_bytes())?;
        open.push(stream);
    }
    Ok(open)
}

/// Returns a metric of the host that counts seconds, in milliseconds.
fn longest(client: &Client, name: &str) -> Result<f64> {
    let page = client.get("/metrics")?.body;
    let page = page.as_str().context("/metrics is no text")?;
    let value = page.lines().find_map(|line| line.strip_prefix(name));
    let value = value.with_context(|| format!("/metrics has no {name}"))?;
    Ok(value.trim().parse::<f64>()? * 1e3)
}
