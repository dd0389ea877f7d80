//! Exactly if completed: hosts, cells and brokers are killed while attempts send requests, enqueue jobs and change state.
//! Afterwards each parent that has completed has its children, and no other job has any; counters are the numbers of
//! completed attempts.
//!
//! `HOST_LONG_TESTS` runs many more.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::time::Duration;

use host_tests::processes::{broker, children, command, kill};
use host_tests::reflector::Reflector;
use host_tests::{Client, Server, eventually, guests};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::nodes::Node;

/// The limit for each wait.
const PATIENCE: Duration = Duration::from_mins(4);

/// How many jobs each parent enqueues, and how many counters the parents share.
const CHILDREN: usize = 2;
const COUNTERS: usize = 8;

const MANIFEST: &str = "[handlers.ask]\nbackoff = { base_seconds = 0.01, max_seconds = 0.1 }\n\
                        [[handlers.ask.jobs]]\nhandlers = [\"noop\"]\nqueues = [\"rows\"]\n\
                        [handlers.ask.state]\nshared = [\"counters\"]\n[[handlers.ask.http]]\nto = \"ORIGIN\"\n";

/// The processes to kill, one after the other.
#[derive(Clone, Copy)]
enum Victim {
    Host,
    Cell,
    Broker,
}

const VICTIMS: [Victim; 3] = [Victim::Host, Victim::Cell, Victim::Broker];

/// How often something is killed, and how many parents there are each time.
fn size() -> (usize, usize) {
    match std::env::var_os("HOST_LONG_TESTS") {
        Some(_) => (60, 40),
        None => (6, 10),
    }
}

fn deploy(client: &Client, server: &Reflector) {
    let manifest = MANIFEST.replace("ORIGIN", &server.origin());
    for (name, manifest) in [("basics", None), ("hostile", Some(&*manifest))] {
        let component = fs::read(guests::component(name)).unwrap();
        let answer = client.deploy_accepted(name, &component, manifest);
        assert_eq!(answer.unwrap().status, 201);
    }
}

/// A parent, which adds one to a counter that it shares with others, and sends a request between what it writes.
fn parent(n: usize, url: &str) -> Value {
    let child =
        json!({"handler": "noop", "queue": "rows", "attributes": {"parent": n.to_string()}});
    let counter = json!({"space": "counters", "key": (n % COUNTERS).to_string()});
    let asks = json!([{"enqueue": [child]}, {"increment": counter}, {"request": url}, {"enqueue": [child]}]);
    json!({
        "handler": "ask",
        "params": {"asks": asks, "sleep_ms": 20},
        "attributes": {"parent": n.to_string()},
        "max_attempts": 1000,
    })
}

fn completed(client: &Client) -> Option<usize> {
    let query = "/api/v1/jobs/count?handler=ask&state=completed";
    let answer = client.get(query).ok()?;
    let count = answer.body["jobs"].as_u64()?;
    usize::try_from(count).ok()
}

/// Kills the cells of a host.
fn kill_cells(host: &Server) {
    for child in children(host.pid()) {
        if command(child).contains("cell run") {
            kill(child);
        }
    }
}

/// Kills hosts that share a store, their cells and their brokers, each time while a parent waits for its answer and others
/// are at work. Returns how many parents there are.
fn storm(
    mut hosts: Vec<Server>,
    start: &dyn Fn(usize) -> Server,
    server: &Reflector,
) -> (Vec<Server>, usize) {
    let (kills, parents) = size();
    let mut made = 0;
    for round in 0..kills {
        let client = hosts[0].client();
        let held = client.enqueue(&parent(made, &server.url("/wait")));
        made += 1;
        for _ in 1..parents {
            client.enqueue(&parent(made, &server.url(&format!("/{made}"))));
            made += 1;
        }
        let mut waiting = vec![server.waiting.recv_timeout(PATIENCE).unwrap()];
        let victim = VICTIMS[round % VICTIMS.len()];
        match victim {
            Victim::Host => {
                let of = round / VICTIMS.len() % hosts.len();
                hosts.remove(of).kill();
                hosts.insert(of, start(of));
            }
            Victim::Cell => hosts.iter().for_each(kill_cells),
            Victim::Broker => hosts
                .iter()
                .filter_map(|host| broker(host.pid()))
                .for_each(kill),
        }
        let client = hosts[0].client();
        eventually("the parent that waits completes", PATIENCE, || {
            waiting.extend(server.waiting.try_iter());
            for mut stream in waiting.drain(..) {
                // The attempt may be gone.
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
            }
            (client.job(&held)["state"] == "completed").then_some(())
        });
        let attempts = client.items(&format!("/api/v1/jobs/{held}/attempts"));
        let may_be_elsewhere = hosts.len() > 1 && matches!(victim, Victim::Host);
        assert!(
            attempts.len() > 1 || may_be_elsewhere,
            "it was hit: {attempts:?}"
        );
    }
    let client = hosts[0].client();
    eventually("all parents complete", PATIENCE, || {
        completed(&client).filter(|count| *count == made).map(drop)
    });
    (hosts, made)
}

/// Checks what the attempts have left.
fn check(client: &Client, parents: usize) {
    let mut by_parent: BTreeMap<String, usize> = BTreeMap::new();
    for job in client.items("/api/v1/jobs") {
        let id = job["id"].as_str().unwrap();
        let job = client.job(id);
        let of = job["attributes"]["parent"].as_str().unwrap().to_owned();
        if job["handler"] == "ask" {
            assert_eq!(job["state"], "completed", "{job}");
        } else {
            *by_parent.entry(of).or_default() += 1;
        }
    }
    assert_eq!(by_parent.len(), parents);
    assert!(
        by_parent.values().all(|jobs| *jobs == CHILDREN),
        "{by_parent:?}"
    );
    let mut counted = 0;
    for key in client.items("/api/v1/state/shared:counters") {
        let key = key["key"].as_str().unwrap();
        let path = format!("/api/v1/state/shared:counters/value?key={key}");
        let value = client.get(&path).unwrap().body["value"].clone();
        counted += value.as_str().unwrap().parse::<usize>().unwrap();
    }
    assert_eq!(counted, parents, "each completed attempt has counted once");
}

#[test]
fn children_and_counters_are_those_of_completed_attempts() {
    let (data, reflector) = (TempDir::new().unwrap(), Reflector::start());
    let options = reflector.options(&data, "", "");
    let start = |_| Server::start(&options);
    let first = start(0);
    deploy(&first.client(), &reflector);
    let (mut hosts, parents) = storm(vec![first], &start, &reflector);
    check(&hosts[0].client(), parents);
    assert_eq!(hosts.remove(0).stop(), Some(0));
    let found = host_store::check(&options.data.join("host.db"));
    assert_eq!(found, []);
}

#[test]
fn two_nodes_leave_children_and_counters_of_completed_attempts() {
    let reflector = Reflector::start();
    let nodes = [Node::new("desk_storm"), Node::new("desk_storm")];
    let start = |of: usize| nodes[of].start_configured(&reflector.grants(""));
    let hosts = vec![start(0), start(1)];
    deploy(&hosts[0].client(), &reflector);
    crate::nodes::knows(&hosts[1].client());
    let (hosts, parents) = storm(hosts, &start, &reflector);
    check(&hosts[1].client(), parents);
}
