//! The answers to callbacks that are accepted. Pure.

use host_core::job::{Cancel, State};
use host_core::time::Time;
use serde::Serialize;

use crate::convert::final_state;
use crate::messages::{CompletedAnswer, FAILED, HeartbeatAnswer, StartedAnswer};

/// The reason of a cancel without one.
const USER_REQUESTED: &str = "user_requested";

/// The reason to stop an attempt whose time is over.
const DEADLINE: &str = "deadline_exceeded";

/// An answer, with this host's wall clock.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum AnswerOut {
    Started(StartedAnswer),
    Heartbeat(HeartbeatAnswer),
    Completed(CompletedAnswer),
}

impl AnswerOut {
    pub(super) fn started(wall: Time) -> Self {
        Self::Started(StartedAnswer {
            acknowledged: true,
            server_time: wall.to_rfc3339(),
        })
    }

    pub(super) fn heartbeat(wall: Time, cancel: Option<&Cancel>, is_overdue: bool) -> Self {
        let reason = match cancel {
            Some(cancel) => Some(cancel.reason.as_deref().unwrap_or(USER_REQUESTED)),
            None => is_overdue.then_some(DEADLINE),
        };
        Self::Heartbeat(HeartbeatAnswer {
            acknowledged: true,
            should_cancel: reason.is_some(),
            cancel_reason: reason.map(str::to_owned),
            server_time: wall.to_rfc3339(),
        })
    }

    /// An attempt has ended, and its job is in this state. One that is to be tried again has failed, for the
    /// worker.
    pub(super) fn completed(wall: Time, state: State) -> Self {
        Self::Completed(CompletedAnswer {
            acknowledged: true,
            final_state: final_state(state).unwrap_or(FAILED).to_owned(),
            server_time: wall.to_rfc3339(),
        })
    }
}
