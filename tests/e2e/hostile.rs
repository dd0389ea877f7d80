//! Hostile guests: each ends as expected, well-behaved jobs beside it are not affected, and the host's
//! memory returns to its earlier size.

use std::time::Duration;

use host_tests::{Client, bombs, eventually, from_wat};
use serde_json::{Value, json};

use crate::fixture::{Own, deploy, own, own_with};
use crate::neighbours::{assert_all_succeed, good_jobs};

/// How much the orchestrator's memory may grow, in bytes.
const MEMORY_SLACK_BYTES: u64 = 16 << 20;

/// The largest response with a job's log, in bytes.
const LOG_ANSWER_BYTES_MAX: usize = 8 << 20;

/// Returns `completed` or the kind of the job's failure.
fn ending(job: &Value) -> &str {
    match job["state"].as_str().unwrap() {
        "completed" => "completed",
        _ => job["failure"]["kind"].as_str().unwrap_or("no failure"),
    }
}

fn host() -> Own {
    let own = own();
    deploy(&own.server.client(), "hostile");
    own
}

/// Returns the params of a handler: a flood is several times as long as what is kept of it, so that a slow machine
/// writes it in time.
fn flood_params(handler: &str) -> Value {
    match handler {
        "log_flood" | "progress_flood" => json!({"count": 100_000}),
        "stdout_flood" => json!({"mib": 4}),
        _ => json!({}),
    }
}

/// Runs each handler beside well-behaved jobs and checks how it ends. Then checks the host's memory.
/// Returns the hostile jobs.
fn attack(own: &Own, cases: &[(&str, &str)]) -> Vec<Value> {
    let client = own.server.client();
    assert_all_succeed(&client, &good_jobs(&client), "nothing");
    let before = own.server.resident_bytes();
    let mut ended = Vec::new();
    for (handler, expected) in cases {
        let params = flood_params(handler);
        let hostile =
            client.enqueue(&json!({"handler": handler, "params": params, "max_attempts": 1}));
        eventually("the hostile job to start", Duration::from_mins(1), || {
            (client.job(&hostile)["state"] != "available").then_some(())
        });
        assert_all_succeed(&client, &good_jobs(&client), handler);
        let job = client.wait(&hostile);
        assert_eq!(ending(&job), *expected, "{handler}: {job}");
        if job["state"] != "completed" {
            assert_eq!(job["state"], "discarded", "{handler}: {job}");
            let message = job["failure"]["message"].as_str().unwrap();
            assert!(
                !message.is_empty() && message.len() <= 64 << 10,
                "{handler}: {} bytes of message",
                message.len()
            );
        }
        ended.push(job);
    }
    eventually(
        "the memory to return to its earlier size",
        Duration::from_secs(30),
        || (own.server.resident_bytes() <= before + MEMORY_SLACK_BYTES).then_some(()),
    );
    ended
}

/// Returns all log lines of a job.
fn log(client: &Client, job: &Value) -> Vec<Value> {
    let id = job["id"].as_str().unwrap();
    let mut lines: Vec<Value> = Vec::new();
    let (mut cursor, mut bytes) = (String::new(), 0);
    loop {
        let page = client
            .get(&format!("/api/v1/jobs/{id}/logs?{cursor}"))
            .unwrap();
        assert_eq!(page.status, 200, "{}", page.body);
        bytes += page.body.to_string().len();
        assert!(bytes <= LOG_ANSWER_BYTES_MAX, "the log of {id} is too long");
        let items = page.body["items"].as_array().unwrap();
        lines.extend(items.iter().cloned());
        match page.body["next_cursor"].as_str() {
            Some(next) if !items.is_empty() => cursor = format!("cursor={next}"),
            _ => return lines,
        }
    }
}

#[test]
fn endless_guests_are_stopped_at_their_limits() {
    let own = host();
    attack(
        &own,
        &[
            ("busy_loop", "timed_out"),
            ("burn", "fuel_exhausted"),
            ("host_calls", "timed_out"),
            ("sleep_forever", "timed_out"),
            ("wasi_sleep_forever", "timed_out"),
            ("memcpy_loop", "timed_out"),
        ],
    );
    assert_eq!(own.server.stop(), Some(0));
}

#[test]
fn endless_guests_can_be_cancelled() {
    let own = host();
    let client = own.server.client();
    for handler in [
        "busy_loop",
        "host_calls",
        "sleep_forever",
        "wasi_sleep_forever",
        "memcpy_loop",
    ] {
        let id =
            client.enqueue(&json!({"handler": handler, "max_attempts": 1, "timeout_seconds": 300}));
        eventually("the job to run", Duration::from_secs(20), || {
            (client.job(&id)["state"] == "running").then_some(())
        });
        let cancel = json!({"reason": "enough", "grace_seconds": 0});
        let answer = client
            .post(&format!("/api/v1/jobs/{id}/cancel"), &cancel)
            .unwrap();
        assert_eq!(answer.status, 200, "{handler}: {answer:?}");
        let job = client.wait(&id);
        assert_eq!(job["state"], "cancelled", "{handler}: {job}");
        let good = client.run(&json!({"handler": "noop"}));
        assert_eq!(good["state"], "completed", "after {handler}: {good}");
    }
}

