//! The real Python runner executes our jobs, in both dialects.

use std::time::{Duration, Instant};

use host_tests::pool::{Pool, launch_config};
use host_tests::{eventually, peers};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::orchestrator::{CURRENT, DOCUMENTED};

/// How long to wait for anything, even on a busy machine.
const WAIT_MAX: Duration = Duration::from_mins(2);

/// The handlers of the runner.
const HANDLERS: &str = r#"
import asyncio
import os
import signal
import sys
import time

from rrq.exc import RetryJob
from rrq.registry import Registry
from rrq.runner_settings import PythonRunnerSettings

registry = Registry()


def handler(function):
    registry.register(function.__name__, function)
    return function


@handler
async def noop(request):
    return None


@handler
async def echo(request):
    return request.params


@handler
async def context(request):
    context = request.context
    return {
        "job_id": request.job_id,
        "attempt": context.attempt,
        "queue_name": context.queue_name,
        "worker_id": context.worker_id,
        "deadline": context.deadline.isoformat(),
        "trace": context.trace_context,
    }


@handler
async def fail(request):
    raise ValueError("no such customer")


@handler
async def flaky(request):
    if request.context.attempt < 3:
        raise RetryJob("not yet", defer_seconds=0.01)
    return request.context.attempt


@handler
async def sleep(request):
    await asyncio.sleep(request.params["seconds"])


@handler
async def block(request):
    time.sleep(request.params["seconds"])


@handler
async def exit(request):
    if request.context.attempt == 1:
        os._exit(3)
    return request.context.attempt


@handler
async def huge(request):
    return "x" * (17 << 20)


@handler
async def later(request):
    if not os.path.exists(request.params["mark"]):
        open(request.params["mark"], "w").close()
        raise RetryJob("later", defer_seconds=float("nan"))
    return "now"


@handler
async def kill(request):
    await asyncio.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


@handler
async def say(request):
    print("hello from " + request.params["name"], flush=True)
    print("and from stderr", file=sys.stderr, flush=True)


settings = PythonRunnerSettings(registry=registry)
"#;

/// A host with a pool of Python runners.
struct Python {
    pool: Pool,
    _handlers: TempDir,
}

impl Python {
    fn start(release: &str, keys: &str) -> Self {
        let handlers = TempDir::new().unwrap();
        std::fs::write(handlers.path().join("handlers.py"), HANDLERS).unwrap();
        let python = peers::rrq(release).join("bin").join("rrq-runner");
        let words = [python.to_str().unwrap(), "--settings", "handlers.settings"];
        let path = handlers.path().display().to_string();
        let env = [("PYTHONPATH".to_owned(), path)];
        let command = words.map(str::to_owned);
        let keys = launch_config(&command, &env) + keys;
        let pool = Pool::start(&keys, "");
        pool.loaded();
        Self {
            pool,
            _handlers: handlers,
        }
    }

    fn run(&self, job: &Value) -> Value {
        self.pool.client().run(job)
    }
}

/// Returns a release for each dialect, and the name of the dialect.
fn dialects() -> [(&'static str, &'static str); 2] {
    [(CURRENT, ""), (DOCUMENTED, "dialect = \"documented\"\n")]
}

