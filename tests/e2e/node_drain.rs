//! Listing and draining nodes: a drained node starts no more jobs, and others run the rest.

use host_tests::{Client, Options, Server, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::backup::{run, text};
use crate::nodes::{Node, TAKEN_WITHIN, cancel, deploy, endless, knows, runs};

const NODES: &str = "/api/v1/nodes";

/// Returns all nodes, as `client` sees them.
fn nodes(client: &Client) -> Vec<Value> {
    let answer = client.get(NODES).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body["items"].as_array().unwrap().clone()
}

/// Returns the id of the node that answers.
fn id(client: &Client) -> String {
    let nodes = nodes(client);
    let own = nodes.iter().find(|node| node["answers"] == true).unwrap();
    own["id"].as_str().unwrap().to_owned()
}

pub(crate) fn ask(client: &Client, id: &str, verb: &str) -> Value {
    let answer = client
        .post(&format!("{NODES}/{id}/{verb}"), &json!({}))
        .unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

/// Waits until a node is in a state.
pub(crate) fn until(client: &Client, id: &str, state: &str) -> Value {
    eventually(&format!("the node is {state}"), TAKEN_WITHIN, || {
        let node = client.get(&format!("{NODES}/{id}")).ok()?.body;
        (node["state"] == state).then_some(node)
    })
}

fn readiness(client: &Client) -> (u16, Value) {
    let answer = client.get("/readyz").unwrap();
    (answer.status, answer.body["code"].clone())
}

fn started(server: &Server) -> (Client, String) {
    let client = server.client();
    let id = id(&client);
    (client, id)
}

#[test]
fn each_node_shows_all_of_them_and_what_they_run() {
    let (first, second) = (Node::new("listed"), Node::new("listed"));
    let (server, other) = (first.start(), second.start());
    deploy(&server.client());
    let ((client, one), (its_client, two)) = (started(&server), started(&other));
    assert_ne!(one, two);
    let job = client.enqueue(&endless());
    runs(&client, &job, 1);
    for client in [&client, &its_client] {
        let listed = eventually("one of them runs it", TAKEN_WITHIN, || {
            let listed = nodes(client);
            let runs = listed.iter().map(|node| node["running"]["cells"].as_u64());
            let is_listed = listed
                .iter()
                .all(|node| node["address"].is_string() && node["state"] == "live");
            (is_listed && runs.flatten().sum::<u64>() == 1).then_some(listed)
        });
        assert_eq!(listed.len(), 2);
        for node in &listed {
            assert_eq!(node["version"], env!("CARGO_PKG_VERSION"));
            assert!(
                node["started_at"].is_string() && node["cells"].is_u64(),
                "{node}"
            );
        }
        let address = |id: &str| {
            let node = listed.iter().find(|node| node["id"] == id).unwrap();
            node["address"].as_str().unwrap().to_owned()
        };
        assert_eq!(address(&one), server.address());
        assert_eq!(address(&two), other.address());
    }
    cancel(&client, &job);
    // A dead node is first silent, then gone; it cannot be drained.
    other.kill();
    until(&client, &two, "silent");
    until(&client, &two, "gone");
    let refused = client
        .post(&format!("{NODES}/{two}/drain"), &json!({}))
        .unwrap();
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (409, &json!("node_gone"))
    );
    let refused = client
        .post(&format!("{NODES}/none/drain"), &json!({}))
        .unwrap();
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (404, &json!("node_not_found"))
    );
}

