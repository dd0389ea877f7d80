//! Our worker under our orchestrator, over links that lose requests, lose answers, send requests twice and
//! out of order, with clocks an hour apart. Every task is executed once and ends once. As two nodes of one
//! store, of which each is stopped, killed and started, no task is executed twice concurrently.

use std::collections::BTreeMap;
use std::sync::Arc;

use host_core::id::NodeId;
use host_core::job::State;
use host_core::policy::Policy;
use host_core::port::Clock as _;
use host_core::time::Time;
use host_testing::histories;
use host_testing::{LeaseHost, Random};
use host_wire_kit::session::Moment;
use uuid::Uuid;

use crate::orchestrator::envelope;
use crate::orchestrator::tests::fixture::TIMES;
use crate::orchestrator::tests::side::{self, BASE};
use crate::worker::tests::side as worker_side;

/// How many tasks go through one pair of links.
const TASKS: usize = 20;

/// How many concurrent attempts the worker has.
const IN_FLIGHT_MAX: usize = 8;

/// Of a hundred requests, how many are lost, lose their answer, come twice, or come once more later.
const LOST: u64 = 15;
const UNANSWERED: u64 = 15;
const TWICE: u64 = 10;
const LATER: u64 = 10;

/// How long a message may take, and one that comes once more later, in milliseconds.
const DELAY_MS: u64 = 2_000;
const LATER_MS: u64 = 30_000;

/// How often a node ends or starts, and until when, in milliseconds.
const CHANGE_EACH_MS: u64 = 7_000;
const CHANGES_MS: u64 = 120_000;

/// When all must be over, in milliseconds.
const END_MS: u64 = 3_600_000;

/// A request or an answer on its way. The link of a copy belongs to no request.
enum Message {
    Dispatch(u64, Vec<u8>),
    /// With the life of the orchestrator that has sent the dispatch.
    Dispatched(usize, u64, Option<u16>),
    Callback(u64, [String; 3]),
    Answered(u64, Option<(u16, String)>),
}

struct Pair {
    model: Arc<LeaseHost>,
    /// The lives of orchestrators, of which some are over.
    lives: Vec<Option<side::Side>>,
    /// The nodes, each with the number of its latest life.
    nodes: Vec<(NodeId, usize)>,
    worker: worker_side::Side,
    /// How far the worker's wall clock is ahead of host time.
    ahead_ms: i64,
    random: Random,
    made: u64,
    on_the_way: BTreeMap<(Time, u64), Message>,
    /// The request that came over a link, and whether its answer is lost.
    dispatches: BTreeMap<u64, (usize, u64, bool)>,
    callbacks: BTreeMap<u64, (u64, bool)>,
    /// The callbacks that a life of an orchestrator has not answered.
    unanswered: BTreeMap<u64, usize>,
}

impl Pair {
    fn start(seed: u64, ahead_ms: i64) -> Self {
        let model = LeaseHost::new();
        model.clock.set_wall_ahead(-ahead_ms / 2);
        Self {
            lives: vec![Some(side::Side::start(&model, IN_FLIGHT_MAX))],
            nodes: vec![(NodeId::NIL, 0)],
            worker: worker_side::Side::start(BASE, IN_FLIGHT_MAX),
            model,
            ahead_ms,
            random: Random::new(seed),
            made: 0,
            on_the_way: BTreeMap::new(),
            dispatches: BTreeMap::new(),
            callbacks: BTreeMap::new(),
            unanswered: BTreeMap::new(),
        }
    }

    /// Makes a pair whose orchestrator is two nodes.
    fn of_two_nodes(seed: u64) -> Self {
        let mut pair = Self::start(seed, 0);
        (pair.lives, pair.nodes) = (Vec::new(), Vec::new());
        for n in [1, 2] {
            pair.nodes.push((NodeId(Uuid::from_u128(n)), 0));
            pair.start_node(pair.nodes.len() - 1);
        }
        pair
    }

