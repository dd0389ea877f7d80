//! Messages of workers that pull, kept until the dispatch loop takes them. This is the host's side
//! of [`host_core::port::lease`]. The mailbox is bounded: if it is full, a request is refused at
//! once.

use std::sync::Arc;

use host_core::id::JobId;
use host_core::lease::Fence;
use host_core::port::lease::{
    Granted, LeaseError, LeaseMessage, LeaseRequest, Leases, Respond, Standing,
};
use host_core::time::Time;
use host_runtime::mailbox::Mailbox;

/// How many messages may wait for the loop.
const WAITING_MAX: usize = 16_384;

pub(crate) enum LeaseMail {
    /// A worker asks for work.
    Ask(LeaseRequest, Box<dyn Respond<Option<Granted>>>),
    /// A worker's message about its lease.
    Tell(Told),
}

/// A worker's message about its lease, and where the answer goes.
pub(crate) struct Told {
    pub(crate) job: JobId,
    pub(crate) fence: Fence,
    pub(crate) message: LeaseMessage,
    pub(crate) respond: Box<dyn Respond<Result<Standing, LeaseError>>>,
    /// The job's attempt when the message came: its number, and when it was granted.
    pub(crate) attempt: Option<(u32, Time)>,
}

/// How wires whose workers pull reach the dispatch loop. Cloning shares it.
#[derive(Clone, Default)]
pub struct LeaseDoor(Arc<Mailbox<LeaseMail>>);

impl LeaseDoor {
    /// Takes all messages, oldest first.
    pub(crate) fn take(&self) -> Vec<LeaseMail> {
        self.0.take()
    }

    /// Waits until a message has arrived. Cancel safe.
    pub(crate) async fn arrived(&self) {
        self.0.arrived().await;
    }

    /// Returns a guard for the loop. When the loop ends, even by a panic, the guard answers the
    /// waiting messages and refuses later ones.
    pub(crate) fn close_on_drop(&self) -> CloseOnDrop {
        CloseOnDrop(self.clone())
    }

    fn put(&self, mail: LeaseMail) {
        if let Err(mail) = self.0.put_below(WAITING_MAX, mail) {
            let error = if self.0.is_closed() {
                LeaseError::Stopping
            } else {
                LeaseError::Busy
            };
            refuse(mail, error);
        }
    }
}

/// Closes the mailbox when it is dropped.
pub(crate) struct CloseOnDrop(LeaseDoor);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        for mail in self.0.0.close() {
            refuse(mail, LeaseError::Stopping);
        }
    }
}

/// Answers a message with an error instead of handling it.
pub(crate) fn refuse(mail: LeaseMail, error: LeaseError) {
    // The worker may have gone.
    let _gone = match mail {
        LeaseMail::Ask(_, respond) => respond.respond(None).is_err(),
        LeaseMail::Tell(told) => told.respond.respond(Err(error)).is_err(),
    };
}

impl Leases for LeaseDoor {
    fn lease(&self, request: LeaseRequest, respond: Box<dyn Respond<Option<Granted>>>) {
        self.put(LeaseMail::Ask(request, respond));
    }

    fn tell(
        &self,
        job: JobId,
        fence: Fence,
        message: LeaseMessage,
        respond: Box<dyn Respond<Result<Standing, LeaseError>>>,
    ) {
        self.put(LeaseMail::Tell(Told {
            job,
            fence,
            message,
            respond,
            attempt: None,
        }));
    }
}
