//! Looking at nodes, and letting one start no more jobs.

use std::sync::Arc;

use axum::http::StatusCode;
use futures_util::future::BoxFuture;
use host_core::id::NodeId;
use host_core::lease::Hold;
use host_core::outcome::Outcome;
use host_core::policy::Policy;
use host_core::time::Time;
use host_engine::StoreError;
use host_engine::node::{Component, Life, NodeInfo, NodeRecord, Offer, Pool, PoolRunner, Running};
use parking_lot::Mutex;
use serde_json::json;

use super::fixture::Host;
use crate::api::ports::Nodes;

const NODES: &str = "/api/v1/nodes";

/// The host of the tests, with others if there are some.
pub(super) struct Two(Mutex<Vec<NodeRecord>>);

impl Default for Two {
    fn default() -> Self {
        Self(Mutex::new(vec![node(1, "one"), node(0x2f, "two")]))
    }
}

fn node(id: u32, name: &str) -> NodeRecord {
    let id: NodeId = format!("{id:08x}-0000-0000-0000-000000000000")
        .parse()
        .unwrap();
    NodeRecord {
        id,
        version: "0.9.0".to_owned(),
        life: Life::Lives,
        silent_ms: 750,
        ahead_ms: -1_250,
        drain: false,
        info: Some(NodeInfo {
            name: name.to_owned(),
            started_at: Time(1_700_000_000_000),
            cells: 4,
            slots: 16,
            wires: vec!["sample".to_owned()],
            runners: vec!["python".parse().unwrap()],
            running: Running {
                cells: 2,
                runners: [("python".parse().unwrap(), 3)].into(),
            },
            ..NodeInfo::default()
        }),
        components: Arc::default(),
    }
}

