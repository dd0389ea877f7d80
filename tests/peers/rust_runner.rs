//! Runners built with RRQ's own Rust crate execute our jobs: the crate's example, and a runner with one
//! handler for each outcome.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use host_tests::peers;
use host_tests::pool::{Pool, launch_config};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// How long to wait for an idle runner, even on a busy machine.
const WAIT_MAX: Duration = Duration::from_mins(3);

/// Starts a host with a pool of runners that run this program.
fn pool(program: &Path, keys: &str) -> Pool {
    let command = [program.display().to_string()];
    let pool = Pool::start(&(launch_config(&command, &[]) + keys), "");
    pool.up();
    pool
}

fn of_handlers(keys: &str) -> Pool {
    let pool = pool(&peers::rust_runner(), keys);
    pool.loaded();
    pool
}

/// Enqueues `count` jobs together and returns their results, in order.
fn results(pool: &Pool, count: u32, job: impl Fn(u32) -> Value) -> Vec<Value> {
    let client = pool.client();
    let jobs: Vec<Value> = (0..count).map(job).collect();
    let answer = client.post("/api/v1/jobs", &json!(jobs)).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    let entries = answer.body.as_array().unwrap().iter();
    entries
        .map(|entry| {
            let job = client.wait(entry["id"].as_str().unwrap());
            assert_eq!(job["state"], "completed", "{job}");
            assert_eq!(job["attempt"], 1, "{job}");
            job["result"].clone()
        })
        .collect()
}

#[test]
fn jobs_run_on_the_example_runner() {
    let pool = pool(&peers::example_runner(), "pool_size = 2\n");
    let echo = |n| json!({"handler": "own#echo", "params": {"n": n, "text": "ü"}});
    for (n, result) in results(&pool, 100, echo).iter().enumerate() {
        assert_eq!(result["params"], json!({"n": n, "text": "ü"}), "{result}");
    }
    let unknown = pool.client().run(&json!({"handler": "own#missing"}));
    assert_eq!(unknown["state"], "discarded", "{unknown}");
    assert_eq!(unknown["failure"]["kind"], "handler_not_found", "{unknown}");
    assert_eq!(unknown["attempt"], 1);
}

#[test]
fn a_rust_runner_gets_the_context_and_reports_the_outcome() {
    let pool = of_handlers("max_in_flight = 8\n");
    let client = pool.client();
    let trace = json!({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"});
    let params = json!({"a": [1, "ü", null], "b": {"c": 1.5}});
    let job = client.run(&json!({
        "handler": "own#context", "queue": "mail", "trace_context": trace, "params": params,
    }));
    let result = &job["result"];
    assert_eq!(result["job_id"], job["id"], "{job}");
    assert_eq!(result["attempt"], 1);
    assert_eq!(result["queue_name"], "mail");
    assert_eq!(result["worker_id"], "host");
    assert_eq!(result["trace"], trace);
    assert_eq!(result["params"], params);

    let failed = client.run(&json!({"handler": "own#fail", "max_attempts": 1}));
    assert_eq!(failed["state"], "discarded", "{failed}");
    let failure = &failed["failure"];
    assert_eq!(failure["kind"], "user_error", "{failure}");
    assert_eq!(failure["user_kind"], "customer_unknown", "{failure}");
    assert_eq!(failure["message"], "no such customer", "{failure}");
    assert_eq!(failure["details"], json!({"customer": 7}), "{failure}");

    let flaky = client.run(&json!({"handler": "own#flaky"}));
    assert_eq!(
        (&flaky["state"], &flaky["result"]),
        (&json!("completed"), &json!(3)),
        "{flaky}"
    );
}

#[test]
fn a_cancel_or_timeout_of_a_rust_job_does_not_end_its_runner() {
    let pool = of_handlers("");
    let client = pool.client();
    let first = pool.up();
    let long = json!({"ms": 600_000});
    let sleep = json!({"handler": "own#sleep", "params": long, "timeout_seconds": 900});
    let id = pool.running(&sleep);
    let start = Instant::now();
    let cancel = format!("/api/v1/jobs/{id}/cancel");
    client.post(&cancel, &json!({})).unwrap();
    let job = client.wait(&id);
    assert_eq!(job["state"], "cancelled", "{job}");
    assert!(start.elapsed() < WAIT_MAX);
    timed_out(&pool, "own#sleep");
    assert_eq!(pool.up(), first);
}

#[test]
fn a_blocked_rust_job_times_out_and_the_next_one_runs() {
    let pool = of_handlers("max_in_flight = 1\n");
    timed_out(&pool, "own#block");
    // The runner may have answered or may have been replaced; both are correct.
    let body = json!({"handler": "own#noop", "timeout_seconds": 60});
    let next = pool.client().run(&body);
    assert_eq!(next["state"], "completed", "{next}");
}

/// Runs a job and checks that it times out.
fn timed_out(pool: &Pool, handler: &str) {
    let params = json!({"ms": 60_000});
    let body = json!({"handler": handler, "params": params, "timeout_seconds": 1});
    let job = pool.client().run(&body);
    assert_eq!(job["state"], "discarded", "{job}");
    assert_eq!(job["failure"]["kind"], "timed_out", "{job}");
    assert_eq!(job["attempt"], 1, "{job}");
}

#[test]
fn if_one_of_two_rust_runners_dies_no_job_is_lost() {
    let pool = of_handlers("pool_size = 2\nmax_in_flight = 4\n");
    let sleep = |_| json!({"handler": "own#sleep", "params": {"ms": 200}});
    let processes: BTreeSet<u64> = results(&pool, 16, sleep)
        .iter()
        .filter_map(Value::as_u64)
        .collect();
    let up: BTreeSet<u64> = pool.up().into_iter().map(u64::from).collect();
    assert_eq!(processes, up);
    let client = pool.client();
    let jobs = vec![json!({"handler": "own#sleep", "params": {"ms": 10_000}}); 8];
    let answer = client.post("/api/v1/jobs", &json!(jobs)).unwrap();
    let ids: Vec<String> = answer.body.as_array().unwrap().iter().map(id_of).collect();
    pool.until_running(&ids);
    let dying = i32::try_from(*up.first().unwrap()).unwrap();
    kill_process(Pid::from_raw(dying).unwrap(), Signal::KILL).unwrap();
    for id in &ids {
        let job = client.wait(id);
        assert_eq!(job["state"], "completed", "{job}");
    }
    let lost = ids.iter().filter(|id| pool.attempts(id).len() > 1);
    assert_eq!(lost.count(), 4, "those of the runner that died");
}

fn id_of(entry: &Value) -> String {
    entry["id"].as_str().unwrap().to_owned()
}
