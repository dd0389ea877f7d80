//! Hosts on one real `PostgreSQL` server, while hosts are killed and stopped, whole nodes are suspended for longer than a lease, the server crashes, and
//! connections are dropped, delayed and cut in the middle of a commit. Every acknowledged job ends exactly
//! once, never runs in two places at the same time, and every wait is answered. A schedule fires each second exactly once, no key
//! of a limit is ever above it, and a batch counts its jobs and calls back once.
//!
//! `HOST_CHAOS_SEED` repeats a run, `HOST_CHAOS_SECONDS` makes it longer, `HOST_CHAOS_SUSPENSIONS` suspends more nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use host_tests::faulty::{Fault, Faulty};
use host_tests::processes::{Parts, suspend, wake};
use host_tests::server::host;
use host_tests::{Client, Cluster, Options, Server, eventually, guests};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How many hosts there are.
const HOSTS: usize = 3;

/// How many clients enqueue and wait concurrently.
const CLIENTS: u64 = 24;

/// How long faults are injected.
const SECONDS: u64 = 30;

/// How many nodes are suspended before the other faults, and for how long: longer than a lease, so that others take over.
const SUSPENSIONS: u64 = 1;
const SUSPENDED_MS: u64 = 17_000;

/// The limit for every wait during the chaos, and for everything after it.
const PATIENCE: Duration = Duration::from_mins(3);

/// A small generator (splitmix64), so that a seed repeats all choices.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

fn setting(name: &str, default: u64) -> u64 {
    let stated = std::env::var(name).ok();
    stated.map_or(default, |text| text.parse().unwrap())
}

/// One host, and the proxy between it and the server.
struct Member {
    data: TempDir,
    proxy: Faulty,
    server: Mutex<Option<Server>>,
    client: Mutex<Client>,
}

impl Member {
    fn new(cluster: &Cluster) -> Self {
        let proxy = Faulty::before(cluster.folder());
        let data = TempDir::new().unwrap();
        let server = Server::start(&options(data.path(), proxy.folder()));
        let client = Mutex::new(server.client());
        let server = Mutex::new(Some(server));
        Self {
            data,
            proxy,
            server,
            client,
        }
    }

    fn client(&self) -> Client {
        self.client.lock().unwrap().clone()
    }

    /// Starts the host again if it has ended.
    fn tend(&self) {
        let mut server = self.server.lock().unwrap();
        if server.as_mut().is_some_and(|server| !server.has_ended()) {
            return;
        }
        *server = None;
        if let Ok(started) = Server::try_start(&options(self.data.path(), self.proxy.folder())) {
            *self.client.lock().unwrap() = started.client();
            *server = Some(started);
        }
    }

    fn kill(&self) {
        if let Some(server) = self.server.lock().unwrap().take() {
            server.kill();
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(server) = &*self.server.lock().unwrap() {
            let pid = Pid::from_raw(server.pid().cast_signed()).unwrap();
            // It may have ended by itself.
            let _ = kill_process(pid, signal);
        }
    }
}

fn options(data: &Path, socket: &Path) -> Options {
    let mut options = Options::new(data);
    let url = Cluster::url_at(socket);
    options.env.push(("HOST_STORE_URL".to_owned(), url));
    options
}

/// The clients and the answers they got.
struct Load<'a> {
    members: &'a [Member],
    /// A batch that some of the jobs are added to.
    batch: &'a str,
    seed: u64,
    next: AtomicU64,
    stop: AtomicBool,
    /// The job of each unique key.
    acknowledged: Mutex<BTreeMap<String, String>>,
}

/// How many jobs have dependents that do not fit into a batch, how many these are, and how their keys begin.
const TREES: usize = 4;
const DEPENDENTS: usize = 700;
const TREE: &str = "tree-";

/// A schedule that fires each second.
const SCHEDULE: &str = "/api/v1/schedules/each-second";

/// How many lanes the jobs of clients have, and how many of a lane may run concurrently.
const LANES: u64 = 4;
const LANE_JOBS_MAX: usize = 3;

