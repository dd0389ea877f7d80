//! Two hosts on one queue, with crashes, lost connections and repeated ids in any order. No job is
//! lost, each is written once, and if no connection is lost, no job runs twice concurrently.

use std::collections::{BTreeMap, BTreeSet};

use host_core::failure::FailureKind;
use host_testing::histories;
use proptest::prelude::*;

use super::fixture::{Bench, completed, failed, id};
use crate::messages::Via;
use crate::settings::worker::WorkerConfig;
use crate::tests::redis::{Entry, FakeRedis};
use crate::transport::driver::RedisSession as _;
use crate::worker::ExecutionAnswer;
use crate::worker::Worker;

#[derive(Clone, Debug)]
enum Step {
    Enqueue {
        retries: u8,
        context: u8,
        alone: bool,
    },
    Again(u8),
    End {
        host: usize,
        which: u8,
        well: bool,
    },
    Answer {
        host: usize,
        which: u8,
    },
    Crash {
        host: usize,
        done: bool,
    },
    Cut {
        host: usize,
        done: bool,
    },
    Connect(usize),
    Pass(u16),
    Stop(u8),
    /// Adds a job that depends on an earlier one.
    Needs(u8),
    /// Redis saves everything to disk.
    Save,
    /// Redis dies and restarts with what it last saved.
    Forget,
}

/// What may fail besides crashes of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    /// No connection is lost.
    Fair,
    /// Connections may be lost at any time.
    Windy,
    /// In addition, Redis may lose confirmed data.
    Flooded,
}

fn steps(weather: Weather) -> impl Strategy<Value = Vec<Step>> {
    let (cuts, forgets) = (weather != Weather::Fair, weather == Weather::Flooded);
    let host = 0..2_usize;
    let step = prop_oneof![
        4 => (0..3_u8, 0..2_u8, any::<bool>())
            .prop_map(|(retries, context, alone)| Step::Enqueue { retries, context, alone }),
        1 => any::<u8>().prop_map(Step::Again),
        6 => (host.clone(), any::<u8>(), any::<bool>())
            .prop_map(|(host, which, well)| Step::End { host, which, well }),
        12 => (host.clone(), any::<u8>()).prop_map(|(host, which)| Step::Answer { host, which }),
        1 => (host.clone(), any::<bool>()).prop_map(|(host, done)| Step::Crash { host, done }),
        1 => (host.clone(), any::<bool>())
            .prop_map(move |(host, done)| if cuts { Step::Cut { host, done } } else { Step::Pass(1) }),
        1 => host.prop_map(Step::Connect),
        3 => (0..4_000_u16).prop_map(Step::Pass),
        1 => any::<u8>().prop_map(Step::Stop),
        1 => any::<u8>().prop_map(Step::Needs),
        2 => Just(Step::Save),
        2 => Just(if forgets { Step::Forget } else { Step::Save }),
    ];
    prop::collection::vec(step, 1..120)
}

struct Storm {
    redis: FakeRedis,
    hosts: Vec<Bench>,
    connected: [bool; 2],
    /// What Redis restarts with.
    saved: FakeRedis,
    jobs: u32,
    /// The context of each job that must run alone in it.
    alone: BTreeMap<String, u8>,
    /// Jobs that Redis lost. Their runs without a hash are answered too.
    sent_again: BTreeSet<u32>,
    /// Whether Redis may take long to answer.
    patient: bool,
}

fn worker(host: usize) -> Worker {
    let mut config = WorkerConfig::new("w1", format!("host-{host}"));
    config.concurrency = 4;
    Worker::new(config)
}

impl Storm {
    fn new(patient: bool) -> Self {
        let hosts = (0..2)
            .map(|host| Bench::unconnected(worker(host)))
            .collect();
        Self {
            redis: FakeRedis::default(),
            saved: FakeRedis::default(),
            hosts,
            connected: [false; 2],
            jobs: 0,
            alone: BTreeMap::new(),
            sent_again: BTreeSet::new(),
            patient,
        }
    }

