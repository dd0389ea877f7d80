//! Messages of foreign workers, kept until the dispatch loop takes them. This is the host's side of
//! [`host_core::port::lease`]. The mailbox is bounded: if it is full, a request is refused immediately. Ends
//! of leases held by connection are not refused; the number of those leases bounds them.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use host_core::id::{JobId, LeaseId, NodeId};
use host_core::job::State;
use host_core::lease::Fence;
use host_core::name::Name;
use host_core::outcome::Progress;
use host_core::port::lease::{
    AttemptEnd, EndCause, GrantedLease, JobQuery, LeaseError, LeaseEvents, LeaseMessage,
    LeaseRequest, Leases, Respond, Resumed, Secret, Standing, StoredJob, WAIT_FOREVER, explain,
};
use host_core::query::JobFilter;
use host_core::time::Time;
use host_engine::{Reader, StoreError};
use host_runtime::clock::Clock;
use host_runtime::lease_book::WaitingHeartbeat;
use host_runtime::mailbox::Mailbox;
use tokio_util::sync::CancellationToken;

use crate::readers::READERS;
use crate::workers::WorkerMessage;
use crate::workers::table::LeaseTable;
use crate::{Dispatch, Shared};

/// How many messages may wait for the loop.
const WAITING_MAX: usize = 16_384;

/// How many of them one turn of the loop takes.
const TURN_MAIL_MAX: usize = 1_024;

/// The results that they bring, in bytes, besides that of the last.
const TURN_RESULTS_MAX: usize = 8 << 20;

pub(crate) enum LeaseMail {
    /// A wire asks for attempts.
    Ask(LeaseRequest, Box<dyn Respond<Vec<GrantedLease>>>),
    /// An attempt has ended whose lease a connection holds.
    Ended(AttemptEnd),
    /// A worker's message about its lease.
    Message(WorkerMessage),
    /// A wire takes over the leases of an executor that were granted before a restart.
    Resume(Resume),
}

/// Who takes over an executor's leases, and where the answer goes.
pub(crate) struct Resume {
    pub(crate) executor: Name,
    pub(crate) events: Arc<dyn LeaseEvents>,
    pub(crate) respond: Box<dyn Respond<Result<Vec<Resumed>, LeaseError>>>,
}

/// A job to read or to find, and where the answer goes.
enum JobLookup {
    Read(
        JobId,
        Box<dyn Respond<Result<Option<StoredJob>, LeaseError>>>,
    ),
    Find(
        JobQuery,
        Box<dyn Respond<Result<Option<JobId>, LeaseError>>>,
    ),
    /// Why a message about a lease does not count, or that it repeats one that did.
    Explain(Box<WorkerMessage>),
    /// The worker that holds a lease.
    Worker(
        JobId,
        LeaseId,
        Box<dyn Respond<Result<Option<String>, LeaseError>>>,
    ),
}

/// The states of jobs that have had an attempt, in the order in which one is looked for.
const WITH_ATTEMPTS: [State; 6] = [
    State::Running,
    State::Completed,
    State::Retryable,
    State::Discarded,
    State::Cancelled,
    State::Available,
];

/// How many of the newest jobs that match a description are checked for the attempt.
const FOUND_MAX: u32 = 10;

/// The most jobs that may wait to be read.
const LOOKUPS_MAX: usize = 4_096;

/// How wires whose workers execute our jobs reach the dispatch loop. Cloning shares it.
#[derive(Clone)]
pub struct LeaseService {
    mail: Arc<Mailbox<LeaseMail>>,
    lookups: Arc<Mailbox<JobLookup>>,
    table: LeaseTable,
    shared: Arc<Shared>,
    clock: Clock,
    /// This node, and the secret of all nodes, if others may share the store.
    node: Option<(NodeId, Secret)>,
}

