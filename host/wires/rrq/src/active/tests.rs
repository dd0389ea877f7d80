//! The wire as the host uses it: opened in both places, served, and its pools as executors.

use std::time::Duration;

use host_core::port::Execute;
use host_runtime::tasks::Tasks;
use host_testing::{KeptLogs, LeaseHost, Refusals, TokioClock};
use host_wire_kit::Configured as _;
use host_wire_kit::executors::{NameLookup, NamedBy, RestartError, WorkerState};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::config::{Dialect, Source};
use crate::serve::tests::fixture::{BOUND, Client, Host, handlers};
use crate::worker::Rules;

fn config(listen: Option<&str>) -> RrqConfig {
    RrqConfig {
        listen: listen.map(|address| address.parse().unwrap()),
        rules: Rules::default(),
        default_runner: None,
        origins: Vec::new(),
        pools: BTreeMap::new(),
    }
}

fn serve_mode() -> Mode {
    Mode::Serve {
        data: "data".into(),
        hosts: Vec::new(),
    }
}

const WORKER: Mode = Mode::Worker {
    state: None,
    hosts: Vec::new(),
};

fn ports(stopping: &CancellationToken) -> Ports {
    let handlers: Arc<dyn Execute> = handlers();
    Ports {
        clock: Arc::new(TokioClock::start()),
        counters: Refusals::of("rrq"),
        execute: Arc::new(move || Arc::clone(&handlers)),
        leases: None,
        stopping: stopping.clone(),
    }
}

#[tokio::test]
async fn nothing_listens_unless_asked_for() {
    let active = config(None).open(&serve_mode()).await.unwrap();
    assert_eq!(active.ready, [("rrq", "off".to_owned())]);
    assert!(!active.runs_early && !active.ends_with_parent);
    let stopping = CancellationToken::new();
    let mut running = active.active.run(ports(&stopping));
    let early = timeout(Duration::ZERO, &mut running).await;
    assert!(early.is_err(), "it serves until the host stops");
    stopping.cancel();
    timeout(BOUND, running).await.unwrap().unwrap();
    let refused = config(None).open(&WORKER).await.err().unwrap();
    assert!(refused.is_usage && refused.message.contains("--tcp-socket"));
}

#[tokio::test]
async fn both_places_serve_the_worker_role() {
    for mode in [serve_mode(), WORKER] {
        let is_worker = matches!(mode, Mode::Worker { .. });
        let active = config(Some("127.0.0.1:0")).open(&mode).await.unwrap();
        let ready = active.ready;
        let [("rrq", address)] = &ready[..] else {
            panic!("{ready:?}");
        };
        assert_eq!(active.runs_early, is_worker);
        assert_eq!(active.ends_with_parent, is_worker);
        let stopping = CancellationToken::new();
        let ports = ports(&stopping);
        let deadline = ports.clock.wall().plus_ms(10_000);
        let serving = active.active.run(ports);
        let asking = async {
            let mut client = Client(TcpStream::connect(address.as_str()).await.unwrap());
            client.send(&Host::request_by("r", "echo", deadline)).await;
            assert_eq!(client.answer().await["status"], "success");
            stopping.cancel();
        };
        let both = async { tokio::join!(serving, asking) };
        let (served, ()) = timeout(BOUND, both).await.unwrap();
        served.unwrap();
    }
}

#[tokio::test]
async fn an_address_that_is_taken_is_named_with_what_to_do() {
    let holder = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    let config = config(Some(&taken));
    let refused = config.open(&serve_mode()).await.err().unwrap();
    assert!(!refused.is_usage);
    for part in [taken.as_str(), "--rrq-listen", "`off` takes none"] {
        assert!(refused.message.contains(part), "{}", refused.message);
    }
    let refused = config.open(&WORKER).await.err().unwrap();
    assert!(refused.is_usage && refused.message.contains(&taken));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pools_are_executors_of_serve_alone() {
    let runner = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = runner.local_addr().unwrap();
    let host = Host::start(runner);
    let name: Name = "there".parse().unwrap();
    let pool = PoolConfig {
        name: name.clone(),
        source: Source::External(address),
        in_flight_max: 3,
        dialect: Dialect::Current,
    };
    let config = RrqConfig {
        pools: [(name.clone(), pool)].into(),
        ..config(Some("127.0.0.1:0"))
    };
    assert!(config.has_executor("there"));
    let (jobs, leases) = LeaseHost::of_single_attempts();
    let ports = ExecutorPorts {
        clock: Arc::new(TokioClock::start()),
        counters: Refusals::of("rrq"),
        leases,
        logs: Arc::<KeptLogs>::default(),
        tasks: Tasks::default(),
        stopping: CancellationToken::new(),
    };
    let mut worker = config.open(&WORKER).await.unwrap();
    assert!(worker.active.executors(&ports).is_none());
    drop(worker);
    let mut active = config.open(&serve_mode()).await.unwrap();
    let pools = active.active.executors(&ports).unwrap();
    let is_up = async {
        while pools.health()[0].workers[0].state != WorkerState::Up {
            tokio::task::yield_now().await;
        }
    };
    timeout(BOUND, is_up).await.unwrap();
    assert_eq!(jobs.capacity("there"), 3);
    let other: Name = "other".parse().unwrap();
    assert_eq!(pools.names(), std::slice::from_ref(&name));
    let find = |name| pools.find(name, NamedBy::NewJob);
    assert_eq!(
        (find(&name), find(&other)),
        (NameLookup::Here, NameLookup::Missing)
    );
    let policy = pools.rules().policy;
    assert_eq!(
        (policy.timeout_ms, policy.max_attempts),
        (Some(300_000), 20)
    );
    let backoff = (policy.backoff.base_ms, policy.backoff.max_ms);
    assert_eq!(
        (backoff, policy.cancel_grace_ms),
        ((5_000, 3_600_000), Some(500))
    );
    let health = pools.health();
    assert_eq!((health[0].wire, health[0].is_external), ("rrq", true));
    assert_eq!(health[0].workers[0].name, "there/1");
    for (executor, only) in [(&other, None), (&name, Some(0)), (&name, Some(2))] {
        let restarted = pools.restart(executor, only);
        assert_eq!(restarted, Err(RestartError::NoSuchWorker));
    }
    assert_eq!(pools.restart(&name, Some(1)), Ok(()));
    ports.stopping.cancel();
    timeout(BOUND, ports.tasks.join()).await.unwrap();
    host.stop().await;
}