    /// Works on one host, which sees the Redis that both share.
    fn on<T>(&mut self, host: usize, work: impl FnOnce(&mut Bench) -> T) -> T {
        let bench = &mut self.hosts[host];
        std::mem::swap(&mut bench.redis, &mut self.redis);
        let result = work(bench);
        std::mem::swap(&mut bench.redis, &mut self.redis);
        result
    }

    fn connect(&mut self, host: usize) {
        if !std::mem::replace(&mut self.connected[host], true) {
            self.on(host, |bench| bench.hand_in(Worker::on_connected));
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Enqueue {
                retries,
                context,
                alone,
            } => {
                self.jobs += 1;
                if *alone {
                    self.alone.insert(id(self.jobs), *context);
                }
                let (retries, context) = (retries.to_string(), context.to_string());
                let concurrent = if *alone { "false" } else { "true" };
                let fields = [
                    ("script", "1"),
                    ("retries", retries.as_str()),
                    ("context_id", context.as_str()),
                    ("concurrent", concurrent),
                ];
                self.redis.enqueue("w1", &id(self.jobs), &fields);
            }
            Step::Again(which) if self.jobs > 0 => {
                let id = id(u32::from(*which) % self.jobs + 1);
                self.redis.push("hero:work_queue:w1", &id);
            }
            Step::Stop(which) if self.jobs > 0 => {
                let id = id(u32::from(*which) % self.jobs + 1);
                self.redis.push("hero:stop_queue:w1", &id);
            }
            Step::End { host, which, well } => self.end(*host, *which, *well),
            Step::Answer { host, which } => self.on(*host, |bench| {
                // The order of each connection is kept.
                let via = if which % 4 == 0 {
                    Via::Blocking
                } else {
                    Via::Shared
                };
                if let Some(first) = bench.calls.iter().position(|call| call.via == via) {
                    let call = bench.calls.remove(first);
                    bench.answer(&call);
                }
            }),
            Step::Crash { host, done } => {
                self.cut(*host, *done);
                self.hosts[*host].worker = worker(*host);
                self.hosts[*host].guests.clear();
            }
            Step::Cut { host, done } => self.cut(*host, *done),
            Step::Connect(host) => self.connect(*host),
            Step::Pass(ms) if self.patient => self.pass(u64::from(*ms)),
            // Redis answers while time passes, so that no claim is late.
            Step::Pass(ms) => {
                for _ in 0..ms / 500 {
                    self.pass(500);
                    for host in 0..2 {
                        self.on(host, Bench::answer_shared);
                    }
                }
            }
            Step::Needs(which) if self.jobs > 0 => {
                let needed = id(u32::from(*which) % self.jobs + 1);
                self.jobs += 1;
                let needs = format!("[\"{needed}\"]");
                let fields = [("script", "1"), ("prerequisites", needs.as_str())];
                self.redis.enqueue("w1", &id(self.jobs), &fields);
            }
            Step::Save => self.saved = self.redis.clone(),
            Step::Forget => {
                for host in 0..2 {
                    self.cut(host, true);
                }
                self.redis = self.saved.clone();
            }
            Step::Again(_) | Step::Stop(_) | Step::Needs(_) => {}
        }
    }

    /// Cuts a connection before or after Redis has handled the calls in flight.
    fn cut(&mut self, host: usize, done: bool) {
        self.on(host, |bench| {
            for call in std::mem::take(&mut bench.calls) {
                if done {
                    bench.redis.now = bench.now;
                    bench.redis.answer(&call);
                }
            }
            bench.disconnect();
        });
        self.connected[host] = false;
    }

