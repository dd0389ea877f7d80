//! Leases of the document, of the Go orchestrator, and bad ones.

use super::*;

const GO: &[u8] = include_bytes!("../../../tests/golden/delta-go-lease.json");

#[test]
fn a_lease_of_the_go_orchestrator_is_read() {
    let lease = read(GO).unwrap();
    assert_eq!(lease.job_id, "job_a0768d27a957fc1d193b");
    assert_eq!((lease.ttl_ms, lease.interval_ms), (120_000, 30_000));
    assert_eq!(lease.max_runtime_ms, None);
    let step = &lease.steps[0];
    assert_eq!(step.name, "go test ./...");
    assert!(
        step.run
            .as_ref()
            .unwrap_err()
            .contains("\"go test ./...\" is not a step")
    );
    assert!(
        !format!("{lease:?}").contains("lease_013b"),
        "a secret is not shown"
    );
}

fn steps(steps: &str) -> Vec<Step> {
    let text =
        format!(r#"{{"job_id":"j","lease_id":"l","job_spec":{{"n":1.50,"steps":{steps}}}}}"#);
    read(text.as_bytes()).unwrap().steps
}

#[test]
fn a_step_is_called_with_the_spec_and_its_number() {
    let spec = r#"{"n":1.50,"steps":["wasm:a/b",{"run":"wasm:c","with":{"x":[1],"step":9}}]}"#;
    let steps = steps(r#"["wasm:a/b",{"run":"wasm:c","with":{"x":[1],"step":9}}]"#);
    let run = |at: usize| {
        let (handler, params) = steps[at].run.clone().unwrap();
        (handler.to_string(), params.0)
    };
    assert_eq!(
        run(0),
        ("a/b".to_owned(), format!(r#"{{"spec":{spec},"step":0}}"#))
    );
    assert_eq!(
        run(1),
        (
            "c".to_owned(),
            format!(r#"{{"spec":{spec},"step":1,"x":[1]}}"#)
        )
    );
}

#[test]
fn steps_of_another_kind_are_named() {
    for (step, expected) in [
        (
            r#""make""#,
            "\"make\" is not a step that this runner executes",
        ),
        (r#"{"run":"make"}"#, "\"make\" is not a step"),
        ("7", "\"step 0\" is not a step"),
        ("{}", "\"step 0\" is not a step"),
        (r#"{"run":7}"#, "\"step 0\" is not a step"),
        (r#""wasm:""#, "is not a valid handler name"),
        (r#""wasm:a b""#, "is not a valid handler name"),
        (
            r#"{"run":"wasm:a","with":[1]}"#,
            "`with` is an array, not an object",
        ),
    ] {
        let error = steps(&format!("[{step}]"))[0].run.clone().unwrap_err();
        assert!(error.contains(expected), "{step}: {error}");
    }
}

#[test]
fn times_have_defaults_and_bounds() {
    for (times, expected) in [
        ("", (120_000, 20_000, None)),
        (r#""lease_ttl_seconds":0,"#, (120_000, 20_000, None)),
        (r#""lease_ttl_seconds":10,"#, (10_000, 5_000, None)),
        (
            r#""lease_ttl_seconds":10,"heartbeat_interval_seconds":3,"max_runtime_seconds":1,"#,
            (10_000, 3_000, Some(1_000)),
        ),
    ] {
        let text = format!(r#"{{{times}"job_id":"j","lease_id":"l","job_spec":{{}}}}"#);
        let lease = read(text.as_bytes()).unwrap();
        let found = (lease.ttl_ms, lease.interval_ms, lease.max_runtime_ms);
        assert_eq!(found, expected, "{times}");
    }
}

#[test]
fn a_lease_without_its_ids_cannot_be_answered() {
    for (text, expected) in [
        ("", "at byte 0"),
        ("[]", "the body is an array"),
        (
            r#"{"lease_id":"secret","job_spec":{}}"#,
            "job_id: expected a string",
        ),
        (
            r#"{"job_id":"j","job_spec":{}}"#,
            "lease_id: expected a string",
        ),
        (
            r#"{"job_id":"j","lease_id":["secret"],"job_spec":{}}"#,
            "lease_id",
        ),
    ] {
        let error = read(text.as_bytes()).unwrap_err();
        assert!(
            error.contains(expected) && !error.contains("secret"),
            "{text}: {error}"
        );
    }
}

#[test]
fn any_other_fault_is_kept_for_the_answer_and_shows_no_value() {
    for (rest, expected) in [
        ("", "job_spec: expected an object, found nothing"),
        (
            r#","job_spec":7"#,
            "job_spec: expected an object, found a number",
        ),
        (
            r#","job_spec_ref":"s3://secret""#,
            "job_spec: expected an object, found job_spec_ref alone",
        ),
        (
            r#","job_spec":{"steps":"wasm:secret"}"#,
            "steps: expected an array, found a string of 11 bytes",
        ),
        (
            r#","job_spec":{"env":{"A":"b","PORT":8080}}"#,
            "env.PORT: expected a string, found a number",
        ),
        (
            r#","job_spec":{"env":["secret"]}"#,
            "env: expected an object, found an array",
        ),
        (
            r#","job_spec":{},"lease_ttl_seconds":"secret""#,
            "lease_ttl_seconds: expected a whole number",
        ),
        (
            r#","job_spec":{},"run_id":7"#,
            "run_id: expected a string, found a number",
        ),
        (r#","job_spec":{"a":1e999}"#, "at byte"),
        (r#","job_spec":{"a":1,"a":2}"#, "at byte"),
    ] {
        let text = format!(r#"{{"job_id":"j","lease_id":"secret"{rest}}}"#);
        let lease = read(text.as_bytes()).unwrap();
        let fault = lease.fault.expect(rest);
        assert!(
            fault.contains(expected) && !fault.contains("secret"),
            "{rest}: {fault}"
        );
        assert_eq!((lease.job_id.as_str(), lease.ttl_ms), ("j", 120_000));
    }
    assert_eq!(read(GO).unwrap().fault, None);
}

#[test]
fn a_step_without_params_has_those_of_the_job() {
    let spec = r#"{"params":{"x":1},"steps":["wasm:a",{"run":"wasm:a","with":{"y":2}}]}"#;
    let text = format!(r#"{{"job_id":"j","lease_id":"l","job_spec":{spec}}}"#);
    let steps = read(text.as_bytes()).unwrap().steps;
    for (step, own) in [(0, r#""x":1"#), (1, r#""y":2"#)] {
        let (_, params) = steps[step].run.clone().unwrap();
        let expected = format!(r#"{{"spec":{spec},"step":{step},{own}}}"#);
        assert_eq!(params.0, expected);
    }
}
