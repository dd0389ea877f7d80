//! Nodes share a backlog: who has it first leaves some to the others.

use std::collections::BTreeMap;

use host_tests::{Client, eventually};
use serde_json::json;

use crate::nodes::{Node, TAKEN_WITHIN, deploy, endless, knows};

/// Fewer than one node has slots.
const JOBS: usize = 40;

/// Waits until a node knows that another lives: until its second heartbeat since that has one.
fn sees_another(client: &Client) {
    let (mut beats, mut age) = (0, 0.0);
    eventually("the node sees another", TAKEN_WITHIN, || {
        let nodes = client.items("/api/v1/nodes");
        let asked = nodes.iter().find(|node| node["answers"] == true)?;
        let now = asked["heartbeat_age_seconds"].as_f64()?;
        beats += u32::from(nodes.len() == 2 && now < age);
        age = now;
        (beats == 2).then_some(())
    });
}

#[test]
fn a_backlog_at_one_node_runs_on_both() {
    let (first, second) = (Node::new("share"), Node::new("share"));
    let (first, second) = (first.start(), second.start());
    let client = first.client();
    deploy(&client);
    knows(&client);
    knows(&second.client());
    sees_another(&client);
    let answer = client.post("/api/v1/jobs", &json!(vec![endless(); JOBS]));
    assert_eq!(answer.unwrap().status, 201);
    let jobs = eventually("all jobs to run", TAKEN_WITHIN, || {
        let jobs = client.items("/api/v1/jobs");
        let run = jobs.iter().filter(|job| job["state"] == "running");
        (run.count() == JOBS).then_some(jobs)
    });
    let mut by_node: BTreeMap<String, usize> = BTreeMap::new();
    for job in &jobs {
        *by_node.entry(job["node"]["id"].to_string()).or_default() += 1;
    }
    let is_fair = by_node.len() == 2 && by_node.values().all(|jobs| *jobs >= JOBS / 4);
    assert!(is_fair, "{by_node:?}");
}
