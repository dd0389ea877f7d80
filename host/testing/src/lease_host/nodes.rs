//! The nodes of the host in memory. A message of a worker may reach any of them, and each starts, stops or is
//! killed on its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use host_core::id::{JobId, LeaseId, NodeId};
use host_core::lease::{Fence, Hold, Lease};
use host_core::name::Name;
use host_core::outcome::Meter;
use host_core::port::Clock as _;
use host_core::port::lease::{
    AttemptEnd, End, EndCause, GrantedLease, JobQuery, LeaseError, LeaseEvents, LeaseMessage,
    LeaseRequest, Leases, Respond, Resumed, Secret, Standing, StoredJob, explain,
};
use host_core::time::Time;
use host_core::transition::{Input, Loss};
use host_runtime::lease_book::{LeaseBook, WaitingHeartbeat};

use super::job::Job;
use super::{Calls, Inner, LeaseHost, PendingLease};

/// What each node that lives knows of its wires: by executor, whom to tell of leases of other nodes.
#[derive(Default)]
pub(super) struct Nodes(BTreeMap<NodeId, BTreeMap<Name, Arc<dyn LeaseEvents>>>);

impl Nodes {
    /// Returns who may have the worker of a lease: `events`, whom its holder tells, and the wires of all
    /// other nodes.
    pub(super) fn wires(
        &self,
        holder: Option<NodeId>,
        events: Option<&Arc<dyn LeaseEvents>>,
    ) -> Vec<Arc<dyn LeaseEvents>> {
        let others = self
            .0
            .iter()
            .filter(|(node, _)| Some(**node) != holder)
            .flat_map(|(_, wires)| wires.values());
        events.into_iter().chain(others).cloned().collect()
    }
}

/// One node.
pub struct LeaseNode {
    host: Arc<LeaseHost>,
    id: NodeId,
}

impl LeaseHost {
    /// Returns the first node, which is running.
    pub fn first(self: &Arc<Self>) -> Arc<LeaseNode> {
        let host = Arc::clone(self);
        Arc::new(LeaseNode {
            host,
            id: NodeId::NIL,
        })
    }

    /// Starts a node, which forgets what it knew. It answers for its leases and those of nodes that do not
    /// live, which get a whole TTL.
    pub fn node(self: &Arc<Self>, id: NodeId) -> Arc<LeaseNode> {
        self.start(id);
        let host = Arc::clone(self);
        Arc::new(LeaseNode { host, id })
    }

    /// Returns the jobs and leases that `which` names.
    pub fn leases(&self, which: impl Fn(&Lease) -> bool) -> Vec<(JobId, Lease)> {
        let inner = self.inner.lock();
        let leases = inner.jobs.iter().filter_map(|(id, job)| {
            let lease = job.lifecycle.lease.clone()?;
            which(&lease).then_some((*id, lease))
        });
        leases.collect()
    }

    /// Returns the jobs and leases of the other nodes that live. A node that starts leaves them as they are.
    pub fn leases_of_others(&self, node: NodeId) -> Vec<(JobId, Lease)> {
        let living: Vec<NodeId> = self.inner.lock().nodes.0.keys().copied().collect();
        self.leases(|lease| lease.node != node && living.contains(&lease.node))
    }

    /// Returns whether these leases are as they were.
    pub fn are_left(&self, leases: &[(JobId, Lease)]) -> bool {
        let all = self.leases(|_| true);
        leases.iter().all(|lease| all.contains(lease))
    }

    /// Kills a node: its leases stay, and no node answers for them.
    pub fn kill(&self, node: NodeId) {
        let mut inner = self.inner.lock();
        inner.nodes.0.remove(&node);
        inner.books.remove(&node);
        inner.waiting.retain(|it| it.node != node);
        for job in inner.jobs.values_mut() {
            let lease = job.lifecycle.lease.as_ref();
            if lease.is_some_and(|lease| lease.node == node) {
                job.events = None;
                job.is_restored = false;
            }
        }
    }

    fn start(&self, node: NodeId) {
        self.kill(node);
        for (id, lease) in self.leases(|it| it.node == node && it.hold == Hold::Connection) {
            let fence = Fence::Lease(lease.id);
            let lost = Input::Lose(&fence, Loss::HostRestarted);
            self.change(|inner, now| inner.apply(now, id, &lost))
                .expect("it is current");
        }
        let now = self.clock.now();
        let mut inner = self.inner.lock();
        inner.nodes.0.insert(node, BTreeMap::new());
        let inner = &mut *inner;
        let is_alone = inner.nodes.0.len() == 1;
        for job in inner.jobs.values_mut() {
            let Some(lease) = &mut job.lifecycle.lease else {
                continue;
            };
            let is_left = lease.node == node || !inner.nodes.0.contains_key(&lease.node);
            if let (true, Hold::Ttl { ttl_ms }) = (is_left, lease.hold) {
                lease.node = node;
                let id = lease.id;
                let fence = Fence::Lease(id);
                let renew = Input::Renew {
                    fence: &fence,
                    until: now.plus_ms(ttl_ms),
                    host_was_away: is_alone,
                };
                job.lifecycle.apply(now, &renew).expect("it is current");
                job.is_restored = true;
                let book = inner.books.entry(node).or_default();
                let worker = job
                    .lifecycle
                    .lease
                    .as_ref()
                    .map(|lease| lease.worker.clone());
                book.add(now, id, worker.unwrap_or_default(), job.lifecycle.attempt);
            }
        }
    }

