//! Which lanes exist and what they report to the dispatch loop, without a Redis.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use host_core::cell::LogLine;
use host_core::failure::FailureKind;
use host_core::id::JobId;
use host_core::outcome::Progress;
use host_core::port::conformance::AssignAudit;
use host_core::port::{AssignEvents, Counters};
use host_core::time::Time;
use host_runtime::clock::Clock;
use host_runtime::tasks::Tasks;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::hero::settings::tests::parsed;
use crate::wire::JobLogs;
use crate::wire::executors::WorkerHealth;

/// The host for the lanes: records what they report.
#[derive(Default)]
struct Host {
    capacities: Mutex<BTreeMap<Name, usize>>,
    ends: Mutex<Vec<(Tag, String, End)>>,
}

impl Host {
    fn capacity(&self, name: &Name) -> usize {
        self.capacities.lock().unwrap()[name]
    }

    fn ends(&self) -> Vec<(Tag, String, End)> {
        std::mem::take(&mut self.ends.lock().unwrap())
    }
}

impl AssignEvents for Host {
    fn capacity(&self, executor: &Name, attempts: usize) {
        let mut capacities = self.capacities.lock().unwrap();
        capacities.insert(executor.clone(), attempts);
    }

    fn started(&self, _tag: Tag) {}

    fn progressed(&self, _tag: Tag, _progress: Progress) {}

    fn ended(&self, tag: Tag, worker: String, end: End) {
        self.ends.lock().unwrap().push((tag, worker, end));
    }
}

impl Counters for Host {
    fn refused(&self, _wire: &'static str, _code: &'static str) {}
}

impl JobLogs for Host {
    fn keep(&self, _: JobId, _: u32, _: Time, _: Vec<LogLine>) -> bool {
        true
    }
}

fn config() -> HeroConfig {
    let url = "redis://me:hush@127.0.0.1:1/2";
    parsed(&[("url", url), ("dispatch_in_flight", "7")])
}

fn ports(host: &Arc<Host>) -> (ExecutorPorts, Arc<AssignAudit>) {
    let is_ours = |name: &Name| is_lane(name.as_str());
    let audit = AssignAudit::new(Arc::<Host>::clone(host), is_ours);
    let ports = ExecutorPorts {
        clock: Arc::new(Clock::start()),
        counters: Arc::<Host>::clone(host),
        events: Arc::<AssignAudit>::clone(&audit),
        logs: Arc::<Host>::clone(host),
        tasks: Tasks::default(),
        stopping: CancellationToken::new(),
    };
    (ports, audit)
}

