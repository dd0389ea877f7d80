//! The executor of deliveries: takes their leases as wires do, signs the messages, and has the broker send them. No
//! socket is opened here, and of what a receiver answers only the status and the first bytes are read.

use std::collections::HashMap;
use std::sync::Arc;

use host_cells::sandbox::broker::Broker;
use host_core::egress::{HttpRequest, Pass};
use host_core::failure::{Failure, FailureKind};
use host_core::name::Name;
use host_core::outcome::Outcome;
use host_core::port::Tag;
use host_core::port::lease::{Assignment, End, Leases};
use host_engine::webhook::{ANSWER_MS_MAX, DELIVER, Delivery, WEBHOOKS, executor, policy};
use host_runtime::clock::Clock;
use host_runtime::slots::{Pusher, Slots};
use host_runtime::tasks::Tasks;
use host_wire_kit::executors::{
    ExecutorHealth, ExecutorRules, Executors, WorkerHealth, WorkerState,
};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::{Webhooks, outcome, signature};

/// How many deliveries a node sends at a time.
const AT_ONCE_MAX: usize = 64;

/// How long a request may take with all around it, in milliseconds.
const SEND_MS_MAX: u64 = ANSWER_MS_MAX + 10_000;

/// What deliveries need of the host.
pub(crate) struct Parts {
    pub(crate) webhooks: Webhooks,
    pub(crate) broker: Broker,
    pub(crate) clock: Clock,
    pub(crate) leases: Arc<dyn Leases>,
    pub(crate) tasks: Tasks,
    /// Ends deliveries after the last attempt.
    pub(crate) stopping: CancellationToken,
}

/// The executor of deliveries.
pub(crate) struct Deliveries {
    parts: Parts,
    /// Where deliveries run: leases are granted on the thread of the dispatch loop.
    runtime: Handle,
    slots: Arc<Slots>,
    /// The token that ends each attempt.
    running: Mutex<HashMap<Tag, CancellationToken>>,
}

impl Deliveries {
    /// Starts to take deliveries, which run on the runtime in which this is called.
    pub(crate) fn start(parts: Parts) -> Arc<Self> {
        let slots = Slots::new(Arc::clone(&parts.leases), 0);
        let deliveries = Arc::new(Self {
            parts,
            runtime: Handle::current(),
            slots: Arc::clone(&slots),
            running: Mutex::default(),
        });
        let pusher: Arc<dyn Pusher> = Arc::<Self>::clone(&deliveries);
        slots.connect(Arc::downgrade(&pusher));
        slots.set_capacity(&executor(), AT_ONCE_MAX);
        deliveries
    }

    async fn deliver(&self, assignment: &Assignment) -> Outcome {
        match self.request(assignment).await {
            Ok((pass, request)) => {
                let answer = self.parts.broker.send(pass, request).await;
                outcome::read(answer, self.parts.clock.civil())
            }
            Err(failure) => Outcome::Failed(failure),
        }
    }

    /// Makes the signed request of a delivery, if the configuration still allows it.
    async fn request(&self, assignment: &Assignment) -> Result<(Pass, HttpRequest), Failure> {
        let refused = |message: String| Failure::new(FailureKind::GrantMissing, message);
        let delivery: Delivery = serde_json::from_str(assignment.params.as_str())
            .map_err(|error| Failure::new(FailureKind::InvalidParams, error.to_string()))?;
        let Delivery {
            url,
            secret,
            message,
        } = delivery;
        let grant = self.parts.webhooks.grant(&url, &secret).map_err(refused)?;
        let (secrets, name) = (self.parts.broker.secrets().clone(), secret.clone());
        let value = tokio::task::spawn_blocking(move || secrets.value(&name))
            .await
            .ok()
            .flatten()
            .ok_or_else(|| refused(format!("the secret {secret} has no value")))?;
        let seconds = self.parts.clock.civil().0.div_euclid(1_000);
        let id = &assignment.job_id;
        let signature = signature::sign(&value, id, seconds, message.get())
            .map_err(|why| refused(format!("the secret {secret} cannot sign: {why}")))?;
        let headers = [
            ("content-type", "application/json".to_owned()),
            (
                "user-agent",
                concat!("host/", env!("CARGO_PKG_VERSION")).to_owned(),
            ),
            ("webhook-id", id.clone()),
            ("webhook-timestamp", seconds.to_string()),
            ("webhook-signature", signature),
        ]
        .map(|(name, value)| (name.to_owned(), value));
        let pass = Pass {
            component: WEBHOOKS.to_owned(),
            handler: DELIVER.to_owned(),
            grants: vec![grant],
            time_left_ms: SEND_MS_MAX,
            has_lifeline: false,
            cuts_bodies: true,
            tcp: Vec::new(),
            sql: Vec::new(),
            ..Pass::default()
        };
        let request = HttpRequest {
            call: 1,
            method: "POST".to_owned(),
            url,
            headers: headers.into(),
            body: String::from(Box::<str>::from(message)).into_bytes(),
            timeout_ms: None,
        };
        Ok((pass, request))
    }
}

impl Pusher for Deliveries {
    fn start(self: Arc<Self>, tag: Tag, _: &Name, assignment: Assignment) {
        let cancelled = CancellationToken::new();
        self.running.lock().insert(tag, cancelled.clone());
        let tasks = self.parts.tasks.clone();
        let runtime = self.runtime.clone();
        let _runtime = runtime.enter();
        tasks.spawn(async move {
            let end = tokio::select! {
                biased;
                () = cancelled.cancelled() => End::Outcome(Outcome::Cancelled { partial: None }),
                () = self.parts.stopping.cancelled() => End::Lost("the host stops".to_owned()),
                outcome = self.deliver(&assignment) => End::Outcome(outcome),
            };
            self.running.lock().remove(&tag);
            self.slots.end(tag, format!("{WEBHOOKS}/1"), end);
        });
    }

    fn cancel(self: Arc<Self>, tag: Tag, _: u64) {
        if let Some(cancelled) = self.running.lock().get(&tag) {
            cancelled.cancel();
        }
    }
}

impl Executors for Deliveries {
    fn names(&self) -> Vec<Name> {
        vec![executor()]
    }

    fn rules(&self) -> ExecutorRules {
        ExecutorRules {
            policy: policy(),
            ..ExecutorRules::default()
        }
    }

    fn health(&self) -> Vec<ExecutorHealth> {
        let worker = WorkerHealth {
            in_flight: self.running.lock().len(),
            ..WorkerHealth::new(&executor(), 1, WorkerState::Up)
        };
        vec![ExecutorHealth {
            name: executor(),
            wire: "webhook",
            is_external: false,
            is_restartable: false,
            workers: vec![worker],
        }]
    }
}
