//! The effect of hostile guests and bombs on a host with good jobs: the longest turn of its dispatch loop,
//! the slowest good job, and the memory that remains.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host_tests::{Client, bombs, from_wat, guests};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::Stage;
use crate::numbers::ms;
use crate::process::status_mib;
use crate::report::{Report, Target};

/// The target for the longest turn of the loop, in milliseconds.
const TURN_MS_MAX: f64 = 50.0;

/// How much memory the host may keep, in MiB.
const KEPT_MIB_MAX: f64 = 24.0;

/// How long memory may take to be released.
const SETTLE: Duration = Duration::from_secs(5);

/// How many actions the script of the bombs has.
const ACTIONS: usize = 1_000;

/// How many connections announce the largest frame of RRQ.
const FRAMES: usize = 1_000;

type Attack = fn(&Stage) -> Result<()>;

pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let attacks: [(&str, Attack); 3] = [
        ("good jobs alone", good_jobs_alone),
        ("hostile guests", hostile_guests),
        ("bombs", bombs_of_all_kinds),
    ];
    // Any disk may stall for 100 ms now and then.
    for (name, attack) in attacks {
        eprintln!("beside {name}");
        beside(name, attack, report)?;
    }
    Ok(())
}

fn beside(name: &str, attack: Attack, report: &mut Report) -> Result<()> {
    let stage = Stage::in_memory()?;
    let client = stage.server.client();
    good_jobs(&client)?;
    let memory = || status_mib(stage.server.pid(), "VmRSS");
    let before = memory()?;
    let ends = AtomicBool::new(false);
    let slowest = std::thread::scope(|scope| {
        let neighbours = scope.spawn(|| neighbours(&stage.server.client(), &ends));
        let attacked = attack(&stage);
        ends.store(true, Ordering::Relaxed);
        let slowest = neighbours.join().expect("no good job panics");
        attacked.and(slowest)
    })?;
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

/// Runs eight good jobs at a time until stopped. Returns the duration of the slowest.
fn neighbours(client: &Client, ends: &AtomicBool) -> Result<Duration> {
    let mut slowest = Duration::ZERO;
    while !ends.load(Ordering::Relaxed) {
        slowest = slowest.max(good_jobs(client)?);
    }
    Ok(slowest)
}

fn good_jobs_alone(stage: &Stage) -> Result<()> {
    let client = stage.server.client();
    (0..20).try_for_each(|_| good_jobs(&client).map(drop))
}

/// Runs every handler of the component `hostile`, all of them at once.
fn hostile_guests(stage: &Stage) -> Result<()> {
    let client = stage.server.client();
    for name in bombs::MALFORMED {
        let answer = client.deploy(
            name,
            &from_wat::component(name),
            Some(bombs::MALFORMED_LIMITS),
        )?;
        ensure!(answer.status == 201, "{name}: {}", answer.body);
    }
    let page = client.get("/api/v1/handlers?limit=100")?.body;
    let handlers = page["items"].as_array().context("no handlers")?;
    let handlers = handlers
        .iter()
        .filter(|handler| handler["component"] == "hostile");
    let handlers = handlers.filter_map(|handler| handler["name"].as_str());
    let malformed = bombs::MALFORMED.map(|name| name.replace('-', "_"));
    let handlers = handlers.chain(malformed.iter().map(String::as_str));
    let enqueue =
        |handler| client.enqueue(&json!({"handler": handler, "params": {}, "max_attempts": 1}));
    let jobs: Vec<_> = handlers.map(enqueue).collect();
    ensure!(jobs.len() > 30, "only {} hostile guests", jobs.len());
    for id in jobs {
        client.wait(&id);
    }
    Ok(())
}

fn bombs_of_all_kinds(stage: &Stage) -> Result<()> {
    let client = stage.server.client();
    for (schema, why) in bombs::refused_schemas() {
        let answer = client.deploy("bomb", &from_wat::with_schema(&schema), None)?;
        ensure!(answer.status == 422, "a bomb was accepted: {}", answer.body);
        let detail = answer.body["detail"].as_str().unwrap_or_default();
        ensure!(detail.contains(why), "expected {why:?}: {}", answer.body);
    }
    let expensive = from_wat::with_schema(bombs::EXPENSIVE);
    let answer = client.deploy("expensive", &expensive, None)?;
    ensure!(answer.status == 201, "{}", answer.body);
    drop(bombs::expensive_checks(stage.server.address())?);
    violations(&client)?;
    let uploads = deploys_that_stall(stage.server.address())?;
    let frames = frames_that_are_announced(stage.server.rrq_address())?;
    script(&client)?;
    drop((uploads, frames));
    Ok(())
}

/// Runs a script whose actions' params all need an expensive check.
fn script(client: &Client) -> Result<()> {
    let schema = json!({"properties": {"name": serde_json::from_str::<Value>(bombs::EXPENSIVE)?}});
    let action = from_wat::handler_with_schema("vm.slow", &schema.to_string());
    let answer = client.deploy("slow", &action, None)?;
    ensure!(answer.status == 201, "{}", answer.body);
    let path = guests::component("hero-heroscript");
    let manifest = std::fs::read_to_string(path.with_extension("toml")).ok();
    let bytes = std::fs::read(&path).context("cannot read hero-heroscript")?;
    let answer = client.deploy_accepted("hero-heroscript", &bytes, manifest.as_deref())?;
    ensure!(answer.status == 201, "{}", answer.body);
    let line = format!("!!vm.slow name:'{}'\n", "a".repeat(800));
    let job = client.run(&json!({
        "handler": "hero.heroscript",
        "params": {"script": line.repeat(ACTIONS)},
        "max_attempts": 1
    }));
    ensure!(
        job["failure"]["kind"] == "invalid_params",
        "the script was not refused: {job}"
    );
    Ok(())
}

/// Sends params with millions of violations.
fn violations(client: &Client) -> Result<()> {
    let (schema, params) = bombs::many_violations();
    let answer = client.deploy("expensive", &from_wat::with_schema(&schema), None)?;
    ensure!(answer.status == 201, "{}", answer.body);
    for _ in 0..3 {
        let answer = client.post(
            "/api/v1/jobs",
            &json!({"handler": "by_hand", "params": params}),
        )?;
        ensure!(answer.status == 422, "it was accepted: {}", answer.body);
    }
    Ok(())
}

/// Starts more deploys than may run at once, and finishes none.
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

/// Announces more frames than there is memory, and sends none.
fn frames_that_are_announced(address: &str) -> Result<Vec<TcpStream>> {
    let begun = (0..FRAMES).map(|_| {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(&(16_u32 << 20).to_be_bytes())?;
        stream.write_all(&[b' '; 4 << 10])?;
        Ok(stream)
    });
    begun.collect()
}

/// Returns a metric of the host that counts seconds, in milliseconds.
pub(crate) fn longest(client: &Client, name: &str) -> Result<f64> {
    let page = client.get("/metrics")?.body;
    let page = page.as_str().context("/metrics is not text")?;
    let samples = page.lines().filter_map(|line| line.strip_prefix(name));
    let values = samples.filter_map(|sample| sample.rsplit(' ').next()?.parse().ok());
    let longest: Option<f64> = values.reduce(f64::max);
    Ok(longest.with_context(|| format!("/metrics has no {name}"))? * 1e3)
}
