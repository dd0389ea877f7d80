//! The broker is killed again and again beside jobs that make requests: no job is lost or ends wrongly, each failed
//! attempt is retried, and the broker comes back each time. `HOST_LONG_TESTS` makes the storm long.

use std::fs;
use std::io::Write as _;

use host_tests::processes::{broker, kill};
use host_tests::reflector::{Reflector, SOON};
use host_tests::{Client, eventually, guests};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How often the broker is killed, usually and in a long storm.
const KILLS: (usize, usize) = (8, 300);

/// How many jobs there are for each kill, and how many requests each makes.
const JOBS: usize = 4;
const REQUESTS: usize = 5;

const MANIFEST: &str = r#"
[defaults]
backoff = { base_seconds = 0.001, max_seconds = 0.01 }

[[handlers.request.http]]
to = "ORIGIN"
headers = { authorization = "Bearer {secret:api}" }

[[handlers.wasi_request.http]]
to = "ORIGIN"
headers = { authorization = "Bearer {secret:api}" }
"#;

#[test]
fn no_job_suffers_from_a_broker_that_is_killed_again_and_again() {
    let (usual, long) = KILLS;
    let kills = std::env::var_os("HOST_LONG_TESTS").map_or(usual, |_| long);
    let (data, reflector) = (TempDir::new().unwrap(), Reflector::start());
    let server = reflector.host(&data);
    let client = server.client();
    let hostile = fs::read(guests::component("hostile")).unwrap();
    let manifest = MANIFEST.replace("ORIGIN", &reflector.origin());
    let answer = client.deploy_accepted("hostile", &hostile, Some(&manifest));
    assert_eq!(answer.as_ref().unwrap().status, 201, "{answer:?}");
    let requests: Vec<Value> = (0..REQUESTS)
        .map(|n| json!({"url": reflector.url(&format!("/{n}"))}))
        .collect();
    let (mut ids, mut hits, mut killed) = (Vec::new(), Vec::new(), None);
    for round in 0..kills {
        for n in 0..JOBS {
            let handler = ["request", "wasi_request"][n % 2];
            let params = json!({"requests": requests, "strict": true});
            let job = json!({"handler": handler, "params": params, "max_attempts": 1_000});
            ids.push(client.enqueue(&job));
        }
        // One request is on its way when the broker is killed; the others may be anywhere.
        let hit = json!({"requests": [{"url": reflector.url("/wait")}], "strict": true});
        let handler = ["request", "wasi_request"][round % 2];
        let id = client.enqueue(&json!({"handler": handler, "params": hit, "max_attempts": 1_000}));
        let _stream = reflector.waiting.recv_timeout(SOON).unwrap();
        let pid = eventually("another broker", SOON, || {
            broker(server.pid()).filter(|pid| Some(*pid) != killed)
        });
        kill(pid);
        killed = Some(pid);
        let mut again = reflector.waiting.recv_timeout(SOON).unwrap();
        again
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .unwrap();
        hits.push(id);
    }
    for id in &hits {
        let (job, failed) = wait_for_end(&client, id);
        assert_eq!(job["result"][0]["body"], "ok", "{job}");
        assert!(failed > 0, "{job}");
    }
    for id in &ids {
        let (job, _) = wait_for_end(&client, id);
        let answers = job["result"].as_array().unwrap();
        let good = answers.iter().filter(|answer| answer["status"] == 200);
        assert_eq!(good.count(), REQUESTS, "{job}");
    }
}

/// Returns a job that has completed, and how many of its attempts had failed because the broker was gone.
fn wait_for_end(client: &Client, id: &str) -> (Value, usize) {
    let job = client.wait(id);
    assert_eq!(job["state"], "completed", "{job}");
    let attempts = client.items(&format!("/api/v1/jobs/{id}/attempts"));
    let failed: Vec<&Value> = attempts
        .iter()
        .filter(|attempt| attempt["outcome"] != "completed")
        .collect();
    for attempt in &failed {
        let text = attempt.to_string();
        let is_gone = text.contains("http_unavailable") || text.contains("InternalError");
        let says_so = text.contains("the host cannot send requests now");
        assert!(is_gone && says_so, "{attempt}");
    }
    (job, failed.len())
}
