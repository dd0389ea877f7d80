//! Limits by key of a whole host: no key has more than its limit, whatever happens to the host, and all jobs end.

use std::time::Duration;

use host_tests::{Client, Options, Server, eventually, guests};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::nodes::{Node, deploy, endless, knows, runs};

/// Longer than the jobs of a test take, with restarts.
const ENDS_WITHIN: Duration = Duration::from_mins(2);

fn set(client: &Client, name: &str, body: &Value) -> Value {
    let path = format!("/api/v1/limits/{name}");
    let answer = client.call("PUT", &path, Some(body)).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

fn for_customer(customer: &str, mut job: Value) -> Value {
    job["attributes"] = json!({"customer": customer});
    job
}

fn asleep(customer: &str, ms: u64) -> Value {
    for_customer(customer, json!({"handler": "sleep", "params": {"ms": ms}}))
}

/// Waits until all jobs have completed. Returns them with their attempts: when each began and ended.
fn attempts(client: &Client, jobs: &[String]) -> Vec<Vec<(i64, i64)>> {
    let completed = || {
        let done = |id: &String| client.job(id)["state"] == "completed";
        jobs.iter().all(done).then_some(())
    };
    eventually("all jobs complete", ENDS_WITHIN, completed);
    let ms = |value: &Value| {
        let time = host_core::time::Time::parse_rfc3339(value.as_str().unwrap());
        time.unwrap().0
    };
    let of_job = |id: &String| {
        let attempts = client.items(&format!("/api/v1/jobs/{id}/attempts"));
        let times = attempts.iter();
        times
            .map(|it| (ms(&it["started_at"]), ms(&it["finished_at"])))
            .collect()
    };
    jobs.iter().map(of_job).collect()
}

/// How far the clocks of two hosts on one machine may be apart: each follows the system's with a delay.
const CLOCKS_APART_MS: i64 = 10;

/// Checks that no two of these attempts were at the same time.
fn one_after_the_other(attempts: &[Vec<(i64, i64)>]) {
    let mut all: Vec<(i64, i64)> = attempts.iter().flatten().copied().collect();
    all.sort_unstable();
    for pair in all.windows(2) {
        assert!(pair[0].1 <= pair[1].0 + CLOCKS_APART_MS, "{all:?}");
    }
}

#[test]
fn one_job_of_each_customer_runs_though_the_host_is_killed() {
    let data = TempDir::new().unwrap();
    let options = Options::new(data.path());
    let mut host = Server::start(&options);
    deploy(&host.client());
    let by_customer = json!({"key": "attributes:customer", "concurrency": 1});
    set(&host.client(), "by-customer", &by_customer);
    let client = host.client();
    let of_acme = |n: u64| client.enqueue(&asleep("acme", 40 + n));
    let acme: Vec<String> = (0..20).map(of_acme).collect();
    let beta: Vec<String> = (0..5)
        .map(|n| client.enqueue(&asleep("beta", 60 + n)))
        .collect();
    let done = |client: &Client, jobs: usize| {
        eventually("some jobs have ended", ENDS_WITHIN, || {
            let all = client.items("/api/v1/jobs");
            let ended = all.iter().filter(|job| job["state"] == "completed");
            (ended.count() >= jobs).then_some(())
        });
    };
    for kills in 1..=3 {
        done(&host.client(), 4 * kills);
        host.kill();
        host = Server::start(&options);
        knows(&host.client());
    }
    let client = host.client();
    let (of_acme, of_beta) = (attempts(&client, &acme), attempts(&client, &beta));
    one_after_the_other(&of_acme);
    one_after_the_other(&of_beta);
    let last = |all: &[Vec<(i64, i64)>]| all.iter().flatten().map(|it| it.1).max();
    assert!(last(&of_beta) < last(&of_acme), "customers take turns");
    let shown = client.get("/api/v1/limits/by-customer").unwrap().body;
    assert_eq!((&shown["waiting"], &shown["keys"]), (&json!(0), &json!([])));
}

#[test]
fn two_nodes_share_the_keys_and_the_rate() {
    let node = Node::new("limit_keys");
    let other = node.another();
    let (first, second) = (node.start(), other.start());
    deploy(&first.client());
    knows(&second.client());
    let by_customer = json!({"key": "attributes:customer", "concurrency": 1});
    set(&first.client(), "by-customer", &by_customer);
    let rate =
        json!({"match": {"handler": "echo"}, "rate": {"count": 4, "per_seconds": 1, "burst": 2}});
    set(&second.client(), "rate", &rate);
    let clients = [first.client(), second.client()];
    let mut acme = Vec::new();
    let mut echoes = Vec::new();
    for n in 0..12 {
        let client = &clients[n % 2];
        acme.push(client.enqueue(&asleep("acme", 100)));
        let customer = format!("customer-{n}");
        echoes.push(client.enqueue(&for_customer(&customer, json!({"handler": "echo"}))));
    }
    one_after_the_other(&attempts(&clients[0], &acme));
    let mut starts: Vec<i64> = attempts(&clients[1], &echoes)
        .iter()
        .flatten()
        .map(|attempt| attempt.0)
        .collect();
    starts.sort_unstable();
    for (n, first) in starts.iter().enumerate() {
        for (m, last) in starts.iter().enumerate().skip(n) {
            // The clocks of nodes may differ by some milliseconds.
            let most = 2 + (last - first + 250) * 4 / 1_000;
            assert!(i64::try_from(m - n + 1).unwrap() <= most, "{starts:?}");
        }
    }
}

#[test]
fn a_full_limit_says_why_jobs_wait_and_refuses_them_if_it_should() {
    let data = TempDir::new().unwrap();
    let config = data.path().join("host.toml");
    let text = "[limits]\nqueues = 100\n[limits.by.uploads]\nmatch = { queue = \"up*\" }\nconcurrency = 1\n\
                when_full = \"refuse\"\n";
    std::fs::write(&config, text).unwrap();
    let mut options = Options::new(data.path());
    options.args = vec!["--config".to_owned(), config.display().to_string()];
    let host = Server::start(&options);
    let client = host.client();
    deploy(&client);
    let in_uploads = || {
        let mut job = endless();
        job["queue"] = json!("uploads");
        client.post("/api/v1/jobs", &job).unwrap()
    };
    assert_eq!(in_uploads().status, 201);
    let refused = in_uploads();
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (422, &json!("limit_full"))
    );
    assert_eq!(refused.body["detail"], "the limit uploads is full");
    let owned = client
        .call("DELETE", "/api/v1/limits/uploads", None)
        .unwrap();
    assert_eq!(owned.body["code"], "limit_owned");
    let limit = |jobs: u64| json!({"key": "attributes:customer", "concurrency": jobs, "match": {"queue": "default"}});
    set(&client, "by-customer", &limit(1));
    let jobs: Vec<String> = (0..4)
        .map(|_| client.enqueue(&for_customer("acme", endless())))
        .collect();
    runs(&client, &jobs[0], 1);
    let waits = client.job(&jobs[1]);
    assert_eq!(waits["state"], "pending");
    assert_eq!(
        waits["waits_because"],
        "the limit by-customer is full: it lets jobs of acme run 1 at a time"
    );
    let shown = client.get("/api/v1/limits/by-customer").unwrap().body;
    assert_eq!(
        shown["keys"],
        json!([{"key": "acme", "waiting": 3, "available": 0, "running": 1}])
    );
    let metrics = client.get("/metrics").unwrap().body;
    let line = "host_limit_waiting_jobs{limit=\"by-customer\"} 3\n";
    assert!(metrics.as_str().unwrap().contains(line), "{metrics}");
    // A limit that is raised or removed lets those that wait start by themselves.
    set(&client, "by-customer", &limit(3));
    for job in &jobs[..3] {
        runs(&client, job, 1);
    }
    assert_eq!(client.job(&jobs[3])["state"], "pending");
    let removed = client
        .call("DELETE", "/api/v1/limits/by-customer", None)
        .unwrap();
    assert_eq!(
        removed.body,
        json!({"name": "by-customer", "removed": true})
    );
    runs(&client, &jobs[3], 1);
}

