//! What no request over HTTP shows: what happens between a request, the host's answer and ours.

use std::sync::Arc;

use host_core::id::{JobId, LeaseId};
use host_core::job::{Cancel, State};
use host_core::json::JsonText;
use host_core::lease::Revocation;
use host_core::port::Assignment;
use host_core::port::lease::Leases as PortLeases;
use host_core::rejection::LeaseRefusal;
use host_core::suspicion::Suspicion;
use host_testing::{KeptLogs, LeaseHost, Refusals, TestClock};
use host_wire_kit::session::Action;
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::refusals::Code;
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

    /// Counts the leases whose end this node does not know.
    pub(crate) fn remembered(&self) -> usize {
        let hub = self.hub.get().unwrap();
        hub.inspect(|session| session.leases.live_count())
    }

    /// Counts the heartbeats whose answers wait here.
    pub(crate) fn waiting(&self) -> usize {
        let hub = self.hub.get().unwrap();
        hub.inspect(|session| session.leases.waiting_count())
    }
}

const JOB: JobId = JobId(Uuid::from_u128(7));
const LEASE: LeaseId = LeaseId(Uuid::from_u128(8));

const CANCELLED: Event = Event::Lease(LeaseEvent::Cancelled {
    job: JOB,
    lease: LEASE,
    grace_ms: 0,
});

const fn revoked(why: Revocation) -> Event {
    Event::Lease(LeaseEvent::Revoked {
        job: JOB,
        lease: LEASE,
        why,
    })
}

/// A session with the pool `ci`, and what the host has of it.
struct Bench {
    orchestrator: Orchestrator,
    now: Time,
    links: u64,
    asked: Vec<(Vec<String>, Asked)>,
    withdrawn: Vec<Tag>,
    sent: Vec<(LeaseMessage, Box<Sent>)>,
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

    /// One whose runner `w` holds a lease and has acknowledged it.
    fn leased() -> Self {
        let mut it = Self::new();
        it.ask(&[]);
        it.grant(0);
        it.request(Message::Ack);
        it.accept(0, None);
        it.answers.clear();
        it
    }