impl LeaseService {
    /// Makes the service of the loop that publishes in `shared`. Renewed leases are stored after
    /// `renewal_ms_max` milliseconds at most: usually [`crate::RENEWAL_MS_MAX`].
    pub fn new(clock: Clock, shared: Arc<Shared>, renewal_ms_max: u64) -> Self {
        Self {
            mail: Arc::default(),
            lookups: Arc::default(),
            table: LeaseTable::new(renewal_ms_max),
            shared,
            clock,
            node: None,
        }
    }

    /// Makes it the service of a node that shares its store and this secret with others.
    #[must_use]
    pub fn among_nodes(mut self, node: NodeId, secret: Secret) -> Self {
        self.table = self.table.among_nodes();
        self.node = Some((node, secret));
        self
    }

    /// Returns the leases that workers hold.
    pub(crate) const fn table(&self) -> &LeaseTable {
        &self.table
    }

    /// Takes the messages of one turn, oldest first.
    pub(crate) fn take(&self) -> Vec<LeaseMail> {
        let weight = |mail: &LeaseMail| match mail {
            LeaseMail::Message(message) => message.body.bytes(),
            // The ends are stored in slices.
            LeaseMail::Ask(..) | LeaseMail::Ended(_) | LeaseMail::Resume(_) => 0,
        };
        self.mail.take_some(TURN_MAIL_MAX, TURN_RESULTS_MAX, weight)
    }

    /// Waits until a message has arrived. Cancel safe.
    pub(crate) async fn arrived(&self) {
        self.mail.arrived().await;
    }

    /// Returns a guard for the loop. When the loop ends, even by a panic, the guard answers the
    /// waiting messages and refuses later ones.
    pub(crate) fn close_on_drop(&self) -> CloseOnDrop {
        CloseOnDrop(self.clone())
    }

    /// Reads the jobs that wires ask for until `stopping`. It needs no turn of the loop.
    pub async fn read_jobs(self, dispatch: Dispatch, stopping: CancellationToken) {
        let reading = async {
            loop {
                self.lookups.arrived().await;
                stream::iter(self.lookups.take())
                    .for_each_concurrent(READERS, |lookup| answer(&dispatch, &self.table, lookup))
                    .await;
            }
        };
        tokio::select! {
            () = reading => {}
            () = stopping.cancelled() => {}
        }
        for lookup in self.lookups.close() {
            lookup.refuse(LeaseError::Stopping);
        }
    }

    /// Answers a heartbeat from memory, if the lease is known there.
    fn heartbeat(
        &self,
        job: JobId,
        fence: &Fence,
        progress: Option<&Progress>,
    ) -> Option<Standing> {
        let note = |now, attempt| {
            if let Some(progress) = progress {
                self.shared.progressed(now, job, attempt, progress.clone());
            }
        };
        let now = || self.clock.now();
        let outcome = self.table.heartbeat(now, job, fence, note)?;
        if outcome.is_due_earlier {
            self.mail.wake();
        }
        Some(outcome.standing)
    }

    /// Answers an accepted heartbeat, which may wait first.
    pub(crate) fn answer_heartbeat(
        &self,
        now: Time,
        standing: Standing,
        wait_ms: u64,
        job: JobId,
        fence: Fence,
        respond: Box<dyn Respond<Result<Standing, LeaseError>>>,
    ) {
        if wait_ms == 0 || standing.cancel.is_some() {
            // The worker may have gone.
            drop(respond.respond(Ok(standing)));
            return;
        }
        let until = now.plus_ms(wait_ms);
        let is_due_earlier = self.table.wait(WaitingHeartbeat {
            job,
            fence,
            until,
            respond,
        });
        if is_due_earlier {
            self.mail.wake();
        }
    }

    /// Answers the heartbeats that have waited long enough or that a change has woken: in the next turn.
    pub(crate) fn answer_woken(&self, now: Time) {
        for beat in self.table.take_woken(now) {
            let message = WorkerMessage::heartbeat(beat);
            if let Err(mail) = self.mail.put_below(usize::MAX, LeaseMail::Message(message)) {
                refuse(mail, LeaseError::Stopping);
            }
        }
    }

