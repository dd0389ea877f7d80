//! Contexts in which one job runs at a time, over two hosts that share a Redis.

use super::fixture::{Bench, completed, id};
use crate::tests::redis::FakeRedis;
use crate::transport::driver::RedisSession as _;
use crate::worker::{ExecutionAnswer, Worker};
use host_core::port::Stop;

const ALONE: [(&str, &str); 2] = [("concurrent", "false"), ("context_id", "c")];

/// Two hosts with room for one job each.
struct Pair {
    redis: FakeRedis,
    hosts: [Bench; 2],
}

impl Pair {
    /// Makes a pair of which each host has taken a job of the context: host 0 runs job 1, and job 2 waits
    /// at host 1.
    fn with_a_job_each() -> Self {
        let host = |name: &str| {
            Bench::with(|config| {
                config.instance = name.to_owned();
                config.concurrency = 1;
            })
        };
        let mut pair = Self {
            redis: FakeRedis::default(),
            hosts: [host("host-a"), host("host-b")],
        };
        for (host, n) in [(0, 1), (1, 2)] {
            pair.on(host, |bench| bench.enqueue(n, &ALONE));
        }
        assert_eq!(pair.running(), [vec![1], vec![]]);
        pair
    }

    fn on<T>(&mut self, host: usize, work: impl FnOnce(&mut Bench) -> T) -> T {
        let bench = &mut self.hosts[host];
        std::mem::swap(&mut bench.redis, &mut self.redis);
        let result = work(bench);
        std::mem::swap(&mut bench.redis, &mut self.redis);
        result
    }

    fn running(&self) -> [Vec<u32>; 2] {
        [0, 1].map(|host| self.hosts[host].running())
    }

    /// Advances time, also at hosts that cannot reach Redis.
    fn pass(&mut self, ms: u64) {
        for _ in 0..ms / 250 {
            for host in 0..2 {
                self.on(host, |bench| bench.pass(250));
            }
        }
    }

    fn end(&mut self, host: usize, n: u32) {
        self.on(host, |bench| bench.end(n, completed("1")));
    }

    fn status(&self, n: u32) -> String {
        self.redis.field(&id(n), "status").unwrap_or_default()
    }

    fn replies(&self, n: u32) -> usize {
        self.redis.items(&format!("hero:reply:{}", id(n))).len()
    }
}

#[test]
fn one_job_of_a_context_runs_over_all_hosts() {
    let mut pair = Pair::with_a_job_each();
    pair.pass(20_000);
    assert_eq!(pair.running(), [vec![1], vec![]], "the turn is kept");
    pair.end(0, 1);
    pair.pass(250);
    assert_eq!(pair.running(), [vec![], vec![2]]);
    pair.end(1, 2);
    assert_eq!([pair.status(1), pair.status(2)], ["finished", "finished"]);
    assert!(!pair.redis.keys.contains_key("hero:context:c"));
}

#[test]
fn what_waits_for_a_turn_takes_no_room_and_can_be_stopped() {
    let mut pair = Pair::with_a_job_each();
    pair.on(1, |bench| bench.enqueue(3, &[]));
    assert_eq!(pair.running(), [vec![1], vec![3]]);
    pair.redis.push("hero:stop_queue:w1", &id(2));
    pair.pass(250);
    assert_eq!(pair.status(2), "error");
    pair.end(0, 1);
    assert_eq!(pair.status(1), "finished");
}

#[test]
fn the_turn_of_a_host_that_was_killed_ends_with_its_claim() {
    let mut pair = Pair::with_a_job_each();
    pair.hosts[0].disconnect();
    for _ in 0..16 {
        pair.on(1, |bench| bench.pass(1_000));
    }
    assert_eq!(pair.running()[1], [2], "after at most 15 s and a read");
    pair.end(1, 2);
    for _ in 0..16 {
        pair.on(1, |bench| bench.pass(1_000));
    }
    assert_eq!(pair.running()[1], [1], "the other host runs its job too");
}

#[test]
fn a_host_that_has_lost_its_turn_stops_its_guest_and_writes_no_result() {
    for ends_before_it_is_back in [false, true] {
        let mut pair = Pair::with_a_job_each();
        pair.hosts[0].disconnect();
        // Host 1 has no room to take over the job itself.
        for _ in 0..16 {
            pair.pass(1_000);
        }
        assert_eq!(pair.running(), [vec![1], vec![2]], "cut off");
        if ends_before_it_is_back {
            pair.end(0, 1);
        }
        pair.on(0, Bench::connect);
        if !ends_before_it_is_back {
            let stops = &pair.hosts[0].stops;
            assert!(
                matches!(stops[..], [(_, 0, Stop::Disconnected)]),
                "{stops:?}"
            );
            let tag = pair.hosts[0].guest(1).unwrap();
            pair.hosts[0].guests.remove(&tag);
            pair.on(0, |bench| {
                let ended = ExecutionAnswer::Ended(completed("1"));
                bench.drive(|worker: &mut Worker, at, todo| {
                    worker.on_answer(at, tag, ended, todo);
                });
            });
        }
        assert_eq!((pair.status(1).as_str(), pair.replies(1)), ("started", 0));
        pair.end(1, 2);
        pair.pass(20_000);
        let running = pair.running();
        let again = (0..2).find(|host| running[*host] == [1]);
        pair.end(again.expect("it runs again"), 1);
        assert_eq!((pair.status(1).as_str(), pair.replies(1)), ("finished", 1));
    }
}

#[test]
fn a_job_that_had_the_turn_before_a_restart_goes_first() {
    let mut bench = Bench::with(|config| config.concurrency = 4);
    bench.enqueue(1, &ALONE);
    assert_eq!(bench.running(), [1]);
    let mut again = Bench::with(|config| config.concurrency = 4);
    again.disconnect();
    again.redis = bench.redis.clone();
    again
        .redis
        .enqueue("w1", &id(2), &[("script", "1"), ALONE[0], ALONE[1]]);
    again.connect();
    again.pass(6_000);
    assert_eq!(again.running(), [1]);
    again.end(1, completed("1"));
    again.pass(250);
    assert_eq!(again.running(), [2]);
}

#[test]
fn a_turn_that_two_answers_call_lost_costs_one_run() {
    let mut bench = Bench::with(|config| config.concurrency = 1);
    bench.enqueue(1, &ALONE);
    assert_eq!(bench.running(), [1]);
    bench.redis.keys.remove("hero:context:c");
    // Redis is slow: the host asks twice before the first answer comes.
    for _ in 0..2 {
        bench.now = bench.now.plus_ms(5_000);
        bench.hand_in(Worker::on_wakeup);
    }
    bench.settle();
    assert_eq!(bench.running(), [1, 1]);
    bench.end_with(1, ExecutionAnswer::Ended(completed("stopped")));
    assert_eq!(bench.status(1), "started");
    bench.end(1, completed("1"));
    assert_eq!(
        (bench.status(1).as_str(), bench.worker.is_idle()),
        ("finished", true)
    );
    bench.enqueue(2, &ALONE);
    assert_eq!(bench.running(), [2]);
}
