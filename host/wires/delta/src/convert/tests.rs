//! The job spec, and what a heartbeat says.

use host_core::id::{JobId, LeaseId};
use host_core::suspicion::Suspicion;
use uuid::Uuid;

use super::*;
use crate::messages::read::About;

const TIMES: Times = Times {
    lease_ttl: 120,
    heartbeat_interval: 20,
    ack: 30,
    cancel_deadline: 30,
    max_runtime: 30,
};

fn grant(params: &str, timeout_ms: u64) -> LeaseGranted {
    let job = JobId(Uuid::from_u128(1));
    let assignment = Assignment {
        request_id: "r".to_owned(),
        job_id: job.to_string(),
        handler: "unit-tests".to_owned(),
        params: JsonText(params.to_owned()),
        queue: "default".to_owned(),
        priority: 5,
        attempt: 1,
        suspicion: Suspicion::NONE,
        enqueued_at: Time(0),
        timeout_ms,
        deadline: None,
        trace: Vec::new(),
        attributes: Vec::new(),
        worker_id: "host".to_owned(),
    };
    let lease = LeaseId(Uuid::from_u128(2));
    let granted = GrantedLease {
        job,
        lease,
        assignment,
        expires_at: None,
        ack_by: None,
    };
    super::granted(&granted, TIMES)
}

#[test]
fn the_job_spec_is_the_params_with_a_name() {
    for (params, expected) in [
        ("{}", r#"{"name":"unit-tests"}"#),
        (" { } ", r#"{"name":"unit-tests" }"#),
        (r#"{"steps":[1]}"#, r#"{"name":"unit-tests","steps":[1]}"#),
        (r#"{"name":"other"}"#, r#"{"name":"other"}"#),
        (r#"{"name":null}"#, r#"{"name":null}"#),
        (
            r#"{"a":{"name":"inner"}}"#,
            r#"{"name":"unit-tests","a":{"name":"inner"}}"#,
        ),
    ] {
        assert_eq!(grant(params, 1).job_spec.get(), expected);
    }
}

#[test]
fn a_time_limit_is_given_in_whole_seconds() {
    for (ms, seconds) in [(1, 1), (1_000, 1), (1_001, 2), (3_600_000, 3_600)] {
        assert_eq!(grant("{}", ms).max_runtime_seconds, seconds);
    }
}

#[test]
fn a_heartbeat_without_progress_says_nothing() {
    let mut heartbeat = HeartbeatIn {
        about: About {
            lease_id: LeaseText(String::new()),
            runner_id: "w".to_owned(),
        },
        percent: None,
        current_step: Some(String::new()),
        step_index: None,
        message: None,
        bytes_sent: None,
        ts: None,
        wait_seconds: 0,
        warnings: Vec::new(),
    };
    assert_eq!(progress(&heartbeat), None);
    heartbeat.bytes_sent = Some(7);
    assert_eq!(progress(&heartbeat).unwrap().message, "7 bytes of log");
}