    fn end(&mut self, host: usize, which: u8, well: bool) {
        self.on(host, |bench| {
            let tags: Vec<_> = bench.guests.keys().copied().collect();
            if tags.is_empty() {
                return;
            }
            let tag = tags[usize::from(which) % tags.len()];
            bench.guests.remove(&tag);
            let outcome = if well {
                completed("1")
            } else {
                failed(FailureKind::Trapped, "x")
            };
            bench.hand_in(|worker, at, todo| {
                worker.on_answer(at, tag, ExecutionAnswer::Ended(outcome), todo);
            });
        });
    }

    fn pass(&mut self, ms: u64) {
        for host in 0..2 {
            self.on(host, |bench| {
                bench.now = bench.now.plus_ms(ms);
                bench.hand_in(Worker::on_wakeup);
            });
        }
    }

    /// Returns the jobs whose guests run, and how many guests each has.
    fn guests(&self) -> BTreeMap<String, usize> {
        let mut guests = BTreeMap::new();
        for bench in &self.hosts {
            for job in bench.guests.values() {
                *guests.entry(job.external_id.clone()).or_default() += 1;
            }
        }
        guests
    }

    /// Runs until nothing more happens, after senders have sent lost jobs again.
    fn calm(&mut self) {
        for n in 1..=self.jobs {
            if !self.redis.keys.contains_key(&format!("hero:job:{}", id(n))) {
                self.redis.enqueue("w1", &id(n), &[("script", "1")]);
                self.sent_again.insert(n);
            }
        }
        for round in 0..2_000 {
            for host in 0..2 {
                self.connect(host);
                self.on(host, Bench::settle);
                self.end(host, 0, true);
            }
            self.pass(300);
            let idle = self.hosts.iter().all(|bench| bench.worker.is_idle());
            let queued = !self.redis.items("hero:work_queue:w1").is_empty();
            let taken = !self.redis.items("hero:processing:w1").is_empty();
            if idle && !queued && !taken && round > 80 {
                return;
            }
        }
        panic!("it does not come to an end");
    }

    fn check(&self) {
        for n in 1..=self.jobs {
            let status = self.redis.field(&id(n), "status").unwrap_or_default();
            assert!(
                status == "finished" || status == "error",
                "{n} is {status:?}"
            );
            let replies = self.redis.items(&format!("hero:reply:{}", id(n)));
            let once = self.sent_again.contains(&n) || replies.len() == 1;
            assert!(once && !replies.is_empty(), "{n}: {replies:?}");
        }
        let now = self.hosts[0].now;
        let is_held = |entry: &Entry| matches!(entry, Entry::Text(_, until) if *until > now);
        let is_claim = |key: &str| key.starts_with("hero:claim:");
        let mut keys = self.redis.keys.iter();
        let claim = keys.find(|(key, entry)| is_claim(key) && is_held(entry));
        assert_eq!(claim, None, "no claim is left");
    }
}

/// Runs the steps with two hosts, then lets them finish and checks what is left.
fn two_hosts_in(steps: &[Step]) {
    let mut storm = Storm::new(true);
    storm.connect(0);
    storm.connect(1);
    for step in steps {
        storm.take(step);
    }
    storm.calm();
    storm.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: histories(100, 300), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_and_all_is_written_once(steps in steps(Weather::Windy)) {
        two_hosts_in(&steps);
    }

    #[test]
    fn what_redis_still_knows_is_done_and_written_once(steps in steps(Weather::Flooded)) {
        two_hosts_in(&steps);
    }

    #[test]
    fn without_lost_connections_nothing_runs_twice_at_once(steps in steps(Weather::Fair)) {
        let mut storm = Storm::new(false);
        storm.connect(0);
        storm.connect(1);
        for step in &steps {
            storm.take(step);
            let mut contexts = BTreeMap::new();
            for (job, guests) in storm.guests() {
                assert!(guests <= 1, "{job} has {guests} guests");
                if let Some(context) = storm.alone.get(&job) {
                    let other = contexts.insert(context, job.clone());
                    assert_eq!(other, None, "beside {job} in its context");
                }
            }
        }
        storm.calm();
        storm.check();
    }
}
