//! The pool with cells in memory: which runs are blamed, which messages are accepted, which cells
//! are restarted.

#![expect(clippy::unwrap_used, reason = "a test ends where it fails")]

mod isolation;

use std::path::PathBuf;

use host_cells::pool::{CellSlot, Isolation, Pool, PoolEvent, Shape};
use host_cells::port::{CellEvent, CellId};
use host_cells::run::build::{Caps, Environment, RunBuilder, RunRequest};
use host_cells::run::chain::Chain;
use host_cells::run::handlers::{Handlers, Program};
use host_cells::run::order::Order;
use host_core::cell::{ComponentKey, Context, FromCell, Offer, RunId, Start, TimeBound};
use host_core::chain::ChainKind;
use host_core::failure::FailureKind;
use host_core::handler::{HandlerInfo, Limits};
use host_core::id::{JobId, LeaseId};
use host_core::json::JsonText;
use host_core::outcome::{Meter, Outcome};
use host_core::seconds::Seconds;
use host_core::time::Time;
use host_engine::component::{Digest, Manifest, ManifestSection, Revision};
use host_testing::cells::{CellMessage, FakePort, Record};
use host_testing::compiled;
use tokio::sync::mpsc;
use uuid::Uuid;

const SHAPE: Shape = Shape {
    name: "cell",
    cells: 2,
    slots: 4,
    memory_bytes: 1 << 30,
    isolation: Isolation::Shared,
};

struct Bench {
    pool: Pool<FakePort>,
    events: mpsc::Receiver<CellEvent>,
    record: Record,
    orders: u128,
}

impl Bench {
    fn new(ready: bool) -> Self {
        Self::with(SHAPE, ready)
    }

    fn with(shape: Shape, ready: bool) -> Self {
        let (sender, events) = mpsc::channel(1_000);
        let (port, record) = FakePort::new(sender, ready);
        let mut bench = Self {
            pool: Pool::new(port, shape),
            events,
            record,
            orders: 0,
        };
        bench.pool.tick(Time(0));
        bench.handle_events(0);
        bench
    }

    fn handle_events(&mut self, now: i64) -> Vec<PoolEvent> {
        self.pool.flush();
        let mut events = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            events.extend(self.pool.handle_event(Time(now), event));
        }
        events
    }

    fn start(&mut self, now: i64, slot: &CellSlot, handler: &str) -> LeaseId {
        self.begin(now, slot, start_of(handler), None)
    }

    fn begin(
        &mut self,
        now: i64,
        slot: &CellSlot,
        start: Start,
        chain: Option<Box<Chain>>,
    ) -> LeaseId {
        self.begin_of(now, ComponentKey(7), slot, start, chain)
    }

    fn begin_of(
        &mut self,
        now: i64,
        component: ComponentKey,
        slot: &CellSlot,
        start: Start,
        chain: Option<Box<Chain>>,
    ) -> LeaseId {
        self.orders += 1;
        let lease = LeaseId(Uuid::from_u128(self.orders));
        let order = Order {
            job: JobId(Uuid::from_u128(self.orders)),
            lease,
            revision: ("c".to_owned(), 1),
            start,
            writes: None,
            chain,
        };
        let program = Program {
            component,
            path: PathBuf::from("/c.cwasm"),
            sha256: [0; 32],
            stubbed: Vec::new(),
        };
        let started = self.pool.start(Time(now), slot, &program, order);
        assert!(started.is_ok(), "the cell exists");
        lease
    }

    /// Starts a run in the least loaded cell.
    fn shared(&mut self, now: i64, handler: &str) -> LeaseId {
        let slot = self.pool.offer(1)[0].clone();
        self.start(now, &slot, handler)
    }

    fn count(&self, sent: &CellMessage) -> usize {
        self.record
            .messages()
            .iter()
            .filter(|other| *other == sent)
            .count()
    }
}

