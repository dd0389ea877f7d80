//! Limits, as a table; grants; what a guest is told.

use std::sync::Arc;

use host_core::handler::{Digest, Grants, HandlerInfo, Manifest, Revision};
use host_core::id::JobId;
use host_core::job::{Payload, State};
use host_core::json::JsonText;
use host_core::policy::Policy;
use uuid::Uuid;

use super::*;

fn handler(env: &[&str]) -> Handler {
    let info = HandlerInfo {
        name: "echo".parse().unwrap(),
        description: None,
        params_schema: None,
        result_schema: None,
    };
    Handler {
        revision: Arc::new(Revision {
            component: "basics".parse().unwrap(),
            revision: 3,
            digest: Digest([0; 32]),
            manifest: Manifest::default(),
            handlers: vec![info.clone()],
            deployed_at: Time(0),
        }),
        info,
        limits: Limits::default(),
        grants: Grants {
            env: env.iter().map(|name| (*name).to_owned()).collect(),
            read_dirs: Vec::new(),
        },
        params: None,
    }
}

fn claimed(timeout_ms: Option<u64>, deadline: Option<i64>) -> Claimed {
    Claimed {
        lifecycle: Lifecycle {
            id: JobId(Uuid::from_u128(1)),
            state: State::Running,
            queue: "default".parse().unwrap(),
            handler: "echo".parse().unwrap(),
            runner: None,
            priority: 5,
            policy: Policy {
                timeout_ms,
                ..Policy::default()
            },
            enqueued_at: Time(0),
            run_at: None,
            deadline: deadline.map(Time),
            prerequisites_open: 0,
            attempt: 2,
            attempts_uncharged: 0,
            attempts_forgiven: 0,
            lease_epoch: 2,
            lease: None,
            cancel: None,
            suspect: false,
            lone_deaths: 0,
            finished_at: None,
            failure: None,
        },
        payload: Payload {
            params: JsonText("{}".to_owned()),
            wire: "http".to_owned(),
            external_id: None,
            trace_context: Vec::new(),
            attributes: vec![("a".to_owned(), "b".to_owned())],
        },
    }
}

fn order_of(claimed: Claimed, env: &[&str], environment: &Environment) -> Result<Order, Failure> {
    let lease = LeaseId(Uuid::from_u128(9));
    order(
        Time(1_000),
        claimed,
        lease,
        "cell-1",
        &handler(env),
        environment,
    )
}

#[test]
fn the_time_limit_is_the_shortest_of_all() {
    #[rustfmt::skip]
    let table = [
        // the job's, deadline       limit
        (None,          None,          30_000),
        (Some(5_000),   None,           5_000),
        (Some(90_000),  None,          30_000),
        (None,          Some(11_000),  10_000),
        (Some(5_000),   Some(11_000),   5_000),
        (Some(5_000),   Some(2_000),    1_000),
        (None,          Some(1_000),        1),
    ];
    for (timeout_ms, deadline, limit_ms) in table {
        let order = order_of(claimed(timeout_ms, deadline), &[], &Environment::new()).unwrap();
        assert_eq!(
            order.start.limits.timeout_ms, limit_ms,
            "{timeout_ms:?} {deadline:?}"
        );
    }
}

#[test]
fn a_guest_is_told_who_it_is() {
    let order = order_of(claimed(None, Some(61_000)), &[], &Environment::new()).unwrap();
    let context = order.start.context;
    assert_eq!(context.request_id, format!("{}-2", context.job_id));
    assert_eq!(
        context.deadline.as_deref(),
        Some("1970-01-01T00:01:01.000Z")
    );
    assert_eq!(context.worker_id.as_deref(), Some("cell-1"));
    assert_eq!(context.attributes, [("a".to_owned(), "b".to_owned())]);
    assert_eq!(order.revision, ("basics".to_owned(), 3));
}

#[test]
fn only_granted_variables_are_passed_on_and_a_missing_one_is_named() {
    let environment = Environment::from([
        ("PUBLIC".to_owned(), "1".to_owned()),
        ("SECRET".to_owned(), "2".to_owned()),
    ]);
    let order = order_of(claimed(None, None), &["PUBLIC"], &environment).unwrap();
    assert_eq!(order.start.env, [("PUBLIC".to_owned(), "1".to_owned())]);
    let failure = order_of(claimed(None, None), &["ABSENT"], &environment).unwrap_err();
    assert_eq!(failure.kind, FailureKind::GrantMissing);
    assert!(failure.message.contains("ABSENT"), "{}", failure.message);
}