    fn ask(
        &self,
        node: NodeId,
        request: LeaseRequest,
        respond: Box<dyn Respond<Vec<GrantedLease>>>,
    ) {
        self.change(|inner, now| {
            let until = now.plus_ms(request.wait_ms);
            inner.waiting.push(PendingLease {
                node,
                request,
                until,
                respond,
            });
            ((), Calls::new())
        });
    }

    /// Ends an attempt whose lease a connection holds.
    fn ended(&self, node: NodeId, ended: AttemptEnd) {
        let AttemptEnd {
            job,
            lease,
            worker,
            end,
        } = ended;
        self.inner.lock().ends.insert(job, (worker, end.clone()));
        let fence = Fence::Lease(lease);
        let loss = match end {
            End::Outcome(outcome) => {
                let meter = Meter::default();
                let message = LeaseMessage::Complete {
                    outcome,
                    meter,
                    worker: None,
                };
                return drop(
                    self.change(|inner, now| inner.handle(now, (node, job), &fence, message)),
                );
            }
            End::Lost(_) => Loss::WorkerGone,
            End::LostWithOthers { jobs, .. } => Loss::SharedWorkerGone { jobs },
            End::NoRoom => Loss::NotBegun,
        };
        // It may have been taken back.
        let _ = self.change(|inner, now| inner.apply(now, job, &Input::Lose(&fence, loss)));
    }

    fn message(
        &self,
        at: (NodeId, JobId),
        fence: &Fence,
        message: LeaseMessage,
        respond: Box<dyn Respond<Result<Standing, LeaseError>>>,
    ) {
        if let Some(error) = self.inner.lock().failing.clone() {
            return drop(respond.respond(Err(error)));
        }
        self.change(|inner, now| {
            if matches!(message, LeaseMessage::Heartbeat { .. })
                && !inner.books.entry(at.0).or_default().may_beat(now, fence)
            {
                let call =
                    move |_: &Self| drop(respond.respond(Err(LeaseError::TooManyHeartbeats)));
                return ((), vec![Box::new(call) as _]);
            }
            inner.answer(now, at, fence, message, respond)
        });
    }

    /// Answers the heartbeats that have waited.
    pub(super) fn answer_woken(&self, now: Time) {
        loop {
            let mut inner = self.inner.lock();
            let mut woken = Vec::new();
            for (node, book) in &mut inner.books {
                let beats = book.take_woken(now).into_iter();
                woken.extend(beats.map(|beat| (*node, beat)));
            }
            drop(inner);
            if woken.is_empty() {
                return;
            }
            for (node, beat) in woken {
                let message = LeaseMessage::Heartbeat {
                    progress: None,
                    wait_ms: 0,
                };
                let (at, fence) = ((node, beat.job), beat.fence);
                self.change(|inner, now| inner.answer(now, at, &fence, message, beat.respond));
            }
        }
    }

    /// Counts the heartbeats that wait at all nodes.
    pub fn waiting_heartbeats(&self) -> usize {
        let inner = self.inner.lock();
        inner.books.values().map(LeaseBook::waiting).sum()
    }

    /// Lets no heartbeat wait at a node that stops.
    pub fn stop_waiting(&self, node: NodeId) {
        self.change(|inner, _| {
            inner.books.entry(node).or_default().stop();
            ((), Calls::new())
        });
    }

    fn find(&self, wanted: &JobQuery) -> Option<JobId> {
        let inner = self.inner.lock();
        let found = inner.jobs.iter().rev().find(|(_, job)| {
            job.lifecycle.executor.as_ref() == Some(&wanted.executor)
                && job.lifecycle.handler == wanted.handler
                && job.payload.attributes.contains(&wanted.attribute)
                && job.lifecycle.attempt >= wanted.attempt
        });
        found.map(|(id, _)| *id)
    }