fn start_of(handler: &str) -> Start {
    Start {
        run: RunId(0),
        component: ComponentKey(0),
        context: Context {
            job_id: String::new(),
            request_id: String::new(),
            handler: handler.to_owned(),
            queue: String::new(),
            protocol: String::new(),
            attempt: 1,
            max_attempts: None,
            enqueued_at: String::new(),
            deadline: None,
            worker_id: None,
            trace: Vec::new(),
            attributes: Vec::new(),
        },
        time_bound: TimeBound::Handler,
        params: JsonText::null(),
        limits: Limits {
            timeout_ms: 1_000,
            grace_ms: 100,
            ..Limits::default()
        },
        env: Vec::new(),
        http: None,
        desk: None,
        scratch: None,
        read_dirs: Vec::new(),
    }
}

/// The events in short form, sorted by lease.
fn short(events: &[PoolEvent]) -> Vec<(u128, String)> {
    let mut short: Vec<(u128, String)> = events
        .iter()
        .filter_map(|events| match events {
            PoolEvent::Ended { run, outcome, .. } => {
                let text = match outcome {
                    Outcome::Failed(failure) => failure.kind.as_str().to_owned(),
                    other => other.as_str().to_owned(),
                };
                Some((run.lease.0.as_u128(), text))
            }
            PoolEvent::Lost { run, loss } => Some((run.lease.0.as_u128(), format!("{loss:?}"))),
            PoolEvent::Damaged { .. }
            | PoolEvent::Used { .. }
            | PoolEvent::Progressed { .. }
            | PoolEvent::Logged { .. } => None,
        })
        .collect();
    short.sort();
    short
}

fn texts(expected: &[(u128, &str)]) -> Vec<(u128, String)> {
    expected
        .iter()
        .map(|(lease, text)| (*lease, (*text).to_owned()))
        .collect()
}

#[test]
fn runs_spread_over_cells_and_a_component_is_loaded_once_in_each() {
    let mut bench = Bench::new(true);
    assert_eq!((bench.pool.free(), bench.pool.ready()), (8, 2));
    for _ in 0..8 {
        bench.shared(0, "hang");
    }
    assert_eq!((bench.pool.free(), bench.pool.offer(1).len()), (0, 0));
    bench.pool.flush();
    for cell in ["cell-1", "cell-2"] {
        assert_eq!(bench.count(&CellMessage::Load(cell.to_owned())), 1);
    }
    bench.pool.keep_loaded(|_| false);
    bench.pool.flush();
    assert_eq!(
        bench.count(&CellMessage::Unload("cell-1".to_owned())),
        0,
        "in use"
    );
}

#[test]
fn an_ended_run_frees_its_slot_and_its_component() {
    let mut bench = Bench::new(true);
    bench.shared(0, "noop");
    assert_eq!(short(&bench.handle_events(1)), texts(&[(1, "completed")]));
    assert_eq!((bench.pool.free(), bench.pool.runs()), (8, 0));
    bench.pool.keep_loaded(|_| false);
    bench.pool.flush();
    assert_eq!(bench.count(&CellMessage::Unload("cell-1".to_owned())), 1);
}

#[test]
fn a_cell_that_gets_ready_late_is_killed_and_followed_by_another() {
    let mut bench = Bench::new(false);
    assert_eq!(bench.pool.free(), 0);
    assert_eq!(bench.pool.due(), Some(Time(15_000)));
    bench.pool.tick(Time(15_000));
    bench.handle_events(15_000);
    bench.pool.tick(Time(15_000));
    assert_eq!(bench.count(&CellMessage::Killed("cell-1".to_owned())), 1);
    assert_eq!(bench.count(&CellMessage::Started("cell-1".to_owned())), 2);
}

#[test]
fn the_ladder_kills_for_the_one_that_does_not_stop_and_the_others_are_innocent() {
    let mut bench = Bench::new(true);
    let cell = bench.pool.offer(1)[0].clone();
    let stubborn = bench.start(0, &cell, "ignore");
    bench.start(0, &cell, "hang");
    bench.pool.stop(Time(10), stubborn, None, "cancelled");
    assert!(bench.handle_events(10).is_empty());
    assert_eq!(
        bench.count(&CellMessage::Stop(100)),
        1,
        "the handler's own grace"
    );
    assert_eq!(bench.pool.due(), Some(Time(10 + 100 + 250)));
    bench.pool.tick(Time(359));
    assert!(bench.handle_events(359).is_empty());
    bench.pool.tick(Time(360));
    let events = bench.handle_events(360);
    let expected = texts(&[(1, "cancelled"), (2, "Innocent")]);
    assert_eq!(short(&events), expected);
}

