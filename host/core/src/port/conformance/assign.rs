//! Audits Assign: each started attempt ends once, and no other attempt is reported.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::{Violations, lock};
use crate::name::Name;
use crate::outcome::Progress;
use crate::port::{Assign, AssignEvents, Assignment, End, Tag};

/// Returns whether the host knows an executor with this name.
type Known = Box<dyn Fn(&Name) -> bool + Send + Sync>;

/// Stands between a wire's executors and the host. The wire uses it as [`AssignEvents`]; the test
/// reaches the wire's executors through [`AssignAudit::assign`].
pub struct AssignAudit {
    /// Whether each attempt has ended.
    attempts: Arc<Mutex<BTreeMap<Tag, bool>>>,
    violations: Violations,
    known: Known,
    events: Arc<dyn AssignEvents>,
}

impl AssignAudit {
    /// Passes what executors report on to `events`. `known` returns whether an executor exists.
    pub fn new(
        events: Arc<dyn AssignEvents>,
        known: impl Fn(&Name) -> bool + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            attempts: Arc::default(),
            violations: Violations::default(),
            known: Box::new(known),
            events,
        })
    }

    /// Returns `executor` behind the audit.
    pub fn assign(&self, executor: Box<dyn Assign>) -> Box<dyn Assign> {
        Box::new(Audited {
            attempts: Arc::clone(&self.attempts),
            violations: self.violations.clone(),
            executor,
        })
    }

    /// Returns the violations, in order.
    pub fn violations(&self) -> Vec<String> {
        self.violations.all()
    }

    /// Checks that there are no violations so far. Attempts may still run.
    ///
    /// # Panics
    /// If there are violations; the message lists them.
    pub fn assert_kept(&self) {
        self.violations.assert_none("Assign");
    }

    /// Checks that there are no violations and that every started attempt has ended.
    ///
    /// # Panics
    /// If there are violations; the message lists them.
    pub fn assert_settled(&self) {
        self.assert_kept();
        let attempts = lock(&self.attempts);
        let open = attempts.iter().filter(|(_, ended)| !**ended);
        let open: Vec<Tag> = open.map(|(tag, _)| *tag).collect();
        assert!(open.is_empty(), "no end was told of {open:?}");
    }

    /// Records a violation if no report about the attempt is allowed. `ends` means that this is its
    /// end.
    fn check(&self, tag: Tag, what: &str, ends: bool) {
        match lock(&self.attempts).get_mut(&tag) {
            None => self
                .violations
                .note(format!("{what} of {tag:?}, which was never started")),
            Some(true) => self
                .violations
                .note(format!("{what} of {tag:?} after its end")),
            Some(ended) => *ended = ends,
        }
    }
}

impl AssignEvents for AssignAudit {
    fn capacity(&self, executor: &Name, attempts: usize) {
        if !(self.known)(executor) {
            self.violations
                .note(format!("the capacity of `{executor}`, which nobody knows"));
        }
        self.events.capacity(executor, attempts);
    }

    fn started(&self, tag: Tag) {
        self.check(tag, "the begin", false);
        self.events.started(tag);
    }

    fn progressed(&self, tag: Tag, progress: Progress) {
        self.check(tag, "progress", false);
        self.events.progressed(tag, progress);
    }

    fn ended(&self, tag: Tag, worker: String, end: End) {
        self.check(tag, "an end", true);
        self.events.ended(tag, worker, end);
    }
}

/// An executor behind the audit. It records which attempts start.
struct Audited {
    attempts: Arc<Mutex<BTreeMap<Tag, bool>>>,
    violations: Violations,
    executor: Box<dyn Assign>,
}

impl Assign for Audited {
    fn start(&self, tag: Tag, assignment: Assignment) {
        let before = lock(&self.attempts).insert(tag, false);
        if before.is_some() {
            self.violations.note(format!("{tag:?} is started twice"));
        }
        self.executor.start(tag, assignment);
    }

    fn cancel(&self, tag: Tag, grace_ms: u64) {
        if !lock(&self.attempts).contains_key(&tag) {
            self.violations
                .note(format!("a cancel of {tag:?}, which was never started"));
        }
        self.executor.cancel(tag, grace_ms);
    }

    fn drain(&self) {
        self.executor.drain();
    }

    fn grace_ms(&self) -> u64 {
        self.executor.grace_ms()
    }
}
