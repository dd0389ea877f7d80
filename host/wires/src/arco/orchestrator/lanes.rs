//! The lanes of each worker: a lane asks for an attempt, has it delivered, and waits until it is over.
//! A worker has as many lanes as it may have attempts.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use host_core::lease::Hold;
use host_core::name::Name;
use host_core::port::lease::{Granted, LeaseEvents, LeaseRequest, Resumed};
use host_core::time::Time;
use host_runtime::mailbox::respond;
use host_runtime::tasks::TaskGroup;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::attempts::{Attempt, Attempts, Life};
use super::deliver::Delivery;
use super::envelope;
use super::health::Health;
use super::{Control, Running};
use crate::arco::section::RemoteWorker;
use crate::kit::http_client::BaseUrl;

/// How long a lane waits for work before it asks again, in milliseconds.
const WAIT_MS: u64 = 60_000;

/// The pause after the host had no answer.
const PAUSE: Duration = Duration::from_millis(250);

/// One worker's lanes.
struct Lanes {
    control: Arc<Control>,
    name: Name,
    worker: RemoteWorker,
    /// Attempts of an earlier life of the host that no lane has taken up yet.
    resumed: Mutex<VecDeque<Resumed>>,
    stopping: CancellationToken,
}

/// Serves all workers until `stopping`. The control plane has started.
pub(in crate::arco) async fn run(control: Arc<Control>, stopping: CancellationToken) {
    let mut tasks = TaskGroup::default();
    for (name, worker) in &control.config.workers {
        let lanes = Lanes {
            control: Arc::clone(&control),
            name: name.clone(),
            worker: worker.clone(),
            resumed: Mutex::default(),
            stopping: stopping.clone(),
        };
        tasks.spawn(lanes.serve());
    }
    stopping.cancelled().await;
    tasks.join().await;
}

impl Lanes {
    async fn serve(self) {
        let (Some(running), Some(health)) = (
            self.control.running.get(),
            self.control.health.get(&self.name),
        ) else {
            return;
        };
        let mut watched = self.control.public_url.subscribe();
        let base = tokio::select! {
            url = watched.wait_for(Option::is_some) => url.ok().and_then(|url| url.clone()),
            () = self.stopping.cancelled() => None,
        };
        let Some(base) = base else { return };
        let resumed = self.resume(running).await;
        let all = self.worker.in_flight_max.max(resumed.len());
        *self.resumed.lock().unwrap_or_else(PoisonError::into_inner) = resumed;
        let at = At {
            running,
            health,
            base: &base,
        };
        let lanes = (0..all).map(|number| self.lane(number, &at));
        futures_util::future::join_all(lanes).await;
    }

    /// Takes over the attempts that were out there when the host stopped.
    async fn resume(&self, running: &Running) -> VecDeque<Resumed> {
        loop {
            let (respond, answer) = respond();
            let events: Arc<dyn LeaseEvents> = Arc::<Attempts>::clone(&self.control.attempts);
            running.leases.resume(self.name.clone(), events, respond);
            match answer.await {
                Ok(Ok(resumed)) => {
                    // All of them count before callbacks about any of them end it.
                    for resumed in &resumed {
                        self.add(running, &resumed.granted, Some(resumed));
                    }
                    return resumed.into();
                }
                _ if self.stopping.is_cancelled() => return VecDeque::new(),
                _ => sleep(PAUSE).await,
            }
        }
    }

    async fn lane(&self, number: usize, at: &At<'_>) {
        while !self.stopping.is_cancelled() {
            if let Some(resumed) = self.next_resumed() {
                let granted = &resumed.granted;
                let attempt = self.control.attempts.find(granted.job);
                if let Some(attempt) = attempt.filter(|it| it.lease == granted.lease) {
                    self.attend(at, &attempt, granted, true).await;
                }
                continue;
            }
            // A lane above the limit only ends what it took over.
            if number >= self.worker.in_flight_max {
                return;
            }
            if number > 0 {
                tokio::select! {
                    () = at.health.until_up() => {}
                    () = self.stopping.cancelled() => return,
                }
            }
            if let Some(granted) = self.ask(at.running).await {
                let attempt = self.add(at.running, &granted, None);
                self.attend(at, &attempt, &granted, false).await;
            }
        }
    }

    fn next_resumed(&self) -> Option<Resumed> {
        let mut resumed = self.resumed.lock().unwrap_or_else(PoisonError::into_inner);
        resumed.pop_front()
    }

    /// Asks for an attempt.
    async fn ask(&self, running: &Running) -> Option<Granted> {
        let (respond, mut answer) = respond();
        let request = LeaseRequest {
            executors: vec![self.name.clone()],
            worker: format!("{}/1", self.name),
            slots: 1,
            hold: Hold::Ttl {
                ttl_ms: self.control.config.times.heartbeat_timeout_ms,
            },
            wait_ms: WAIT_MS,
            events: Some(Arc::<Attempts>::clone(&self.control.attempts)),
        };
        running.leases.lease(request, respond);
        let granted = tokio::select! {
            granted = &mut answer => granted.ok().and_then(|mut granted| granted.pop()),
            () = self.stopping.cancelled() => {
                // One that was granted in this instant is given back by its delivery.
                answer.close();
                return answer.try_recv().ok().and_then(|mut granted| granted.pop());
            }
        };
        if granted.is_none() {
            // A host that has no room for the question answers at once.
            tokio::select! {
                () = sleep(PAUSE) => {}
                () = self.stopping.cancelled() => {}
            }
        }
        granted
    }

    fn add(&self, running: &Running, granted: &Granted, resumed: Option<&Resumed>) -> Arc<Attempt> {
        let assignment = &granted.assignment;
        let scope = envelope::scope(granted.job, assignment.attempt, &assignment.attributes);
        let times = &self.control.config.times;
        let from = resumed.map_or_else(|| running.now(), |resumed| resumed.granted_at);
        let due = from.plus_ms(envelope::timeout_ms(times, assignment.timeout_ms));
        let life = Life {
            has_begun: resumed.is_some() && granted.ack_by.is_none(),
            is_cancelled: resumed.is_some_and(|resumed| resumed.cancel.is_some()),
            is_over: false,
        };
        self.control.attempts.add(Attempt::new(
            (granted.job, granted.lease),
            Some(self.name.clone()),
            (scope, assignment.handler.clone()),
            Some(due),
            life,
        ))
    }

    /// Delivers an attempt unless its worker has begun, and waits until it is over.
    async fn attend(&self, at: &At<'_>, attempt: &Attempt, granted: &Granted, may_run: bool) {
        if !attempt.life().has_begun {
            let begin_by = granted.ack_by.or(granted.expires_at);
            let delivery = Delivery {
                control: &self.control,
                running: at.running,
                worker: &self.worker,
                health: at.health,
                attempt,
                assignment: &granted.assignment,
                begin_by: begin_by.unwrap_or(Time(i64::MAX)),
                may_run,
            };
            delivery.run(at.base, &self.stopping).await;
        }
        tokio::select! {
            () = attempt.until(|life| life.is_over) => {}
            () = self.stopping.cancelled() => {}
        }
    }
}

/// What all lanes of a worker use.
struct At<'a> {
    running: &'a Running,
    health: &'a Health,
    base: &'a BaseUrl,
}
