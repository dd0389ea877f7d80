//! Exactly if completed: hosts and cells are killed while attempts enqueue jobs and change state. Afterwards each parent
//! that has completed has its children, and no other job has any; counters are the numbers of completed attempts.
//!
//! `HOST_LONG_TESTS` runs many more.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use host_tests::processes::{children, command};
use host_tests::{Client, Options, Server, eventually, guests};
use rustix::process::{Pid, Signal, kill_process};
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
                        [handlers.ask.state]\nshared = [\"counters\"]\n";

/// How many parents there are, and how often something is killed meanwhile.
fn size() -> (usize, usize) {
    match std::env::var_os("HOST_LONG_TESTS") {
        Some(_) => (2_000, 40),
        None => (60, 4),
    }
}

fn deploy(client: &Client) {
    for (name, manifest) in [("basics", None), ("hostile", Some(MANIFEST))] {
        let component = fs::read(guests::component(name)).unwrap();
        let answer = client.deploy_accepted(name, &component, manifest);
        assert_eq!(answer.unwrap().status, 201);
    }
}

/// A parent, which adds one to a counter that it shares with others.
fn parent(n: usize) -> Value {
    let child =
        json!({"handler": "noop", "queue": "rows", "attributes": {"parent": n.to_string()}});
    let counter = json!({"space": "counters", "key": (n % COUNTERS).to_string()});
    json!({
        "handler": "ask",
        "params": {"asks": [{"enqueue": [child, child]}, {"increment": counter}], "sleep_ms": 20},
        "attributes": {"parent": n.to_string()},
        "max_attempts": 1000,
        "unique": {"key": n.to_string(), "scope": "retained"},
    })
}

/// Enqueues all parents, however often the host that is asked is killed meanwhile.
fn enqueue(clients: &dyn Fn() -> Client, parents: usize) {
    for n in 0..parents {
        eventually("a parent is accepted", PATIENCE, || {
            let answer = clients().post("/api/v1/jobs", &parent(n)).ok()?;
            matches!(answer.status, 200 | 201).then_some(())
        });
    }
}

fn completed(client: &Client) -> Option<usize> {
    let query = "/api/v1/jobs/count?handler=ask&state=completed";
    let answer = client.get(query).ok()?;
    let count = answer.body["jobs"].as_u64()?;
    usize::try_from(count).ok()
}

/// Waits until so many parents have completed.
fn wait_for(clients: &dyn Fn() -> Client, parents: usize) {
    eventually("parents complete", PATIENCE, || {
        completed(&clients())
            .filter(|count| *count >= parents)
            .map(drop)
    });
}

fn kill_a_cell(host: &Server) {
    let mut cells = children(host.pid());
    cells.retain(|pid| command(*pid).contains("cell run"));
    if let Some(cell) = cells.first() {
        let pid = Pid::from_raw(cell.cast_signed()).unwrap();
        // It may have ended by itself.
        let _gone = kill_process(pid, Signal::KILL);
    }
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
    let data = TempDir::new().unwrap();
    let (parents, kills) = size();
    let options = Options::new(data.path());
    let mut server = Server::start(&options);
    deploy(&server.client());
    enqueue(&|| server.client(), parents);
    for kill in 0..kills {
        let client = server.client();
        wait_for(&|| client.clone(), parents * kill / (kills + 1));
        if kill % 2 == 0 {
            server.kill();
            server = Server::start(&options);
        } else {
            kill_a_cell(&server);
        }
    }
    let client = server.client();
    wait_for(&|| client.clone(), parents);
    check(&client, parents);
    assert_eq!(server.stop(), Some(0));
    let found = host_store::check(&data.path().join("host.db"));
    assert_eq!(found, []);
}

#[test]
fn two_nodes_leave_children_and_counters_of_completed_attempts() {
    let (parents, kills) = size();
    let nodes = [Node::new("desk_storm"), Node::new("desk_storm")];
    let mut servers = nodes.each_ref().map(Node::start);
    deploy(&servers[0].client());
    crate::nodes::knows(&servers[1].client());
    enqueue(&|| servers[0].client(), parents);
    for kill in 0..kills {
        let client = servers[0].client();
        wait_for(&|| client.clone(), parents * kill / (kills + 1));
        let of = kill / 2 % 2;
        if kill % 2 == 0 {
            let [a, b] = servers;
            let (gone, stays) = if of == 0 { (a, b) } else { (b, a) };
            gone.kill();
            let again = nodes[of].start();
            servers = if of == 0 {
                [again, stays]
            } else {
                [stays, again]
            };
        } else {
            kill_a_cell(&servers[of]);
        }
    }
    let client = servers[1].client();
    wait_for(&|| client.clone(), parents);
    check(&client, parents);
}