    /// Answers a message that the rules refuse, from what is known of its lease and kept of its job.
    pub(crate) fn explain(&self, message: WorkerMessage) {
        self.look_up(JobLookup::Explain(Box::new(message)));
    }

    fn look_up(&self, lookup: JobLookup) {
        if let Err(lookup) = self.lookups.put_below(LOOKUPS_MAX, lookup) {
            lookup.refuse(if self.lookups.is_closed() {
                LeaseError::Stopping
            } else {
                LeaseError::Busy
            });
        }
    }

    fn put(&self, mail: LeaseMail) {
        let waiting_max = match &mail {
            LeaseMail::Ask(request, _) if request.wait_ms == WAIT_FOREVER => usize::MAX,
            LeaseMail::Ended(_) => usize::MAX,
            _ => WAITING_MAX,
        };
        if let Err(mail) = self.mail.put_below(waiting_max, mail) {
            let error = if self.mail.is_closed() {
                LeaseError::Stopping
            } else {
                LeaseError::Busy
            };
            refuse(mail, error);
        }
    }
}

/// Closes the mailbox when it is dropped.
pub(crate) struct CloseOnDrop(LeaseService);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        for beat in self.0.table.close() {
            let message = WorkerMessage::heartbeat(beat);
            refuse(LeaseMail::Message(message), LeaseError::Stopping);
        }
        for mail in self.0.mail.close() {
            refuse(mail, LeaseError::Stopping);
        }
    }
}

/// Answers a message with an error instead of handling it.
pub(crate) fn refuse(mail: LeaseMail, error: LeaseError) {
    // The worker may have gone.
    let _ = match mail {
        LeaseMail::Ask(_, respond) => respond.respond(Vec::new()).is_err(),
        // The host takes its own leases back when it starts again.
        LeaseMail::Ended(_) => false,
        LeaseMail::Message(message) => message.respond.respond(Err(error)).is_err(),
        LeaseMail::Resume(resume) => resume.respond.respond(Err(error)).is_err(),
    };
}

impl JobLookup {
    fn refuse(self, error: LeaseError) {
        // The requester may have gone.
        let _ = match self {
            Self::Read(_, respond) => respond.respond(Err(error)).is_err(),
            Self::Find(_, respond) => respond.respond(Err(error)).is_err(),
            Self::Explain(message) => message.respond.respond(Err(error)).is_err(),
            Self::Worker(_, _, respond) => respond.respond(Err(error)).is_err(),
        };
    }
}

/// Reads one job with its attempts.
async fn read(dispatch: &Dispatch, job: JobId) -> Result<Option<StoredJob>, LeaseError> {
    let read = dispatch.read(move |reader| {
        let Some(job) = reader.job(job)? else {
            return Ok(None);
        };
        let attempts = reader.attempts(job.lifecycle.id, 0, u32::MAX)?;
        Ok(Some(StoredJob { job, attempts }))
    });
    read.await.map_err(|error| unread(&error))
}

/// Answers from the stored job.
async fn answer(dispatch: &Dispatch, table: &LeaseTable, lookup: JobLookup) {
    // The requester may have gone.
    let _ = match lookup {
        JobLookup::Read(job, respond) => respond.respond(read(dispatch, job).await).is_err(),
        JobLookup::Explain(message) => {
            let kept = read(dispatch, message.job).await;
            let record = table.record(&message.fence);
            let answer = kept.and_then(|kept| {
                explain(
                    record.as_ref(),
                    kept.as_ref(),
                    &message.fence,
                    &message.body,
                )
            });
            message.respond.respond(answer).is_err()
        }
        JobLookup::Worker(job, lease, respond) => {
            let worker = read(dispatch, job).await.map(|kept| {
                let current = kept?.job.lifecycle.lease?;
                (current.id == lease).then_some(current.worker)
            });
            respond.respond(worker).is_err()
        }
        JobLookup::Find(wanted, respond) => {
            let found = dispatch.scan(move |reader| find(reader, wanted));
            respond
                .respond(found.await.map_err(|error| unread(&error)))
                .is_err()
        }
    };
}