/// Returns lanes whose session does not run.
fn lanes() -> (Lanes, Arc<Host>, Arc<AssignAudit>) {
    let host = Arc::new(Host::default());
    let (ports, audit) = ports(&host);
    let (lanes, _) = Lanes::new(&config(), "host-a", &ports);
    (lanes, host, audit)
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn worker(lanes: &Lanes) -> WorkerHealth {
    lanes.health()[0].workers[0].clone()
}

fn assignment(handler: &str) -> Assignment {
    Assignment {
        request_id: "r".to_owned(),
        job_id: "j".to_owned(),
        handler: handler.to_owned(),
        params: JsonText("{}".to_owned()),
        queue: "default".to_owned(),
        priority: 5,
        attempt: 1,
        enqueued_at: Time(0),
        timeout_ms: 1_000,
        deadline: None,
        trace: Vec::new(),
        attributes: Vec::new(),
        worker_id: "host".to_owned(),
        losses: 0,
    }
}

#[test]
fn a_lane_is_there_by_its_name() {
    for (name, is) in [
        ("hero-w1", true),
        ("hero-a.b/c", true),
        ("hero-", false),
        ("hero", false),
        ("python", false),
    ] {
        assert_eq!(is_lane(name), is, "{name}");
    }
    let (lanes, ..) = lanes();
    assert!(lanes.open(&name("python")).is_none());
    assert_eq!(lanes.find(&name("python")), Found::Nobody);
    for n in 0..LANES_MAX {
        assert_eq!(lanes.find(&name(&format!("hero-{n}"))), Found::Here, "{n}");
    }
    assert_eq!(lanes.find(&name("hero-more")), Found::Full(LANES_MAX));
    assert_eq!(
        lanes.find(&name("hero-0")),
        Found::Here,
        "it is there already"
    );
    assert!(
        lanes.open(&name("hero-kept")).is_some(),
        "its jobs are kept"
    );
}

#[test]
fn a_lane_takes_work_only_while_redis_is_there() {
    let (lanes, host, audit) = lanes();
    let (one, other) = (name("hero-w1"), name("hero-w2"));
    lanes.open(&one);
    assert_eq!(
        (host.capacity(&one), worker(&lanes).state.as_str()),
        (0, "starting")
    );
    lanes.states.connected();
    assert_eq!(host.capacity(&one), 0, "earlier jobs come first");
    lanes.states.ready();
    lanes.open(&other);
    assert_eq!((host.capacity(&one), host.capacity(&other)), (7, 7));
    let up = worker(&lanes);
    assert_eq!((up.state.as_str(), up.reason), ("up", None));
    assert_eq!(up.address.as_deref(), Some("redis://127.0.0.1:1/2"));
    lanes.states.away(3, "refused");
    let down = worker(&lanes);
    assert_eq!((host.capacity(&one), down.state.as_str()), (0, "down"));
    assert_eq!(
        (down.failures, down.reason.as_deref()),
        (3, Some("refused"))
    );
    let restarted = lanes.restart(&one, None);
    assert_eq!(restarted, Err(RestartError::NotOurs));
    audit.assert_settled();
}

#[test]
fn what_is_out_is_counted_and_its_end_is_told() {
    let (lanes, host, audit) = lanes();
    let lane = audit.assign(lanes.open(&name("hero-w1")).unwrap());
    lane.start(Tag(1), assignment("resize"));
    assert_eq!(worker(&lanes).in_flight, 1);
    let lost = End::Lost("gone".to_owned());
    lanes.states.ended(Tag(1), lost.clone());
    lanes.states.ended(Tag(1), lost.clone());
    let once = [(Tag(1), "hero-w1".to_owned(), lost)];
    assert_eq!(host.ends(), once);
    assert_eq!(worker(&lanes).in_flight, 0);
    audit.assert_settled();
}

#[test]
fn a_script_without_one_fails_before_it_is_sent() {
    let (lanes, host, audit) = lanes();
    let one = name("hero-w1");
    let lane = audit.assign(lanes.open(&one).unwrap());
    lane.start(Tag(1), assignment(SCRIPT));
    let ends = host.ends();
    audit.assert_settled();
    let End::Outcome(Outcome::Failed(failure)) = &ends[0].2 else {
        panic!("{ends:?}")
    };
    assert_eq!(failure.kind, FailureKind::InvalidParams);
    let check = |handler, params| lanes.check(&one, &name(handler), params);
    assert!(check(SCRIPT, "{\"script\":1}").is_err());
    assert!(check(SCRIPT, "{\"script\":\"1\"}").is_ok());
    assert!(check("resize", "{}").is_ok());
}

#[tokio::test]
async fn a_host_that_stops_without_redis_ends_all() {
    let host = Arc::new(Host::default());
    let (ports, audit) = ports(&host);
    let lanes = Lanes::start(&config(), "host-a", &ports);
    let lane = audit.assign(lanes.open(&name("hero-w1")).unwrap());
    lane.start(Tag(1), assignment("resize"));
    ports.stopping.cancel();
    tokio::time::timeout(Duration::from_mins(1), ports.tasks.join())
        .await
        .unwrap();
    lane.start(Tag(2), assignment("resize"));
    let ends = host.ends().into_iter();
    let ends: Vec<_> = ends.map(|(tag, _, end)| (tag, end)).collect();
    assert_eq!(ends, [(Tag(1), End::NoRoom), (Tag(2), End::NoRoom)]);
    audit.assert_settled();
}
