//! Schedules of a whole host: they fire by themselves, after a kill too, and once however many nodes there are.

use std::collections::BTreeMap;
use std::time::Duration;

use host_tests::{Client, Options, Server, eventually, guests};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::nodes::{Node, deploy, knows};

/// Longer than a schedule of each second needs for a few firings.
const FIRES_WITHIN: Duration = Duration::from_mins(3);

fn set(client: &Client, name: &str, body: &Value) {
    let path = format!("/api/v1/schedules/{name}");
    let answer = client.call("PUT", &path, Some(body)).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
}

fn show(client: &Client, name: &str) -> Value {
    client
        .get(&format!("/api/v1/schedules/{name}"))
        .unwrap()
        .body
}

/// Waits until a schedule has fired so often.
fn fires(client: &Client, name: &str, times: u64) {
    eventually("the schedule fires", FIRES_WITHIN, || {
        let fired = show(client, name)["counts"]["fired"].as_u64()?;
        (fired >= times).then_some(())
    });
}

/// Returns how many jobs have each nominal time of a schedule.
fn jobs(client: &Client, name: &str) -> BTreeMap<String, u64> {
    let mut jobs = BTreeMap::new();
    for job in client.items("/api/v1/jobs") {
        let shown = client.job(job["id"].as_str().unwrap());
        let attributes = &shown["attributes"];
        if attributes["schedule.name"] == name {
            let nominal = attributes["schedule.nominal"].as_str().unwrap();
            *jobs.entry(nominal.to_owned()).or_default() += 1;
        }
    }
    jobs
}

fn each_second(overlap: &str) -> Value {
    json!({
        "when": {"every": "1s"}, "job": {"handler": "echo"}, "catch_up": "all", "overlap": overlap,
    })
}

#[test]
fn nothing_is_lost_or_fires_twice_when_the_host_is_killed() {
    let data = TempDir::new().unwrap();
    let options = Options::new(data.path());
    let mut host = Server::start(&options);
    deploy(&host.client());
    set(&host.client(), "tick", &each_second("allow"));
    for kills in 1..=3 {
        fires(&host.client(), "tick", 2 * kills);
        host.kill();
        host = Server::start(&options);
        knows(&host.client());
    }
    fires(&host.client(), "tick", 9);
    let client = host.client();
    let paused = client
        .post("/api/v1/schedules/tick/pause", &json!({}))
        .unwrap()
        .body;
    let jobs = jobs(&client, "tick");
    assert!(jobs.values().all(|times| *times == 1), "{jobs:?}");
    assert_eq!(
        jobs.len() as u64,
        paused["counts"]["fired"].as_u64().unwrap()
    );
    let seconds = |text: &String| text[17..19].parse::<i64>().unwrap();
    let nominals: Vec<i64> = jobs.keys().map(seconds).collect();
    let gaps = nominals
        .windows(2)
        .filter(|pair| (pair[1] - pair[0]).rem_euclid(60) != 1);
    assert_eq!(gaps.count(), 0, "{jobs:?}");
}

#[test]
fn two_nodes_fire_once_and_the_other_goes_on_when_one_is_killed() {
    let node = Node::new("schedules");
    let other = node.another();
    let (first, second) = (node.start(), other.start());
    deploy(&first.client());
    knows(&second.client());
    set(&first.client(), "tick", &each_second("allow"));
    set(
        &second.client(),
        "slow",
        &json!({
            "when": {"every": "1s"}, "overlap": "queue_one", "catch_up": "all",
            "job": {"handler": "sleep", "params": {"ms": 1_500}},
        }),
    );
    fires(&second.client(), "tick", 4);
    fires(&first.client(), "slow", 3);
    first.kill();
    let client = second.client();
    let fired = show(&client, "tick")["counts"]["fired"].as_u64().unwrap();
    fires(&client, "tick", fired + 3);
    for name in ["tick", "slow"] {
        let paused = client
            .post(&format!("/api/v1/schedules/{name}/pause"), &json!({}))
            .unwrap()
            .body;
        let jobs = jobs(&client, name);
        assert!(jobs.values().all(|times| *times == 1), "{jobs:?}");
        assert_eq!(
            jobs.len() as u64,
            paused["counts"]["fired"].as_u64().unwrap()
        );
        assert_eq!(paused["counts"]["missed"], 0, "{paused}");
    }
    let skipped = show(&client, "slow")["counts"]["skipped"].as_u64().unwrap();
    assert!(skipped > 0);
    let entries = client.get("/api/v1/schedules/slow/firings").unwrap().body;
    let fates = entries["items"].as_array().unwrap().iter();
    assert!(
        fates.filter(|it| it["fate"] == "held").count() >= 2,
        "{entries}"
    );
}

