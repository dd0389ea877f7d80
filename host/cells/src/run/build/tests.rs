//! Limits, grants and refusals of runs.

use std::path::PathBuf;

use host_core::chain::ChainKind;
use host_core::handler::HandlerInfo;
use host_engine::component::{Digest, Manifest, ManifestSection, Revision};
use host_testing::compiled;
use uuid::Uuid;

use super::*;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Builds runs of the handler `echo`, which is granted the variables `env` and expects an object.
fn runs(env: &[&str], environment: Environment) -> RunBuilder {
    let defaults = ManifestSection {
        env: Some(env.iter().map(|name| (*name).to_owned()).collect()),
        ..ManifestSection::default()
    };
    runs_of(defaults, environment)
}

/// The same with other grants.
fn runs_of(defaults: ManifestSection, environment: Environment) -> RunBuilder {
    let digest = Digest([1; 32]);
    let handlers = Handlers::default();
    handlers.add_program(digest, PathBuf::from("/basics.cwasm"), compiled(0));
    handlers.replace(vec![Revision {
        component: name("basics"),
        revision: 3,
        digest,
        manifest: Manifest {
            defaults,
            ..Manifest::default()
        },
        handlers: vec![HandlerInfo {
            name: name("echo"),
            description: None,
            params_schema: Some(JsonText("{\"type\":\"object\"}".to_owned())),
            result_schema: None,
        }],
        deployed_at: Time(0),
        signature: None,
        schedules: Vec::new(),
        release: host_engine::component::Release::default(),
    }]);
    RunBuilder::new(
        handlers,
        environment,
        [(name("plan"), ChainKind::Steps)].into(),
    )
}

fn request(handler: &str, caps: Caps) -> RunRequest {
    RunRequest {
        origin: None,
        job: JobId(Uuid::from_u128(1)),
        lease: LeaseId(Uuid::from_u128(9)),
        context: Context {
            job_id: "job".to_owned(),
            request_id: "job-2".to_owned(),
            handler: handler.to_owned(),
            queue: "default".to_owned(),
            protocol: "http".to_owned(),
            attempt: 2,
            max_attempts: Some(5),
            enqueued_at: String::new(),
            deadline: None,
            worker_id: Some("cell-1".to_owned()),
            trace: Vec::new(),
            attributes: vec![("a".to_owned(), "b".to_owned())],
        },
        params: JsonText("{}".to_owned()),
        check_params: false,
        may_write: false,
        is_limited: false,
        env: Vec::new(),
        caps,
    }
}

fn build(runs: &RunBuilder, request: RunRequest) -> Result<Order, Box<StartFailure>> {
    runs.build(Time(1_000), request).map(|(order, _)| order)
}

#[test]
fn the_time_limit_is_the_shortest_of_all() {
    #[rustfmt::skip]
    let table = [
        // the job's, deadline       limit   from
        (None,          None,          30_000, TimeBound::Handler),
        (Some(5_000),   None,           5_000, TimeBound::Job),
        (Some(90_000),  None,          30_000, TimeBound::Handler),
        (None,          Some(11_000),  10_000, TimeBound::Deadline),
        (Some(5_000),   Some(11_000),   5_000, TimeBound::Job),
        (Some(5_000),   Some(2_000),    1_000, TimeBound::Deadline),
        (None,          Some(1_000),        1, TimeBound::Deadline),
    ];
    let runs = runs(&[], Environment::new());
    for (timeout_ms, deadline, limit_ms, bound) in table {
        let caps = Caps {
            timeout_ms,
            deadline: deadline.map(Time),
            result_bytes_max: None,
        };
        let order = build(&runs, request("echo", caps)).unwrap();
        assert_eq!(
            order.start.limits.timeout_ms, limit_ms,
            "{timeout_ms:?} {deadline:?}"
        );
        assert_eq!(order.start.time_bound, bound, "{timeout_ms:?} {deadline:?}");
    }
}

#[test]
fn a_result_is_no_larger_than_what_asked_for_it_can_carry() {
    let caps = Caps {
        result_bytes_max: Some(10),
        ..Caps::default()
    };
    let order = build(&runs(&[], Environment::new()), request("echo", caps)).unwrap();
    assert_eq!(order.start.limits.result_bytes_max, 10);
    assert_eq!(order.revision, ("basics".to_owned(), 3));
}

#[test]
fn only_granted_variables_are_passed_on_and_a_missing_one_is_named() {
    let environment = Environment::from([
        ("PUBLIC".to_owned(), "1".to_owned()),
        ("SECRET".to_owned(), "2".to_owned()),
    ]);
    let echo = || request("echo", Caps::default());
    let order = build(&runs(&["PUBLIC"], environment.clone()), echo()).unwrap();
    assert_eq!(order.start.env, [("PUBLIC".to_owned(), "1".to_owned())]);
    let refused = build(&runs(&["ABSENT"], environment.clone()), echo()).unwrap_err();
    assert_eq!(refused.failure.kind, FailureKind::GrantMissing);
    assert!(
        refused.failure.message.contains("ABSENT"),
        "{}",
        refused.failure.message
    );
    let mut sent = echo();
    sent.env = vec![
        ("PUBLIC".to_owned(), "mine".to_owned()),
        ("SECRET".to_owned(), "x".to_owned()),
    ];
    let order = build(&runs(&["PUBLIC"], environment), sent).unwrap();
    assert_eq!(order.start.env, [("PUBLIC".to_owned(), "mine".to_owned())]);
}

#[test]
fn params_that_nobody_has_checked_are_checked_here() {
    let runs = runs(&[], Environment::new());
    let mut wrong = request("echo", Caps::default());
    wrong.params = JsonText("[1]".to_owned());
    assert!(build(&runs, wrong.clone()).is_ok());
    wrong.check_params = true;
    let refused = build(&runs, wrong).unwrap_err();
    assert_eq!(refused.failure.kind, FailureKind::InvalidParams);
    assert_eq!(refused.revision, Some(("basics".to_owned(), 3)));
}

/// A way to the desk is a pair of sockets for each attempt.
#[test]
fn only_handlers_with_a_grant_get_a_way_to_the_desk() {
    for hold in [Vec::new(), vec![name("by-customer")]] {
        let may_hold = !hold.is_empty();
        let defaults = ManifestSection {
            hold: Some(hold),
            ..ManifestSection::default()
        };
        let request = RunRequest {
            may_write: true,
            is_limited: true,
            ..request("echo", Caps::default())
        };
        let order = build(&runs_of(defaults, Environment::default()), request).unwrap();
        assert_eq!(order.start.desk.is_some(), may_hold);
        assert_eq!(order.writes.is_some(), may_hold);
    }
}

#[test]
fn an_unknown_handler_is_refused() {
    let runs = runs(&[], Environment::new());
    for handler in ["missing", "no name at all"] {
        let refused = build(&runs, request(handler, Caps::default())).unwrap_err();
        assert_eq!(refused.failure.kind, FailureKind::HandlerNotFound);
        assert_eq!(refused.revision, None);
    }
}