#[test]
fn guests_that_use_too_much_memory_are_stopped() {
    let own = host();
    let ended = attack(
        &own,
        &[
            ("memory_bomb", "memory_limit"),
            ("memory_many", "memory_limit"),
            ("memory_refused", "memory_limit"),
            ("deep_recursion", "trapped"),
            ("deep_frames", "trapped"),
        ],
    );
    let client = own.server.client();
    for job in ended {
        let path = format!("/api/v1/jobs/{}/attempts", job["id"].as_str().unwrap());
        let attempt = client.get(&path).unwrap().body["items"][0].clone();
        let peak = attempt["peak_memory_bytes"].as_u64().unwrap();
        assert!(peak <= 64 << 20, "{peak} bytes: {job}");
    }
}

#[test]
fn guests_that_write_too_much_are_limited() {
    let own = host();
    let ended = attack(
        &own,
        &[
            ("log_flood", "completed"),
            ("log_huge_line", "trapped"),
            ("log_fields", "completed"),
            ("stdout_flood", "completed"),
            ("stdout_ansi", "completed"),
            ("progress_flood", "completed"),
            ("random_flood", "trapped"),
            ("pollable_flood", "trapped"),
            ("giant_error", "user_error"),
            ("giant_result", "result_too_large"),
        ],
    );
    let client = own.server.client();
    for (job, source) in [(&ended[0], "log"), (&ended[3], "stdout")] {
        let lines = log(&client, job);
        assert!(
            lines.iter().any(|line| line["source"] == source),
            "the beginning of the log is kept"
        );
        assert!(
            lines.iter().any(|line| line["source"] == "host"),
            "the host says how many lines it dropped: {:?}",
            lines.last()
        );
    }
    let huge = &ended[1];
    let message = huge["failure"]["message"].as_str().unwrap();
    assert!(message.contains("passed more than 8 MiB"), "{huge}");
    assert!(
        message.contains("the body of a request may have 4 MiB"),
        "{huge}"
    );
    let printed = log(&client, &ended[4]);
    let forged = printed
        .iter()
        .find(|line| line["message"].as_str().unwrap().contains("forged"))
        .expect("the forged record is the text of a log line");
    assert_eq!(forged["source"], "stdout", "{forged}");
    assert_ne!(forged["level"], "error", "{forged}");
}

#[test]
fn guests_that_trap_or_exit_end_only_themselves() {
    let own = host();
    attack(
        &own,
        &[
            ("trap", "trapped"),
            ("exit", "trapped"),
            ("abort", "trapped"),
            ("panic_loop", "trapped"),
            ("bad_json_result", "trapped"),
            ("two_results", "trapped"),
            ("empty_result", "trapped"),
            ("invalid_utf8_result", "trapped"),
            ("deep_result", "trapped"),
        ],
    );
}

/// How many attempts look for remains of earlier ones.
const ATTEMPTS: usize = 50;

#[test]
fn no_attempt_finds_what_another_has_left() {
    let own = own_with(|options| options.args = vec!["--cells=1".to_owned()]);
    let client = own.server.client();
    deploy(&client, "hostile");
    for _ in 0..ATTEMPTS {
        let job = client.run(&json!({"handler": "remember"}));
        assert_eq!(job["result"], json!({"runs": 1, "bytes": 0}), "{job}");
    }
}

#[test]
fn guests_cannot_see_the_machine() {
    let own = host();
    let client = own.server.client();
    let seen = client.run(&json!({"handler": "read_files"}));
    assert_eq!(seen["state"], "completed", "{seen}");
    assert_eq!(seen["result"]["paths"], json!({}), "{seen}");
    assert_eq!(seen["result"]["env"], json!([]), "{seen}");
    assert_eq!(seen["result"]["args"], json!([]), "{seen}");
    assert_eq!(seen["result"]["stdin_bytes"], 0, "{seen}");
    let clock = client.run(&json!({"handler": "clock"}));
    for name in ["monotonic_ns", "wall_ns"] {
        let step = clock["result"][name].as_u64().unwrap();
        assert!(step >= 1_000_000, "{name} moves by {step} ns: {clock}");
    }
}

#[test]
fn malformed_components_end_only_themselves() {
    let own = own();
    let client = own.server.client();
    for name in ["good"].into_iter().chain(bombs::MALFORMED) {
        // Only endless loops must end by their time limit.
        let limits = name.ends_with("-loop").then_some(bombs::MALFORMED_LIMITS);
        let component = from_wat::component(name);
        let answer = client.deploy(name, &component, limits).unwrap();
        assert_eq!(answer.status, 201, "{name}: {}", answer.body);
    }
    attack(
        &own,
        &[
            ("by_hand", "completed"),
            ("realloc_loop", "timed_out"),
            ("post_return_loop", "timed_out"),
            ("wild_result", "trapped"),
            ("bulk_loop", "timed_out"),
        ],
    );
}