fn unread(error: &StoreError) -> LeaseError {
    tracing::warn!(%error, "cannot read a job for a worker's message");
    LeaseError::Busy
}

fn find(reader: &dyn Reader, wanted: JobQuery) -> Result<Option<JobId>, StoreError> {
    let mut filter = JobFilter {
        handler: Some((Some(wanted.executor), wanted.handler)),
        attributes: vec![wanted.attribute],
        ..JobFilter::default()
    };
    for state in WITH_ATTEMPTS {
        filter.state = Some(state);
        let page = reader.jobs(&filter, None, FOUND_MAX)?;
        let mut jobs = page.items.into_iter().map(|job| job.lifecycle);
        if let Some(job) = jobs.find(|job| job.attempt >= wanted.attempt) {
            return Ok(Some(job.id));
        }
    }
    Ok(None)
}

impl Leases for LeaseService {
    fn lease(&self, request: LeaseRequest, respond: Box<dyn Respond<Vec<GrantedLease>>>) {
        self.put(LeaseMail::Ask(request, respond));
    }

    fn end(&self, ended: AttemptEnd) {
        self.put(LeaseMail::Ended(ended));
    }

    fn send(
        &self,
        job: JobId,
        fence: Fence,
        message: LeaseMessage,
        respond: Box<dyn Respond<Result<Standing, LeaseError>>>,
    ) {
        if let LeaseMessage::Heartbeat { progress, wait_ms } = &message {
            let now = self.clock.now();
            if !self.table.may_beat(now, &fence) {
                // The worker may have gone.
                drop(respond.respond(Err(LeaseError::TooManyHeartbeats)));
                return;
            }
            if let Some(standing) = self.heartbeat(job, &fence, progress.as_ref()) {
                return self.answer_heartbeat(now, standing, *wait_ms, job, fence, respond);
            }
        }
        self.put(LeaseMail::Message(WorkerMessage {
            job,
            fence,
            body: message,
            respond,
            attempt: None,
        }));
    }

    fn resume(
        &self,
        executor: Name,
        events: Arc<dyn LeaseEvents>,
        respond: Box<dyn Respond<Result<Vec<Resumed>, LeaseError>>>,
    ) {
        self.put(LeaseMail::Resume(Resume {
            executor,
            events,
            respond,
        }));
    }

    fn read(&self, job: JobId, respond: Box<dyn Respond<Result<Option<StoredJob>, LeaseError>>>) {
        self.look_up(JobLookup::Read(job, respond));
    }

    fn find(&self, wanted: JobQuery, respond: Box<dyn Respond<Result<Option<JobId>, LeaseError>>>) {
        self.look_up(JobLookup::Find(wanted, respond));
    }

    fn await_end(&self, lease: LeaseId, respond: Box<dyn Respond<EndCause>>) {
        self.table.await_end(lease, respond);
    }

    fn find_worker(
        &self,
        job: JobId,
        lease: LeaseId,
        respond: Box<dyn Respond<Result<Option<String>, LeaseError>>>,
    ) {
        match self.table.record(&Fence::Lease(lease)) {
            // The requester may have gone.
            Some(record) => drop(respond.respond(Ok(Some(record.worker)))),
            None => self.look_up(JobLookup::Worker(job, lease, respond)),
        }
    }

    fn workers(&self, prefix: &str) -> BTreeMap<String, usize> {
        self.table.workers(prefix)
    }

    fn node(&self) -> Option<NodeId> {
        self.node.map(|(node, _)| node)
    }

    fn shared_secret(&self) -> Option<Secret> {
        self.node.map(|(_, secret)| secret)
    }
}