#[test]
fn a_new_job_cancels_the_one_that_runs_on_another_node() {
    let node = Node::new("limit_cancels");
    let other = node.another();
    let (first, second) = (node.start(), other.start());
    deploy(&first.client());
    let by_branch =
        json!({"key": "attributes:customer", "concurrency": 1, "when_full": "cancel_running"});
    set(&first.client(), "by-branch", &by_branch);
    let old = first.client().enqueue(&for_customer("main", endless()));
    runs(&first.client(), &old, 1);
    // Either node may have claimed it: the test asks both.
    knows(&second.client());
    let clients = [first.client(), second.client()];
    let new = [1, 2].map(|n| clients[n % 2].enqueue(&asleep("main", 50)));
    let cancelled = clients[1].wait(&old);
    assert_eq!(cancelled["state"], "cancelled", "{cancelled}");
    let reason = "a new job needs its place under the limit by-branch";
    assert!(cancelled.to_string().contains(reason), "{cancelled}");
    let ended = |client: &Client, id: &String| client.wait(id)["state"].clone();
    assert_eq!(ended(&clients[0], &new[1]), "completed");
    let first_new = ended(&clients[0], &new[0]);
    assert!(
        first_new == "completed" || first_new == "cancelled",
        "{first_new}"
    );
    let shown = clients[0].get("/api/v1/limits/by-branch").unwrap().body;
    assert_eq!(shown["keys"], json!([]));
}