    fn act(&mut self, mut todo: Todo) {
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
                Action::Effect(Effect::WarnOfOverrun(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn event(&mut self, event: Event) {
        let mut todo = Todo::default();
        let at = Moment {
            now: self.now,
            wall: self.now,
        };
        self.orchestrator.on_event(at, event, &mut todo);
        self.act(todo);
    }

    fn send(&mut self, request: Request) -> Link {
        let (mut todo, link) = (Todo::default(), Link(self.links));
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

    fn request(&mut self, message: Message) -> Link {
        let named = Named::new(JOB, LEASE, "ci/w".to_owned());
        self.send(Request::Message(named, message))
    }

    /// A heartbeat that waits for a minute.
    fn beat(&mut self) -> Link {
        let body = json!({"lease_id": "l", "runner_id": "w", "wait_seconds": 60});
        let (_, message) = Message::heartbeat(body.to_string().as_bytes()).unwrap();
        self.request(message)
    }

    fn end(&mut self, status: &str) -> Link {
        let body = json!({"lease_id": "l", "runner_id": "w", "status": status});
        let (_, message) = Message::complete(body.to_string().as_bytes()).unwrap();
        self.request(message)
    }

    /// The host grants a lease to the request with this number.
    fn grant(&mut self, number: usize) {
        let (_, asked) = self.asked.remove(number);
        let granted = Granted {
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

    /// The host answers the message with this number.
    fn answer(&mut self, number: usize, answer: Result<Standing, LeaseError>) {
        let (_, sent) = self.sent.remove(number);
        self.event(Event::Answered(sent, answer));
    }

    fn accept(&mut self, number: usize, cancel: Option<Cancel>) {
        let standing = Standing {
            state: State::Running,
            attempt: 1,
            cancel,
            expires_at: None,
        };
        self.answer(number, Ok(standing));
    }

    fn refuse(&mut self, number: usize, error: LeaseError) {
        self.answer(number, Err(error));
    }

    /// Time passes until the next timer.
    fn wake(&mut self) {
        let mut todo = Todo::default();
        self.now = self.orchestrator.wakeup().expect("something is due");
        self.orchestrator.on_wakeup(self.now, &mut todo);
        self.act(todo);
    }

    /// Returns what was answered since the last call.
    fn answers(&mut self) -> Vec<(Link, String)> {
        std::mem::take(&mut self.answers)
    }
}

fn shown(answer: Result<Answer, Refused>) -> String {
    match answer {
        Ok(Answer::Granted(granted)) => format!("granted {}", granted.is_some()),
        Ok(Answer::Accepted | Answer::Completed(_)) => "accepted".to_owned(),
        Ok(Answer::Heartbeat(ack)) => format!("cancel {}", ack.cancel_requested),
        Ok(other) => format!("{other:?}"),
        Err(refused) => format!("{:?} {:?}", refused.code, refused.more),
    }
}

fn cancel() -> Cancel {
    Cancel {
        requested_at: Time(0),
        reason: None,
        grace_ends_at: None,
    }
}

#[test]
fn a_runner_that_leaves_gets_no_lease() {
    let mut it = Bench::new();
    let link = it.ask(&[]);
    let mut todo = Todo::default();
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
    assert_eq!(it.orchestrator.find_lane(&lane), (Found::Here, true));
    it.event(Event::LaneAdded(lane.clone()));
    assert_eq!(it.orchestrator.find_lane(&lane), (Found::Here, false));
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

#[test]
fn an_end_waits_for_an_earlier_one() {
    let mut it = Bench::leased();
    let links = ["FAILED", "FAILED", "SUCCEEDED"].map(|status| it.end(status));
    assert_eq!(it.sent.len(), 1, "one at a time");
    it.refuse(0, LeaseError::Busy);
    let busy = format!("{:?} Nothing", Code::Busy);
    assert_eq!(it.answers(), [(links[0], busy)]);
    it.accept(0, None);
    let recorded = format!("{:?} Recorded(\"FAILED\")", Code::AlreadyComplete);
    let expected = [(links[1], "accepted".to_owned()), (links[2], recorded)];
    assert_eq!(it.answers(), expected);
    assert!(it.sent.is_empty() && it.orchestrator.is_idle());
}

#[test]
fn a_heartbeat_that_waits_misses_no_cancel() {
    // The cancel comes before the host answers the heartbeat, or after.
    for is_early in [true, false] {
        let mut it = Bench::leased();
        let link = it.beat();
        if is_early {
            it.event(CANCELLED);
        }
        it.accept(0, None);
        if !is_early {
            assert_eq!(it.answers(), []);
            it.event(CANCELLED);
        }
        assert_eq!(it.answers(), [], "the host gets another request");
        it.accept(0, Some(cancel()));
        assert_eq!(it.answers(), [(link, "cancel true".to_owned())]);
        assert_eq!(it.orchestrator.wakeup(), None);
    }
}

#[test]
fn a_heartbeat_waits_until_its_time_its_lease_or_the_host_ends() {
    let mut it = Bench::leased();
    let link = it.beat();
    it.accept(0, None);
    let began = it.now;
    it.wake();
    assert_eq!(it.now.since_ms(began), 60_000);
    it.accept(0, None);
    assert_eq!(it.answers(), [(link, "cancel false".to_owned())]);

    let link = it.beat();
    it.accept(0, None);
    it.event(Event::Stop);
    it.accept(0, None);
    assert_eq!(it.answers(), [(link, "cancel false".to_owned())]);

    for (why, shown) in [
        (Revocation::Expired, "Expired"),
        (Revocation::NotAcknowledged, "Revoked"),
        (Revocation::Cancelled, "Revoked"),
        (Revocation::TimedOut, "Revoked"),
    ] {
        let mut it = Bench::leased();
        let link = it.beat();
        it.accept(0, None);
        it.event(revoked(why));
        let stale = format!("{:?} Stale({shown})", Code::StaleLease);
        assert_eq!(it.answers(), [(link, stale.clone())]);
        assert_eq!(it.orchestrator.wakeup(), None);
        // What comes later is not passed on.
        let link = it.beat();
        assert_eq!(it.answers(), [(link, stale)]);
        assert!(it.sent.is_empty());
    }
}

#[test]
fn a_lease_that_the_host_calls_stale_is_over() {
    let mut it = Bench::leased();
    let first = it.beat();
    let second = it.request(Message::Ack);
    it.refuse(0, LeaseError::Rejected(LeaseRefusal::Expired));
    it.refuse(0, LeaseError::Rejected(LeaseRefusal::Stale));
    let stale = format!("{:?} Stale(Expired)", Code::StaleLease);
    assert_eq!(it.answers(), [(first, stale.clone()), (second, stale)]);
}
