//! Batches: their jobs start without anything else, and their callbacks are enqueued once, also when the host is killed.

use std::time::Duration;

use host_tests::{Client, Options, Server, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::desk::{MANIFEST, deploy_ask};
use crate::fixture::{deploy, own};

/// How long a loaded machine may take.
const ENDS_WITHIN: Duration = Duration::from_mins(2);

fn make(client: &Client, body: &Value) -> Value {
    let made = client.post("/api/v1/batches", body).unwrap();
    assert_eq!(made.status, 201, "{made:?}");
    made.body["batch"].clone()
}

fn wait_for_end(client: &Client, batch: &Value) -> Value {
    let id = batch["id"].as_str().unwrap();
    eventually("the end of the batch", ENDS_WITHIN, || {
        let shown = client.get(&format!("/api/v1/batches/{id}")).unwrap().body;
        (shown["state"] == "ended").then_some(shown)
    })
}

/// Returns the params of the callback's job, once that has completed.
fn called(client: &Client, batch: &Value, on: &str) -> Option<Value> {
    let callbacks = batch["callbacks"].as_array().unwrap();
    let callback = callbacks.iter().find(|it| it["on"] == on).unwrap();
    if callback["enqueued"] == false {
        return None;
    }
    let job = client.wait(callback["job"].as_str().unwrap());
    assert_eq!(job["state"], "completed", "{job}");
    // `echo` returns its params.
    Some(job["result"].clone())
}

#[test]
fn a_batch_runs_by_itself_and_calls_back() {
    let own = own();
    let client = own.server.client();
    let jobs: Vec<Value> = (0..5)
        .map(|n| json!({"handler": "echo", "params": n}))
        .collect();
    let callback = json!({"handler": "echo"});
    let all = json!({
        "jobs": jobs, "on_success": callback, "on_end": callback, "on_first_failure": callback,
    });
    let good = wait_for_end(&client, &make(&client, &all));
    assert_eq!(good["counts"]["completed"], 5, "{good}");
    assert_eq!(called(&client, &good, "on_first_failure"), None);
    for on in ["on_success", "on_end"] {
        let params = called(&client, &good, on).unwrap();
        assert_eq!(params["batch"], good["id"], "{params}");
        assert_eq!(params["failed"], json!([]), "{params}");
    }

    let mut with_failure = all;
    let fails = json!({"handler": "fail", "params": {"message": "no"}, "max_attempts": 1});
    with_failure["jobs"].as_array_mut().unwrap().push(fails);
    let bad = wait_for_end(&client, &make(&client, &with_failure));
    assert_eq!(called(&client, &bad, "on_success"), None);
    let params = called(&client, &bad, "on_end").unwrap();
    assert_eq!(params["counts"]["discarded"], 1, "{params}");
    assert_eq!(params["failed"].as_array().unwrap().len(), 1, "{params}");
    assert!(called(&client, &bad, "on_first_failure").is_some());

    // One that is closed without jobs has ended, and its callback runs by itself.
    let empty = make(&client, &json!({"open": true, "on_end": callback}));
    let id = empty["id"].as_str().unwrap();
    let closed = client.post(&format!("/api/v1/batches/{id}/close"), &json!({}));
    assert_eq!(closed.unwrap().status, 200);
    let empty = wait_for_end(&client, &empty);
    assert_eq!(
        called(&client, &empty, "on_end").unwrap()["counts"]["jobs"],
        0
    );
}

#[test]
fn a_killed_host_goes_on_with_its_batches_and_calls_back_once() {
    let data = TempDir::new().unwrap();
    let options = Options::new(data.path());
    let mut server = Server::start(&options);
    deploy(&server.client(), "basics");
    let jobs: Vec<Value> = (0..300)
        .map(|_| json!({"handler": "sleep", "params": {"ms": 20}}))
        .collect();
    let callback = json!({"handler": "echo", "queue": "callbacks"});
    let batch = make(
        &server.client(),
        &json!({"jobs": jobs, "on_end": callback, "on_success": callback}),
    );
    let id = batch["id"].as_str().unwrap();
    for part in [50, 150, 250] {
        eventually("a part of the jobs", ENDS_WITHIN, || {
            let shown = server
                .client()
                .get(&format!("/api/v1/batches/{id}"))
                .unwrap()
                .body;
            (shown["counts"]["completed"].as_u64().unwrap() >= part).then_some(())
        });
        server.kill();
        server = Server::start(&options);
    }
    let client = server.client();
    let batch = wait_for_end(&client, &batch);
    assert_eq!(batch["counts"]["completed"], 300, "{batch}");
    for on in ["on_success", "on_end"] {
        assert!(called(&client, &batch, on).is_some());
    }
    let callbacks = client.get("/api/v1/jobs?queue=callbacks").unwrap().body;
    assert_eq!(
        callbacks["items"].as_array().unwrap().len(),
        2,
        "{callbacks}"
    );
}

#[test]
fn a_handler_adds_to_the_batch_of_its_job_and_to_no_other() {
    let own = own();
    let client = own.server.client();
    deploy_ask(&client, MANIFEST);
    let open = json!({"open": true, "on_end": {"handler": "echo"}});
    let [batch, other] = [(); 2].map(|()| make(&client, &open));
    let path = |verb: &str| format!("/api/v1/batches/{}/{verb}", batch["id"].as_str().unwrap());
    let asks = |id: &Value| {
        let jobs = json!([{"handler": "echo", "params": 7, "batch": id}]);
        json!({"handler": "ask", "params": {"asks": [{"enqueue": jobs}]}, "max_attempts": 1})
    };
    let jobs = json!([asks(&batch["id"]), asks(&other["id"])]);
    let added = client.post(&path("jobs"), &jobs).unwrap();
    assert_eq!(added.status, 201, "{added:?}");
    // What they enqueue may come after the close.
    let closed = client.post(&path("close"), &json!({})).unwrap();
    assert_eq!(closed.status, 200, "{closed:?}");
    let shown = wait_for_end(&client, &batch);
    assert_eq!(shown["counts"]["jobs"], 3, "{shown}");
    assert_eq!(shown["counts"]["completed"], 3, "{shown}");
    assert_eq!(
        called(&client, &shown, "on_end").unwrap()["counts"]["jobs"],
        3
    );
    let job = client.job(added.body[1]["id"].as_str().unwrap());
    let refused = job["result"].to_string();
    assert!(refused.contains("the batch of its own job"), "{refused}");
}