/// Stops the clients when dropped, whether or not the test passed.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Load<'_> {
    /// Tries one host after the other until one answers with one of the statuses.
    fn ask(
        &self,
        dice: &mut Dice,
        statuses: &[u16],
        request: impl Fn(&Client) -> Option<(u16, Value)>,
    ) -> Value {
        eventually("an answer", PATIENCE, || {
            let member = usize::try_from(dice.roll(HOSTS as u64)).unwrap();
            let (status, body) = request(&self.members[member].client())?;
            statuses.contains(&status).then_some(body)
        })
    }

    fn post(&self, dice: &mut Dice, path: &str, body: &Value, statuses: &[u16]) -> Value {
        self.ask(dice, statuses, |client| {
            let answer = client.post(path, body).ok()?;
            let known = statuses.contains(&answer.status) || answer.status >= 500;
            assert!(known, "{path}: {} {}", answer.status, answer.body);
            Some((answer.status, answer.body))
        })
    }

    /// Enqueues jobs, two with each key, and waits for some, until stopped.
    fn run(&self, client: u64) {
        let mut dice = Dice(self.seed ^ (client + 1));
        let mut last: Option<String> = None;
        while !self.stop.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let key = format!("key-{}", number / 2);
            let mut job = json!({
                "handler": "vm.tick",
                "params": {"lines": dice.roll(30), "fail_times": dice.roll(3)},
                "max_attempts": 20,
                "attributes": {"lane": (number / 2 % LANES).to_string()},
                "unique": {"key": key, "scope": "retained"},
            });
            if dice.roll(4) == 0 {
                job["batch"] = self.batch.into();
            }
            if let Some(last) = last.take().filter(|_| dice.roll(4) == 0) {
                job["depends_on"] = json!([last]);
            }
            let answer = self.post(&mut dice, "/api/v1/jobs", &job, &[200, 201]);
            let id = answer["id"].as_str().unwrap().to_owned();
            let before = self.acknowledged.lock().unwrap().insert(key, id.clone());
            assert!(
                before.is_none_or(|before| before == id),
                "a key has two jobs"
            );
            if dice.roll(10) == 0 {
                let path = format!("/api/v1/jobs/{id}/cancel");
                self.post(&mut dice, &path, &json!({}), &[200, 202, 409]);
            }
            if dice.roll(4) == 0 {
                self.wait(&mut dice, &id);
            }
            last = Some(id);
        }
    }

    /// Enqueues jobs for which many others wait, and cancels them.
    fn plant(&self) {
        let mut dice = Dice(self.seed);
        for tree in 0..TREES {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let key = |n: usize| format!("{TREE}{tree}-{n}");
            let job = |n: usize| {
                let mut job = json!({
                    "handler": "vm.tick",
                    "params": {"lines": 1, "fail_times": 0},
                    "unique": {"key": key(n), "scope": "retained"},
                });
                if n == 0 {
                    job["delay_seconds"] = 86_400.into();
                } else {
                    job["depends_on"] = json!(["#0"]);
                }
                job
            };
            let jobs = Value::Array((0..=DEPENDENTS).map(job).collect());
            let accepted = self.post(&mut dice, "/api/v1/jobs", &jobs, &[201]);
            let id = |n: usize| accepted[n]["id"].as_str().unwrap().to_owned();
            let ids = (0..=DEPENDENTS).map(|n| (key(n), id(n)));
            self.acknowledged.lock().unwrap().extend(ids);
            let path = format!("/api/v1/jobs/{}/cancel", id(0));
            self.post(&mut dice, &path, &json!({}), &[200, 202, 409]);
        }
    }

    /// Waits for the end of a job on any host.
    fn wait(&self, dice: &mut Dice, id: &str) {
        let path = format!("/api/v1/jobs/{id}/wait?timeout_seconds=5");
        eventually("the end of a job", PATIENCE, || {
            let job = self.ask(dice, &[200], |client| {
                let answer = client.get(&path).ok()?;
                Some((answer.status, answer.body))
            });
            has_ended(&job).then_some(())
        });
    }
}

