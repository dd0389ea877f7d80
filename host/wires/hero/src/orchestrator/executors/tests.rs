//! Which executors exist and what they ask the host for, without a Redis.

use std::time::Duration;

use host_core::failure::FailureKind;
use host_core::id::JobId;
use host_runtime::clock::Clock;
use host_runtime::tasks::Tasks;
use host_testing::{KeptLogs, LeaseAudit, LeaseHost, Refusals};
use host_wire_kit::ExecutorPorts;
use host_wire_kit::executors::{NamedBy, RestartError, WorkerHealth};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::orchestrator::serve;
use crate::settings::tests::parsed;

fn config() -> HeroConfig {
    let url = "redis://me:hush@127.0.0.1:1/2";
    parsed(&[("url", url), ("dispatch_in_flight", "7")])
}

fn ports() -> (ExecutorPorts, Arc<LeaseHost>, Arc<LeaseAudit>) {
    let (host, audit) = LeaseHost::of_single_attempts();
    let ports = ExecutorPorts {
        clock: Arc::new(Clock::start()),
        counters: Refusals::of("hero"),
        leases: Arc::<LeaseAudit>::clone(&audit),
        logs: Arc::<KeptLogs>::default(),
        tasks: Tasks::default(),
        stopping: CancellationToken::new(),
    };
    (ports, host, audit)
}

/// Returns executors whose session does not run.
fn executors() -> (Arc<HeroExecutors>, Arc<LeaseHost>, Arc<LeaseAudit>) {
    let (ports, host, audit) = ports();
    let executors = HeroExecutors::new(&config(), &ports.leases);
    (executors, host, audit)
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Has a job that is kept name an executor.
fn open(executors: &HeroExecutors, executor: &str) -> bool {
    executors.find(&name(executor), NamedBy::KeptJob) == NameLookup::Here
}

fn worker(executors: &HeroExecutors) -> WorkerHealth {
    executors.health()[0].workers[0].clone()
}

fn give(host: &LeaseHost, handler: &str) -> JobId {
    host.give(("hero-w1", handler), "{}", 1_000)
}

#[test]
fn an_executor_is_there_by_its_name() {
    for (name, is) in [
        ("hero-w1", true),
        ("hero-a.b/c", true),
        ("hero-", false),
        ("hero", false),
        ("python", false),
    ] {
        assert_eq!(is_executor(name), is, "{name}");
    }
    let (executors, ..) = executors();
    assert!(!open(&executors, "python"));
    assert_eq!(
        executors.find(&name("python"), NamedBy::NewJob),
        NameLookup::Missing
    );
    for n in 0..EXECUTORS_MAX {
        assert_eq!(
            executors.find(&name(&format!("hero-{n}")), NamedBy::NewJob),
            NameLookup::Here,
            "{n}"
        );
    }
    assert_eq!(
        executors.find(&name("hero-more"), NamedBy::NewJob),
        NameLookup::Full(EXECUTORS_MAX)
    );
    assert_eq!(
        executors.find(&name("hero-0"), NamedBy::NewJob),
        NameLookup::Here,
        "it is there already"
    );
    assert!(open(&executors, "hero-kept"), "its jobs are kept");
}

#[test]
fn an_executor_takes_work_only_while_redis_is_there() {
    let (executors, host, audit) = executors();
    open(&executors, "hero-w1");
    assert_eq!(
        (host.capacity("hero-w1"), worker(&executors).state.as_str()),
        (0, "starting")
    );
    executors.connected();
    assert_eq!(host.capacity("hero-w1"), 0, "earlier jobs come first");
    executors.ready();
    open(&executors, "hero-w2");
    assert_eq!((host.capacity("hero-w1"), host.capacity("hero-w2")), (7, 7));
    let up = worker(&executors);
    assert_eq!((up.state.as_str(), up.reason), ("up", None));
    assert_eq!(up.address.as_deref(), Some("redis://127.0.0.1:1/2"));
    executors.away(3, "refused");
    let down = worker(&executors);
    assert_eq!((host.capacity("hero-w1"), down.state.as_str()), (0, "down"));
    assert_eq!(
        (down.failures, down.reason.as_deref()),
        (3, Some("refused"))
    );
    let restarted = executors.restart(&name("hero-w1"), None);
    assert_eq!(restarted, Err(RestartError::NotOurs));
    audit.assert_settled();
}

#[test]
fn attempts_in_flight_are_counted_and_their_ends_reported() {
    let (executors, host, audit) = executors();
    open(&executors, "hero-w1");
    executors.ready();
    let job = give(&host, "resize");
    assert_eq!(worker(&executors).in_flight, 1);
    let lost = End::Lost("gone".to_owned());
    executors.ended(Tag(0), lost.clone());
    executors.ended(Tag(0), lost.clone());
    assert_eq!(host.end(job), Some(("hero-w1".to_owned(), lost)));
    assert_eq!(worker(&executors).in_flight, 0);
    audit.assert_settled();
}

#[test]
fn a_script_without_one_fails_before_it_is_sent() {
    let (executors, host, audit) = executors();
    let one = name("hero-w1");
    open(&executors, "hero-w1");
    executors.ready();
    let job = give(&host, SCRIPT);
    let (_, end) = host.end(job).unwrap();
    audit.assert_settled();
    let End::Outcome(Outcome::Failed(failure)) = &end else {
        panic!("{end:?}")
    };
    assert_eq!(failure.kind, FailureKind::InvalidParams);
    let check = |handler, params| executors.check(&one, &name(handler), params);
    assert!(check(SCRIPT, "{\"script\":1}").is_err());
    assert!(check(SCRIPT, "{\"script\":\"1\"}").is_ok());
    assert!(check("resize", "{}").is_ok());
}

#[tokio::test]
async fn a_host_that_stops_without_redis_ends_all() {
    let (ports, host, audit) = ports();
    let executors = serve::start(&config(), "host-a", &ports);
    open(&executors, "hero-w1");
    executors.ready();
    let first = give(&host, "resize");
    ports.stopping.cancel();
    tokio::time::timeout(Duration::from_mins(1), ports.tasks.join())
        .await
        .unwrap();
    executors.ready();
    let late = give(&host, "resize");
    for job in [first, late] {
        assert_eq!(host.end(job).unwrap().1, End::NoRoom);
    }
    audit.assert_settled();
}
