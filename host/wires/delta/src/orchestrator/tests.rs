//! What no request over HTTP shows: what happens between a request, the host's answer and ours.

use std::sync::Arc;

use host_core::id::{JobId, LeaseId};
use host_core::json::JsonText;
use host_core::port::Assignment;
use host_core::port::lease::Leases as PortLeases;
use host_core::suspicion::Suspicion;
use host_testing::{KeptLogs, LeaseHost, Refusals, TestClock};
use host_wire_kit::session::Action;
use uuid::Uuid;

use super::*;
use crate::settings::{PoolConfig, Times, Tokens};

impl Pools {
    /// Starts the orchestrator at a node of a host in memory.
    pub(crate) fn at(
        model: &Arc<LeaseHost>,
        node: &Arc<dyn PortLeases>,
        refusals: &Arc<Refusals>,
        config: DeltaConfig,
    ) -> Arc<Self> {
        let pools = Self::new(config);
        pools.start(
            Arc::<TestClock>::clone(&model.clock),
            Arc::<Refusals>::clone(refusals),
            Arc::<KeptLogs>::clone(&model.logs),
        );
        pools.connect(node);
        pools
    }

    /// Lets the orchestrator do what is due.
    pub(crate) fn pass_time(&self) {
        self.hub.get().unwrap().pass_time();
    }

    /// Asks the orchestrator to stop.
    pub(crate) fn stop(&self) {
        self.report(Event::Stop);
    }
}

const JOB: JobId = JobId(Uuid::from_u128(7));
const LEASE: LeaseId = LeaseId(Uuid::from_u128(8));

/// A session with the pool `ci`, and what the host has of it.
struct Bench {
    orchestrator: Orchestrator,
    now: Time,
    links: u64,
    asked: Vec<(Vec<String>, PendingLeaseRequest)>,
    withdrawn: Vec<Tag>,
    sent: Vec<(LeaseMessage, Box<PendingMessage>)>,
    /// What was answered, in order.
    answers: Vec<(Link, String)>,
}

impl Bench {
    fn new() -> Self {
        let pool = PoolConfig {
            name: "ci".parse().unwrap(),
            origin: String::new(),
            capabilities: BTreeSet::new(),
            launch: None,
        };
        let config = DeltaConfig {
            times: Times {
                lease_ttl: 120,
                heartbeat_interval: 20,
                ack: 30,
                cancel_deadline: 30,
                max_runtime: 30,
            },
            pools: vec![pool],
            tokens: Tokens::default(),
        };
        Self {
            orchestrator: Orchestrator::new(Arc::new(config)),
            now: Time(1_000_000),
            links: 0,
            asked: Vec::new(),
            withdrawn: Vec::new(),
            sent: Vec::new(),
            answers: Vec::new(),
        }
    }

    fn act(&mut self, mut todo: Actions) {
        for action in todo.drain() {
            match action {
                Action::Send(link, answer) => self.answers.push((link, shown(answer))),
                Action::Effect(Effect::Ask {
                    asked, executors, ..
                }) => {
                    let executors = executors.iter().map(Name::to_string);
                    self.asked.push((executors.collect(), asked));
                }
                Action::Effect(Effect::Withdraw(tag)) => self.withdrawn.push(tag),
                Action::Effect(Effect::Send(message, sent)) => self.sent.push((message, sent)),
                other => panic!("{other:?}"),
            }
        }
    }

    fn event(&mut self, event: Event) {
        let mut todo = Actions::default();
        let at = Moment {
            now: self.now,
            wall: self.now,
        };
        self.orchestrator.on_event(at, event, &mut todo);
        self.act(todo);
    }

    fn send(&mut self, request: Request) -> Link {
        let (mut todo, link) = (Actions::default(), Link(self.links));
        self.links += 1;
        let at = Moment {
            now: self.now,
            wall: self.now,
        };
        self.orchestrator.on_message(at, link, request, &mut todo);
        self.act(todo);
        link
    }

    fn ask(&mut self, capabilities: &[&str]) -> Link {
        let ask = Ask {
            runner_id: "w".to_owned(),
            capabilities: capabilities.iter().map(|tag| (*tag).to_owned()).collect(),
            wait_seconds: 60,
        };
        self.send(Request::Ask("ci".parse().unwrap(), ask))
    }