#[test]
fn jobs_run_on_the_python_runner() {
    for (release, keys) in dialects() {
        let keys = format!("{keys}pool_size = 2\nmax_in_flight = 8\n");
        let python = Python::start(release, &keys);
        let params = json!({"a": [1, "ü", null], "b": {"c": 1.5}});
        let job = python.run(&json!({"handler": "own#echo", "params": params}));
        assert_eq!(job["state"], "completed", "{job}");
        assert_eq!(job["result"], params);
        let trace =
            json!({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"});
        let job = python.run(&json!({
            "handler": "own#context", "queue": "mail", "trace_context": trace,
        }));
        let result = &job["result"];
        assert_eq!(result["job_id"], job["id"], "{job}");
        assert_eq!(result["attempt"], 1);
        assert_eq!(result["queue_name"], "mail");
        assert_eq!(result["worker_id"], "host");
        assert_eq!(result["trace"], trace);
        let client = python.pool.client();
        let jobs: Vec<_> = (0..100)
            .map(|n| json!({"handler": "own#echo", "params": {"n": n}}))
            .collect();
        let answer = client.post("/api/v1/jobs", &json!(jobs)).unwrap();
        for (n, entry) in answer.body.as_array().unwrap().iter().enumerate() {
            let job = client.wait(entry["id"].as_str().unwrap());
            assert_eq!(job["result"], json!({"n": n}), "{release}: {job}");
            assert_eq!(job["attempt"], 1, "{release}: {job}");
        }
    }
}

#[test]
fn failures_and_retries_follow_the_rules_of_the_host() {
    for (release, keys) in dialects() {
        let python = Python::start(release, keys);
        let failed = python.run(&json!({"handler": "own#fail", "max_attempts": 1}));
        assert_eq!(failed["state"], "discarded", "{failed}");
        assert_eq!(failed["failure"]["kind"], "user_error", "{failed}");
        let message = failed["failure"]["message"].as_str().unwrap();
        assert!(message.contains("no such customer"), "{failed}");

        let flaky = python.run(&json!({"handler": "own#flaky"}));
        assert_eq!(flaky["state"], "completed", "{flaky}");
        assert_eq!(flaky["result"], 3);

        let unknown = python.run(&json!({"handler": "own#missing"}));
        assert_eq!(unknown["state"], "discarded", "{unknown}");
        assert_eq!(unknown["failure"]["kind"], "handler_not_found", "{unknown}");
        assert_eq!(unknown["attempt"], 1);
    }
}

#[test]
fn a_cancel_or_timeout_of_a_python_job_does_not_end_its_runner() {
    for (release, keys) in dialects() {
        let python = Python::start(release, keys);
        let client = python.pool.client();
        let first = python.pool.up();
        let sleep =
            json!({"handler": "own#sleep", "params": {"seconds": 600}, "timeout_seconds": 900});
        let id = python.pool.running(&sleep);
        let start = Instant::now();
        let cancel = format!("/api/v1/jobs/{id}/cancel");
        client.post(&cancel, &json!({})).unwrap();
        let job = client.wait(&id);
        assert_eq!(job["state"], "cancelled", "{job}");
        assert!(start.elapsed() < Duration::from_mins(1));
        let job = python.run(&json!({
            "handler": "own#sleep", "params": {"seconds": 60}, "timeout_seconds": 2,
        }));
        assert_eq!(job["state"], "discarded", "{job}");
        assert_eq!(job["failure"]["kind"], "timed_out", "{job}");
        assert_eq!(python.pool.up(), first, "{release}");
    }
}

#[test]
fn a_blocked_or_dead_python_runner_is_replaced() {
    for (release, keys) in dialects() {
        let python = Python::start(release, keys);
        let first = python.pool.up();
        let died = python.run(&json!({"handler": "own#exit", "max_attempts": 1}));
        assert_eq!(died["state"], "completed", "{died}");
        // The host may send the job to the dying runner again before it notices its end.
        assert!(died["result"].as_u64().unwrap() >= 2, "{died}");
        let second = python.pool.up();
        assert_ne!(first, second);
        let job = python.run(&json!({
            "handler": "own#block", "params": {"seconds": 600}, "timeout_seconds": 2,
        }));
        assert_eq!(job["failure"]["kind"], "timed_out", "{job}");
        let echo = python.run(&json!({"handler": "own#echo", "timeout_seconds": 60}));
        assert_eq!(echo["state"], "completed", "{echo}");
        assert_ne!(python.pool.up(), second, "{release}");
    }
}

#[test]
fn output_of_a_python_handler_goes_to_the_log_of_its_job() {
    let python = Python::start(CURRENT, "pool_size = 2\nmax_in_flight = 1\n");
    let client = python.pool.client();
    let names: Vec<_> = (0..6).map(|n| format!("job {n}")).collect();
    let say = |name: &String| json!({"handler": "own#say", "params": {"name": name}});
    let jobs: Vec<_> = names.iter().map(say).collect();
    let answer = client.post("/api/v1/jobs", &json!(jobs)).unwrap();
    for (name, entry) in names.iter().zip(answer.body.as_array().unwrap()) {
        let id = entry["id"].as_str().unwrap();
        assert_eq!(client.wait(id)["state"], "completed");
        let lines = eventually("both lines", WAIT_MAX, || {
            let path = format!("/api/v1/jobs/{id}/logs");
            let lines = client.get(&path).unwrap().body["items"].clone();
            (lines.as_array()?.len() >= 2).then_some(lines)
        });
        let output: Vec<_> = lines
            .as_array()
            .unwrap()
            .iter()
            .map(|line| {
                (
                    line["source"].as_str().unwrap(),
                    line["message"].as_str().unwrap(),
                )
            })
            .collect();
        assert!(
            output.contains(&("stdout", format!("hello from {name}").as_str())),
            "{output:?}"
        );
        assert!(
            output.contains(&("stderr", "and from stderr")),
            "{output:?}"
        );
        assert_eq!(output.len(), 2, "{output:?}");
    }
}

#[test]
fn one_bad_job_of_a_python_runner_costs_no_neighbour_its_end() {
    for (release, keys) in dialects() {
        let python = Python::start(release, &format!("{keys}max_in_flight = 10\n"));
        let client = python.pool.client();
        let mark = python.pool.folder().join("mark").display().to_string();
        let mut jobs = vec![
            json!({"handler": "own#huge"}),
            json!({"handler": "own#later", "params": {"mark": mark}}),
            json!({"handler": "own#kill", "max_attempts": 1}),
        ];
        let neighbour =
            json!({"handler": "own#sleep", "params": {"seconds": 1}, "max_attempts": 1});
        jobs.extend(vec![neighbour; 7]);
        let answer = client.post("/api/v1/jobs", &json!(jobs)).unwrap();
        let entries = answer.body.as_array().unwrap().iter();
        let ids: Vec<&str> = entries.map(|entry| entry["id"].as_str().unwrap()).collect();
        let huge = client.wait(ids[0]);
        assert_eq!(huge["failure"]["kind"], "result_too_large", "{huge}");
        let later = client.wait(ids[1]);
        assert_eq!(later["result"], "now", "{later}");
        for id in &ids[3..] {
            let job = client.wait(id);
            assert_eq!(job["state"], "completed", "{release}: {job}");
            // Of ten jobs, those that are lost with it are ten twice, then five, two and one.
            let runs = client.items(&format!("/api/v1/jobs/{id}/attempts"));
            assert!((1..=6).contains(&runs.len()), "{release}: {job} {runs:?}");
        }
        let kill = client.wait(ids[2]);
        assert_eq!(kill["failure"]["kind"], "lease_lost", "{kill}");
    }
}
