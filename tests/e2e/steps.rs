//! Jobs that remember their steps, with the whole program, on both stores.

use std::fs;
use std::time::Duration;

use host_tests::{Client, Options, Server, eventually, guests, postgres};
use serde_json::{Value, json};
use tempfile::TempDir;

const PAGE: &str = include_str!("../../docs/steps.md");

const GUEST: &str = include_str!("../guests/hostile/src/steps.rs");

const MANIFEST: &str = "\
[defaults]
steps = 3
timeout_seconds = 60
backoff = { base_seconds = 0.01, max_seconds = 0.01 }

[handlers.steps]
state = {}

[[handlers.steps.jobs]]
handlers = [\"ship-row\"]
queues = [\"step-*\", \"outside\"]

[handlers.order]
state = {}

[[handlers.order.jobs]]
handlers = [\"ship-row\"]
queues = [\"default\"]

[handlers.ship-row]
steps = 0
";

const PATIENCE: Duration = Duration::from_mins(2);

fn start(options: &Options) -> Server {
    let server = Server::start(options);
    let component = fs::read(guests::component("hostile")).unwrap();
    let deployed = server
        .client()
        .deploy_accepted("hostile", &component, Some(MANIFEST));
    let answer = deployed.unwrap();
    // 200 if it was deployed before.
    assert!([200, 201].contains(&answer.status), "{answer:?}");
    server
}

fn plan(attempts: &Value) -> Value {
    json!({"handler": "steps", "params": {"attempts": attempts}, "max_attempts": 5})
}

fn step(name: &str) -> Value {
    json!({ "step": name })
}

/// Returns how many jobs of a queue there are.
fn count(client: &Client, queue: &str) -> usize {
    client.items(&format!("/api/v1/jobs?queue={queue}")).len()
}

fn message(job: &Value) -> &str {
    job["failure"]["message"].as_str().unwrap_or_default()
}

fn on_postgres(data: &TempDir, schema: &str) -> Options {
    let mut options = Options::new(data.path());
    let url = postgres::schema(schema);
    for (name, value) in [("STORE_URL", &*url), ("STORE_ALLOW_UNSAFE", "true")] {
        options.env.push((format!("HOST_{name}"), value.to_owned()));
    }
    options
}

/// Fails after two steps, and is killed with its host after the same two in the next attempt.
fn each_step_is_done_once(options: &Options) {
    let server = start(options);
    let client = server.client();
    let (a, b, c) = (step("a"), step("b"), step("c"));
    let attempts = json!([
        [a, "enqueue", b, "fail"],
        [a, "enqueue", b, "wait_for_stop"],
        [a, "enqueue", b, c],
    ]);
    let id = client.enqueue(&plan(&attempts));
    eventually("the second attempt runs", PATIENCE, || {
        let job = client.job(&id);
        (job["state"] == "running" && job["attempt"] == 2).then_some(())
    });
    server.kill();
    let server = start(options);
    let client = server.client();
    let done = client.wait(&id);
    assert_eq!(done["state"], "completed", "{done}");
    assert_eq!(done["result"], json!([1, 1, 3]), "{done}");
    let counts = ["step-a", "step-b", "step-c", "outside"].map(|it| count(&client, it));
    assert_eq!(counts, [1, 1, 1, 1]);
}

#[test]
fn steps_are_done_once_over_failures_and_kills() {
    let data = TempDir::new().unwrap();
    each_step_is_done_once(&Options::new(data.path()));
}

#[test]
fn steps_in_a_database_are_done_once_over_failures_and_kills() {
    let data = TempDir::new().unwrap();
    each_step_is_done_once(&on_postgres(&data, "steps"));
}

#[test]
fn another_order_of_steps_stops_the_job_until_a_handler_fits() {
    let data = TempDir::new().unwrap();
    let server = start(&Options::new(data.path()));
    let client = server.client();
    let attempts = json!([
        [step("a"), step("b"), "fail"],
        [step("a"), step("c"), step("b")],
        [step("a"), step("b"), step("a")],
    ]);
    let stopped = client.run(&plan(&attempts));
    assert_eq!(stopped["state"], "discarded", "{stopped}");
    assert_eq!(stopped["failure"]["kind"], "steps_diverged", "{stopped}");
    let words = message(&stopped);
    assert!(
        words.contains("\"b\"") && words.contains("\"c\""),
        "{words}"
    );
    assert_eq!(count(&client, "step-c"), 0);
    let id = stopped["id"].as_str().unwrap();
    let retried = client.post(&format!("/api/v1/jobs/{id}/retry"), &json!({}));
    assert_eq!(retried.unwrap().status, 200);
    let done = client.wait(id);
    assert_eq!(done["result"], json!([1, 1, 3]), "{done}");
    assert_eq!(count(&client, "step-a"), 2);
}

#[test]
fn a_failure_that_a_handler_continues_after_is_kept_and_what_it_wrote_is_not() {
    let data = TempDir::new().unwrap();
    let server = start(&Options::new(data.path()));
    let client = server.client();
    let fails = json!({"fail_in": "a"});
    let attempts = json!([[fails, step("b"), "fail"], [fails, step("b")]]);
    let done = client.run(&plan(&attempts));
    assert_eq!(done["result"][1], 1, "{done}");
    let failure = done["result"][0].as_str().unwrap();
    assert!(failure.contains("in attempt 1"), "{failure}");
    assert_eq!((count(&client, "step-a"), count(&client, "step-b")), (0, 1));

    // A step whose failure ends the attempt is done again.
    let again = client.run(&plan(&json!([[fails, "fail"], [step("a")]])));
    assert_eq!(again["result"], json!([2]), "{again}");
}

#[test]
fn a_step_that_the_host_does_not_take_fails_by_name() {
    let data = TempDir::new().unwrap();
    let server = start(&Options::new(data.path()));
    let client = server.client();
    let names = ["a", "b", "c", "d"].map(step);
    for (actions, words) in [
        (json!(names), "at most 3 steps"),
        (json!([{"nest": "a"}]), "the step a has not ended"),
        (json!([step("a b")]), "the name of a step"),
        (json!([{"return": 70_000}]), "at most 65536 bytes"),
    ] {
        let mut job = plan(&json!([actions]));
        job["max_attempts"] = 1.into();
        let failed = client.run(&job);
        assert_eq!(failed["state"], "discarded", "{failed}");
        assert!(message(&failed).contains(words), "{failed}");
    }
    let component = fs::read(guests::component("hostile")).unwrap();
    let bare = MANIFEST.replace("steps = 3", "steps = 0");
    let deployed = client.deploy_accepted("hostile", &component, Some(&bare));
    assert_eq!(deployed.unwrap().status, 201);
    let mut job = plan(&json!([[step("a")]]));
    job["max_attempts"] = 1.into();
    let failed = client.run(&job);
    assert!(message(&failed).contains("add steps = 100"), "{failed}");
}

#[test]
fn the_example_ships_each_row_once() {
    let example = PAGE.split("```rust\n").nth(1).unwrap();
    let code = example.split("```").next().unwrap();
    let handler = code.replace("fn order", "pub(crate) fn order");
    assert!(GUEST.contains(handler.trim()), "the guest has the example");
    let data = TempDir::new().unwrap();
    let server = start(&Options::new(data.path()));
    let client = server.client();
    for number in 1..=2 {
        let done = client.run(&json!({"handler": "order", "params": [5, 6, 7]}));
        assert_eq!(done["result"], format!("order {number}"), "{done}");
        let shipped = client.items("/api/v1/jobs?handler=ship-row");
        assert_eq!(shipped.len(), number * 3);
    }
}
