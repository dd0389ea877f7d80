//! Messages without a token: about a lease that was handed out in a file they are taken, and no other.

use host_core::job::State;
use host_testing::LeaseHost;
use serde_json::json;

use super::fixture::{Answer, Host, config};
use crate::messages::lease_id::LeaseText;
use crate::messages::read::Ask;
use crate::orchestrator;
use crate::settings::{DeltaConfig, Launch};

/// A host that starts the runners of its pool `ci` itself.
fn launching() -> Host {
    Host::on(LeaseHost::new(), launching_config())
}

fn launching_config() -> DeltaConfig {
    let mut config = config();
    config.pools[0].launch = Some(Launch {
        command: vec!["runner".to_owned()],
        pool_size: 2,
        env: std::collections::BTreeMap::new(),
    });
    config
}

/// Leases the next job of the pool `ci` for a runner that the host starts, as its launcher does.
async fn lease_for_file(host: &Host, runner: &str) -> String {
    let message = Ask {
        runner_id: runner.to_owned(),
        capabilities: ["os:linux".to_owned()].into(),
        wait_seconds: 0,
    };
    let ask = orchestrator::Request::Ask("ci".parse().unwrap(), message);
    let Ok(orchestrator::Answer::Granted(Some(granted))) = host.pools.request(ask).await else {
        panic!("a job is there");
    };
    LeaseText::of(granted.job, granted.lease).0
}

async fn bare(host: &Host, path: &str, lease: &str, runner: &str) -> Answer {
    let status = if path == "cancel-ack" {
        "CANCELED"
    } else {
        "SUCCEEDED"
    };
    let message = json!({
        "lease_id": lease, "runner_id": runner, "status": status, "final_status": status,
    });
    let path = format!("/api/v1/internal/{path}");
    let headers = [("content-type", "application/json")];
    host.send("POST", &path, &headers, message.to_string())
        .await
}

const MESSAGES: [&str; 4] = ["ack-lease", "heartbeat", "complete", "cancel-ack"];

#[tokio::test]
async fn the_lease_in_a_file_is_the_credential() {
    let host = launching();
    let jobs = [host.enqueue(), host.enqueue()];
    let asked = host.lease("w1").await;
    for path in MESSAGES {
        // Not in a file: as if there were no such lease.
        for lease in [asked.as_str(), "none"] {
            let answer = bare(&host, path, lease, "w1").await;
            answer.stale(lease, "UNKNOWN_LEASE");
        }
    }
    let lease = lease_for_file(&host, "1").await;
    for other in ["2", "w1"] {
        let answer = bare(&host, "ack-lease", &lease, other).await;
        answer.stale(&lease, "UNKNOWN_LEASE");
    }
    bare(&host, "ack-lease", &lease, "1").await.is(200);
    bare(&host, "heartbeat", &lease, "1").await.is(200);
    send_log(&host, &lease, "1", 0, "one\n").await.is(200);
    bare(&host, "complete", &lease, "1").await.is(200);
    assert_eq!(jobs.map(|job| host.model.state(job))[1], State::Completed);
    // It is known after its end too, so that its runner hears that it is over.
    bare(&host, "heartbeat", &lease, "1")
        .await
        .stale(&lease, "LEASE_REVOKED");
}

async fn send_log(host: &Host, lease: &str, runner: &str, offset: u64, text: &str) -> Answer {
    let path = format!("/api/v1/internal/logs/{lease}?runner_id={runner}&offset={offset}");
    let headers = [("content-type", "text/plain")];
    host.send("PUT", &path, &headers, text).await
}

/// The runner that the first node has started reaches the other one, or each in turn, as behind a balancer.
#[tokio::test]
async fn the_lease_in_a_file_is_the_credential_at_each_node() {
    for is_cancelled in [false, true] {
        for order in [[1, 1, 1, 1, 1], [1, 0, 1, 0, 1], [0, 1, 0, 1, 0]] {
            let nodes = Host::pair_on(launching_config);
            let job = nodes[0].enqueue();
            let runner = "1@00000001";
            let lease = lease_for_file(&nodes[0], runner).await;
            let [ack, beat, log, end, again] = order.map(|node| &nodes[node]);
            for path in MESSAGES {
                let answer = bare(beat, path, &lease, "2@00000001").await;
                answer.stale(&lease, "UNKNOWN_LEASE");
            }
            bare(ack, "ack-lease", &lease, runner).await.is(200);
            bare(beat, "heartbeat", &lease, runner).await.is(200);
            let next = send_log(log, &lease, runner, 0, "one\n").await.is(200);
            assert_eq!(next["next_offset"], 4);
            if is_cancelled {
                nodes[0].model.cancel(job, None).unwrap();
                let beat = bare(end, "heartbeat", &lease, runner).await.is(200);
                assert_eq!(beat["cancel_requested"], true);
                bare(end, "cancel-ack", &lease, runner).await.is(200);
                assert_eq!(nodes[0].model.state(job), State::Cancelled);
            } else {
                bare(end, "complete", &lease, runner).await.is(200);
                assert_eq!(nodes[0].model.state(job), State::Completed);
            }
            let late = bare(again, "heartbeat", &lease, runner).await;
            assert_eq!(
                (late.status, &late.body["type"]),
                (409, &json!("StaleLease"))
            );
        }
    }
}

#[tokio::test]
async fn without_a_token_no_lease_is_granted_and_a_wrong_one_is_refused() {
    let host = launching();
    host.enqueue();
    let json = ("content-type", "application/json");
    let ask = r#"{"runner_id":"w1","capabilities":["os:linux"],"wait_seconds":0}"#;
    let path = "/api/v1/internal/lease";
    host.send("POST", path, &[json], ask)
        .await
        .refused(401, "E_AUTH");
    let lease = lease_for_file(&host, "1").await;
    let ack = json!({"lease_id": lease, "runner_id": "1"}).to_string();
    for token in ["", "Bearer wrong", "Basic ci-token"] {
        let headers = [json, ("authorization", token)];
        let path = "/api/v1/internal/ack-lease";
        host.send("POST", path, &headers, ack.clone())
            .await
            .refused(401, "E_AUTH");
    }
    for body in ["", "{}", "not even JSON", r#"{"lease_id":7}"#] {
        let path = "/api/v1/internal/ack-lease";
        host.send("POST", path, &[json], body)
            .await
            .refused(401, "E_AUTH");
    }
}

#[tokio::test]
async fn no_other_runner_takes_the_name_of_one_that_the_host_starts() {
    let host = launching();
    for (name, is_taken) in [("1", true), ("02", true), ("3", false), ("0", false)] {
        let answer = host.ask(name, &["os:linux"]).await;
        if is_taken {
            let message = answer.refused(422, "E_FIELD_VALUE");
            assert!(message.contains("1–2"), "{message}");
        } else {
            assert_eq!(answer.status, 204, "{name}");
        }
    }
}