    /// Starts a node. It takes nothing from one that lives.
    fn start_node(&mut self, n: usize) {
        let node = self.nodes[n].0;
        let of_others = self.model.leases_of_others(node);
        let side = side::Side::at_node(&self.model, self.model.node(node), IN_FLIGHT_MAX);
        assert!(self.model.are_left(&of_others));
        self.nodes[n].1 = self.lives.len();
        self.lives.push(Some(side));
    }

    /// Ends a node that lives, or starts it again.
    fn change_node(&mut self) {
        let n = usize::try_from(self.random.below(self.nodes.len() as u64)).unwrap();
        let (node, life) = self.nodes[n];
        if self.lives[life].is_none() {
            return self.start_node(n);
        }
        if self.random.below(2) == 0 {
            self.lives[life].as_mut().unwrap().stop();
            self.collect();
        }
        self.model.kill(node);
        self.lives[life] = None;
        // Those who wait for its answers get none.
        for link in self
            .unanswered
            .extract_if(.., |_, of| *of == life)
            .collect::<Vec<_>>()
        {
            if let Some((tag, _)) = self.callbacks.remove(&link.0) {
                self.send(DELAY_MS, Message::Answered(tag, None));
            }
        }
    }

    /// Returns a life of an orchestrator that a message may reach, if one lives.
    fn any_life(&mut self) -> Option<usize> {
        let lives: Vec<usize> = (0..self.lives.len())
            .filter(|life| self.lives[*life].is_some())
            .collect();
        let drawn = self.random.below(lives.len().max(1) as u64);
        lives.get(usize::try_from(drawn).unwrap()).copied()
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
        let at = self.at().now.plus_ms(self.random.below(within_ms));
        self.on_the_way.insert((at, self.made), message);
    }

