//! Bombs: small input that would cost the host much time or memory. Eight well-behaved jobs at a time
//! continue, and the host's memory returns to its earlier size.

use std::time::Duration;

use host_tests::{Client, bombs, eventually, from_wat};
use rustix::net::sockopt::set_socket_linger;
use serde_json::{Value, json};

use crate::fixture::{Own, own};
use crate::neighbours::Neighbours;

/// How much the host's memory may grow, in bytes.
const MEMORY_SLACK_BYTES: u64 = 24 << 20;

fn assert_memory_returns(own: &Own, before: u64) {
    eventually(
        "the memory to return to its earlier size",
        Duration::from_secs(30),
        || (own.server.resident_bytes() <= before + MEMORY_SLACK_BYTES).then_some(()),
    );
}

#[test]
fn schema_bombs_are_refused_at_deploy() {
    let own = own();
    let client = own.server.client();
    let neighbours = Neighbours::start(&own);
    let before = own.server.resident_bytes();
    for (bomb, why) in bombs::refused_schemas() {
        let component = from_wat::with_schema(&bomb);
        let answer = client.deploy("bomb", &component, None).unwrap();
        let shown: String = bomb.chars().take(80).collect();
        assert_eq!(answer.status, 422, "{shown}: {answer:?}");
        assert_eq!(answer.body["code"], "schema_invalid", "{shown}: {answer:?}");
        let detail = answer.body["detail"].as_str().unwrap();
        assert!(detail.contains(why), "{shown}: {answer:?}");
    }
    neighbours.end();
    assert_memory_returns(&own, before);
}

/// Starts a host with a handler whose params are expensive to check.
fn expensive() -> Own {
    let own = own();
    let component = from_wat::with_schema(bombs::EXPENSIVE);
    let answer = own
        .server
        .client()
        .deploy("expensive", &component, None)
        .unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    own
}

/// The checks of 40 disconnected clients delay neither other jobs nor the end of the host.
#[test]
fn checks_end_with_their_clients() {
    let own = expensive();
    let client = own.server.client();
    let short = json!({"handler": "by_hand", "params": "aaab"});
    assert_eq!(client.run(&short)["state"], "completed");
    let neighbours = Neighbours::start(&own);
    let before = own.server.resident_bytes();
    drop(bombs::expensive_checks(own.server.address()).unwrap());
    let refused = client
        .post(
            "/api/v1/jobs",
            &json!({"handler": "by_hand", "params": bombs::expensive_params()}),
        )
        .unwrap();
    assert_eq!(refused.status, 422, "{refused:?}");
    assert_eq!(refused.body["code"], "invalid_params", "{refused:?}");
    neighbours.end();
    assert_memory_returns(&own, before);
    assert_eq!(own.server.stop(), Some(0));
}

/// Returns how many requests for jobs were refused.
fn count_refused(client: &Client) -> u64 {
    let page = client.get("/metrics").unwrap().body;
    let mut lines = page.as_str().unwrap().lines();
    let line = lines.find(|line| {
        let labels = [
            r#"method="POST""#,
            r#"route="/api/v1/jobs""#,
            r#"status="422""#,
        ];
        line.starts_with("host_http_requests_total") && labels.iter().all(|it| line.contains(it))
    });
    let count = line.and_then(|line| line.rsplit(' ').next());
    count.map_or(0, |count| count.parse().unwrap())
}

/// Returns whether the checks of clients that disconnect after the first answer ended with them, at least one.
fn a_check_ended_with_its_client(own: &Own, is_reset: bool) -> bool {
    let client = own.server.client();
    let before = count_refused(&client);
    let clients = bombs::expensive_checks(own.server.address()).unwrap();
    let all = clients.len() as u64;
    // Two are checked at a time, so most wait when the first is answered.
    eventually("the first answer", Duration::from_mins(5), || {
        (count_refused(&client) > before).then_some(())
    });
    for stream in clients {
        let linger = is_reset.then_some(Duration::ZERO);
        set_socket_linger(&stream, linger).unwrap();
    }
    // This one waits for its turn behind the others.
    let job = json!({"handler": "by_hand", "params": bombs::expensive_params()});
    assert_eq!(client.post("/api/v1/jobs", &job).unwrap().status, 422);
    count_refused(&client) - before <= all
}

/// On a loaded machine all may be checked before the clients disconnect, so there are several rounds.
#[test]
fn checks_that_wait_end_with_their_clients() {
    let own = expensive();
    for is_reset in [false, true] {
        let ended = (0..20).any(|_| a_check_ended_with_its_client(&own, is_reset));
        assert!(ended, "all were checked, reset: {is_reset}");
    }
}

/// A list of all violations in these 60 kB would have ten million entries, and several GB.
#[test]
fn params_with_many_violations_use_little_memory() {
    let own = own();
    let client = own.server.client();
    let (schema, params) = bombs::many_violations();
    let answer = client
        .deploy("wrong", &from_wat::with_schema(&schema), None)
        .unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    let neighbours = Neighbours::start(&own);
    let before = own.server.resident_bytes();
    for _ in 0..3 {
        let job = json!({"handler": "by_hand", "params": params});
        let answer = client.post("/api/v1/jobs", &job).unwrap();
        assert_eq!(answer.body["code"], "invalid_params", "{answer:?}");
    }
    neighbours.end();
    assert_memory_returns(&own, before);
}

/// Superseded schemas release their memory.
#[test]
fn superseded_schemas_leave_no_memory() {
    let own = own();
    let client = own.server.client();
    let large = |n: usize| {
        let parts: Vec<Value> = (0..60)
            .map(|m| json!({"pattern": format!("^{n}\\w{{{m}}}[^x]{{1,40}}$")}))
            .collect();
        json!({"allOf": parts}).to_string()
    };
    let deploy = |n: usize| {
        let component = from_wat::with_schema(&large(n));
        let answer = client.deploy("large", &component, None).unwrap();
        assert_eq!(answer.status, 201, "{answer:?}");
    };
    (0..3).for_each(deploy);
    let neighbours = Neighbours::start(&own);
    let before = own.server.resident_bytes();
    (3..15).for_each(deploy);
    neighbours.end();
    assert_memory_returns(&own, before);
}
