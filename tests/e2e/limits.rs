//! Requests that a host refuses because a limit is reached.

use host_tests::{Options, Server, guests};
use serde_json::json;
use tempfile::TempDir;

use crate::fixture::deploy;

#[test]
fn a_host_keeps_no_more_than_its_limits_and_goes_on() {
    let data = TempDir::new().unwrap();
    let mut options = Options::new(data.path());
    let limits = [("QUEUES", "2"), ("WAITING_JOBS", "3"), ("COMPONENTS", "1")];
    options.env = limits
        .map(|(name, value)| (format!("HOST_LIMITS_{name}"), value.to_owned()))
        .into();
    let server = Server::start(&options);
    let client = server.client();
    deploy(&client, "basics");
    let actions = std::fs::read(guests::component("actions")).unwrap();
    let refused = client.deploy("actions", &actions, None).unwrap();
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (409, &json!("too_many_components")),
        "{refused:?}"
    );
    let enqueue = |queue: &str, jobs: usize| {
        let job = json!({"handler": "noop", "queue": queue});
        client
            .post("/api/v1/jobs", &json!(vec![job; jobs]))
            .unwrap()
    };
    for queue in ["a", "b"] {
        let paused = client.post(
            &format!("/api/v1/queues/{queue}/pause"),
            &json!({"create": true}),
        );
        assert_eq!(paused.unwrap().status, 200);
    }
    for (queue, jobs, status, code) in [
        ("c", 1, 409, json!("too_many_queues")),
        ("a", 4, 429, json!("too_many_waiting")),
        ("a", 2, 201, json!(null)),
        ("b", 2, 429, json!("too_many_waiting")),
        ("b", 1, 201, json!(null)),
        ("b", 1, 429, json!("too_many_waiting")),
    ] {
        let answer = enqueue(queue, jobs);
        assert_eq!(answer.status, status, "{queue} {jobs}: {answer:?}");
        assert_eq!(answer.body["code"], code, "{queue} {jobs}: {answer:?}");
    }
    let resumed = client.post("/api/v1/queues/a/resume", &json!({})).unwrap();
    assert_eq!(resumed.status, 200, "{resumed:?}");
    host_tests::eventually(
        "the jobs to end",
        std::time::Duration::from_secs(30),
        || (enqueue("a", 1).status == 201).then_some(()),
    );
}