#[test]
fn a_run_over_its_time_limit_costs_its_cell() {
    let mut bench = Bench::new(true);
    bench.shared(0, "ignore");
    bench.pool.tick(Time(2_999));
    assert!(bench.handle_events(2_999).is_empty());
    bench.pool.tick(Time(3_000));
    assert_eq!(
        short(&bench.handle_events(3_000)),
        texts(&[(1, "timed_out")])
    );
}

#[test]
fn all_in_a_cell_that_crashes_are_lost_together() {
    let mut bench = Bench::new(true);
    let cell = bench.pool.offer(1)[0].clone();
    bench.start(0, &cell, "hang");
    bench.start(0, &cell, "crash");
    let events = bench.handle_events(1);
    let died = "CellDied { jobs: 2 }";
    assert_eq!(short(&events), texts(&[(1, died), (2, died)]));
    bench.pool.tick(Time(1));
    bench.handle_events(1);
    assert_eq!(bench.pool.free(), 8, "a replacement starts immediately");
}

#[test]
fn a_group_of_suspects_gets_a_cell_of_its_own_that_ends_with_it() {
    let mut bench = Bench::new(true);
    let groups = bench.pool.offer_apart(Time(0));
    assert_eq!(groups.len(), 2);
    bench.start(0, &groups[0], "noop");
    bench.start(0, &groups[0], "noop-later");
    assert_eq!(bench.pool.free_apart(Time(0)), 1);
    assert_eq!(bench.pool.free(), 8, "others do not share it");
    assert_eq!(short(&bench.handle_events(1)), texts(&[(1, "completed")]));
    let killed = CellMessage::Killed("cell-apart-1".to_owned());
    assert_eq!(bench.count(&killed), 0, "the other continues");
    assert_eq!(bench.pool.free_apart(Time(1)), 1);
    bench.start(1, &groups[1], "crash");
    bench.start(1, &groups[1], "hang");
    let events = bench.handle_events(2);
    let died = "CellDied { jobs: 2 }";
    assert_eq!(short(&events), texts(&[(3, died), (4, died)]));
}

#[test]
fn a_cell_whose_runs_compute_for_long_takes_fewer() {
    let mut bench = Bench::new(true);
    assert_eq!(bench.pool.free(), 8);
    let cell = CellId(0);
    for run in 0..40 {
        bench.start(0, &CellSlot::Shared(cell), "hang");
        let ended = FromCell::Ended {
            run: RunId(run),
            outcome: Outcome::Completed { result: None },
            meter: Meter {
                cpu_us: 5_000_000,
                ..Meter::default()
            },
        };
        let event = CellEvent::Received {
            cell,
            messages: vec![ended],
            room: None,
        };
        assert_eq!(bench.pool.handle_event(Time(1), event).len(), 1);
    }
    assert_eq!(bench.pool.free(), 2 + 4, "the other cell is as before");
}