    fn resumed(
        &self,
        node: NodeId,
        executor: &Name,
        events: &Arc<dyn LeaseEvents>,
    ) -> Vec<Resumed> {
        let mut inner = self.inner.lock();
        let wires = inner.nodes.0.entry(node).or_default();
        wires.insert(executor.clone(), Arc::clone(events));
        let mut resumed = Vec::new();
        for job in inner.jobs.values_mut() {
            let lease = job.lifecycle.lease.clone();
            let Some(lease) = lease.filter(|lease| lease.node == node) else {
                continue;
            };
            if job.is_restored && job.lifecycle.executor.as_ref() == Some(executor) {
                job.is_restored = false;
                job.events = Some(Arc::clone(events));
                resumed.push(Resumed {
                    granted: job.granted(),
                    granted_at: lease.granted_at,
                    worker: lease.worker,
                    cancel: job.lifecycle.cancel.clone(),
                });
            }
        }
        resumed
    }
}

impl Inner {
    /// Applies a message and answers it.
    fn answer(
        &mut self,
        now: Time,
        (node, id): (NodeId, JobId),
        fence: &Fence,
        message: LeaseMessage,
        respond: Box<dyn Respond<Result<Standing, LeaseError>>>,
    ) -> ((), Calls) {
        let (answer, mut calls) = self.handle(now, (node, id), fence, message.clone());
        let answer = answer.or_else(|rejection| {
            if let Some(error) = rejection.current_lease_error() {
                return Err(error);
            }
            let book = self.books.entry(node).or_default();
            let record = fence.lease().and_then(|lease| book.record(lease));
            let kept = self.jobs.get(&id).map(Job::kept);
            explain(record, kept.as_ref(), fence, &message)
        });
        let wait_ms = match (&answer, message) {
            (Ok(standing), LeaseMessage::Heartbeat { wait_ms, .. })
                if standing.cancel.is_none() =>
            {
                wait_ms
            }
            _ => 0,
        };
        if wait_ms > 0 {
            self.books.entry(node).or_default().wait(WaitingHeartbeat {
                job: id,
                fence: fence.clone(),
                until: now.plus_ms(wait_ms),
                respond,
            });
        } else {
            calls.insert(0, Box::new(move |_| drop(respond.respond(answer))));
        }
        ((), calls)
    }
}

impl Leases for LeaseNode {
    fn lease(&self, request: LeaseRequest, respond: Box<dyn Respond<Vec<GrantedLease>>>) {
        self.host.ask(self.id, request, respond);
    }

    fn end(&self, ended: AttemptEnd) {
        self.host.ended(self.id, ended);
    }

    fn send(
        &self,
        job: JobId,
        fence: Fence,
        message: LeaseMessage,
        respond: Box<dyn Respond<Result<Standing, LeaseError>>>,
    ) {
        self.host.message((self.id, job), &fence, message, respond);
    }

    fn resume(
        &self,
        executor: Name,
        events: Arc<dyn LeaseEvents>,
        respond: Box<dyn Respond<Result<Vec<Resumed>, LeaseError>>>,
    ) {
        let resumed = self.host.resumed(self.id, &executor, &events);
        let _ = respond.respond(Ok(resumed)).is_err();
    }

    fn read(&self, job: JobId, respond: Box<dyn Respond<Result<Option<StoredJob>, LeaseError>>>) {
        let _ = respond.respond(Ok(self.host.kept(job))).is_err();
    }

    fn find(&self, wanted: JobQuery, respond: Box<dyn Respond<Result<Option<JobId>, LeaseError>>>) {
        let _ = respond.respond(Ok(self.host.find(&wanted))).is_err();
    }

    fn await_end(&self, lease: LeaseId, respond: Box<dyn Respond<EndCause>>) {
        let mut inner = self.host.inner.lock();
        let book = inner.books.entry(self.id).or_default();
        book.await_end(lease, respond);
    }

    fn find_worker(
        &self,
        job: JobId,
        lease: LeaseId,
        respond: Box<dyn Respond<Result<Option<String>, LeaseError>>>,
    ) {
        let inner = self.host.inner.lock();
        let record = inner
            .books
            .get(&self.id)
            .and_then(|book| book.record(lease));
        let known = record.map(|record| record.worker.clone());
        let current = || {
            let current = inner.jobs.get(&job)?.lifecycle.lease.clone()?;
            (current.id == lease).then_some(current.worker)
        };
        let worker = known.or_else(current);
        drop(inner);
        drop(respond.respond(Ok(worker)));
    }

    fn workers(&self, prefix: &str) -> BTreeMap<String, usize> {
        let mut workers = BTreeMap::new();
        for (_, lease) in self.host.leases(|lease| lease.node == self.id) {
            if lease.worker.starts_with(prefix) {
                *workers.entry(lease.worker).or_default() += 1;
            }
        }
        workers
    }

    fn node(&self) -> Option<NodeId> {
        (self.id != NodeId::NIL).then_some(self.id)
    }

    fn shared_secret(&self) -> Option<Secret> {
        Some([7; 32])
    }
}
