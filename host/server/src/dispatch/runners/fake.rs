//! A pool of runners in memory: notes what it is told and answers when a test says so.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use host_core::name::Name;
use host_protocols::port::Tag;
use host_protocols::runner::{Assignment, End, Room};
use tokio_util::sync::CancellationToken;

use super::{Crews, RunnerPort};
use crate::runners::{Inbox, Over};

/// What a pool was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Start(Tag, Box<Assignment>),
    Cancel(Tag, u64),
}

/// One pool. Cloning shares it.
#[derive(Clone)]
pub(crate) struct FakeRunner {
    name: Name,
    inbox: Arc<Inbox>,
    told: Arc<Mutex<Vec<Told>>>,
    pub(crate) stopping: CancellationToken,
}

impl FakeRunner {
    /// Makes a pool without room, and the loop's side of it.
    pub(crate) fn crews(name: &str) -> (Crews, Self) {
        let runner = Self {
            name: name.parse().unwrap(),
            inbox: Arc::default(),
            told: Arc::default(),
            stopping: CancellationToken::new(),
        };
        let port: Box<dyn RunnerPort> = Box::new(runner.clone());
        let crews = Crews::new(
            [(runner.name.clone(), port)],
            Arc::clone(&runner.inbox),
            runner.stopping.clone(),
        );
        (crews, runner)
    }

    /// Tells the loop how many executions it takes at once.
    pub(crate) fn room(&self, capacity: usize) {
        let room = Room {
            free: capacity,
            in_flight: 0,
        };
        self.inbox.room(&self.name, room);
    }

    /// Tells the loop that an execution is over.
    pub(crate) fn over(&self, tag: Tag, end: End) {
        let executor = format!("{}/1", self.name);
        self.inbox.over(Over { tag, executor, end });
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

impl RunnerPort for FakeRunner {
    fn start(&self, tag: Tag, assignment: Assignment) {
        self.told().push(Told::Start(tag, Box::new(assignment)));
    }

    fn cancel(&self, tag: Tag, grace_ms: u64) {
        self.told().push(Told::Cancel(tag, grace_ms));
    }
}