#[test]
fn a_cell_that_speaks_of_what_it_does_not_have_is_killed() {
    let message = |run| FromCell::Ended {
        run: RunId(run),
        outcome: Outcome::Completed { result: None },
        meter: Meter::default(),
    };
    // Run 0 is in the first cell.
    let table = [
        (CellId(0), message(0), "completed", 0),
        (CellId(1), message(0), "", 1),
        (CellId(0), message(99), "CellDied { jobs: 1 }", 1),
        (
            CellId(0),
            FromCell::Ready { slots: 4 },
            "CellDied { jobs: 1 }",
            1,
        ),
        (
            CellId(0),
            FromCell::LoadFailed {
                component: ComponentKey(8),
                message: String::new(),
            },
            "CellDied { jobs: 1 }",
            1,
        ),
        (
            CellId(0),
            FromCell::Described {
                run: RunId(0),
                result: Ok(Offer(Vec::new())),
            },
            "CellDied { jobs: 1 }",
            1,
        ),
    ];
    for (cell, message, becomes, killed) in table {
        let mut bench = Bench::new(true);
        bench.shared(0, "hang");
        bench.pool.flush();
        let event = CellEvent::Received {
            cell,
            messages: vec![message.clone()],
            room: None,
        };
        let mut events = bench.pool.handle_event(Time(1), event);
        events.extend(bench.handle_events(1));
        let became = short(&events)
            .pop()
            .map(|(_, text)| text)
            .unwrap_or_default();
        assert_eq!(became, becomes, "{message:?} from {cell:?}");
        let name = format!("cell-{}", cell.0 + 1);
        assert_eq!(
            bench.count(&CellMessage::Killed(name)),
            killed,
            "{message:?}"
        );
    }
}

#[test]
fn a_result_over_the_handlers_limit_is_a_failure() {
    let mut bench = Bench::new(true);
    bench.shared(0, "giant");
    let events = bench.handle_events(1);
    assert_eq!(
        short(&events),
        texts(&[(1, FailureKind::ResultTooLarge.as_str())])
    );
}

#[test]
fn a_revoked_run_reports_nothing() {
    let mut bench = Bench::new(true);
    let lease = bench.shared(0, "hang");
    bench.handle_events(0);
    bench.pool.revoke(Time(1), lease);
    assert!(short(&bench.handle_events(1)).is_empty());
    assert_eq!(
        (bench.pool.runs(), bench.count(&CellMessage::Stop(0))),
        (0, 1)
    );
}

#[test]
fn a_closed_pool_gives_its_runs_up_and_starts_no_more_cells() {
    let mut bench = Bench::new(true);
    bench.shared(0, "hang");
    bench.handle_events(0);
    bench.pool.close();
    let events = bench.handle_events(1);
    assert_eq!(short(&events), texts(&[(1, "HostRestarted")]));
    bench.pool.tick(Time(60_000));
    assert!(bench.pool.is_empty());
    assert_eq!(bench.pool.due(), None);
}

/// Deploys the handlers of the fake cells and makes a chain from the result of one of them.
fn chained(steps: &[&str]) -> (Start, Option<Box<Chain>>) {
    let info = |name: &&str| HandlerInfo {
        name: name.parse().unwrap(),
        description: None,
        params_schema: None,
        result_schema: None,
    };
    let start = start_of("plan");
    let manifest = Manifest {
        defaults: ManifestSection {
            timeout_seconds: Some(Seconds {
                ms: start.limits.timeout_ms,
            }),
            grace_seconds: Some(Seconds {
                ms: start.limits.grace_ms,
            }),
            ..ManifestSection::default()
        },
        ..Manifest::default()
    };
    let handlers = Handlers::default();
    let digest = Digest([3; 32]);
    handlers.add_program(digest, PathBuf::from("/steps.cwasm"), compiled(0));
    handlers.replace(vec![Revision {
        component: "steps".parse().unwrap(),
        revision: 1,
        digest,
        manifest,
        handlers: ["plan", "echo", "noop", "hang", "crash", "ignore"]
            .iter()
            .map(info)
            .collect(),
        deployed_at: Time(0),
        signature: None,
        schedules: Vec::new(),
        release: host_engine::component::Release::default(),
    }]);
    let steps: Vec<_> = steps
        .iter()
        .map(|name| serde_json::json!({"handler": name, "params": {"n": name}}))
        .collect();
    let chains = [("plan".parse().unwrap(), ChainKind::Steps)].into();
    let request = RunRequest {
        origin: None,
        job: JobId(Uuid::nil()),
        lease: LeaseId(Uuid::nil()),
        context: start.context,
        params: JsonText(serde_json::to_string(&steps).unwrap()),
        check_params: false,
        may_write: false,
        is_limited: false,
        env: Vec::new(),
        caps: Caps::default(),
    };
    let built = RunBuilder::new(handlers, Environment::new(), chains).build(Time(0), request);
    let (order, _) = built.unwrap();
    (order.start, order.chain)
}