const MAY_HOLD: &str = "[handlers.\"case.hold\"]\nhold = [\"by-customer\"]\n";

#[test]
fn a_held_key_keeps_jobs_from_starting_on_another_node() {
    let node = Node::new("limit_holds");
    let other = node.another();
    let (first, second) = (node.start(), other.start());
    deploy(&first.client());
    let component = std::fs::read(guests::component("cases")).unwrap();
    let deployed = first
        .client()
        .deploy_accepted("cases", &component, Some(MAY_HOLD))
        .unwrap();
    assert_eq!(deployed.status, 201, "{deployed:?}");
    set(
        &first.client(),
        "by-customer",
        &json!({"key": "attributes:customer", "concurrency": 9}),
    );
    let params = json!({"limit": "by-customer", "ms": 4_000});
    let job = json!({"handler": "case.hold", "params": params, "max_attempts": 1});
    let holder = first.client().enqueue(&for_customer("acme", job));
    let client = second.client();
    eventually("the handler asks for a retry", ENDS_WITHIN, || {
        (client.job(&holder)["state"] == "retryable").then_some(())
    });
    let shown = client.get("/api/v1/limits/by-customer").unwrap().body;
    let until = shown["keys"][0]["held_until"].as_str().unwrap().to_owned();
    let waits = client.enqueue(&asleep("acme", 1));
    let because = client.job(&waits)["waits_because"].clone();
    assert_eq!(
        because,
        format!("a handler holds its key of the limit by-customer until {until}")
    );
    let free = client.enqueue(&asleep("beta", 1));
    let times = attempts(&client, &[waits, free]);
    let until = host_core::time::Time::parse_rfc3339(&until).unwrap().0;
    assert!(times[0][0].0 >= until, "{times:?} {until}");
    assert!(times[1][0].0 < until, "{times:?} {until}");
    client
        .post(&format!("/api/v1/jobs/{holder}/cancel"), &json!({}))
        .unwrap();
    assert_eq!(client.wait(&holder)["state"], "cancelled");
}
