//! Our worker under our orchestrator, over links that lose requests, lose answers, send requests twice and
//! out of order, with clocks an hour apart. Every task is executed once and ends once.

use std::collections::BTreeMap;
use std::sync::Arc;

use host_core::job::State;
use host_core::policy::{OnGraceExpired, Policy};
use host_core::port::Clock as _;
use host_core::time::Time;

use crate::arco::orchestrator::tests::fixture::TIMES;
use crate::arco::orchestrator::tests::side::{self, BASE};
use crate::arco::worker::tests::side as worker_side;
use crate::histories::histories;
use crate::kit::session::Moment;
use host_testing::LeaseHost;

/// How many tasks go through one pair of links.
const TASKS: usize = 20;

/// How many attempts the worker has at once.
const IN_FLIGHT_MAX: usize = 8;

/// Of a hundred requests, how many are lost, lose their answer, come twice, or come once more later.
const LOST: u64 = 15;
const UNANSWERED: u64 = 15;
const TWICE: u64 = 10;
const LATER: u64 = 10;

/// How long a message may take, and one that comes once more later, in milliseconds.
const DELAY_MS: u64 = 2_000;
const LATER_MS: u64 = 30_000;

/// When all must be over, in milliseconds.
const END_MS: u64 = 3_600_000;

/// A request or an answer on its way. The link of a copy belongs to no request.
enum Message {
    Dispatch(u64, Vec<u8>),
    Dispatched(u64, Option<u16>),
    Callback(u64, [String; 3]),
    Answered(u64, Option<(u16, String)>),
}

struct Pair {
    model: Arc<LeaseHost>,
    orchestrator: side::Side,
    worker: worker_side::Side,
    /// How far the worker's wall clock is ahead of host time.
    ahead_ms: i64,
    random: u64,
    made: u64,
    on_the_way: BTreeMap<(Time, u64), Message>,
    /// The request that came over a link, and whether its answer is lost.
    dispatches: BTreeMap<u64, (u64, bool)>,
    callbacks: BTreeMap<u64, (u64, bool)>,
}

