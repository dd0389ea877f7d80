//! Acknowledged jobs are kept: the host is killed while jobs run and while the jobs that wait for a cancelled one are
//! discarded, and every job still ends exactly once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::Duration;

use host_tests::{Client, Options, Server, eventually};
use serde_json::json;
use tempfile::TempDir;

use crate::fixture::deploy;

const JOBS: usize = 10_000;
const CLIENTS: usize = 64;
const KILLS: usize = 5;

/// How many jobs wait for one that is cancelled just before each kill: more than fit into a batch.
const DEPENDENTS: usize = 1_000;

/// State shared by the clients: the host's current address and the acknowledged jobs.
struct Load {
    client: RwLock<Client>,
    next: AtomicUsize,
    acknowledged: Mutex<BTreeMap<String, String>>,
    stop: AtomicBool,
}

impl Load {
    /// Enqueues jobs until all are acknowledged. Repeats a failed request with the same unique key,
    /// because the host may have accepted it.
    fn run(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= JOBS {
                return;
            }
            let key = format!("job-{number}");
            let id = eventually("an acknowledgement", Duration::from_mins(1), || {
                let client = self.client.read().unwrap().clone();
                let job = json!({
                    "handler": "echo", "params": {"n": number},
                    "unique": {"key": key, "scope": "retained"},
                });
                let answer = client.post("/api/v1/jobs", &job).ok()?;
                match answer.status {
                    200 | 201 => Some(answer.body["id"].as_str().unwrap().to_owned()),
                    503 => None,
                    _ => panic!("refused: {answer:?}"),
                }
            });
            self.acknowledged.lock().unwrap().insert(key, id);
        }
    }
}

/// Enqueues a job that starts in a day, and others that wait for it. Returns its id.
fn tree(client: &Client) -> String {
    let later = json!({"handler": "echo", "queue": "trees", "delay_seconds": 86_400});
    let id = client.enqueue(&later);
    let dependent = json!({"handler": "echo", "queue": "trees", "depends_on": [id]});
    let dependents = vec![dependent; DEPENDENTS];
    let answer = client.post("/api/v1/jobs", &json!(dependents)).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    id
}

#[test]
fn every_acknowledged_job_ends_exactly_once_despite_five_kills() {
    let data = TempDir::new().unwrap();
    let options = Options::new(data.path());
    let mut server = Server::start(&options);
    deploy(&server.client(), "basics");
    let load = Load {
        client: RwLock::new(server.client()),
        next: AtomicUsize::new(0),
        acknowledged: Mutex::default(),
        stop: AtomicBool::new(false),
    };
    let server = std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| load.run());
        }
        for kill in 1..=KILLS {
            let enough = kill * JOBS / (KILLS + 1);
            eventually("the load to continue", Duration::from_mins(2), || {
                (load.acknowledged.lock().unwrap().len() >= enough).then_some(())
            });
            let root = tree(&server.client());
            let cancel = format!("/api/v1/jobs/{root}/cancel");
            let cancelled = server.client().post(&cancel, &json!({})).unwrap();
            assert_eq!(cancelled.body["state"], "cancelled", "{cancelled:?}");
            server.kill();
            server = Server::start(&options);
            *load.client.write().unwrap() = server.client();
        }
        server
    });
    let acknowledged = load.acknowledged.into_inner().unwrap();
    assert_eq!(acknowledged.len(), JOBS);

    let client = server.client();
    eventually("every job to end", Duration::from_mins(2), || {
        let queue = client.get("/api/v1/queues/default").ok()?.body;
        (queue["counts"]["completed"].as_u64()? == JOBS as u64).then_some(())
    });
    let trees = json!({"cancelled": KILLS, "discarded": KILLS * DEPENDENTS});
    eventually("every tree to end", Duration::from_mins(2), || {
        let counts = client.get("/api/v1/queues/trees").ok()?.body["counts"].clone();
        let ended = json!({"cancelled": counts["cancelled"], "discarded": counts["discarded"]});
        (ended == trees).then_some(())
    });
    let mut kept = client.items("/api/v1/jobs");
    kept.retain(|job| job["queue"] == "default");
    let ids: BTreeSet<&str> = kept.iter().map(|job| job["id"].as_str().unwrap()).collect();
    assert_eq!(
        kept.len(),
        JOBS,
        "no job exists twice, and there are no others"
    );
    assert_eq!(ids.len(), JOBS);
    assert!(
        acknowledged.values().all(|id| ids.contains(id.as_str())),
        "no job is lost"
    );
    for job in kept {
        let id = job["id"].as_str().unwrap();
        let attempts = client
            .get(&format!("/api/v1/jobs/{id}/attempts"))
            .unwrap()
            .body;
        let completed = attempts["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|attempt| attempt["outcome"] == "completed")
            .count();
        assert_eq!(
            (job["state"].as_str(), completed),
            (Some("completed"), 1),
            "{job}"
        );
    }
}
