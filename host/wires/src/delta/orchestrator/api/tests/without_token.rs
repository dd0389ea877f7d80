//! Messages without a token: about a lease that was handed out in a file they are taken, and no other.

use host_core::job::State;
use serde_json::json;

use super::fixture::{Answer, Host, config};
use crate::delta::messages::lease_id::LeaseText;
use crate::delta::orchestrator::Event;
use crate::delta::settings::Launch;
use host_testing::LeaseHost;

/// A host that starts the runners of its pool `ci` itself.
fn launching() -> Host {
    let mut config = config();
    config.pools[0].launch = Some(Launch {
        command: vec!["runner".to_owned()],
        pool_size: 2,
        env: std::collections::BTreeMap::new(),
    });
    Host::on(LeaseHost::new(), config)
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
    let job = host.enqueue();
    let lease = host.lease("w1").await;
    for path in MESSAGES {
        // Not handed out in a file: as if there were no such lease.
        bare(&host, path, &lease, "w1")
            .await
            .stale(&lease, "UNKNOWN_LEASE");
        bare(&host, path, "none", "w1")
            .await
            .stale("none", "UNKNOWN_LEASE");
    }
    let (_, id) = LeaseText(lease.clone()).parse().unwrap();
    host.pools.report(Event::HandedOut(id));
    bare(&host, "ack-lease", &lease, "w2")
        .await
        .stale(&lease, "UNKNOWN_LEASE");
    bare(&host, "ack-lease", &lease, "w1").await.is(200);
    bare(&host, "heartbeat", &lease, "w1").await.is(200);
    let path = format!("/api/v1/internal/logs/{lease}?runner_id=w1&offset=0");
    let headers = [("content-type", "text/plain")];
    host.send("PUT", &path, &headers, "one\n").await.is(200);
    bare(&host, "complete", &lease, "w1").await.is(200);
    assert_eq!(host.model.state(job), State::Completed);
    // It is known after its end too, so that its runner hears that it is over.
    bare(&host, "heartbeat", &lease, "w1")
        .await
        .stale(&lease, "LEASE_REVOKED");
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
    let lease = host.lease("w1").await;
    let (_, id) = LeaseText(lease.clone()).parse().unwrap();
    host.pools.report(Event::HandedOut(id));
    let ack = json!({"lease_id": lease, "runner_id": "w1"}).to_string();
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
async fn nobody_takes_the_name_of_a_runner_that_the_host_starts() {
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
