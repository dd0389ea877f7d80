//! An executor in memory: notes what it is told and answers when a test says so.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use host_core::name::Name;
use host_core::port::{Assign, AssignEvents as _, Assignment, End, Tag};
use tokio_util::sync::CancellationToken;

use super::{Executors, Opened};
use crate::assign_mail::AssignMail;

/// What an executor was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Start(Tag, Box<Assignment>),
    Cancel(Tag, u64),
}

/// One executor. Cloning shares it.
#[derive(Clone)]
pub(crate) struct FakeExecutor {
    name: Name,
    mail: Arc<AssignMail>,
    told: Arc<Mutex<Vec<Told>>>,
    pub(crate) stopping: CancellationToken,
}

impl FakeExecutor {
    /// Makes an executor without room, and the loop's side of it.
    pub(crate) fn executors(name: &str) -> (Executors, Self) {
        let executor = Self {
            name: name.parse().unwrap(),
            mail: Arc::default(),
            told: Arc::default(),
            stopping: CancellationToken::new(),
        };
        let known = executor.clone();
        let open = move |name: &Name| match name.as_str() {
            _ if *name == known.name => Opened::Pushed(Box::new(known.clone())),
            "pulled" | "pulled-too" => Opened::Pulled,
            _ => Opened::Unknown,
        };
        let mail = Arc::clone(&executor.mail);
        let executors = Executors::new(open, mail, executor.stopping.clone());
        (executors, executor)
    }

    /// Tells the loop how many attempts it takes at once.
    pub(crate) fn room(&self, capacity: usize) {
        self.mail.capacity(&self.name, capacity);
    }

    /// Tells the loop that an attempt is over.
    pub(crate) fn over(&self, tag: Tag, end: End) {
        self.mail.ended(tag, format!("{}/1", self.name), end);
    }

    fn told(&self) -> MutexGuard<'_, Vec<Told>> {
        self.told.lock().unwrap()
    }

    pub(crate) fn all(&self) -> Vec<Told> {
        self.told().clone()
    }

    /// Returns what was started, in order.
    pub(crate) fn started(&self) -> VecDeque<(Tag, Assignment)> {
        let told = self.all().into_iter();
        told.filter_map(|told| match told {
            Told::Start(tag, assignment) => Some((tag, *assignment)),
            Told::Cancel(..) => None,
        })
        .collect()
    }
}

impl Assign for FakeExecutor {
    fn start(&self, tag: Tag, assignment: Assignment) {
        self.told().push(Told::Start(tag, Box::new(assignment)));
    }

    fn cancel(&self, tag: Tag, grace_ms: u64) {
        self.told().push(Told::Cancel(tag, grace_ms));
    }
}
