//! Opens Hero without a Redis, and checks what it needs and what it leaves behind.

use std::future::poll_fn;
use std::task::Poll;

use host_runtime::clock::Clock;
use host_testing::{FakeExecutor, Refusals};
use host_wire_kit::section::TestSources;
use host_wire_kit::{Configured, Mode};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::HERO;
use crate::settings::tests::parsed;

const URL: &str = "redis://me:hush@127.0.0.1:1/2";

fn ports() -> Ports {
    Ports {
        clock: Arc::new(Clock::start()),
        counters: Refusals::of(crate::NAME),
        execute: Arc::new(|| FakeExecutor::busy()),
        leases: None,
        stopping: CancellationToken::new(),
    }
}

fn configured(environment: &[(&str, &str)]) -> Box<dyn Configured> {
    let sources = TestSources {
        environment,
        ..TestSources::default()
    };
    sources.read(&HERO, HERO.configure).unwrap().wire
}

#[tokio::test]
async fn a_worker_has_to_know_where_its_jobs_are_and_whose() {
    let worker = Mode::Worker {
        state: None,
        hosts: Vec::new(),
    };
    let table: &[(&[(&str, &str)], &str)] = &[
        (&[], "missing Redis address; set --url"),
        (&[("HOST_HERO_URL", URL)], "name it with --worker-id"),
    ];
    for (environment, says) in table {
        let Err(error) = configured(environment).open(&worker).await else {
            panic!("{says}")
        };
        assert!(
            error.is_usage && error.message.contains(says),
            "{error} instead of {says}"
        );
    }
    let serve = Mode::Serve {
        data: "/nowhere".into(),
        hosts: Vec::new(),
    };
    let idle = configured(&[]).open(&serve).await.unwrap();
    assert!(idle.ready.is_empty(), "a host may do without");
}

#[tokio::test]
async fn a_worker_says_whose_jobs_it_takes_and_gives_its_lock_away() {
    let state = TempDir::new().unwrap();
    let environment = [("HOST_HERO_URL", URL), ("HOST_HERO_WORKER_IDS", "a,b")];
    let mode = Mode::Worker {
        state: Some(state.path().to_owned()),
        hosts: Vec::new(),
    };
    let worker = configured(&environment).open(&mode).await.unwrap();
    let expected = [
        ("hero", "redis://127.0.0.1:1/2".to_owned()),
        ("worker_ids", "a,b".to_owned()),
    ];
    assert_eq!(worker.ready, expected);
    assert!(worker.cells_lock.is_some());
    let ports = ports();
    ports.stopping.cancel();
    let run = worker.active.run(ports);
    tokio::time::timeout(Duration::from_mins(1), run)
        .await
        .unwrap()
        .unwrap();
}

#[test]
fn a_host_keeps_its_name_and_makes_the_folder_for_log_files() {
    let data = TempDir::new().unwrap();
    let logs = data.path().join("logs/hero");
    let file = [("url", URL), ("log_dir", logs.to_str().unwrap())];
    let config = parsed(&file);
    let first = Serving::open(&config, data.path()).unwrap();
    assert!(logs.is_dir() && data.path().join("hero-instance").is_file());
    let again = Serving::open(&config, data.path()).unwrap();
    assert_eq!(first.instance, again.instance);
    let names: Vec<_> = parsed(&[("url", URL), ("worker_ids", "a,b")])
        .workers("host-a")
        .map(|worker| worker.instance)
        .collect();
    assert_eq!(names, ["host-a/a", "host-a/b"]);
}

#[test]
fn what_cannot_be_written_is_named() {
    let data = TempDir::new().unwrap();
    let nowhere = data.path().join("nowhere");
    let config = parsed(&[("url", URL)]);
    let error = Serving::open(&config, &nowhere).err().unwrap();
    assert!(!error.is_usage && error.message.contains("hero-instance"));
    let file = data.path().join("file");
    std::fs::write(&file, "").unwrap();
    let config = parsed(&[("url", URL), ("log_dir", file.to_str().unwrap())]);
    let error = Serving::open(&config, data.path()).err().unwrap().message;
    assert!(
        error.contains("for log files") && error.contains("log_dir"),
        "{error}"
    );
}

#[tokio::test]
async fn a_host_names_its_redis_when_it_is_ready() {
    let data = TempDir::new().unwrap();
    let mode = Mode::Serve {
        data: data.path().to_owned(),
        hosts: Vec::new(),
    };
    let open = configured(&[("HOST_HERO_URL", URL)])
        .open(&mode)
        .await
        .unwrap();
    assert_eq!(open.ready, [("hero", "redis://127.0.0.1:1/2".to_owned())]);
}

#[tokio::test]
async fn a_host_with_hero_ends_when_it_is_told_to() {
    let data = TempDir::new().unwrap();
    let config = parsed(&[("url", URL), ("worker_ids", "a")]);
    let serving = Box::new(Serving::open(&config, data.path()).unwrap());
    let ports = ports();
    let stopping = ports.stopping.clone();
    let mut run = serving.run(ports);
    let waits = poll_fn(|context| Poll::Ready(run.as_mut().poll(context).is_pending())).await;
    assert!(waits, "it continues without a Redis");
    stopping.cancel();
    tokio::time::timeout(Duration::from_mins(1), run)
        .await
        .unwrap()
        .unwrap();
}
