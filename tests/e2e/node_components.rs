//! Components on several nodes: what is deployed on one runs on the others, which report whether they can run
//! it. A node that cannot leaves the jobs to others.

use std::process::{Command, Output};

use host_tests::server::host;
use host_tests::{Client, Options, Server, eventually, guests};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::nodes::{Node, TAKEN_WITHIN};

const COMPONENT: &str = "/api/v1/components/basics";

/// Runs `host deploy`.
fn deploy(server: &Server, more: &[&str]) -> Output {
    let mut command = Command::new(host());
    command
        .arg("deploy")
        .arg(guests::component("basics"))
        .args(["--name", "basics"])
        .args(["--server", &format!("http://{}", server.address())])
        .args(more);
    command.output().unwrap()
}

/// Returns what each node reports about the component, sorted: its state there, and why it cannot run it.
fn reported(client: &Client) -> Vec<(String, String)> {
    let shown = client.get(COMPONENT).unwrap().body;
    let nodes = shown["nodes"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let one = |node: &Value| (text(&node["component"]), text(&node["reason"]));
    let mut all: Vec<_> = nodes.iter().map(one).collect();
    all.sort();
    all
}

/// Waits until one node can run the component and another reports why it cannot.
fn fails_elsewhere(client: &Client, why: &str) {
    eventually("the other node cannot run it", TAKEN_WITHIN, || {
        let reported = reported(client);
        let [(failed, reason), (ready, _)] = reported.as_slice() else {
            return None;
        };
        (failed == "failed" && reason.contains(why) && ready == "ready").then_some(())
    });
}

/// Runs jobs that are enqueued at both nodes. None of them ran on the node that cannot run it.
fn runs_elsewhere(clients: [&Client; 2]) {
    let job = json!({"handler": "echo", "params": [1]});
    let ids: Vec<String> = (0..20).map(|n| clients[n % 2].enqueue(&job)).collect();
    for id in ids {
        let job = clients[0].wait(&id);
        assert_eq!(
            (&job["state"], &job["attempt"], &job["attempts_lost"]),
            (&json!("completed"), &json!(1), &json!(0)),
            "{job}"
        );
    }
}

/// Waits until a node reports that two can run the component. Its view of the other is as old as that node's
/// heartbeat.
fn is_ready_on_both(client: &Client) {
    eventually("both nodes can run it", TAKEN_WITHIN, || {
        (reported(client) == [ready(), ready()]).then_some(())
    });
}

fn ready() -> (String, String) {
    ("ready".to_owned(), String::new())
}

#[test]
fn a_deploy_waits_until_all_nodes_can_run_it() {
    let (first, second) = (Node::new("deployed"), Node::new("deployed"));
    let (server, other) = (first.start(), second.start_that_compiles(&[]));
    let (client, its_client) = (server.client(), other.client());
    let component = std::fs::read(guests::component("basics")).unwrap();
    let answer = client.deploy("basics", &component, None).unwrap();
    assert_eq!((answer.status, &answer.body["nodes_all"]), (201, &json!(2)));
    assert!(answer.body["nodes_ready"].as_u64() >= Some(1), "{answer:?}");
    // The other one knows the handlers immediately, and still compiles.
    let id = its_client.enqueue(&json!({"handler": "echo", "params": [1]}));
    let handler = its_client.get("/api/v1/handlers/echo").unwrap();
    assert_eq!(handler.status, 200, "{}", handler.body);
    let waited = deploy(&server, &["--wait-nodes=3m", "-o", "json"]);
    let text = String::from_utf8_lossy(&waited.stderr);
    assert_eq!(waited.status.code(), Some(0), "{text}");
    for client in [&client, &its_client] {
        is_ready_on_both(client);
        assert_eq!(client.wait(&id)["result"], json!([1]));
    }
    let again = client.deploy("basics", &component, None).unwrap();
    assert_eq!((again.status, &again.body["nodes_ready"]), (200, &json!(2)));
    // A deploy does not wait for a node that is gone.
    other.kill();
    let manifest = "[defaults]\ntimeout_seconds = 60\n";
    let next = client.deploy("basics", &component, Some(manifest)).unwrap();
    assert_eq!((next.status, &next.body["revision"]), (201, &json!(2)));
    let waited = deploy(&server, &["--timeout", "60s", "--wait-nodes=3m"]);
    assert_eq!(waited.status.code(), Some(0), "{waited:?}");
    assert_eq!(reported(&client), [ready()]);
}

#[test]
fn a_node_that_cannot_compile_leaves_jobs_to_others_and_says_why() {
    let (first, second) = (Node::new("unfit"), Node::new("unfit"));
    let server = first.start();
    let other = second.start_that_compiles(&[("HOST_LIMITS_CACHE_MIB", "1")]);
    let junk = second.data().join("cache/junk");
    std::fs::write(&junk, vec![0; 2 << 20]).unwrap();
    let (client, its_client) = (server.client(), other.client());
    let waited = deploy(&server, &["--wait-nodes=3m"]);
    let text = String::from_utf8_lossy(&waited.stderr);
    assert_eq!(waited.status.code(), Some(1), "{text}");
    assert!(
        text.contains("1 of 2 can") && text.contains("limits.cache_mib"),
        "{text}"
    );
    fails_elsewhere(&client, "limits.cache_mib");
    fails_elsewhere(&its_client, "limits.cache_mib");
    runs_elsewhere([&client, &its_client]);

    // No node is left that can run it.
    assert_eq!(server.stop(), Some(0));
    let id = its_client.enqueue(&json!({"handler": "echo", "params": [2]}));
    eventually("the job shows why it waits", TAKEN_WITHIN, || {
        let job = its_client.job(&id);
        let why = job["waits_because"].as_str()?;
        let is_shown = why.contains("component basics") && why.contains("limits.cache_mib");
        (job["state"] == "available" && is_shown).then_some(())
    });
    std::fs::remove_file(&junk).unwrap();
    // A new deploy is tried immediately; otherwise the node tries again after a minute.
    let again = deploy(&other, &[]);
    assert_eq!(again.status.code(), Some(0), "{again:?}");
    assert_eq!(its_client.wait(&id)["result"], json!([2]));
    assert_eq!(reported(&its_client), [ready()]);
}

#[test]
fn a_node_that_lacks_a_grant_leaves_jobs_to_others() {
    let (first, second) = (Node::new("ungranted"), Node::new("ungranted"));
    let granted = [("HOST_GRANTS_ENV", "PLACE"), ("PLACE", "here")];
    let (server, other) = (first.start_with(&granted), second.start());
    let (client, its_client) = (server.client(), other.client());
    let deployed = deploy(&server, &["--env", "PLACE", "--accept-grants"]);
    assert_eq!(deployed.status.code(), Some(0), "{deployed:?}");
    fails_elsewhere(&its_client, "PLACE");
    runs_elsewhere([&client, &its_client]);
    // Without the grant, the other node can run them, too.
    let deployed = deploy(&server, &["--wait-nodes=3m"]);
    assert_eq!(deployed.status.code(), Some(0), "{deployed:?}");
    is_ready_on_both(&its_client);
}

/// A host with its own store is the only node.
#[test]
fn a_host_alone_shows_itself() {
    let data = TempDir::new().unwrap();
    let server = Server::start(&Options::new(data.path()));
    let waited = deploy(&server, &["--wait-nodes"]);
    assert_eq!(waited.status.code(), Some(0), "{waited:?}");
    assert_eq!(reported(&server.client()), [ready()]);
}

/// What a node without trusted keys has deployed, one with trusted keys does not run.
#[test]
fn a_node_with_trusted_keys_leaves_what_is_not_signed_to_others() {
    let (first, second) = (Node::new("unsigned"), Node::new("unsigned"));
    let server = first.start();
    assert_eq!(deploy(&server, &[]).status.code(), Some(0));
    let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
    let key = pair.pk.to_base64();
    let other = second.start_with(&[("HOST_DEPLOY_TRUSTED_KEYS", &key)]);
    let (client, its_client) = (server.client(), other.client());
    fails_elsewhere(&client, "it is not signed");
    fails_elsewhere(&its_client, "it is not signed");
    runs_elsewhere([&client, &its_client]);
}