impl Nodes for Two {
    fn own(&self) -> NodeId {
        node(1, "one").id
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<NodeRecord>, StoreError>> {
        let nodes = self.0.lock().clone();
        Box::pin(std::future::ready(Ok(nodes)))
    }

    fn set_drain(&self, id: NodeId, drain: bool) -> BoxFuture<'_, Result<(), StoreError>> {
        let mut nodes = self.0.lock();
        for node in nodes.iter_mut().filter(|node| node.id == id) {
            node.drain = drain;
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Adds what a node says of a component.
fn with(mut node: NodeRecord, component: &str, revision: u32, flaw: Option<&str>) -> NodeRecord {
    let flaw = flaw.map(str::to_owned);
    let component = component.parse().unwrap();
    Arc::make_mut(&mut node.components).insert(component, Component { revision, flaw });
    node
}

/// Starts a host among nodes, the first of which answers.
async fn among(nodes: Vec<NodeRecord>) -> Host {
    Host::start_as(|api| api.nodes = Arc::new(Two(Mutex::new(nodes)))).await
}

/// The same, with a store that others may share.
async fn sharing(nodes: Vec<NodeRecord>) -> Host {
    Host::start_among_nodes(|api| api.nodes = Arc::new(Two(Mutex::new(nodes)))).await
}

/// Starts a host that is the only node.
pub(super) async fn alone() -> Host {
    among(vec![node(1, "one")]).await
}

/// Adds a runner for which jobs are given to a node.
fn offering(mut node: NodeRecord, runner: &str) -> NodeRecord {
    let offer = Offer {
        name: runner.to_owned(),
        is_family: false,
        placed_by: Vec::new(),
        policy: Policy::default(),
        timeout_ms_max: None,
    };
    node.info.as_mut().unwrap().offers.push(offer);
    node
}

/// Adds a pool with one runner.
fn pooling(mut node: NodeRecord, name: &str) -> NodeRecord {
    let pool = Pool {
        name: name.parse().unwrap(),
        wire: "sample".to_owned(),
        is_external: false,
        is_restartable: true,
        queues: vec!["mail".parse().unwrap()],
        is_default: false,
        up: 0,
        in_flight: 3,
        runners: vec![PoolRunner {
            name: format!("{name}/1"),
            state: "down".to_owned(),
            in_flight: 3,
            reason: Some("it has ended".to_owned()),
            ..PoolRunner::default()
        }],
        omitted: 2,
    };
    node.info.as_mut().unwrap().pools.push(pool);
    node
}

#[tokio::test]
async fn a_list_and_one_node() {
    let mut silent = node(0x3, "three");
    silent.silent_ms = 4_000;
    let mut gone = node(0x4, "one");
    gone.life = Life::Taken;
    let mut older = node(0x5, "five");
    older.info = None;
    let host = among(vec![node(1, "one"), silent, gone, older]).await;
    let list = host.get(NODES).await.is(StatusCode::OK);
    let all = list.body["items"].as_array().unwrap();
    let states: Vec<_> = all.iter().map(|it| it["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["live", "silent", "gone", "live"]);
    assert_eq!(all[2]["running"]["all"], 0, "what has gone runs nothing");
    assert_eq!(all[3]["name"], json!(null));
    let expected = json!({
        "id": "00000001-0000-0000-0000-000000000000", "name": "one", "state": "live",
        "answers": true, "version": "0.9.0", "started_at": "2023-11-14T22:13:20.000Z",
        "heartbeat_age_seconds": 0.75, "cells": 4, "slots": 16, "wires": ["sample"],
        "runners": ["python"],
        "running": {"all": 5, "cells": 2, "runners": {"python": 3}},
    });
    // By its name, which another had that has gone, and by its id.
    for text in ["one", "00000001", "00000001-0000-0000-0000-000000000000"] {
        let shown = host
            .get(&format!("{NODES}/{text}"))
            .await
            .is(StatusCode::OK);
        assert_eq!(shown.body, expected);
    }
    host.get(&format!("{NODES}/0000"))
        .await
        .fails(409, "ambiguous_id");
    for text in ["six", "9"] {
        host.get(&format!("{NODES}/{text}"))
            .await
            .fails(404, "node_not_found");
    }
}

#[tokio::test]
async fn draining_says_whether_others_start_jobs() {
    let host = among(vec![node(1, "one"), node(2, "two")]).await;
    let ask = async |name: &str, verb: &str| {
        let path = format!("{NODES}/{name}/{verb}");
        host.post(&path, "").await.is(StatusCode::OK).body
    };
    let one = ask("one", "drain").await;
    assert_eq!(
        (&one["state"], &one["others_live"]),
        (&json!("draining"), &json!(1))
    );
    assert_eq!(one["note"], json!(null));
    let two = ask("two", "drain").await;
    assert_eq!(
        (&two["state"], &two["others_live"]),
        (&json!("draining"), &json!(0))
    );
    assert!(two["note"].as_str().unwrap().starts_with("no other node"));
    let one = ask("one", "resume").await;
    assert_eq!(
        (&one["state"], &one["note"]),
        (&json!("live"), &json!(null))
    );
}

#[tokio::test]
async fn a_node_that_is_gone_cannot_be_drained_but_resumed() {
    let mut gone = node(2, "two");
    gone.life = Life::Taken;
    gone.drain = true;
    let mut dead = node(3, "three");
    dead.silent_ms = 10_000;
    let host = among(vec![node(1, "one"), gone, dead]).await;
    for id in ["00000002", "two", "three"] {
        host.post(&format!("{NODES}/{id}/drain"), "")
            .await
            .fails(409, "node_gone");
    }
    host.post(&format!("{NODES}/four/drain"), "")
        .await
        .fails(404, "node_not_found");
    for id in ["00000002", "two"] {
        let resumed = host.post(&format!("{NODES}/{id}/resume"), "").await;
        assert_eq!(resumed.is(StatusCode::OK).body["name"], "two");
    }
}

#[tokio::test]
async fn a_name_is_that_of_a_node_that_has_not_gone() {
    let gone = |id, name| NodeRecord {
        life: Life::Taken,
        ..node(id, name)
    };
    let host = among(vec![
        node(1, "one"),
        gone(2, "two"),
        gone(3, "two"),
        gone(4, "one"),
    ])
    .await;
    let one = host.get(&format!("{NODES}/one")).await.is(StatusCode::OK);
    assert_eq!(one.body["id"], node(1, "one").id.to_string());
    host.get(&format!("{NODES}/two"))
        .await
        .fails(409, "ambiguous_id");
}

#[tokio::test]
async fn a_host_that_drains_is_not_ready_and_still_answers() {
    let host = Host::start().await;
    let presence = &host.dispatch.shared().presence;
    host.get("/readyz").await.is(StatusCode::OK);
    presence.request_drain(true);
    host.get("/readyz").await.fails(503, "draining");
    host.get("/healthz").await.is(StatusCode::OK);
    host.enqueue(r#"{"handler":"noop"}"#).await;
    presence.request_drain(false);
    host.get("/readyz").await.is(StatusCode::OK);
}

#[tokio::test]
async fn metrics_count_nodes_by_state() {
    let mut gone = node(2, "two");
    gone.life = Life::Left;
    let host = among(vec![node(1, "one"), gone]).await;
    let shown = host.get("/metrics").await.text;
    for line in [
        "host_nodes{state=\"live\"} 1",
        "host_nodes{state=\"gone\"} 1",
        "host_nodes{state=\"silent\"} 0",
        "host_node_heartbeat_age_seconds{node=\"00000001-0000-0000-0000-000000000000\"} 0.75",
        "host_node_clock_ahead_seconds{node=\"00000001-0000-0000-0000-000000000000\"} -1.25",
    ] {
        assert!(shown.lines().any(|it| it == line), "{line} in {shown}");
    }
    assert!(!shown.contains("00000002-0000"), "{shown}");
}

#[tokio::test]
async fn a_component_shows_which_nodes_can_run_it() {
    let mut gone = with(node(4, "four"), "basics", 1, None);
    gone.life = Life::Left;
    let mut silent = with(node(5, "five"), "basics", 1, None);
    silent.silent_ms = 4_000;
    let nodes = vec![
        with(node(1, "one"), "basics", 1, None),
        with(node(2, "two"), "basics", 1, Some("the folder is full")),
        with(node(3, "three"), "other", 1, None),
        gone,
        silent,
    ];
    let host = among(nodes).await;
    let shown = host.get("/api/v1/components/basics").await.body;
    let message: Vec<_> = shown["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| {
            [
                &node["name"],
                &node["state"],
                &node["component"],
                &node["reason"],
            ]
        })
        .collect();
    let expected = [
        [json!("one"), json!("live"), json!("ready"), json!(null)],
        [
            json!("two"),
            json!("live"),
            json!("failed"),
            json!("the folder is full"),
        ],
        [
            json!("three"),
            json!("live"),
            json!("compiling"),
            json!(null),
        ],
        [json!("five"), json!("silent"), json!("ready"), json!(null)],
    ];
    assert_eq!(json!(message), json!(expected));
    // The same again, so nothing changes.
    let bytes = super::fixture::HANDLERS.as_bytes().to_vec();
    let again = host
        .send(
            "PUT",
            "/api/v1/components/basics",
            "application/wasm",
            bytes,
        )
        .await
        .is(StatusCode::OK)
        .body;
    assert_eq!(
        (&again["nodes_ready"], &again["nodes_all"]),
        (&json!(2), &json!(4))
    );
}

#[tokio::test]
async fn a_job_that_no_node_can_run_says_why_it_waits() {
    let drained = |id, name| {
        let mut node = with(node(id, name), "basics", 1, None);
        node.drain = true;
        node
    };
    let failed = |id, name| with(node(id, name), "basics", 1, Some("it is too large"));
    let ready = |id, name| with(node(id, name), "basics", 1, None);
    let mut gone = ready(9, "nine");
    gone.silent_ms = 10_000;
    for (nodes, expected) in [
        (vec![failed(1, "one"), ready(2, "two")], None),
        (
            vec![failed(1, "one"), drained(2, "two"), node(3, "three")],
            Some("the nodes that can run it start no more jobs until `host node resume`: two"),
        ),
        (
            vec![failed(1, "one"), node(2, "two"), gone],
            Some(
                "no node can run revision 1 of the component basics: one: it is too large; \
                 two: not compiled yet",
            ),
        ),
        (
            (1..=5).map(|id| failed(id, "")).collect(),
            Some(
                "no node can run revision 1 of the component basics: \
                 00000001-0000-0000-0000-000000000000: it is too large; \
                 00000002-0000-0000-0000-000000000000: it is too large; \
                 00000003-0000-0000-0000-000000000000: it is too large; and 2 more",
            ),
        ),
    ] {
        let host = among(nodes).await;
        let id = host.enqueue(r#"{"handler":"noop"}"#).await;
        let path = format!("/api/v1/jobs/{id}");
        assert_eq!(host.get(&path).await.body["waits_because"], json!(null));
        let presence = &host.dispatch.shared().presence;
        presence.set_unrunnable(["noop".parse().unwrap()].into());
        assert_eq!(host.get(&path).await.body["waits_because"], json!(expected));
        let claimed = host.claim().await;
        assert_eq!(claimed.lifecycle.id.to_string(), id);
        assert_eq!(
            host.get(&path).await.body["waits_because"],
            json!(null),
            "it runs"
        );
    }
}

#[tokio::test]
async fn a_job_whose_runner_no_node_has_says_so() {
    let with_runner = |node| offering(node, "python");
    let gone = |id, name, silent_ms| NodeRecord {
        life: Life::Taken,
        silent_ms,
        ..with_runner(node(id, name))
    };
    let mut drained = with_runner(node(2, "two"));
    drained.drain = true;
    for (nodes, expected) in [
        (vec![node(1, "one"), with_runner(node(2, "two"))], None),
        (
            vec![node(1, "one"), drained],
            Some("the nodes that can run it start no more jobs until `host node resume`: two"),
        ),
        (
            vec![node(1, "one")],
            Some("no live node has the runner \"python\""),
        ),
        (
            vec![
                node(1, "one"),
                gone(3, "three", 60_000),
                gone(4, "four", 50_000),
            ],
            Some("no live node has the runner \"python\"; the node four had it last"),
        ),
    ] {
        let host = among(nodes).await;
        let id = host.enqueue(r#"{"handler":"python#noop"}"#).await;
        let path = format!("/api/v1/jobs/{id}");
        assert_eq!(
            host.get(&path).await.body["waits_because"],
            json!(null),
            "it is here"
        );
        host.dispatch.shared().presence.request_drain(true);
        assert_eq!(host.get(&path).await.body["waits_because"], json!(expected));
    }
}

#[tokio::test]
async fn jobs_for_a_runner_are_taken_if_any_node_that_lives_has_it() {
    let gone = |id, name, silent_ms| NodeRecord {
        life: Life::Left,
        silent_ms,
        ..offering(node(id, name), "perl")
    };
    let host = sharing(vec![
        node(1, "one"),
        offering(node(2, "two"), "lua"),
        gone(3, "three", 60_000),
        gone(4, "four", 50_000),
    ])
    .await;
    host.enqueue(r#"{"handler":"lua#x"}"#).await;
    for (handler, message) in [
        (
            "perl#x",
            "no live node has the runner \"perl\"; the node four had it last",
        ),
        (
            "luua#x",
            "no live node has the runner \"luua\"; did you mean lua?",
        ),
        ("what#x", "no live node has the runner \"what\""),
    ] {
        let refused = host
            .post("/api/v1/jobs", format!(r#"{{"handler":"{handler}"}}"#))
            .await;
        assert_eq!(refused.fails(422, "handler_not_found"), message);
    }
}

#[tokio::test]
async fn runners_of_all_nodes_that_live_are_listed() {
    let gone = NodeRecord {
        life: Life::Left,
        ..pooling(node(4, "four"), "lua")
    };
    let host = among(vec![
        node(1, "one"),
        pooling(pooling(node(2, "two"), "python"), "perl"),
        pooling(node(3, ""), "perl"),
        gone,
    ])
    .await;
    let list = host.get("/api/v1/runners").await.is(StatusCode::OK).body;
    let shown: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pool| (&pool["name"], &pool["node"]["name"]))
        .collect();
    let (one, two) = (json!("one"), json!("two"));
    let expected = [
        (&json!("perl"), &two),
        (&json!("perl"), &json!(null)),
        (&json!("python"), &one),
        (&json!("python"), &two),
        (&json!("ruby"), &one),
    ];
    assert_eq!(shown, expected);
    let perl = json!({
        "name": "perl",
        "node": {"id": node(2, "two").id.to_string(), "name": "two"},
        "wire": "sample",
        "external": false,
        "restartable": true,
        "queues": ["mail"],
        "default": false,
        "up": 0,
        "in_flight": 3,
        "runners": [{
            "executor": "perl/1", "state": "down", "in_flight": 3, "failures": 0,
            "reason": "it has ended",
        }],
        "runners_omitted": 2,
    });
    assert_eq!(list["items"][0], perl);

    // This host's own come first.
    let path = "/api/v1/runners";
    for (of, at) in [
        ("python", json!("one")),
        ("python?node=two", json!("two")),
        ("python?node=00000002", json!("two")),
        ("perl", json!("two")),
        ("perl?node=00000003", json!(null)),
    ] {
        let shown = host.get(&format!("{path}/{of}")).await.is(StatusCode::OK);
        assert_eq!(shown.body["node"]["name"], at, "{of}");
    }
    for (of, code) in [
        ("lua", "runner_not_found"),
        ("ruby?node=two", "runner_not_found"),
        ("lua?node=four", "runner_not_found"),
        ("python?node=five", "node_not_found"),
    ] {
        host.get(&format!("{path}/{of}")).await.fails(404, code);
    }
    let restart = async |name: &str| host.post(&format!("{path}/{name}/restart"), "{}").await;
    restart("python").await.is(StatusCode::OK);
    let refused = restart("perl").await;
    assert_eq!(
        refused.fails(422, "invalid_request"),
        "perl is a runner of the node two (00000002-0000-0000-0000-000000000000); ask that node to restart it"
    );
}

#[tokio::test]
async fn a_running_job_names_its_node() {
    let nodes = || vec![node(1, "one"), node(2, "two")];
    let unknown = node(9, "").id;
    let by_heartbeats = Hold::Ttl { ttl_ms: 60_000 };
    for (host, at, hold, expected) in [
        (
            sharing(nodes()).await,
            node(2, "two").id,
            Hold::Connection,
            json!({"id": node(2, "two").id.to_string(), "name": "two"}),
        ),
        (
            sharing(nodes()).await,
            unknown,
            Hold::Connection,
            json!({"id": unknown.to_string()}),
        ),
        (
            sharing(nodes()).await,
            node(2, "two").id,
            by_heartbeats,
            json!(null),
        ),
        (
            alone().await,
            node(1, "one").id,
            Hold::Connection,
            json!(null),
        ),
    ] {
        let id = host.enqueue(r#"{"handler":"noop"}"#).await;
        let path = format!("/api/v1/jobs/{id}");
        assert_eq!(host.get(&path).await.body["node"], json!(null), "it waits");
        let claimed = host.claim_at(at, hold).await;
        assert_eq!(host.get(&path).await.body["node"], expected);
        let listed = host.get("/api/v1/jobs").await.body;
        assert_eq!(listed["items"][0]["node"], expected);
        let attempts = host.get(&format!("{path}/attempts")).await.body;
        assert_eq!(attempts["items"][0]["node"], expected);
        let outcome = Outcome::Completed { result: None };
        host.complete(&claimed, outcome).await;
        assert_eq!(
            host.get(&path).await.body["node"],
            json!(null),
            "it has ended"
        );
    }
}