    /// Sends a request, which `make` puts on a link; `lost` is the answer to one that is lost.
    fn request(&mut self, make: impl Fn(u64) -> Message, lost: Message) -> Option<(u64, bool)> {
        let drawn = self.random.below(100);
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
        for life in 0..self.lives.len() {
            let sent = self.lives[life].as_mut().map(side::Side::go_on);
            for sent in sent.into_iter().flatten() {
                match sent {
                    side::Outgoing::Dispatch(tag, body) => {
                        let make = |link| Message::Dispatch(link, body.clone());
                        let carried = self.request(make, Message::Dispatched(life, tag, None));
                        let link =
                            carried.map(|(carried, is_lost)| (carried, (life, tag, is_lost)));
                        self.dispatches.extend(link);
                    }
                    side::Outgoing::Answer(link, status, body) => {
                        self.unanswered.remove(&link);
                        if let Some((tag, is_lost)) = self.callbacks.remove(&link) {
                            let answer = (!is_lost).then_some((status, body));
                            self.send(DELAY_MS, Message::Answered(tag, answer));
                        }
                    }
                }
            }
        }
        let guest_ms = self.random.below(20_000);
        self.worker.guest_ms = guest_ms;
        for sent in self.worker.go_on(self.at()) {
            match sent {
                worker_side::Outgoing::Callback {
                    tag,
                    path,
                    token,
                    body,
                } => {
                    let callback = [path, token, body];
                    let make = |link| Message::Callback(link, callback.clone());
                    let carried = self.request(make, Message::Answered(tag, None));
                    let link = carried.map(|(carried, is_lost)| (carried, (tag, is_lost)));
                    self.callbacks.extend(link);
                }
                worker_side::Outgoing::Answer(link, status) => {
                    if let Some((life, tag, is_lost)) = self.dispatches.remove(&link) {
                        let answer = (!is_lost).then_some(status);
                        self.send(DELAY_MS, Message::Dispatched(life, tag, answer));
                    }
                }
            }
        }
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Dispatch(link, body) => self.worker.dispatch(self.at(), link, &body),
            Message::Dispatched(life, tag, status) => {
                if let Some(side) = &mut self.lives[life] {
                    side.dispatched(tag, status);
                }
            }
            Message::Callback(link, [path, token, body]) => match self.any_life() {
                Some(life) => {
                    self.unanswered.insert(link, life);
                    let side = self.lives[life].as_mut().unwrap();
                    side.callback(link, &path, &token, &body);
                }
                None => {
                    if let Some((tag, _)) = self.callbacks.remove(&link) {
                        self.send(DELAY_MS, Message::Answered(tag, None));
                    }
                }
            },
            Message::Answered(tag, answer) => self.worker.answered(self.at(), tag, answer),
        }
    }

    /// Goes to the next instant at which something happens.
    fn step(&mut self) {
        self.collect();
        let message = self.on_the_way.keys().next().map(|(at, _)| *at);
        let sides = self.lives.iter().flatten();
        let dues = sides
            .map(side::Side::due)
            .chain([message, self.worker.due()]);
        let now = self.at().now;
        // A worker whose `started` was never answered sends no heartbeats, so its lease expires.
        let next = dues
            .flatten()
            .min()
            .or_else(|| self.model.due())
            .unwrap_or_else(|| now.plus_ms(1_000));
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
    let is_failing = |n: usize| n % 4 == 3;
    let ids: Vec<_> = (0..TASKS)
        .map(|n| {
            let params = format!(r#"{{"n":{n}}}"#);
            let handler = if is_failing(n) { "fail" } else { "echo" };
            let to = ("spark", handler);
            let policy = envelope::policy(&TIMES);
            pair.model.enqueue(to, &params, policy, &[])
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
    pair.lives.remove(0).unwrap().end();
}

/// Runs tasks under two nodes, of which one after the other ends and starts again.
fn run_two_nodes(seed: u64) {
    let mut pair = Pair::of_two_nodes(seed);
    let policy = Policy {
        max_attempts: 100,
        ..envelope::policy(&TIMES)
    };
    let ids: Vec<_> = (0..TASKS)
        .map(|n| {
            let params = format!(r#"{{"n":{n}}}"#);
            let to = ("spark", "echo");
            pair.model.enqueue(to, &params, policy.clone(), &[])
        })
        .collect();
    let begin = pair.at().now;
    let mut changed_at = begin;
    let is_over = |pair: &Pair| ids.iter().all(|id| pair.model.state(*id).is_terminal());
    while !is_over(&pair) {
        let now = pair.at().now;
        assert!(now.since_ms(begin) < END_MS, "seed {seed}: it does not end");
        let is_calm = now.since_ms(begin) > CHANGES_MS;
        if !is_calm && now.since_ms(changed_at) > CHANGE_EACH_MS {
            changed_at = now;
            pair.change_node();
        }
        for n in 0..pair.nodes.len() {
            if is_calm && pair.lives[pair.nodes[n].1].is_none() {
                pair.start_node(n);
            }
        }
        pair.step();
    }
    pair.collect();
    for side in pair.lives.iter().flatten() {
        assert_eq!(side.in_flight(), 0, "seed {seed}: a slot stays occupied");
    }
    for id in &ids {
        let kept = pair.model.kept(*id).unwrap();
        assert_eq!(kept.job.lifecycle.state, State::Completed, "seed {seed}");
        // The worker asserts that none runs twice concurrently.
        let executed = pair.worker.executed[&id.to_string()];
        let attempts = kept.job.lifecycle.attempt;
        assert!(
            (1..=attempts).contains(&executed),
            "seed {seed}: {attempts} attempts of {id} were executed {executed} times"
        );
    }
}

#[test]
fn two_nodes_execute_no_task_twice_at_once() {
    for seed in 1..=histories(100, 10_000) {
        run_two_nodes(u64::from(seed) * 0x2545_f491);
    }
}

#[test]
fn tasks_run_once_over_bad_links() {
    for seed in 1..=histories(100, 10_000) {
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
