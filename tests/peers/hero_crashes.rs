//! Hero's jobs through the deaths of hosts and of Redis at random points: none is lost, each ends once.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use host_tests::{Redis, Server, eventually};

use crate::hero_serve::{Client, PATIENCE, Scene, id};
use crate::witness::{Ends, Witness};

/// How many jobs hosts are killed amid.
const MANY: u32 = 5_000;

/// The same where less will do.
pub(crate) const SOME: u32 = 600;

/// Numbers of which nobody knows the next one, unless he has the seed.
struct Chance(u64);

impl Chance {
    /// Takes the seed of `HOST_TEST_SEED`, or one of its own; a test that fails shows it.
    fn new() -> Self {
        let given = std::env::var("HOST_TEST_SEED").ok();
        let seed = given.and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            now.as_secs() ^ u64::from(now.subsec_nanos())
        });
        println!("HOST_TEST_SEED={seed}");
        Self(seed)
    }

    /// Returns a number below `end`, or 0.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let end = u64::try_from(end.max(1)).unwrap();
        usize::try_from((mixed ^ (mixed >> 31)) % end).unwrap()
    }
}

/// Submits jobs of which some take a moment.
pub(crate) fn submit(client: &mut Client, count: u32) {
    client.submit_many(1..=count, |n| {
        let ms = if n % 4 == 0 { n % 23 } else { 0 };
        vec![
            ("handler", "sleep".to_owned()),
            ("script", format!(r#"{{"ms":{ms}}}"#)),
        ]
    });
}

/// Starts a host that can do what [`submit`] asks for.
fn host(scene: &Scene, name: &str) -> Server {
    let url = scene.redis.url();
    let text = format!("[protocol.hero]\nurl = {url:?}\nworker_ids = [\"w1\"]\n");
    scene.host_of(name, &text, &["basics"])
}

/// Waits until so many have ended, for a host to be killed amid the others.
pub(crate) fn until_ended(witness: &Witness, count: usize) {
    eventually(&format!("{count} jobs to end"), PATIENCE, || {
        (witness.count() >= count).then_some(())
    });
}

/// Waits until every job has ended, and checks that it did well and once, and that nothing is left.
pub(crate) fn check(client: &mut Client, count: u32) {
    let mut open: Vec<u32> = (1..=count).collect();
    eventually("all jobs to end", PATIENCE, || {
        let statuses = client.statuses(&open);
        let mut statuses = statuses.iter();
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
        eventually(list, PATIENCE, || (client.length(list) == 0).then_some(()));
    }
}

/// Checks that the end of each job was written once, even if that was later overwritten.
fn check_heard(witness: &Witness, client: &mut Client, count: u32) {
    let once = Ends {
        written: 1,
        answered: 1,
    };
    let ends = witness.ends(client);
    assert_eq!(ends.len(), count as usize);
    for n in 1..=count {
        assert_eq!(ends.get(&id(n)), Some(&once), "{n}");
    }
}

#[test]
fn a_host_that_is_killed_at_random_points_loses_no_job() {
    const KILLS: usize = 6;
    let mut chance = Chance::new();
    let scene = Scene::new(Redis::start());
    let witness = Witness::start(&scene.redis);
    let mut client = scene.client();
    submit(&mut client, MANY);
    for kill in 0..KILLS {
        let host = host(&scene, "data");
        let open = MANY as usize - witness.count();
        until_ended(
            &witness,
            witness.count() + chance.below(open / (KILLS - kill)),
        );
        host.kill();
    }
    assert!(
        witness.count() < MANY as usize,
        "they were killed amid them"
    );
    let _host = host(&scene, "data");
    check(&mut client, MANY);
    check_heard(&witness, &mut client, MANY);
}

#[test]
fn a_host_takes_over_what_another_one_had_at_any_point() {
    const KILLS: usize = 3;
    let mut chance = Chance::new();
    let scene = Scene::new(Redis::start());
    let witness = Witness::start(&scene.redis);
    let mut client = scene.client();
    let mut victim = host(&scene, "victim");
    let other = host(&scene, "other");
    submit(&mut client, MANY);
    for kill in 0..KILLS {
        let open = MANY as usize - witness.count();
        until_ended(
            &witness,
            witness.count() + chance.below(open / (KILLS + 2 - kill)),
        );
        victim.kill();
        victim = host(&scene, "victim");
    }
    let open = MANY as usize - witness.count();
    until_ended(&witness, witness.count() + chance.below(open / 2));
    victim.kill();
    check(&mut client, MANY);
    check_heard(&witness, &mut client, MANY);
    assert_eq!(other.stop(), Some(0));
}

/// Returns how many runs a host has in its history.
fn ran(host: &Server) -> usize {
    let mut runs = 0;
    let mut path = "/api/v1/jobs?limit=100".to_owned();
    loop {
        let page = host.client().get(&path).unwrap().body;
        runs += page["items"].as_array().unwrap().len();
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/api/v1/jobs?limit=100&cursor={cursor}"),
            None => return runs,
        }
    }
}

#[test]
fn two_hosts_on_one_queue_run_no_job_twice() {
    let scene = Scene::new(Redis::start());
    let witness = Witness::start(&scene.redis);
    let mut client = scene.client();
    let hosts = [host(&scene, "first"), host(&scene, "second")];
    submit(&mut client, SOME);
    check(&mut client, SOME);
    check_heard(&witness, &mut client, SOME);
    eventually("both histories to have all jobs once", PATIENCE, || {
        let (first, second) = (ran(&hosts[0]), ran(&hosts[1]));
        assert!(first + second <= SOME as usize, "{first} and {second}");
        (first + second == SOME as usize && first > 0 && second > 0).then_some(())
    });
}

/// Kills a Redis at random points while a host works for it, and returns how many runs that host has
/// in its history. One of the jobs runs through all of it.
fn redis_dies(redis: Redis) -> usize {
    const KILLS: u32 = 3;
    let mut chance = Chance::new();
    let mut scene = Scene::new(redis);
    let mut client = scene.client();
    let host = host(&scene, "data");
    client.submit(
        SOME + 1,
        &[("handler", "sleep"), ("script", r#"{"ms":1500}"#)],
    );
    client.until_status(SOME + 1, "started");
    submit(&mut client, SOME);
    for kill in 0..KILLS {
        let witness = Witness::start(&scene.redis);
        until_ended(&witness, 1 + chance.below(SOME as usize / 6));
        scene.redis.kill();
        let ready = host.client().get("/readyz").unwrap();
        assert_eq!(ready.status, 200, "{kill}: {:?}", ready.body);
        scene.redis.start_again();
    }
    let mut client = scene.client();
    check(&mut client, SOME + 1);
    let mut runs = 0;
    eventually("each run in the history", PATIENCE, || {
        runs = ran(&host);
        (runs > SOME as usize).then_some(())
    });
    assert_eq!(host.stop(), Some(0));
    runs
}

#[test]
fn jobs_survive_a_redis_that_writes_at_once() {
    let runs = redis_dies(Redis::durable());
    assert_eq!(
        runs,
        SOME as usize + 1,
        "what it had confirmed is not run again"
    );
}

#[test]
fn jobs_survive_a_redis_that_writes_each_second() {
    // It may forget what it has confirmed last: that is run again, and still answered once.
    redis_dies(Redis::logged());
}

#[test]
fn a_host_starts_and_stops_without_its_redis() {
    let mut scene = Scene::new(Redis::durable());
    scene.redis.kill();
    let host = scene.host("data");
    assert_eq!(host.client().get("/readyz").unwrap().status, 200);
    scene.redis.start_again();
    let mut client = scene.client();
    client.submit(1, &[("script", "1")]);
    assert_eq!(client.reply(1), "1");
    client.submit(2, &[("handler", "spin")]);
    client.until_status(2, "started");
    scene.redis.kill();
    assert_eq!(host.stop(), Some(0));
    scene.redis.start_again();
    let mut client = scene.client();
    assert_eq!(client.length("processing"), 1, "nobody could give it back");
    let _host = scene.host("data");
    client.stop(2);
    client.until_status(2, "error");
}

#[test]
fn a_host_that_stops_gives_its_jobs_back() {
    let scene = Scene::new(Redis::start());
    let mut client = scene.client();
    let host = scene.host("first");
    client.submit(1, &[("handler", "sleep"), ("script", r#"{"ms":60000}"#)]);
    client.until_status(1, "started");
    assert_eq!(host.stop(), Some(0));
    assert_eq!(client.field(1, "status"), "dispatched");
    assert_eq!(
        (client.length("work_queue"), client.length("processing")),
        (1, 0)
    );
    client.store(1, &[("script", r#"{"ms":1}"#)]);
    let _host = scene.host("second");
    client.until_status(1, "finished");
}