#[test]
fn schedules_of_a_manifest_come_and_go_with_the_component() {
    let data = TempDir::new().unwrap();
    let host = Server::start(&Options::new(data.path()));
    let client = host.client();
    let component = std::fs::read(guests::component("basics")).unwrap();
    let deploy = |manifest: &str| client.deploy("basics", &component, Some(manifest)).unwrap();
    let tick = "[[schedule]]\nname = \"tick\"\nwhen = { every = \"1s\" }\n\
                job = { handler = \"echo\", params = { n = 1 } }\n";
    for (wrong, detail) in [
        (tick.replace("1s", "1x"), "schedule tick: when.every: "),
        (
            tick.replace("echo", "missing"),
            "schedule tick: job.handler: ",
        ),
        (
            tick.replace("params", "delay_seconds = 1, params"),
            "schedule tick: job.delay_seconds: ",
        ),
        (
            tick.replace("when", "wenn"),
            "schedule tick: unknown field `wenn`",
        ),
        (
            format!("{tick}{tick}"),
            "another schedule of the manifest has this name",
        ),
    ] {
        let refused = deploy(&wrong).body;
        assert_eq!(refused["code"], "manifest_invalid", "{refused}");
        assert!(
            refused["detail"].as_str().unwrap().contains(detail),
            "{refused}"
        );
    }
    let first = deploy(tick);
    assert_eq!(first.body["schedules"], json!(["tick"]), "{}", first.body);
    fires(&client, "tick", 2);
    assert_eq!(show(&client, "tick")["source"], "component:basics");
    let path = "/api/v1/schedules/tick";
    let refused = client.call("DELETE", path, None).unwrap();
    assert_eq!(refused.body["code"], "schedule_owned");
    deploy("[defaults]\nmemory_mib = 32\n");
    assert_eq!(client.get(path).unwrap().status, 404);
    let back = json!({"revision": 1});
    client
        .post("/api/v1/components/basics/rollback", &back)
        .unwrap();
    fires(&client, "tick", 1);
}

#[test]
fn schedules_of_the_configuration_come_and_go_with_it() {
    let node = Node::new("configured_schedules");
    let with =
        |schedules: &str| node.start_configured(&format!("[limits]\nqueues = 100\n{schedules}"));
    let tick = "[schedules.tick]\nwhen = { every = \"1s\" }\njob = { handler = \"echo\", params = { n = 1 } }\n";
    let nightly = "[schedules.nightly]\nwhen = { cron = [\"30 2 * * *\"] }\ntime_zone = \"Europe/Berlin\"\n\
                   job = { handler = \"missing\" }\n";
    let host = with(&format!("{tick}{nightly}"));
    deploy(&host.client());
    fires(&host.client(), "tick", 2);
    let shown = show(&host.client(), "nightly");
    assert_eq!(shown["source"], "configuration");
    assert_eq!(
        shown["schedule"]["job"]["handler"], "missing",
        "it may be deployed later"
    );
    let client = host.client();
    let path = "/api/v1/schedules/tick";
    let refused = client
        .call("PUT", path, Some(&each_second("skip")))
        .unwrap();
    assert_eq!(refused.body["code"], "schedule_owned");
    let refused = client.call("DELETE", path, None).unwrap();
    assert_eq!(refused.body["code"], "schedule_owned");
    client
        .post("/api/v1/schedules/nightly/pause", &json!({}))
        .unwrap();
    host.stop();
    let host = with(&nightly.replace("30 2", "30 4"));
    let client = host.client();
    assert_eq!(client.get(path).unwrap().status, 404);
    let shown = show(&client, "nightly");
    assert_eq!(shown["schedule"]["when"]["cron"], "30 4 * * *");
    assert_eq!(shown["schedule"]["paused"], true, "a user has paused it");
}
