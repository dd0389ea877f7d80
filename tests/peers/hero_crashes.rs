//! Hosts and Redis are killed at random points while they run Hero jobs: no job is lost, and each ends
//! once.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use host_tests::{Redis, Server, eventually};

use crate::hero_serve::{Client, Fixture, WAIT_MAX, id};
use crate::redis_monitor::{Ends, RedisMonitor};

/// How many jobs run while hosts are killed.
const MANY: u32 = 5_000;

/// The same for tests that need fewer jobs.
pub(crate) const SOME: u32 = 600;

/// A pseudo-random generator with a seed.
pub(crate) struct Random(u64);

impl Random {
    /// Uses the seed in `HOST_TEST_SEED`, or one from the clock. A failing test shows the seed.
    pub(crate) fn new() -> Self {
        let given = std::env::var("HOST_TEST_SEED").ok();
        let seed = given.and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            now.as_secs() ^ u64::from(now.subsec_nanos())
        });
        println!("HOST_TEST_SEED={seed}");
        Self(seed)
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let end = u64::try_from(end.max(1)).unwrap();
        usize::try_from((mixed ^ (mixed >> 31)) % end).unwrap()
    }
}

/// Submits jobs; some of them sleep for a moment.
pub(crate) fn submit(client: &mut Client, count: u32) {
    client.submit_many(1..=count, |n| {
        let ms = if n % 4 == 0 { n % 23 } else { 0 };
        vec![
            ("handler", "sleep".to_owned()),
            ("script", format!(r#"{{"ms":{ms}}}"#)),
        ]
    });
}

/// Starts a host with the handlers that [`submit`] needs.
fn host(fixture: &Fixture, name: &str) -> Server {
    let url = fixture.redis.url();
    let text = format!("[protocol.hero]\nurl = {url:?}\nworker_ids = [\"w1\"]\n");
    fixture.host_of(name, &text, &["basics"])
}

/// Waits until `count` jobs have ended, so that a host can be killed while the others run.
pub(crate) fn until_ended(redis_monitor: &RedisMonitor, count: usize) {
    eventually(&format!("{count} jobs to end"), WAIT_MAX, || {
        (redis_monitor.count() >= count).then_some(())
    });
}

/// Waits until every job has ended. Checks that each finished once and that nothing is left in Redis.
pub(crate) fn check(client: &mut Client, count: u32) {
    let mut open: Vec<u32> = (1..=count).collect();
    eventually("all jobs to end", WAIT_MAX, || {
        let found = client.statuses(&open);
        let mut statuses = found.iter();
        open.retain(|_| statuses.next().is_none_or(|status| status != "finished"));
        open.is_empty().then_some(())
    });
    let mut wrong = String::new();
    for (n, replies) in (1..).zip(client.reply_counts(count)) {
        if replies != 1 {
            write!(wrong, "{n} was answered {replies} times; ").unwrap();
        }
    }
    assert_eq!(wrong, "");
    for list in ["work_queue", "processing"] {
        eventually(list, WAIT_MAX, || (client.length(list) == 0).then_some(()));
    }
}

/// Checks that the end of each job was written exactly once, even if it was overwritten later.
fn check_written_once(redis_monitor: &RedisMonitor, client: &mut Client, count: u32) {
    let once = Ends {
        written: 1,
        answered: 1,
        ..Ends::default()
    };
    let ends = redis_monitor.ends(client);
    assert_eq!(ends.len(), count as usize);
    for n in 1..=count {
        assert_eq!(ends.get(&id(n)), Some(&once), "{n}");
    }
}

#[test]
fn a_host_killed_at_random_points_loses_no_job() {
    const KILLS: usize = 6;
    let mut chance = Random::new();
    let fixture = Fixture::new(Redis::start());
    let redis_monitor = RedisMonitor::start(&fixture.redis);
    let mut client = fixture.client();
    submit(&mut client, MANY);
    for kill in 0..KILLS {
        let host = host(&fixture, "data");
        let open = MANY as usize - redis_monitor.count();
        until_ended(
            &redis_monitor,
            redis_monitor.count() + chance.below(open / (KILLS + 1 - kill)),
        );
        host.kill();
    }
    assert!(
        redis_monitor.count() < MANY as usize,
        "hosts were killed while jobs ran"
    );
    let _host = host(&fixture, "data");
    check(&mut client, MANY);
    check_written_once(&redis_monitor, &mut client, MANY);
}

#[test]
fn a_host_takes_over_the_jobs_of_a_killed_host() {
    const KILLS: usize = 3;
    let mut chance = Random::new();
    let fixture = Fixture::new(Redis::start());
    let redis_monitor = RedisMonitor::start(&fixture.redis);
    let mut client = fixture.client();
    let mut victim = host(&fixture, "victim");
    let other = host(&fixture, "other");
    submit(&mut client, MANY);
    for kill in 0..KILLS {
        let open = MANY as usize - redis_monitor.count();
        until_ended(
            &redis_monitor,
            redis_monitor.count() + chance.below(open / (KILLS + 2 - kill)),
        );
        victim.kill();
        victim = host(&fixture, "victim");
    }
    let open = MANY as usize - redis_monitor.count();
    until_ended(
        &redis_monitor,
        redis_monitor.count() + chance.below(open / 2),
    );
    victim.kill();
    check(&mut client, MANY);
    check_written_once(&redis_monitor, &mut client, MANY);
    assert_eq!(other.stop(), Some(0));
}

/// Returns how many runs are in the history of a host.
fn ran(host: &Server) -> usize {
    host.client().items("/api/v1/jobs").len()
}

#[test]
fn two_hosts_on_one_queue_run_no_job_twice() {
    let fixture = Fixture::new(Redis::start());
    let redis_monitor = RedisMonitor::start(&fixture.redis);
    let mut client = fixture.client();
    let hosts = [host(&fixture, "first"), host(&fixture, "second")];
    submit(&mut client, SOME);
    check(&mut client, SOME);
    check_written_once(&redis_monitor, &mut client, SOME);
    eventually("both histories to have all jobs once", WAIT_MAX, || {
        let (first, second) = (ran(&hosts[0]), ran(&hosts[1]));
        assert!(first + second <= SOME as usize, "{first} and {second}");
        (first + second == SOME as usize && first > 0 && second > 0).then_some(())
    });
}

/// Kills a Redis at random points while a host runs its jobs, and returns how many runs are in the
/// history of the host. One job runs during all kills.
fn redis_dies(redis: Redis) -> usize {
    const KILLS: u32 = 3;
    let mut chance = Random::new();
    let mut fixture = Fixture::new(redis);
    let mut client = fixture.client();
    let host = host(&fixture, "data");
    client.submit(
        SOME + 1,
        &[("handler", "sleep"), ("script", r#"{"ms":6000}"#)],
    );
    client.until_status(SOME + 1, "started");
    submit(&mut client, SOME);
    for kill in 0..KILLS {
        let redis_monitor = RedisMonitor::start(&fixture.redis);
        until_ended(&redis_monitor, 1 + chance.below(SOME as usize / 6));
        fixture.redis.kill();
        let ready = host.client().get("/readyz").unwrap();
        assert_eq!(ready.status, 200, "{kill}: {:?}", ready.body);
        fixture.redis.start_again();
    }
    let mut client = fixture.client();
    check(&mut client, SOME + 1);
    let mut runs = 0;
    eventually("each run in the history", WAIT_MAX, || {
        runs = ran(&host);
        (runs > SOME as usize).then_some(())
    });
    assert_eq!(host.stop(), Some(0));
    runs
}

#[test]
fn jobs_survive_a_redis_that_syncs_every_write() {
    let runs = redis_dies(Redis::durable());
    assert_eq!(runs, SOME as usize + 1, "confirmed jobs do not run again");
}

#[test]
fn jobs_survive_a_redis_that_syncs_every_second() {
    // Redis may forget its last confirmed writes. Those jobs run again and are still answered once.
    redis_dies(Redis::logged());
}

#[test]
fn a_host_starts_and_stops_without_its_redis() {
    let mut fixture = Fixture::new(Redis::durable());
    fixture.redis.kill();
    let host = fixture.host("data");
    assert_eq!(host.client().get("/readyz").unwrap().status, 200);
    fixture.redis.start_again();
    let mut client = fixture.client();
    client.submit(1, &[("script", "1")]);
    assert_eq!(client.reply(1), "1");
    client.submit(2, &[("handler", "spin")]);
    client.until_status(2, "started");
    fixture.redis.kill();
    assert_eq!(host.stop(), Some(0));
    fixture.redis.start_again();
    let mut client = fixture.client();
    assert_eq!(
        client.length("processing"),
        1,
        "the host could not give the job back"
    );
    let _host = fixture.host("data");
    client.stop(2);
    client.until_status(2, "error");
}

#[test]
fn a_host_that_stops_gives_its_jobs_back() {
    let fixture = Fixture::new(Redis::start());
    let mut client = fixture.client();
    let host = fixture.host("first");
    client.submit(1, &[("handler", "sleep"), ("script", r#"{"ms":60000}"#)]);
    client.until_status(1, "started");
    assert_eq!(host.stop(), Some(0));
    assert_eq!(client.field(1, "status"), "dispatched");
    assert_eq!(
        (client.length("work_queue"), client.length("processing")),
        (1, 0)
    );
    client.store(1, &[("script", r#"{"ms":1}"#)]);
    let _host = fixture.host("second");
    client.until_status(1, "finished");
}
