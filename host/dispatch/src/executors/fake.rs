//! An executor in memory: records the calls it gets and answers when a test says so.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use host_core::name::Name;
use host_core::port::conformance::AssignAudit;
use host_core::port::{Assign, AssignEvents as _, Assignment, End, Tag};
use tokio_util::sync::CancellationToken;

use super::{Executors, Opened};
use crate::assign_mail::AssignMail;

/// A call that an executor got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Start(Tag, Box<Assignment>),
    Cancel(Tag, u64),
}

/// One fake executor. Cloning shares it.
#[derive(Clone)]
pub(crate) struct FakeExecutor {
    name: Name,
    /// The loop's mail, behind the audit.
    pub(crate) audit: Arc<AssignAudit>,
    calls: Arc<Mutex<Vec<Call>>>,
    pub(crate) stopping: CancellationToken,
}

impl FakeExecutor {
    /// Makes an executor without room, and the loop's view of it.
    pub(crate) fn executors(name: &str) -> (Executors, Self) {
        let name: Name = name.parse().unwrap();
        let mail = Arc::<AssignMail>::default();
        let ours = name.clone();
        let executor = Self {
            name,
            audit: AssignAudit::new(Arc::<AssignMail>::clone(&mail), move |it| *it == ours),
            calls: Arc::default(),
            stopping: CancellationToken::new(),
        };
        let known = executor.clone();
        let open = move |name: &Name| match name.as_str() {
            _ if *name == known.name => Opened::Pushed(known.audit.assign(Box::new(known.clone()))),
            "pulled" | "pulled-too" => Opened::Pulled,
            _ => Opened::Unknown,
        };
        let executors = Executors::new(open, mail, executor.stopping.clone());
        (executors, executor)
    }

    /// Reports how many attempts the executor runs at once.
    pub(crate) fn room(&self, capacity: usize) {
        self.audit.capacity(&self.name, capacity);
    }

    /// Reports that an attempt has ended.
    pub(crate) fn over(&self, tag: Tag, end: End) {
        self.audit.ended(tag, format!("{}/1", self.name), end);
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().unwrap()
    }

    pub(crate) fn all(&self) -> Vec<Call> {
        self.calls().clone()
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

impl Assign for FakeExecutor {
    fn start(&self, tag: Tag, assignment: Assignment) {
        self.calls().push(Call::Start(tag, Box::new(assignment)));
    }

    fn cancel(&self, tag: Tag, grace_ms: u64) {
        self.calls().push(Call::Cancel(tag, grace_ms));
    }
}
