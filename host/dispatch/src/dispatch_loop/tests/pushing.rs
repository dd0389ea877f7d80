//! A wire in memory that sends attempts to its workers: records the calls it gets and answers when a test
//! says so.

use std::collections::VecDeque;
use std::sync::Arc;

use host_core::id::LeaseId;
use host_core::lease::Fence;
use host_core::name::Name;
use host_core::outcome::Progress;
use host_core::port::lease::{LeaseMessage, Leases as _};
use host_core::port::{Assignment, End, Tag};
use host_runtime::mailbox::respond;
use host_runtime::slots::{Pusher, Slots};
use host_testing::LeaseAudit;
use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use crate::lease_mail::LeaseService;

/// A call that the wire got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Start(Tag, Box<Assignment>),
    Cancel(Tag, u64),
}

/// The only executor of the wire.
pub(crate) struct FakeExecutor {
    name: Name,
    pub(crate) audit: Arc<LeaseAudit>,
    slots: Arc<Slots>,
    calls: Arc<Calls>,
    pub(crate) stopping: CancellationToken,
}

#[derive(Default)]
struct Calls(Mutex<Vec<Call>>);

impl FakeExecutor {
    /// Makes an executor without room.
    pub(crate) fn of(leases: &LeaseService, name: &str) -> Self {
        let audit = LeaseAudit::new(Arc::new(leases.clone()));
        let (slots, calls) = (
            Slots::new(Arc::<LeaseAudit>::clone(&audit), 500),
            Arc::default(),
        );
        slots.connect(Arc::downgrade(&calls) as _);
        Self {
            name: name.parse().unwrap(),
            audit,
            slots,
            calls,
            stopping: CancellationToken::new(),
        }
    }

    /// Sets how many attempts the executor runs concurrently.
    pub(crate) fn room(&self, capacity: usize) {
        self.slots.set_capacity(&self.name, capacity);
    }

    /// Reports the progress of an attempt.
    pub(crate) fn progressed(&self, assignment: &Assignment, progress: Progress) {
        let job = assignment.job_id.parse().unwrap();
        let fence = Fence::Lease(LeaseId(assignment.request_id.parse().unwrap()));
        let progress = Some(progress);
        let message = LeaseMessage::Heartbeat {
            progress,
            wait_ms: 0,
        };
        self.audit.send(job, fence, message, respond().0);
    }

    /// Reports that an attempt has ended.
    pub(crate) fn over(&self, tag: Tag, end: End) {
        self.slots.end(tag, format!("{}/1", self.name), end);
    }

    pub(crate) fn all(&self) -> Vec<Call> {
        self.calls.lock().clone()
    }

    /// Returns what was started, in order.
    pub(crate) fn started(&self) -> VecDeque<(Tag, Assignment)> {
        let calls = self.all().into_iter();
        calls
            .filter_map(|call| match call {
                Call::Start(tag, assignment) => Some((tag, *assignment)),
                Call::Cancel(..) => None,
            })
            .collect()
    }
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, Vec<Call>> {
        self.0.lock()
    }
}

impl Pusher for Calls {
    fn start(self: Arc<Self>, tag: Tag, _: &Name, assignment: Assignment) {
        self.lock().push(Call::Start(tag, Box::new(assignment)));
    }

    fn cancel(self: Arc<Self>, tag: Tag, grace_ms: u64) {
        self.lock().push(Call::Cancel(tag, grace_ms));
    }
}
