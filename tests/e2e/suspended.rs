//! Nodes are suspended, whole or in part, until another node has taken over their jobs: what wakes up sends no request
//! for them. `HOST_LONG_TESTS` suspends 200 attempts instead of a few.

use std::io::Write as _;

use host_tests::processes::{Parts, suspend, wake};
use host_tests::reflector::{Reflector, SOON};
use host_tests::{eventually, guests};
use serde_json::{Value, json};

use crate::node_drain::{ask, until};
use crate::nodes::Node;

/// How many attempts are suspended, usually and in a long test.
const SUSPENDED: (usize, usize) = (16, 200);

/// What of a node is suspended. Its host always is, or nothing takes over its jobs.
const PARTS: [Parts; 4] = [
    part(true, true),
    part(true, false),
    part(false, true),
    part(false, false),
];

const fn part(cells: bool, broker: bool) -> Parts {
    Parts { cells, broker }
}

/// How many jobs there are for each node.
const JOBS: usize = 4;

const MANIFEST: &str = r#"
[defaults]
timeout_seconds = 3600

[[handlers.request.http]]
to = "ORIGIN"
headers = { authorization = "{secret:api}" }
timeout_seconds = 3600
"#;

/// The answer to a request that waits. The next request takes another connection.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";

#[test]
fn what_was_suspended_until_others_took_over_sends_no_request() {
    let (usual, long) = SUSPENDED;
    let least = std::env::var_os("HOST_LONG_TESTS").map_or(usual, |_| long);
    let reflector = Reflector::start();
    let config = format!(
        "[secrets.api]\nenv = \"API_KEY\"\n[cells]\ncount = 1\nslots = 64\n{}",
        reflector.grants("")
    );
    let start = |node: &Node, name: &str| node.start_configured_with(&config, &[("API_KEY", name)]);
    let surviving = Node::new("suspended");
    let survivor = start(&surviving, "survivor");
    let client = survivor.client();
    let component = std::fs::read(guests::component("hostile")).unwrap();
    let manifest = MANIFEST.replace("ORIGIN", &reflector.origin());
    let answer = client.deploy_accepted("hostile", &component, Some(&manifest));
    assert_eq!(answer.as_ref().unwrap().status, 201, "{answer:?}");
    let url = |path: &str| json!({"url": reflector.url(path)});
    let requests = json!({"requests": [url("/wait"), url("/next")], "strict": true});
    let job = json!({"handler": "request", "params": requests, "max_attempts": 1_000});
    let nodes = PARTS.map(|_| surviving.another());
    let own = surviving.id();
    let (mut suspended, mut stale) = (0, 0);
    while suspended < least {
        // Each node in turn is the only one that starts jobs.
        ask(&client, &own, "drain");
        until(&client, &own, "drained");
        let (mut taken, mut waiting) = (Vec::new(), Vec::new());
        let servers = nodes.each_ref().map(|node| {
            let server = start(node, "suspended");
            let id = node.id();
            ask(&server.client(), &id, "resume");
            for _ in 0..JOBS {
                taken.push(client.enqueue(&job));
                waiting.push(reflector.waiting.recv_timeout(SOON).unwrap());
            }
            ask(&server.client(), &id, "drain");
            server
        });
        ask(&client, &own, "resume");
        suspended += taken.len();
        let parts = servers.iter().zip(PARTS);
        let asleep: Vec<u32> = parts
            .flat_map(|(it, parts)| suspend(it.pid(), parts))
            .collect();
        eventually("the other node takes over all jobs", SOON, || {
            let is_over = |job: &Value| job["node"]["id"] == own && job["state"] == "running";
            taken
                .iter()
                .all(|id| is_over(&client.job(id)))
                .then_some(())
        });
        waiting.extend(
            taken
                .iter()
                .map(|_| reflector.waiting.recv_timeout(SOON).unwrap()),
        );
        let _: Vec<String> = reflector.requests.try_iter().collect();
        for stream in &mut waiting {
            // That of a cell or a broker that has ended is closed.
            let _ = stream.write_all(ANSWER);
        }
        wake(&asleep);
        for server in servers {
            assert_eq!(server.wait(), Some(8), "another node has its jobs");
        }
        for id in &taken {
            assert_eq!(client.wait(id)["state"], "completed");
        }
        let after = reflector.requests.try_iter();
        stale += after
            .filter(|it| it.contains("authorization: suspended"))
            .count();
    }
    assert_eq!(
        stale, 0,
        "requests for {suspended} attempts that had been taken over"
    );
}
