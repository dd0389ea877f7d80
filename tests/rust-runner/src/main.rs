//! Handlers on RRQ's own crate for runners in Rust: one for each way in which a job can end.

use std::error::Error;
use std::time::Duration;

use rrq_runner::{ExecutionOutcome, ExecutionRequest, Registry, parse_tcp_socket, run_tcp};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let mut registry = Registry::new();
    registry.register(
        "noop",
        |request| async move { success(&request, Value::Null) },
    );
    registry.register("context", |request| async move {
        let context = &request.context;
        let context_seen = json!({
            "job_id": request.job_id,
            "attempt": context.attempt,
            "queue_name": context.queue_name,
            "worker_id": context.worker_id,
            "trace": context.trace_context,
            "params": request.params,
            "process": std::process::id(),
        });
        success(&request, context_seen)
    });
    registry.register("fail", |request| async move {
        let mut outcome = ExecutionOutcome::error(
            request.job_id.clone(),
            request.request_id.clone(),
            "no such customer",
        );
        if let Some(error) = &mut outcome.error {
            error.error_type = Some("customer_unknown".to_owned());
            error.details = Some(json!({"customer": 7}));
        }
        outcome
    });
    registry.register("flaky", |request| async move {
        if request.context.attempt < 3 {
            let (job, id) = (request.job_id, request.request_id);
            return ExecutionOutcome::retry(job, id, "not yet", Some(0.01));
        }
        success(&request, json!(request.context.attempt))
    });
    registry.register("sleep", |request| async move {
        let ms = request.params.get("ms").and_then(Value::as_u64);
        tokio::time::sleep(Duration::from_millis(ms.unwrap_or(0))).await;
        success(&request, json!(std::process::id()))
    });
    registry.register("block", |request| async move {
        let ms = request.params.get("ms").and_then(Value::as_u64);
        std::thread::sleep(Duration::from_millis(ms.unwrap_or(0)));
        success(&request, Value::Null)
    });
    let arguments: Vec<String> = std::env::args().collect();
    let [_, flag, address] = &arguments[..] else {
        return Err("usage: rust-runner --tcp-socket HOST:PORT".into());
    };
    if flag != "--tcp-socket" {
        return Err(format!("unknown argument {flag}").into());
    }
    run_tcp(&registry, parse_tcp_socket(address)?)
}

fn success(request: &ExecutionRequest, result: Value) -> ExecutionOutcome {
    ExecutionOutcome::success(request.job_id.clone(), request.request_id.clone(), result)
}
