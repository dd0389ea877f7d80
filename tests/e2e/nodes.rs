//! Hosts that share a database: a killed, suspended or stopped one leaves its jobs to the others, and no job
//! runs in two places at the same time.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use host_tests::processes::{children, command, is_alive};
use host_tests::{Client, Options, Server, eventually, guests, pool, postgres, raw};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::events::stream;

/// Longer than a dead node can stay unnoticed.
pub(crate) const TAKEN_WITHIN: Duration = Duration::from_secs(40);

/// A data directory, and the kind of host that uses it.
pub(crate) struct Node {
    data: TempDir,
    url: String,
}

impl Node {
    pub(crate) fn new(schema: &str) -> Self {
        Self {
            data: TempDir::new().unwrap(),
            url: postgres::schema(schema),
        }
    }

    /// Makes another node of the same store.
    pub(crate) fn another(&self) -> Self {
        Self {
            data: TempDir::new().unwrap(),
            url: self.url.clone(),
        }
    }

    pub(crate) fn start(&self) -> Server {
        self.start_with(&[])
    }

    pub(crate) fn data(&self) -> &Path {
        self.data.path()
    }

    /// Returns its id, once it has started.
    pub(crate) fn id(&self) -> String {
        let id = std::fs::read_to_string(self.data().join("node")).unwrap();
        id.split_whitespace().next().unwrap().to_owned()
    }

    /// Starts a host with these variables.
    pub(crate) fn start_with(&self, env: &[(&str, &str)]) -> Server {
        self.start_as(false, env)
    }

    /// Starts a host that compiles all components itself.
    pub(crate) fn start_that_compiles(&self, env: &[(&str, &str)]) -> Server {
        self.start_as(true, env)
    }

    /// Starts a host with this configuration.
    pub(crate) fn start_configured(&self, config: &str) -> Server {
        self.start_configured_with(config, &[])
    }

    /// Starts a host with this configuration and these variables.
    pub(crate) fn start_configured_with(&self, config: &str, env: &[(&str, &str)]) -> Server {
        let path = self.data.path().join("host.toml");
        std::fs::write(&path, config).unwrap();
        let mut options = options(self.data.path(), &self.url);
        options.args = vec!["--config".to_owned(), path.display().to_string()];
        let env = env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        options.env.extend(env);
        Server::start(&options)
    }

    fn start_as(&self, compiles_all: bool, env: &[(&str, &str)]) -> Server {
        let mut options = options(self.data.path(), &self.url);
        options.compiles_all = compiles_all;
        let env = env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        options.env.extend(env);
        Server::start(&options)
    }
}

fn options(data: &Path, url: &str) -> Options {
    let mut options = Options::new(data);
    let env = [
        ("HOST_STORE_URL", url),
        ("HOST_STORE_ALLOW_UNSAFE", "true"),
        ("HOST_SHUTDOWN_GRACE_SECONDS", "1"),
    ];
    options
        .env
        .extend(env.map(|(name, value)| (name.to_owned(), value.to_owned())));
    options
}

/// Deploys the handlers of the tests, which may run for long.
pub(crate) fn deploy(client: &Client) {
    let component = std::fs::read(guests::component("basics")).unwrap();
    let manifest = "name = \"basics\"\n[defaults]\ntimeout_seconds = 3600\n";
    let answer = client.deploy("basics", &component, Some(manifest)).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
}

/// A job that runs until it is stopped.
pub(crate) fn endless() -> Value {
    json!({"handler": "sleep", "params": {"ms": 3_600_000}, "timeout_seconds": 3600})
}

/// Waits until the attempt with this number runs.
pub(crate) fn runs(client: &Client, id: &str, attempt: u64) -> Value {
    eventually("the attempt runs", TAKEN_WITHIN, || {
        let job = client.job(id);
        (job["state"] == "running" && job["attempt"] == attempt).then_some(job)
    })
}

/// Returns the processes in which guests of a host run.
fn cells(host: &Server) -> Vec<u32> {
    let mut cells = children(host.pid());
    cells.retain(|pid| command(*pid).contains("cell run"));
    cells
}

pub(crate) fn cancel(client: &Client, id: &str) {
    let answer = client.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({}));
    assert!(answer.unwrap().status < 300);
    assert_eq!(client.wait(id)["state"], "cancelled");
}

