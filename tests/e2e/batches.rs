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

/// Returns the batch that a job has made, once it has ended.
fn made_by(client: &Client, job: &str) -> Value {
    let shown = client.job(job);
    assert_eq!(shown["batch"], job, "{shown}");
    wait_for_end(client, &json!({"id": job}))
}

#[test]
fn a_schedule_makes_a_batch_with_each_firing() {
    let own = own();
    let client = own.server.client();
    let schedule = json!({
        "when": {"every": "1h"},
        "job": {"handler": "echo", "params": 1, "batch": {"name": "hourly", "on_end": {"handler": "echo"}}},
    });
    let set = client.call("PUT", "/api/v1/schedules/import", Some(&schedule));
    assert_eq!(set.unwrap().status, 200);
    let backfill = json!({"from": "2026-01-01T00:00:00Z", "until": "2026-01-01T02:30:00Z"});
    let path = "/api/v1/schedules/import/backfill";
    let fired = client.post(path, &backfill).unwrap().body;
    let jobs = fired["jobs"].as_array().unwrap();
    assert!(jobs.len() >= 2, "{fired}");
    let mut callbacks: Vec<String> = Vec::new();
    for job in jobs {
        let batch = made_by(&client, job.as_str().unwrap());
        assert_eq!(batch["name"], "hourly");
        let params = called(&client, &batch, "on_end").unwrap();
        assert_eq!(params["batch"], *job, "{params}");
        assert_eq!(params["counts"]["completed"], 1, "{params}");
        callbacks.push(batch["callbacks"][0]["job"].to_string());
    }
    callbacks.dedup();
    assert_eq!(
        callbacks.len(),
        jobs.len(),
        "each has a callback of its own"
    );
    // By itself, on time.
    let soon = json!({
        "when": {"every": "1s"},
        "job": {"handler": "echo", "batch": {"on_end": {"handler": "echo", "queue": "reports"}}},
    });
    let set = client.call("PUT", "/api/v1/schedules/soon", Some(&soon));
    assert_eq!(set.unwrap().status, 200);
    eventually("a callback", ENDS_WITHIN, || {
        let reports = client.items("/api/v1/jobs?queue=reports&state=completed");
        (!reports.is_empty()).then_some(())
    });
}

#[test]
fn a_handler_makes_a_batch_and_fills_it() {
    let own = own();
    let client = own.server.client();
    deploy_ask(&client, MANIFEST);
    let plan = json!({"name": "three", "on_success": {"handler": "echo", "queue": "rows-1"}});
    for how in ["enqueue", "enqueue_now"] {
        let jobs = json!([
            {"handler": "echo", "params": 1, "batch": plan},
            {"handler": "echo", "params": 2, "batch": "#0"},
            {"handler": "noop", "batch": "#0"},
        ]);
        let run = json!({"handler": "ask", "params": {"asks": [{how: jobs}]}, "max_attempts": 1});
        let job = client.run(&run);
        assert_eq!(job["state"], "completed", "{job}");
        let batch = made_by(&client, job["result"][0][0].as_str().unwrap());
        assert_eq!(batch["counts"]["completed"], 3, "{batch}");
        let params = called(&client, &batch, "on_success").unwrap();
        assert_eq!(params["counts"]["jobs"], 3, "{params}");
    }
    let callbacks = client.items("/api/v1/jobs?queue=rows-1");
    assert_eq!(callbacks.len(), 2, "one for each batch: {callbacks:?}");
}

#[test]
fn a_handler_makes_no_batch_whose_callback_it_may_not_enqueue() {
    let own = own();
    let client = own.server.client();
    deploy_ask(&client, MANIFEST);
    for (callback, word) in [
        (json!({"handler": "fail"}), "does not grant ask to enqueue"),
        (
            json!({"handler": "echo", "queue": "other"}),
            "does not grant ask to enqueue",
        ),
        (
            json!({"handler": "echo", "params": 1}),
            "on_end.params: a callback cannot have it",
        ),
    ] {
        let jobs = json!([{"handler": "echo", "batch": {"on_end": callback}}]);
        let run =
            json!({"handler": "ask", "params": {"asks": [{"enqueue": jobs}]}, "max_attempts": 1});
        let job = client.run(&run);
        let answer = format!("{} {}", job["result"], job["failure"]);
        assert!(answer.contains(word), "{word}: {answer}");
    }
    assert_eq!(client.items("/api/v1/batches"), [] as [Value; 0]);
}