fn has_ended(job: &Value) -> bool {
    ["completed", "cancelled", "discarded"].contains(&job["state"].as_str().unwrap())
}

/// Suspends a host with its cells and its broker until others have taken over its jobs.
fn suspend_one(dice: &mut Dice, members: &[Member]) {
    let member = &members[usize::try_from(dice.roll(HOSTS as u64)).unwrap()];
    let host = member.server.lock().unwrap().as_ref().map(Server::pid);
    let all = Parts {
        cells: true,
        broker: true,
    };
    let asleep = host.map(|host| suspend(host, all)).unwrap_or_default();
    wait_ms(SUSPENDED_MS + dice.roll(3_000));
    wake(&asleep);
    pause(dice, 1_500);
    members.iter().for_each(Member::tend);
}

/// Injects faults, one after the other.
fn harm(dice: &mut Dice, cluster: &mut Cluster, members: &[Member]) {
    let member = &members[usize::try_from(dice.roll(HOSTS as u64)).unwrap()];
    match dice.roll(9) {
        0 => member.kill(),
        1 => {
            member.signal(Signal::STOP);
            pause(dice, 12_000);
            member.signal(Signal::CONT);
        }
        2 => {
            cluster.crash();
            pause(dice, 2_000);
            cluster.serve();
        }
        3 => member.proxy.inject(Fault::Drop),
        4 | 5 => member.proxy.inject(Fault::CutBeforeCommit),
        6 | 7 => member.proxy.inject(Fault::CutAfterCommit),
        _ => {
            let fault = [Fault::Deafen, Fault::Delay(40)][usize::try_from(dice.roll(2)).unwrap()];
            member.proxy.inject(fault);
            pause(dice, 6_000);
            member.proxy.heal();
        }
    }
    pause(dice, 1_500);
    for member in members {
        member.tend();
    }
}

fn pause(dice: &mut Dice, ms_max: u64) {
    wait_ms(dice.roll(ms_max));
}