impl Pair {
    fn start(seed: u64, ahead_ms: i64) -> Self {
        let model = LeaseHost::new();
        model.clock.set_wall_ahead(-ahead_ms / 2);
        Self {
            orchestrator: side::Side::start(&model, IN_FLIGHT_MAX),
            worker: worker_side::Side::start(BASE, IN_FLIGHT_MAX),
            model,
            ahead_ms,
            random: seed | 1,
            made: 0,
            on_the_way: BTreeMap::new(),
            dispatches: BTreeMap::new(),
            callbacks: BTreeMap::new(),
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % limit
    }

    fn at(&self) -> Moment {
        let now = self.model.clock.now();
        Moment {
            now,
            wall: Time(now.0 + self.ahead_ms),
        }
    }

    fn send(&mut self, within_ms: u64, message: Message) {
        self.made += 1;
        let at = self.at().now.plus_ms(self.below(within_ms));
        self.on_the_way.insert((at, self.made), message);
    }

    /// Sends a request, which `make` puts on a link; `lost` is the answer to one that is lost.
    fn request(&mut self, make: impl Fn(u64) -> Message, lost: Message) -> Option<(u64, bool)> {
        let drawn = self.below(100);
        if drawn < LOST {
            self.send(DELAY_MS, lost);
            return None;
        }
        let (link, copy) = (self.link(), self.link());
        self.send(DELAY_MS, make(link));
        let copied_from = LOST + UNANSWERED;
        if (copied_from..copied_from + TWICE).contains(&drawn) {
            self.send(DELAY_MS, make(copy));
        } else if (copied_from + TWICE..copied_from + TWICE + LATER).contains(&drawn) {
            self.send(LATER_MS, make(copy));
        }
        Some((link, drawn < LOST + UNANSWERED))
    }

    fn link(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    /// Takes what both sides send.
    fn collect(&mut self) {
        for sent in self.orchestrator.go_on() {
            match sent {
                side::Sent::Dispatch(tag, body) => {
                    let make = |link| Message::Dispatch(link, body.clone());
                    let link = self.request(make, Message::Dispatched(tag, None));
                    let link = link.map(|(link, is_lost)| (link, (tag, is_lost)));
                    self.dispatches.extend(link);
                }
                side::Sent::Answer(link, status, body) => {
                    if let Some((tag, is_lost)) = self.callbacks.remove(&link) {
                        let answer = (!is_lost).then_some((status, body));
                        self.send(DELAY_MS, Message::Answered(tag, answer));
                    }
                }
            }
        }
        let guest_ms = self.below(20_000);
        self.worker.guest_ms = guest_ms;
        for sent in self.worker.go_on(self.at()) {
            match sent {
                worker_side::Sent::Callback {
                    tag,
                    path,
                    token,
                    body,
                } => {
                    let callback = [path, token, body];
                    let make = |link| Message::Callback(link, callback.clone());
                    let link = self.request(make, Message::Answered(tag, None));
                    let link = link.map(|(link, is_lost)| (link, (tag, is_lost)));
                    self.callbacks.extend(link);
                }
                worker_side::Sent::Answer(link, status) => {
                    if let Some((tag, is_lost)) = self.dispatches.remove(&link) {
                        let answer = (!is_lost).then_some(status);
                        self.send(DELAY_MS, Message::Dispatched(tag, answer));
                    }
                }
            }
        }
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Dispatch(link, body) => self.worker.dispatch(self.at(), link, &body),
            Message::Dispatched(tag, status) => self.orchestrator.dispatched(tag, status),
            Message::Callback(link, [path, token, body]) => {
                self.orchestrator.callback(link, &path, &token, &body);
            }
            Message::Answered(tag, answer) => self.worker.answered(self.at(), tag, answer),
        }
    }

    /// Goes to the next instant at which something happens.
    fn step(&mut self) {
        self.collect();
        let message = self.on_the_way.keys().next().map(|(at, _)| *at);
        let dues = [message, self.orchestrator.due(), self.worker.due()];
        let next = dues.into_iter().flatten().min().expect("something goes on");
        let now = self.at().now;
        self.model.advance(next.since_ms(now));
        let now = self.at().now;
        while let Some(entry) = self.on_the_way.first_entry()
            && entry.key().0 <= now
        {
            let message = entry.remove();
            self.deliver(message);
        }
    }
}

/// Runs tasks with the worker's wall clock ahead by `ahead_ms`.
fn run(seed: u64, ahead_ms: i64) {
    let mut pair = Pair::start(seed, ahead_ms);
    let policy = Policy {
        cancel_grace_ms: Some(52_000),
        on_grace_expired: OnGraceExpired::Discarded,
        ack_window_ms: Some(TIMES.heartbeat_timeout_ms),
        ..Policy::default()
    };
    let is_failing = |n: usize| n % 4 == 3;
    let ids: Vec<_> = (0..TASKS)
        .map(|n| {
            let params = format!(r#"{{"n":{n}}}"#);
            let handler = if is_failing(n) { "fail" } else { "echo" };
            let to = ("spark", handler);
            pair.model.enqueue(to, &params, policy.clone(), &[])
        })
        .collect();
    let end = pair.at().now.plus_ms(END_MS);
    let is_over = |pair: &Pair| ids.iter().all(|id| pair.model.state(*id).is_terminal());
    while !is_over(&pair) {
        assert!(pair.at().now < end, "seed {seed}: it does not end");
        pair.step();
    }
    for (n, id) in ids.iter().enumerate() {
        let kept = pair.model.kept(*id).unwrap();
        let attempts = &kept.attempts;
        assert_eq!(attempts.len(), 1, "seed {seed}: task {n} has {attempts:?}");
        let expected = if is_failing(n) {
            State::Discarded
        } else {
            State::Completed
        };
        assert_eq!(kept.job.lifecycle.state, expected, "seed {seed}: task {n}");
        if expected == State::Completed {
            let result = kept.job.result.unwrap();
            let start = format!(r#"{{"output":{{"n":{n}}},"#);
            assert!(result.as_str().starts_with(&start), "{}", result.as_str());
        }
        let executed = pair.worker.executed.get(&id.to_string());
        assert_eq!(executed, Some(&1), "seed {seed}: task {n}");
    }
    pair.orchestrator.end();
}

#[test]
fn tasks_run_once_over_bad_links() {
    for seed in 1..=histories(100, 2_000) {
        run(u64::from(seed) * 0x9e37_79b9, 0);
    }
}

#[test]
fn tasks_run_once_with_clocks_an_hour_apart() {
    for seed in 1..=histories(20, 500) {
        run(u64::from(seed) * 0x94d0_49bb, 3_600_000);
        run(u64::from(seed) * 0x1331_11eb, -3_600_000);
    }
}