#[test]
fn a_chain_keeps_its_slot_and_its_lease_to_the_end() {
    let mut bench = Bench::new(true);
    let (start, chain) = chained(&["echo", "noop", "echo"]);
    let slot = bench.pool.offer(1)[0].clone();
    bench.begin(0, &slot, start, chain);
    let mut ended = Vec::new();
    for turn in 1..=3 {
        assert_eq!(
            (bench.pool.runs(), bench.pool.free()),
            (1, 7),
            "turn {turn}"
        );
        assert!(ended.is_empty(), "turn {turn}");
        ended = bench.handle_events(turn);
    }
    ended.extend(bench.handle_events(4));
    let [
        PoolEvent::Ended {
            run,
            outcome,
            meter,
        },
    ] = &ended[..]
    else {
        panic!("{ended:?}")
    };
    assert_eq!(run.lease.0.as_u128(), 1);
    let array = JsonText(r#"[{"n":"echo"},null,{"n":"echo"}]"#.to_owned());
    let result = Some(array);
    assert_eq!(*outcome, Outcome::Completed { result });
    assert_eq!(meter.fuel, 4, "all four are counted");
    assert_eq!((bench.pool.runs(), bench.pool.free()), (0, 8));
}

#[test]
fn a_chain_is_stopped_timed_and_lost_as_one_run() {
    let mut bench = Bench::new(true);
    let begin = |bench: &mut Bench, steps: &[&str]| {
        let (start, chain) = chained(steps);
        let slot = bench.pool.offer(1)[0].clone();
        let lease = bench.begin(0, &slot, start, chain);
        bench.handle_events(0);
        bench.pool.flush();
        lease
    };
    let lease = begin(&mut bench, &["hang", "echo"]);
    bench.pool.stop(Time(1), lease, None, "enough");
    assert_eq!(short(&bench.handle_events(1)), texts(&[(1, "cancelled")]));

    begin(&mut bench, &["noop", "ignore"]);
    bench.handle_events(900);
    assert_eq!(
        bench.pool.due(),
        Some(Time(3_000)),
        "its time began with it"
    );
    bench.pool.tick(Time(3_000));
    assert_eq!(
        short(&bench.handle_events(3_000)),
        texts(&[(2, "timed_out")])
    );

    bench.pool.tick(Time(3_000));
    bench.handle_events(3_000);
    let lease = begin(&mut bench, &["noop", "hang"]);
    bench.pool.stop(Time(3_001), lease, None, "enough");
    let events = bench.handle_events(3_001);
    assert_eq!(
        short(&events),
        texts(&[(3, "cancelled")]),
        "a stop between two steps"
    );

    begin(&mut bench, &["crash", "echo"]);
    assert_eq!(
        short(&bench.handle_events(3_002)),
        texts(&[(4, "CellDied { jobs: 1 }")])
    );
    assert_eq!(bench.pool.runs(), 0);
}

/// Planning takes a while. No guest runs then, so no cell is to blame.
#[test]
fn a_chain_whose_plan_is_late_ends_without_its_cell() {
    let mut bench = Bench::new(true);
    let (start, chain) = chained(&["echo"]);
    let slot = bench.pool.offer(1)[0].clone();
    bench.begin(0, &slot, start, chain);
    bench.pool.flush();
    let listed = bench.events.try_recv().unwrap();
    assert!(bench.pool.handle_event(Time(0), listed).is_empty());
    let late = Time(100_000);
    assert!(bench.pool.due().is_none_or(|due| due > late));
    bench.pool.tick(late);
    let planned = bench.events.try_recv().unwrap();
    let events = bench.pool.handle_event(late, planned);
    let [
        PoolEvent::Ended {
            outcome: Outcome::Failed(failure),
            ..
        },
    ] = events.as_slice()
    else {
        panic!("{events:?}");
    };
    assert_eq!(failure.kind, FailureKind::TimedOut);
    assert_eq!(bench.count(&CellMessage::Killed("cell-1".to_owned())), 0);
}