    /// The host grants a lease to the request with this number.
    fn grant(&mut self, number: usize) {
        let (_, asked) = self.asked.remove(number);
        let granted = GrantedLease {
            job: JOB,
            lease: LEASE,
            expires_at: None,
            ack_by: None,
            assignment: Assignment {
                request_id: String::new(),
                job_id: JOB.to_string(),
                handler: "h".to_owned(),
                params: JsonText("{}".to_owned()),
                queue: "default".to_owned(),
                priority: 5,
                attempt: 1,
                enqueued_at: self.now,
                timeout_ms: 600_000,
                deadline: None,
                trace: Vec::new(),
                attributes: Vec::new(),
                worker_id: "host".to_owned(),
                suspicion: Suspicion::NONE,
            },
        };
        self.event(Event::Granted(asked, Some(Box::new(granted))));
    }

    /// Returns what was answered since the last call.
    fn answers(&mut self) -> Vec<(Link, String)> {
        std::mem::take(&mut self.answers)
    }
}

fn shown(answer: Result<Answer, WireRefusal>) -> String {
    match answer {
        Ok(Answer::Granted(granted)) => format!("granted {}", granted.is_some()),
        Ok(Answer::Accepted | Answer::Completed(_)) => "accepted".to_owned(),
        Ok(Answer::Heartbeat(ack)) => format!("cancel {}", ack.cancel_requested),
        Ok(other) => format!("{other:?}"),
        Err(refused) => format!("{:?} {:?}", refused.code, refused.more),
    }
}

#[test]
fn a_runner_that_leaves_gets_no_lease() {
    let mut it = Bench::new();
    let link = it.ask(&[]);
    let mut todo = Actions::default();
    it.orchestrator.on_closed(it.now, link, &mut todo);
    it.act(todo);
    assert_eq!(it.withdrawn, [it.asked[0].1.tag]);
    // The host was granting one at the same time.
    it.grant(0);
    let (back, _) = &it.sent[0];
    assert_eq!(*back, LeaseMessage::GiveBack { begun: false });
    assert_eq!(it.answers(), []);
}

#[test]
fn runners_that_wait_are_asked_for_again_when_a_lane_is_new() {
    let mut it = Bench::new();
    let links = [it.ask(&["gpu"]), it.ask(&["tpu"])];
    let lane: Name = "ci/gpu".parse().unwrap();
    assert_eq!(it.orchestrator.find_lane(&lane), (NameLookup::Here, true));
    it.event(Event::LaneAdded(lane.clone()));
    assert_eq!(it.orchestrator.find_lane(&lane), (NameLookup::Here, false));
    let asked: Vec<_> = it.asked.iter().map(|(lanes, _)| lanes.join(" ")).collect();
    assert_eq!(asked, ["ci", "ci", "ci/gpu ci"]);
    assert_eq!(it.withdrawn, [it.asked[0].1.tag]);
    // The end of the first wait answers nothing.
    let (_, first) = it.asked.remove(0);
    it.event(Event::Granted(first, None));
    assert_eq!(it.answers(), []);
    it.event(Event::Stop);
    let none = "granted false".to_owned();
    assert_eq!(it.answers(), links.map(|link| (link, none.clone())));
}

#[test]
fn a_job_says_that_no_runner_offers_what_it_requires() {
    let mut it = Bench::new();
    let (pool, lane): (Name, Name) = ("ci".parse().unwrap(), "ci/gpu".parse().unwrap());
    it.orchestrator.find_lane(&lane);
    let reason = it.orchestrator.waits_because(&pool).unwrap();
    assert!(
        reason.starts_with("no runner of the pool ci has asked"),
        "{reason}"
    );
    it.ask(&[]);
    assert_eq!(it.orchestrator.waits_because(&pool), None);
    let reason = it.orchestrator.waits_because(&lane).unwrap();
    assert!(
        reason.starts_with("no runner of the pool ci that offers gpu has"),
        "{reason}"
    );
    it.ask(&["gpu"]);
    assert_eq!(it.orchestrator.waits_because(&lane), None);
}
