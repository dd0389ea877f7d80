//! The order of steps and the limits each one gets. No handler runs in these tests.

use std::path::PathBuf;

use host_core::cell::{ComponentKey, RunId, TimeBound};
use host_core::handler::HandlerInfo;
use host_core::time::Time;
use host_engine::component::{Digest, Manifest, ManifestSection, Revision};
use host_testing::compiled;
use serde_json::json;

use super::*;
use crate::run::handlers::Handlers;
use crate::run::programs::Environment;

mod calls;

const PLANNER: &str = "plan.steps";
const SCRIPT: &str = "script.run";

const METER: Meter = Meter {
    fuel: 100,
    cpu_us: 7,
    peak_memory_bytes: 1_000,
};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn handlers() -> Handlers {
    let info = |text: &str, schema: Option<&str>| HandlerInfo {
        name: name(text),
        description: None,
        params_schema: schema.map(|schema| JsonText(schema.to_owned())),
        result_schema: None,
    };
    let mut manifest = Manifest::default();
    let small = ManifestSection {
        memory_mib: Some(8),
        fuel: Some(50),
        ..ManifestSection::default()
    };
    manifest.handlers.insert(name("vm.small"), small);
    let secret = ManifestSection {
        env: Some(vec!["TOKEN".to_owned()]),
        ..ManifestSection::default()
    };
    manifest.handlers.insert(name("vm.secret"), secret);
    let digest = Digest([1; 32]);
    let handlers = Handlers::default();
    // The first key is 0, the default in a start.
    handlers.add_program(Digest([9; 32]), PathBuf::from("/other.cwasm"), compiled(0));
    handlers.add_program(digest, PathBuf::from("/vm.cwasm"), compiled(0));
    handlers.replace(vec![Revision {
        component: name("vm"),
        revision: 1,
        digest,
        manifest,
        handlers: vec![
            info("vm.define", Some(r#"{"required": ["name"]}"#)),
            info("vm.start", None),
            info(
                "vm.checked",
                Some(r#"{"properties": {"many": {"items": {"type": "object"}}}}"#),
            ),
            info("vm.small", None),
            info("vm.secret", None),
            info(PLANNER, None),
            info(SCRIPT, None),
        ],
        deployed_at: Time(0),
        signature: None,
        schedules: Vec::new(),
        release: host_engine::component::Release::default(),
    }]);
    handlers
}

fn start(limits: Limits) -> Start {
    Start {
        run: RunId(1),
        component: ComponentKey(9),
        context: Context {
            job_id: "job".to_owned(),
            request_id: "job-1".to_owned(),
            handler: PLANNER.to_owned(),
            queue: "default".to_owned(),
            protocol: "hero".to_owned(),
            attempt: 1,
            max_attempts: Some(3),
            enqueued_at: String::new(),
            deadline: None,
            worker_id: None,
            trace: Vec::new(),
            attributes: vec![("caller_id".to_owned(), "alice".to_owned())],
        },
        time_bound: TimeBound::Handler,
        params: JsonText::null(),
        limits,
        env: Vec::new(),
        http: None,
        desk: None,
        scratch: None,
        read_dirs: Vec::new(),
    }
}

fn programs() -> Programs {
    let kinds = [
        (name(PLANNER), ChainKind::Steps),
        (name(SCRIPT), ChainKind::Calls),
    ];
    Programs::new(handlers(), Environment::new(), kinds.into())
}

fn chain_of(first: &str, start: &Start) -> Chain {
    let (programs, first) = (programs(), name(first));
    let kind = programs.chain_kind(&first).unwrap();
    let (handler, program) = programs.handlers().executable(&first).unwrap();
    let first = Step::first(&handler, &program, start);
    let job = JobId(uuid::Uuid::nil());
    Chain::new(programs, kind, first, start, Vec::new(), job, None)
}

fn chain(limits: Limits) -> Chain {
    chain_of(PLANNER, &start(limits))
}

impl Chain {
    /// Records how a handler ended, and plans if that is next.
    fn go(&mut self, outcome: Outcome, meter: Meter, left: AttemptBudget) -> Next {
        match self.next(outcome, meter, left) {
            Next::Plan(planning) => self.planned(planning.run(), left),
            next => next,
        }
    }
}

fn left(timeout_ms: u64) -> AttemptBudget {
    AttemptBudget {
        timeout_ms,
        log_bytes: 1_000,
        stopping: false,
    }
}

fn completed(result: &str) -> Outcome {
    Outcome::Completed {
        result: Some(JsonText(result.to_owned())),
    }
}

fn steps(names: &[&str]) -> Outcome {
    let steps: Vec<_> = names
        .iter()
        .map(|name| json!({"handler": name, "params": {"name": "x"}}))
        .collect();
    completed(&json!(steps).to_string())
}

fn run(next: Next) -> Start {
    match next {
        Next::Run(program, start) => {
            assert_eq!(start.component, program.component);
            *start
        }
        other => panic!("{other:?}"),
    }
}

fn end(next: Next) -> Outcome {
    match next {
        Next::End(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

fn failure(next: Next) -> Failure {
    match end(next) {
        Outcome::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn steps_run_in_order_and_their_results_are_a_list() {
    let mut chain = chain(Limits::default());
    let first = run(chain.go(steps(&["vm.define", "vm.start"]), METER, left(30_000)));
    assert_eq!(first.context.handler, "vm.define");
    assert_eq!(first.context.attributes[0].1, "alice");
    assert_eq!(first.params.as_str(), r#"{"name":"x"}"#);
    let second = run(chain.go(completed("{\"a\":1}"), METER, left(20_000)));
    assert_eq!(second.context.handler, "vm.start");
    assert_eq!(second.limits.timeout_ms, 20_000);
    let ended = end(chain.go(Outcome::Completed { result: None }, METER, left(10_000)));
    assert_eq!(ended, completed("[{\"a\":1},null]"));
    let used = chain.used();
    assert_eq!(
        (used.fuel, used.cpu_us, used.peak_memory_bytes),
        (300, 21, 1_000)
    );
}

#[test]
fn only_planners_make_chains() {
    let programs = programs();
    assert_eq!(programs.chain_kind(&name(PLANNER)), Some(ChainKind::Steps));
    assert_eq!(programs.chain_kind(&name("vm.start")), None);
}

#[test]
fn an_empty_script_completes_with_an_empty_list() {
    let mut chain = chain(Limits::default());
    assert_eq!(end(chain.go(steps(&[]), METER, left(1))), completed("[]"));
}

#[test]
fn fuel_and_memory_are_shared_and_a_handler_keeps_its_own_limits() {
    let limits = Limits {
        fuel: Some(250),
        memory_bytes: 16 << 20,
        ..Limits::default()
    };
    let mut chain = chain(limits);
    let names = ["vm.start", "vm.small", "vm.start"];
    let first = run(chain.go(steps(&names), METER, left(30_000)));
    assert_eq!(first.limits.fuel, Some(150));
    assert_eq!(
        (first.limits.memory_bytes, first.limits.log_bytes_max),
        (16 << 20, 1_000)
    );
    let second = run(chain.go(completed("1"), METER, left(30_000)));
    assert_eq!(
        (second.limits.fuel, second.limits.memory_bytes),
        (Some(50), 8 << 20)
    );
    let ended = failure(chain.go(completed("2"), METER, left(30_000)));
    assert_eq!(ended.kind, FailureKind::FuelExhausted);
    assert!(
        ended.message.starts_with("action 3 of 3, vm.start: "),
        "{}",
        ended.message
    );
}

#[test]
fn time_that_is_up_ends_it_between_two_steps() {
    let mut chain = chain(Limits::default());
    run(chain.go(steps(&["vm.start", "vm.start"]), METER, left(10)));
    let ended = failure(chain.go(completed("1"), METER, left(0)));
    assert_eq!(ended.kind, FailureKind::TimedOut);
    let expected = "action 2 of 2, vm.start: the actions exceeded their common limit of 30000 ms";
    assert_eq!(ended.message, expected);
}

#[test]
fn a_step_that_does_not_complete_ends_it() {
    let begun = || {
        let mut chain = chain(Limits::default());
        run(chain.go(steps(&["vm.start", "vm.start"]), METER, left(10)));
        run(chain.go(completed("1"), METER, left(10)));
        chain
    };
    let broken = Failure::new(FailureKind::Trapped, "it broke");
    let ended = failure(begun().go(Outcome::Failed(broken), METER, left(10)));
    assert_eq!(ended.kind, FailureKind::Trapped);
    assert_eq!(ended.message, "action 2 of 2, vm.start: it broke");
    let retry = Outcome::Retry {
        reason: "later".to_owned(),
        after_ms: Some(5),
    };
    assert_eq!(end(begun().go(retry.clone(), METER, left(10))), retry);
    let partial = Some(JsonText("[1]".to_owned()));
    let cancelled = Outcome::Cancelled { partial: None };
    let ended = end(begun().go(cancelled, METER, left(10)));
    assert_eq!(ended, Outcome::Cancelled { partial });
}

#[test]
fn a_stop_between_two_steps_keeps_what_is_done() {
    let stopping = AttemptBudget {
        stopping: true,
        ..left(10)
    };
    let mut chain = chain(Limits::default());
    run(chain.go(steps(&["vm.start", "vm.start"]), METER, left(10)));
    let partial = Some(JsonText("[1]".to_owned()));
    let ended = end(chain.clone().go(completed("1"), METER, stopping));
    assert_eq!(ended, Outcome::Cancelled { partial });
    run(chain.go(completed("1"), METER, left(10)));
    let ended = end(chain.go(completed("2"), METER, stopping));
    assert_eq!(ended, completed("[1,2]"), "it is done");
}

#[test]
fn what_cannot_run_is_known_before_anything_does() {
    use FailureKind::{GrantMissing, HandlerNotFound, InvalidParams, Trapped};
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let many = json!(vec![json!({"handler": "vm.start", "params": {}}); 1_001]).to_string();
    #[rustfmt::skip]
    let table = [
        (r#"[{"handler":"vm.start","params":{}},{"handler":"vm.stop","params":{}}]"#, HandlerNotFound, "action 2 of 2, vm.stop: "),
        (r#"[{"handler":"vm.define","params":{}}]"#, InvalidParams, "action 1 of 1, vm.define: "),
        (r#"[{"handler":"vm.secret","params":{}}]"#, GrantMissing, "TOKEN"),
        (r#"[{"handler":"plan.steps","params":{"script":""}}]"#, InvalidParams, "cannot be an action"),
        (r#"[{"handler":"no name","params":{}}]"#, Trapped, "not a list of steps"),
        (r#"{"handler":"vm.start"}"#, Trapped, "not a list of steps"),
        ("null", Trapped, "not a list of steps"),
        (&deep, Trapped, "not a list of steps"),
        (&many, InvalidParams, "1001 actions"),
    ];
    for (result, kind, word) in table {
        let ended = failure(chain(Limits::default()).go(completed(result), METER, left(10)));
        assert_eq!(ended.kind, kind, "{result}");
        assert!(ended.message.contains(word), "{}", ended.message);
    }
}

#[test]
fn results_are_bounded_together() {
    let limits = Limits {
        result_bytes_max: 10,
        ..Limits::default()
    };
    let mut chain = chain(limits);
    run(chain.go(
        steps(&["vm.start", "vm.start", "vm.start"]),
        METER,
        left(10),
    ));
    run(chain.go(completed("\"123\""), METER, left(10)));
    let ended = failure(chain.go(completed("\"456\""), METER, left(10)));
    assert_eq!(ended.kind, FailureKind::ResultTooLarge);
}

#[test]
fn the_first_handlers_own_failure_is_its_own() {
    let broken = Failure::new(FailureKind::UserError, "line 3: no action");
    let ended = failure(chain(Limits::default()).go(Outcome::Failed(broken), METER, left(10)));
    assert_eq!(ended.message, "line 3: no action");
}

/// Each check alone would be within the budget.
#[test]
fn all_params_of_a_script_are_checked_within_one_budget() {
    let params = json!({"name": "x".repeat(600), "many": vec![json!({}); 6_000]});
    let step = json!({"handler": "vm.checked", "params": params});
    let begin = |count: usize| {
        let steps = completed(&json!(vec![step.clone(); count]).to_string());
        chain(Limits::default()).go(steps, METER, left(30_000))
    };
    run(begin(1));
    let failure = failure(begin(1_000));
    assert_eq!(failure.kind, FailureKind::InvalidParams);
    assert!(failure.message.contains("steps"), "{failure:?}");
}

/// A handler out of scope looks like one that does not exist, before the first step runs.
#[test]
fn a_script_calls_only_handlers_of_its_scope() {
    let glob = |text: &str| host_core::access::Glob::try_from(text.to_owned()).unwrap();
    let scope = host_core::access::Scope {
        queues: Vec::new(),
        handlers: vec![glob("plan.*"), glob("vm.d*")],
    };
    let start = start(Limits::default());
    let scoped = || Chain {
        programs: programs().within(Some(scope.clone())),
        ..chain_of(PLANNER, &start)
    };
    let first = run(scoped().go(steps(&["vm.define"]), METER, left(30_000)));
    assert_eq!(first.context.handler, "vm.define");
    let hidden = failure(scoped().go(steps(&["vm.define", "vm.start"]), METER, left(30_000)));
    assert_eq!(hidden.kind, FailureKind::HandlerNotFound);
    let unknown = failure(scoped().go(steps(&["vm.define", "vm.stare"]), METER, left(30_000)));
    assert_eq!(
        unknown.message.replace("vm.stare", "vm.start"),
        hidden.message
    );
}