#[expect(
    clippy::disallowed_methods,
    reason = "the duration of a fault is part of the test"
)]
fn wait_ms(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// The log is the witness: no attempt wrote anything after the first line of the next one, by the machine's
/// clock, which all hosts share.
fn assert_one_at_a_time(client: &Client, id: &str) -> Vec<(u64, u64)> {
    let mut spans: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for line in client.items(&format!("/api/v1/jobs/{id}/logs")) {
        // Other lines are the host's.
        let Ok(at) = line["message"].as_str().unwrap().parse::<u64>() else {
            continue;
        };
        let attempt = line["attempt"].as_u64().unwrap();
        let span = spans.entry(attempt).or_insert((at, at));
        *span = (span.0.min(at), span.1.max(at));
    }
    let spans: Vec<_> = spans.into_values().collect();
    for pair in spans.windows(2) {
        assert!(
            pair[0].1 <= pair[1].0,
            "{id} ran twice concurrently: {spans:?}"
        );
    }
    spans
}

/// Returns when each attempt of a job wrote its first and its last line.
fn assert_ended_once(client: &Client, job: &Value) -> Vec<(u64, u64)> {
    let id = job["id"].as_str().unwrap();
    let attempts = client.items(&format!("/api/v1/jobs/{id}/attempts"));
    let numbers: BTreeSet<_> = attempts.iter().map(|it| it["number"].as_u64()).collect();
    assert_eq!(numbers.len(), attempts.len(), "{id} has an attempt twice");
    let completed = attempts
        .iter()
        .filter(|it| it["outcome"] == "completed")
        .count();
    assert_eq!(
        completed,
        usize::from(job["state"] == "completed"),
        "{job}: {attempts:?}"
    );
    assert_one_at_a_time(client, id)
}

/// Sets a schedule that fires each second and a limit of what runs in each lane.
fn set_schedule_and_limit(client: &Client) {
    let schedule = json!({
        "when": {"every": "1s"}, "overlap": "allow", "catch_up": "all",
        "job": {"handler": "vm.tick", "params": {"lines": 1, "fail_times": 0}},
    });
    let set = client.call("PUT", SCHEDULE, Some(&schedule)).unwrap();
    assert_eq!(set.status, 200, "{}", set.body);
    let limit = json!({"key": "attributes:lane", "concurrency": LANE_JOBS_MAX});
    let path = "/api/v1/limits/lanes";
    let set = client.call("PUT", path, Some(&limit)).unwrap();
    assert_eq!(set.status, 200, "{}", set.body);
}

/// Makes a batch that stays open. Returns its id.
fn make_batch(client: &Client) -> String {
    let callback = json!({"handler": "vm.tick", "max_attempts": 1, "queue": "callbacks"});
    let batch = json!({"open": true, "on_end": callback});
    let made = client.post("/api/v1/batches", &batch).unwrap();
    assert_eq!(made.status, 201, "{}", made.body);
    made.body["batch"]["id"].as_str().unwrap().to_owned()
}

/// Closes the batch, and checks that it has counted its jobs when all have ended.
fn assert_batch_ends(client: &Client, batch: &str) {
    let path = format!("/api/v1/batches/{batch}");
    let closed = client.post(&format!("{path}/close"), &json!({})).unwrap();
    assert_eq!(closed.status, 200, "{}", closed.body);
    let ended = eventually("the batch to end", PATIENCE, || {
        let batch = client.get(&path).ok()?.body;
        (batch["state"] == "ended").then_some(batch)
    });
    let jobs = client.items(&format!("/api/v1/jobs?batch={batch}"));
    let in_state = |state: &str| jobs.iter().filter(|job| job["state"] == state).count();
    let expected = json!({
        "jobs": jobs.len(), "not_ended": 0, "completed": in_state("completed"),
        "discarded": in_state("discarded"), "cancelled": in_state("cancelled"),
    });
    assert_eq!(ended["counts"], expected, "{ended}");
}

/// Checks that each second up to the last has exactly one job of the schedule.
fn assert_fired_each_second(schedule: &Value, jobs: &[Value]) {
    let nominal = |job: &Value| job["attributes"]["schedule.nominal"].clone();
    let nominals: BTreeSet<_> = jobs.iter().map(|job| nominal(job).to_string()).collect();
    assert_eq!(nominals.len(), jobs.len(), "a second has two jobs");
    let counts = &schedule["counts"];
    assert_eq!(
        counts["fired"].as_u64(),
        Some(jobs.len() as u64),
        "{schedule}"
    );
    let lost = ["missed", "skipped", "failed"].map(|fate| counts[fate].as_u64());
    assert_eq!(lost, [Some(0); 3], "{schedule}");
    let second = |text: &String| text[18..20].parse::<i64>().unwrap();
    let seconds: Vec<i64> = nominals.iter().map(second).collect();
    let gaps = seconds
        .windows(2)
        .filter(|pair| (pair[1] - pair[0]).rem_euclid(60) != 1);
    assert_eq!(gaps.count(), 0, "{nominals:?}");
}

/// Checks that at no time more attempts of a lane wrote lines than may run.
fn assert_lanes_kept(lanes: &BTreeMap<String, Vec<(u64, u64)>>) {
    for (lane, spans) in lanes {
        for (at, _) in spans {
            let running = spans
                .iter()
                .filter(|(first, last)| first <= at && at < last)
                .count();
            assert!(
                running <= LANE_JOBS_MAX,
                "{running} ran in lane {lane} at {at}"
            );
        }
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "the story of one storm, in order")]
fn every_acknowledged_job_ends_once_whatever_goes_wrong() {
    let seed = setting("HOST_CHAOS_SEED", u64::from(std::process::id()));
    println!("HOST_CHAOS_SEED={seed}");
    let folder = guests::folder().with_file_name("chaos");
    std::fs::create_dir_all(&folder).unwrap();
    let mut cluster = Cluster::start(&folder, &["max_connections=200"]);
    let mut members = vec![Member::new(&cluster)];
    crate::fixture::deploy(&members[0].client(), "actions");
    set_schedule_and_limit(&members[0].client());
    let batch = make_batch(&members[0].client());
    members.extend((1..HOSTS).map(|_| Member::new(&cluster)));
    let load = Load {
        members: &members,
        batch: &batch,
        seed,
        next: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        acknowledged: Mutex::default(),
    };
    std::thread::scope(|scope| {
        let stopping = Stopping(&load.stop);
        for client in 0..CLIENTS {
            let load = &load;
            scope.spawn(move || load.run(client));
        }
        scope.spawn(|| load.plant());
        let mut dice = Dice(seed);
        let span = Duration::from_secs(setting("HOST_CHAOS_SECONDS", SECONDS));
        for _ in 0..setting("HOST_CHAOS_SUSPENSIONS", SUSPENSIONS) {
            suspend_one(&mut dice, &members);
        }
        let start = Instant::now();
        while start.elapsed() < span {
            harm(&mut dice, &mut cluster, &members);
        }
        drop(stopping);
        for member in &members {
            member.proxy.heal();
        }
        eventually("all hosts to be ready", PATIENCE, || {
            members.iter().for_each(Member::tend);
            let is_ready = |member: &Member| {
                member
                    .client()
                    .get("/readyz")
                    .is_ok_and(|it| it.status == 200)
            };
            members.iter().all(is_ready).then_some(())
        });
    });
    let acknowledged = load.acknowledged.into_inner().unwrap();
    let client = members[0].client();
    let schedule = client
        .post(&format!("{SCHEDULE}/pause"), &json!({}))
        .unwrap()
        .body;
    assert_batch_ends(&client, &batch);
    let jobs = eventually("every job to end", PATIENCE, || {
        let jobs = client.items("/api/v1/jobs");
        jobs.iter().all(has_ended).then_some(jobs)
    });
    println!("{} jobs on {HOSTS} hosts", jobs.len());
    let (fired, jobs): (Vec<Value>, Vec<Value>) =
        jobs.into_iter().partition(|job| job["wire"] == "schedule");
    let (callbacks, jobs): (Vec<Value>, Vec<Value>) = jobs
        .into_iter()
        .partition(|job| job["queue"] == "callbacks");
    assert_eq!(callbacks.len(), 1, "{callbacks:?}");
    let fired = fired
        .iter()
        .map(|job| client.job(job["id"].as_str().unwrap()));
    assert_fired_each_second(&schedule, &fired.collect::<Vec<_>>());
    let ids: BTreeSet<_> = jobs.iter().map(|job| job["id"].as_str().unwrap()).collect();
    let jobs_of_keys: BTreeSet<_> = acknowledged.values().map(String::as_str).collect();
    assert_eq!(ids.len(), jobs.len(), "no job is there twice");
    assert_eq!(
        jobs_of_keys.len(),
        acknowledged.len(),
        "no job has two keys"
    );
    assert_eq!(jobs_of_keys, ids, "no job is lost, and there are no others");
    let of_trees: BTreeSet<_> = acknowledged
        .iter()
        .filter(|(key, _)| key.starts_with(TREE))
        .map(|(_, id)| id.as_str())
        .collect();
    let mut lanes: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    for job in &jobs {
        if of_trees.contains(job["id"].as_str().unwrap()) {
            assert_eq!(
                job["attempt"], 0,
                "what waits for a cancelled job never runs: {job}"
            );
            continue;
        }
        let spans = assert_ended_once(&client, job);
        let lane = client.job(job["id"].as_str().unwrap())["attributes"]["lane"].to_string();
        lanes.entry(lane).or_default().extend(spans);
    }
    assert_lanes_kept(&lanes);
    let mut check = Command::new(host());
    check.args(["store", "check", "--store", &cluster.url(), "-o", "json"]);
    let found = check.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout).trim(), "[]");
}
