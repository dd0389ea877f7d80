//! A runner ends its lease, once: the same end again gets the same answer, another one does not.

use host_core::outcome::Meter;
use host_core::port::lease::LeaseMessage;

use super::{Answer, NamedLease};
use crate::convert;
use crate::messages::read::EndIn;

/// A message that ends a lease.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) report: EndIn,
    /// Whether the runner has stopped because of a cancel.
    pub(crate) is_cancel_ack: bool,
}

impl End {
    pub(super) fn message(&self) -> LeaseMessage {
        if self.is_cancel_ack {
            return LeaseMessage::CancelAck {
                partial: Some(convert::kept(&self.report)),
                message: Some(convert::message(&self.report)),
            };
        }
        LeaseMessage::Complete {
            outcome: convert::outcome(&self.report),
            meter: Meter::default(),
            worker: convert::worker(&self.report).non_empty(),
        }
    }

    pub(super) fn accepted(&self, named: &NamedLease) -> Answer {
        if self.is_cancel_ack {
            return Answer::Accepted;
        }
        Answer::Completed(named.text.clone())
    }
}