fn signal(host: &Server, signal: Signal) {
    let pid = Pid::from_raw(host.pid().cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Waits until a node knows the handlers.
pub(crate) fn knows(client: &Client) {
    eventually("the node has the component", TAKEN_WITHIN, || {
        let answer = client.get("/api/v1/handlers/echo").ok()?;
        (answer.status == 200).then_some(())
    });
}

#[test]
fn jobs_of_a_new_handler_wait_for_nodes_that_still_compile_it() {
    let (first, second) = (Node::new("fresh"), Node::new("fresh"));
    let deployed = first.start_with(&[("HOST_CELLS_COUNT", "1"), ("HOST_CELLS_SLOTS", "1")]);
    let compiling = second.start_that_compiles(&[]);
    let client = deployed.client();
    deploy(&client);
    let job = json!({"handler": "sleep", "params": {"ms": 200}, "max_attempts": 1});
    let jobs: Vec<String> = (0..20).map(|_| client.enqueue(&job)).collect();
    for id in jobs {
        let job = client.wait(&id);
        assert_eq!(job["state"], "completed", "{job}");
    }
    knows(&compiling.client());
}

/// As behind a load balancer: each request reaches another node.
#[test]
fn any_node_answers_for_all() {
    let (first, second) = (Node::new("balanced"), Node::new("balanced"));
    // With hints, and without.
    for poll in ["false", "true"] {
        let start = |node: &Node| node.start_with(&[("HOST_STORE_POLL", poll)]);
        let servers = [start(&first), start(&second)];
        let clients = [servers[0].client(), servers[1].client()];
        if poll == "false" {
            deploy(&clients[0]);
        }
        // Both have been running when it was deployed.
        clients.iter().for_each(knows);
        for n in 0..20 {
            let (one, other) = (&clients[n % 2], &clients[(n + 1) % 2]);
            let id = one.enqueue(&json!({"handler": "echo", "params": [n]}));
            assert_eq!(other.wait(&id)["result"], json!([n]));
            assert_eq!(one.job(&id)["state"], "completed");
        }
        for [one, other] in [[0, 1], [1, 0]] {
            let id = clients[one].enqueue(&endless());
            runs(&clients[one], &id, 1);
            // It is stopped in the cell of the other node, which reports the end.
            let waiting = clients[other].clone();
            let waited = std::thread::spawn({
                let id = id.clone();
                move || waiting.wait(&id)
            });
            cancel(&clients[other], &id);
            assert_eq!(waited.join().unwrap()["state"], "cancelled");
            let attempts = clients[other]
                .get(&format!("/api/v1/jobs/{id}/attempts"))
                .unwrap()
                .body;
            assert_eq!(attempts["items"][0]["outcome"], "cancelled", "{attempts}");
        }
    }
}

#[test]
fn a_node_with_room_runs_what_another_has_no_room_for() {
    let (first, second) = (Node::new("room"), Node::new("room"));
    let small = first.start_with(&[("HOST_CELLS_COUNT", "1"), ("HOST_CELLS_SLOTS", "1")]);
    deploy(&small.client());
    let long = small.client().enqueue(&endless());
    runs(&small.client(), &long, 1);
    let large = second.start();
    let id = small
        .client()
        .enqueue(&json!({"handler": "echo", "params": [5]}));
    assert_eq!(small.client().wait(&id)["result"], json!([5]));
    // A pause or resume at one node also holds at the other.
    let verb = |server: &Server, verb: &str| {
        let answer = server
            .client()
            .post(&format!("/api/v1/queues/default/{verb}"), &json!({}));
        assert_eq!(answer.unwrap().status, 200);
    };
    verb(&small, "pause");
    let id = large
        .client()
        .enqueue(&json!({"handler": "echo", "params": [6]}));
    assert_eq!(large.client().job(&id)["state"], "available");
    verb(&small, "resume");
    assert_eq!(large.client().wait(&id)["result"], json!([6]));
    cancel(&large.client(), &long);
}

#[test]
fn the_stream_of_one_node_has_the_jobs_of_another() {
    let (first, second) = (Node::new("streams"), Node::new("streams"));
    let (server, other) = (first.start(), second.start());
    deploy(&server.client());
    knows(&other.client());
    let id = server.client().enqueue(&endless());
    runs(&other.client(), &id, 1);
    let address = other.address().to_owned();
    let listening = std::thread::spawn({
        let id = id.clone();
        move || stream(&address, &id, Some(0))
    });
    cancel(&server.client(), &id);
    let events = listening.join().unwrap();
    for to in ["available", "running", "cancelled"] {
        assert!(events.contains(&format!("\"to\":\"{to}\"")), "{events}");
    }
    // The numbers are the same on all nodes.
    assert_eq!(stream(server.address(), &id, Some(0)), events);
}

#[test]
fn jobs_for_a_runner_of_one_node_are_accepted_by_all() {
    let (first, second) = (Node::new("lent"), Node::new("lent"));
    let config = format!("[protocol.rrq.runners.own]\n{}\n", pool::workers(1, 4));
    let (server, with_runner) = (first.start(), second.start_configured(&config));
    let client = server.client();
    let enqueue = |handler: &str| {
        let job = json!({"handler": handler, "params": {"n": 1}, "unique_key": "one"});
        client.post("/api/v1/jobs", &job).unwrap()
    };
    let refused = enqueue("missing#echo");
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (422, &json!("handler_not_found"))
    );
    // A node reports its runners with its next heartbeat.
    let id = eventually("a job for it is accepted", TAKEN_WITHIN, || {
        let answer = enqueue("own#echo");
        (answer.status == 201).then(|| answer.body["id"].as_str().unwrap().to_owned())
    });
    assert_eq!(client.wait(&id)["result"], json!({"n": 1}));
    let attempts = client.get(&format!("/api/v1/jobs/{id}/attempts"));
    assert_eq!(attempts.unwrap().body["items"][0]["executor"], "own/1");

    // All list it, with its node.
    let its_id = json!(second.id());
    let own = eventually("all nodes list it in the same way", TAKEN_WITHIN, || {
        let list = |client: &Client| client.get("/api/v1/runners").unwrap().body;
        let listed = list(&client);
        let is_idle = listed["items"][0]["in_flight"] == 0;
        let is_same = is_idle && listed == list(&with_runner.client());
        is_same.then(|| listed["items"][0].clone())
    });
    assert_eq!((&own["name"], &own["up"]), (&json!("own"), &json!(1)));
    assert_eq!(own["node"]["id"], its_id, "{own}");
    let shown = client.get("/api/v1/runners/own").unwrap().body;
    assert_eq!(shown["node"]["id"], its_id, "{shown}");
    let restart = client.post("/api/v1/runners/own/restart", &json!({}));
    assert_eq!(restart.unwrap().status, 422, "that is for its node to do");

    // A job that was accepted just after its node left waits for it.
    assert_eq!(with_runner.stop(), Some(0));
    let mut waiting = None;
    let refused = eventually("jobs for it are refused", TAKEN_WITHIN, || {
        let answer = enqueue("own#echo");
        if let Some(id) = answer.body["id"].as_str() {
            waiting = Some(id.to_owned());
        }
        (answer.status == 422).then_some(answer.body)
    });
    let is_nowhere = |why: &Value| {
        let why = why.as_str().unwrap_or_default();
        assert!(
            why.starts_with("no live node has the runner \"own\"; the node ")
                && why.ends_with(" had it last"),
            "{why}"
        );
    };
    is_nowhere(&refused["detail"]);
    if let Some(id) = &waiting {
        is_nowhere(&client.job(id)["waits_because"]);
    }
    let _host = second.start_configured(&config);
    if let Some(id) = &waiting {
        assert_eq!(client.wait(id)["state"], "completed");
    }
}

/// Reads the stream of one job until this event.
fn wait_for_event(address: &str, job: &str, what: &str) {
    let mut stream = raw::connect(address);
    let request = format!("GET /api/v1/events?job={job} HTTP/1.0\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut events = String::new();
    let mut chunk = [0; 1_024];
    while !events.contains(what) {
        let read = stream.read(&mut chunk).unwrap();
        assert!(read > 0, "{events}");
        events.push_str(&String::from_utf8_lossy(&chunk[..read]));
    }
}

#[test]
fn every_node_shows_how_far_a_job_is() {
    for poll in ["false", "true"] {
        let schema = format!("progress_{poll}");
        let (first, second) = (Node::new(&schema), Node::new(&schema));
        let start = |node: &Node| node.start_with(&[("HOST_STORE_POLL", poll)]);
        let servers = [start(&first), start(&second)];
        let clients = [servers[0].client(), servers[1].client()];
        deploy(&clients[0]);
        clients.iter().for_each(knows);
        let id = clients[0].enqueue(&json!({"handler": "cooperate", "timeout_seconds": 3600}));
        for (server, client) in servers.iter().zip(&clients) {
            let progress_of = |job: &Value| {
                let message = job["progress"]["message"].as_str();
                message
                    .map(str::to_owned)
                    .filter(|it| it.ends_with("rounds"))
            };
            let first = eventually("its progress is shown", TAKEN_WITHIN, || {
                progress_of(&client.job(&id))
            });
            eventually("its progress continues", TAKEN_WITHIN, || {
                progress_of(&client.job(&id)).filter(|now| *now != first)
            });
            let listed = client.get("/api/v1/jobs?state=running").unwrap().body;
            assert!(progress_of(&listed["items"][0]).is_some(), "{listed}");
            let waited = client.get(&format!("/api/v1/jobs/{id}/wait?timeout_seconds=0.001"));
            assert!(progress_of(&waited.unwrap().body).is_some());
            wait_for_event(server.address(), &id, "event: progress");
        }
        cancel(&clients[1], &id);
        let ended = clients
            .each_ref()
            .map(|client| client.job(&id)["progress"].clone());
        assert!(ended[0].is_object() && ended[0] == ended[1], "{ended:?}");
    }
}

#[test]
fn what_a_killed_node_ran_runs_once_more_on_another() {
    let (first, second) = (Node::new("killed"), Node::new("killed"));
    let server = first.start();
    deploy(&server.client());
    let other = second.start();
    let id = server.client().enqueue(&endless());
    let job = runs(&other.client(), &id, 1);
    assert_eq!(job["node"]["id"], first.id());
    server.kill();
    let job = runs(&other.client(), &id, 2);
    assert_eq!(job["node"]["id"], second.id());
    assert_eq!(job["attempts_charged"], 1, "the first is free: {job}");
    let echo = json!({"handler": "echo", "params": [1]});
    assert_eq!(other.client().run(&echo)["result"], json!([1]));
    // It comes back, and takes nothing from the other.
    let server = first.start();
    runs(&server.client(), &id, 2);
    cancel(&other.client(), &id);
    assert_eq!((server.stop(), other.stop()), (Some(0), Some(0)));
}

/// The host process is suspended, so it can neither send heartbeats nor stop its guests.
#[test]
fn guests_of_a_stopped_node_end_before_others_run_their_jobs() {
    let (first, second) = (Node::new("stopped"), Node::new("stopped"));
    let server = first.start();
    deploy(&server.client());
    let other = second.start();
    let spin = json!({"handler": "spin", "timeout_seconds": 3600});
    let ids = [endless(), spin].map(|job| server.client().enqueue(&job));
    for id in &ids {
        runs(&other.client(), id, 1);
    }
    let its_cells = cells(&server);
    assert!(!its_cells.is_empty());
    signal(&server, Signal::STOP);
    // No attempt begins elsewhere while a guest is left.
    eventually("the cells of the stopped host end", TAKEN_WITHIN, || {
        let begun = ids.iter().any(|id| other.client().job(id)["attempt"] != 1);
        let left = its_cells.iter().any(|pid| is_alive(*pid));
        assert!(!(begun && left), "a job runs in two places");
        (!left).then_some(())
    });
    for id in &ids {
        runs(&other.client(), id, 2);
    }
    signal(&server, Signal::CONT);
    assert_eq!(server.wait(), Some(8), "it reports that it may start again");
    let server = first.start();
    let echo = json!({"handler": "echo", "params": [2]});
    assert_eq!(server.client().run(&echo)["result"], json!([2]));
    for id in &ids {
        cancel(&other.client(), id);
    }
}

/// A pause shorter than a lease costs no attempt.
#[test]
fn a_node_that_pauses_for_a_moment_keeps_its_place() {
    let (first, second) = (Node::new("paused"), Node::new("paused"));
    let server = first.start();
    deploy(&server.client());
    let other = second.start();
    let id = server.client().enqueue(&endless());
    runs(&server.client(), &id, 1);
    signal(&server, Signal::STOP);
    // The other continues.
    let echo = json!({"handler": "echo", "params": [3]});
    assert_eq!(other.client().run(&echo)["result"], json!([3]));
    signal(&server, Signal::CONT);
    let echo = json!({"handler": "echo", "params": [4]});
    assert_eq!(server.client().run(&echo)["result"], json!([4]));
    assert_eq!(other.client().job(&id)["attempt"], 1);
    cancel(&server.client(), &id);
}

/// Its jobs are free as soon as it has ended, and another node takes them without waiting for a lease.
#[test]
fn a_node_that_is_asked_to_stop_leaves_its_jobs_at_once() {
    let (first, second) = (Node::new("leaves"), Node::new("leaves"));
    let server = first.start();
    deploy(&server.client());
    let other = second.start();
    let id = server.client().enqueue(&endless());
    runs(&server.client(), &id, 1);
    server.ask_to_stop();
    assert_eq!(server.wait(), Some(0));
    let job = runs(&other.client(), &id, 2);
    assert_eq!(job["attempts_charged"], 1, "the first is free: {job}");
    cancel(&other.client(), &id);
}
