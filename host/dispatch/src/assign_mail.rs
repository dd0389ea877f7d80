//! Messages of executors to the dispatch loop. They wait here until the loop takes them, so a wire
//! never waits. The number of started attempts bounds them; progress is dropped if the loop is
//! behind.

use host_core::name::Name;
use host_core::outcome::Progress;
use host_core::port::{AssignEvents, End, Tag};
use host_runtime::mailbox::Mailbox;

/// How many messages may wait before progress is dropped.
const WAITING_MAX: usize = 4_096;

#[derive(Clone, Debug, PartialEq)]
pub enum AssignEvent {
    /// The executor runs at most this many attempts at once.
    Capacity(Name, usize),
    /// The latest progress of an attempt.
    Progressed(Tag, Progress),
    /// An attempt has ended.
    Ended {
        tag: Tag,
        /// The worker that had it, for display: `python/1`.
        worker: String,
        end: End,
    },
}

#[derive(Debug, Default)]
pub struct AssignMail(Mailbox<AssignEvent>);

impl AssignMail {
    /// Takes all messages, oldest first.
    pub(crate) fn take(&self) -> Vec<AssignEvent> {
        self.0.take()
    }

    /// Waits until a message has arrived. Cancel safe.
    pub(crate) async fn arrived(&self) {
        self.0.arrived().await;
    }

    fn put(&self, event: AssignEvent) {
        // The mailbox is never closed, so this cannot fail.
        let _kept = self.0.put(event);
    }
}

impl AssignEvents for AssignMail {
    fn capacity(&self, executor: &Name, attempts: usize) {
        self.put(AssignEvent::Capacity(executor.clone(), attempts));
    }

    /// Does nothing: a lease held by a connection needs no acknowledgement.
    fn started(&self, _tag: Tag) {}

    fn progressed(&self, tag: Tag, progress: Progress) {
        let event = AssignEvent::Progressed(tag, progress);
        let _dropped_if_behind = self.0.put_below(WAITING_MAX, event);
    }

    fn ended(&self, tag: Tag, worker: String, end: End) {
        self.put(AssignEvent::Ended { tag, worker, end });
    }
}