/// With hints and without: a node reads requests with its heartbeat.
#[test]
fn a_node_that_is_drained_ends_what_it_runs_and_others_do_the_rest() {
    for poll in ["false", "true"] {
        let schema = format!("drained_{poll}");
        let (first, second) = (Node::new(&schema), Node::new(&schema));
        let server = first.start_with(&[("HOST_STORE_POLL", poll)]);
        deploy(&server.client());
        let (client, one) = started(&server);
        let job = client.enqueue(&endless());
        runs(&client, &job, 1);
        let other = second.start_with(&[("HOST_STORE_POLL", poll)]);
        let (its_client, two) = started(&other);
        knows(&its_client);

        // From the other node.
        eventually("it is drained, and the other is live", TAKEN_WITHIN, || {
            let asked = ask(&its_client, &one, "drain");
            assert_eq!(asked["state"], "draining", "{asked}");
            (asked["others_live"] == 1 && asked["note"].is_null()).then_some(())
        });
        eventually("it is not ready", TAKEN_WITHIN, || {
            (readiness(&client) == (503, json!("draining"))).then_some(())
        });
        assert_eq!(readiness(&its_client).0, 200);
        for client in [&client, &its_client] {
            let done = client.run(&json!({"handler": "echo", "params": [poll]}));
            assert_eq!(done["result"], json!([poll]));
            let attempts = client.get(&format!(
                "/api/v1/jobs/{}/attempts",
                done["id"].as_str().unwrap()
            ));
            assert_eq!(attempts.unwrap().body["items"].as_array().unwrap().len(), 1);
        }
        // Nothing that was enqueued since has run here.
        let node = until(&client, &one, "draining");
        assert_eq!(node["running"]["all"], 1, "{node}");
        assert_eq!(client.job(&job)["attempt"], 1);
        cancel(&client, &job);
        until(&its_client, &one, "drained");

        // The node that answers: now no node starts jobs.
        let asked = ask(&its_client, &two, "drain");
        assert_eq!(asked["others_live"], 0);
        assert!(asked["note"].is_string(), "{asked}");
        until(&client, &two, "drained");
        let waiting = client.enqueue(&json!({"handler": "echo", "params": [1]}));
        assert_eq!(client.job(&waiting)["state"], "available");

        // A restarted node is still drained.
        drop(other);
        let other = second.start_with(&[("HOST_STORE_POLL", poll)]);
        let its_client = other.client();
        assert_eq!(readiness(&its_client), (503, json!("draining")));
        assert_eq!(its_client.job(&waiting)["state"], "available");
        ask(&client, &two, "resume");
        assert_eq!(client.wait(&waiting)["result"], json!([1]));
        until(&client, &two, "live");
        assert_eq!(readiness(&its_client).0, 200);
    }
}

/// A host with its own store is the only node. Its jobs wait.
#[test]
fn a_host_alone_is_drained_as_well() {
    let data = TempDir::new().unwrap();
    let options = Options::new(data.path());
    let server = Server::start(&options);
    deploy(&server.client());
    let (client, one) = started(&server);
    let asked = ask(&client, &one, "drain");
    assert!(
        asked["note"].as_str().unwrap().starts_with("no other node"),
        "{asked}"
    );
    until(&client, &one, "drained");
    let waiting = client.enqueue(&json!({"handler": "echo", "params": [1]}));
    assert_eq!(client.job(&waiting)["state"], "available");
    let folder = TempDir::new().unwrap();
    let [copy, restored] = ["copy", "restored"].map(|name| folder.path().join(name));
    let from = text(data.path());
    for args in [
        ["backup", "--data", from, "--to", text(&copy)].as_slice(),
        &["restore", text(&copy), "--data", text(&restored)],
    ] {
        let (code, message) = run(args);
        assert_eq!(code, Some(0), "{message}");
    }
    let again = Server::start(&Options::new(&restored));
    assert_eq!(readiness(&again.client()), (503, json!("draining")));
    assert_eq!(again.stop(), Some(0));
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(&options);
    let client = server.client();
    assert_eq!(id(&client), one);
    assert_eq!(readiness(&client), (503, json!("draining")));
    assert_eq!(client.job(&waiting)["state"], "available");
    ask(&client, &one, "resume");
    assert_eq!(client.wait(&waiting)["result"], json!([1]));
    assert_eq!(readiness(&client).0, 200);
}
