//! Two hosts with three worker ids, and jobs with random dependencies, circles, stops and retries, while
//! either host and Redis are killed: each job ends once, none runs after its end, and dependents finish
//! only after what they wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use host_tests::{Redis, Server, eventually};

use crate::hero_crashes::Random;
use crate::hero_serve::{Client, Fixture, id, store_command};
use crate::redis_monitor::{Ends, ends_kept};

/// The number of jobs, unless `HOST_TEST_JOBS` is set: 2,000 is the full test.
const JOBS: u32 = 400;

/// How long to wait for the end of all jobs.
const WAIT_MAX: Duration = Duration::from_mins(8);

/// How long a circle may last.
const CIRCLE_MAX: Duration = Duration::from_mins(1);

/// The dependencies of each job, and its possible ends.
#[derive(Default)]
struct Plan {
    needs: BTreeMap<u32, BTreeSet<u32>>,
    circles: BTreeSet<u32>,
    failing: BTreeSet<u32>,
    stopped: BTreeSet<u32>,
}

fn worker(n: u32) -> String {
    format!("s{}", n % 3)
}

impl Plan {
    fn random(chance: &mut Random, jobs: u32) -> Self {
        let mut plan = Self::default();
        for n in 1..=jobs {
            let mut pick = |of: u32| u32::try_from(chance.below(of as usize)).unwrap();
            let needs = plan.needs.entry(n).or_default();
            if n > 1 && pick(3) == 0 {
                needs.extend((0..=pick(2)).map(|_| 1 + pick(n - 1)));
            }
            match pick(20) {
                0 | 1 => drop(plan.failing.insert(n)),
                2 | 3 => drop(plan.stopped.insert(n)),
                // This job and the next, which belongs to another worker id, wait for each other.
                4 if n < jobs => plan.circles.extend([n, n + 1]),
                _ => {}
            }
        }
        let circles: Vec<u32> = plan.circles.iter().copied().collect();
        for n in circles {
            let other = if plan.circles.contains(&(n + 1)) {
                n + 1
            } else {
                n - 1
            };
            plan.needs.entry(n).or_default().insert(other);
        }
        plan
    }

    fn submit(&self, client: &mut Client, n: u32) {
        let ids: Vec<String> = self.needs[&n].iter().map(|n| id(*n)).collect();
        let needs = serde_json::to_string(&ids).unwrap();
        let sleep = format!(r#"{{"ms":{}}}"#, n % 23);
        let worker = worker(n);
        let mut fields = vec![
            ("worker_id", worker.as_str()),
            ("prerequisites", needs.as_str()),
        ];
        if self.failing.contains(&n) {
            fields.extend([("script", "throw \"no\""), ("retries", "1")]);
        } else {
            fields.extend([("handler", "sleep"), ("script", sleep.as_str())]);
        }
        let mut all = redis::pipe();
        all.add_command(store_command(n, &fields)).ignore();
        all.lpush(format!("hero:work_queue:{worker}"), id(n))
            .ignore();
        if self.stopped.contains(&n) {
            all.lpush(format!("hero:stop_queue:{worker}"), id(n))
                .ignore();
        }
        let () = all.query(&mut client.0).unwrap();
    }

    /// Checks how each job ended.
    fn check(&self, client: &mut Client) {
        for (n, needs) in &self.needs {
            let (status, error) = (client.field(*n, "status"), client.field(*n, "error"));
            assert_eq!(client.replies(*n), 1, "{n}: {status} {error}");
            if status == "finished" {
                assert!(!self.failing.contains(n), "{n}");
                for other in needs {
                    assert_eq!(
                        client.field(*other, "status"),
                        "finished",
                        "{n} ran before {other}"
                    );
                    let (before, after) = (
                        client.field(*other, "updated_at"),
                        client.field(*n, "updated_at"),
                    );
                    assert!(before <= after, "{other} at {before}, {n} at {after}");
                }
                continue;
            }
            let is_due = (error.contains("no") && self.failing.contains(n))
                || (error == "stopped_by_request" && self.stopped.contains(n))
                || (error.contains("E_DEP_CYCLE") && !needs.is_empty())
                || needs
                    .iter()
                    .any(|other| error == format!("prerequisite_failed: {}", id(*other)));
            assert!(is_due, "{n}: {status} {error}");
        }
    }
}

fn host(fixture: &Fixture, name: &str) -> Server {
    let url = fixture.redis.url();
    let text = format!("[protocol.hero]\nurl = {url:?}\nworker_ids = [\"s0\", \"s1\", \"s2\"]\n");
    fixture.host_of(name, &text, &["basics", "hero-rhai"])
}

fn jobs() -> u32 {
    let given = std::env::var("HOST_TEST_JOBS").ok();
    given.and_then(|jobs| jobs.parse().ok()).unwrap_or(JOBS)
}

fn until_ended(redis: &Redis, count: usize) {
    eventually(&format!("{count} jobs to end"), WAIT_MAX, || {
        (ends_kept(redis).len() >= count).then_some(())
    });
}

#[test]
fn each_job_of_a_storm_ends_once_and_in_order() {
    let (mut chance, jobs) = (Random::new(), jobs());
    let plan = Plan::random(&mut chance, jobs);
    let mut fixture = Fixture::new(Redis::durable());
    let mut hosts = [host(&fixture, "first"), host(&fixture, "second")].map(Some);
    let mut client = fixture.client();
    for n in 1..=jobs {
        plan.submit(&mut client, n);
    }
    for kill in 0..6_usize {
        let ended = ends_kept(&fixture.redis).len();
        let open = (jobs as usize).saturating_sub(ended);
        until_ended(&fixture.redis, ended + chance.below(open / (8 - kill)));
        if kill % 3 == 2 {
            fixture.redis.kill();
            fixture.redis.start_again();
        } else {
            let (name, place) = [("first", 0), ("second", 1)][kill % 3];
            hosts[place].take().unwrap().kill();
            hosts[place] = Some(host(&fixture, name));
        }
    }
    let mut client = fixture.client();
    let mut open: Vec<u32> = (1..=jobs).collect();
    eventually("all jobs to end", WAIT_MAX, || {
        let found = client.statuses(&open);
        let mut statuses = found.iter();
        open.retain(|_| {
            !matches!(
                statuses.next().map(String::as_str),
                Some("finished" | "error")
            )
        });
        open.is_empty().then_some(())
    });
    plan.check(&mut client);
    let once = Ends {
        written: 1,
        answered: 1,
        ..Ends::default()
    };
    let ends = ends_kept(&fixture.redis);
    for n in 1..=jobs {
        assert_eq!(ends.get(&id(n)), Some(&once), "{n}");
    }
    a_circle_over_all_worker_ids_ends(&mut client, jobs);
}

fn a_circle_over_all_worker_ids_ends(client: &mut Client, jobs: u32) {
    let members = [jobs + 1, jobs + 2, jobs + 3];
    let mut plan = Plan::default();
    for (place, n) in members.into_iter().enumerate() {
        plan.needs.insert(n, [members[(place + 1) % 3]].into());
    }
    for n in members {
        plan.submit(client, n);
    }
    eventually("the circle to end", CIRCLE_MAX, || {
        let statuses = client.statuses(&members);
        statuses
            .iter()
            .all(|status| status == "error")
            .then_some(())
    });
    plan.check(client);
}
