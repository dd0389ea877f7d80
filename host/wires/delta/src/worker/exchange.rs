//! The messages of a runner by their kinds, and what an orchestrator may answer.

/// Which message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ack,
    Heartbeat,
    Complete,
    CancelAck,
    /// A part of the log.
    Log,
}

impl Kind {
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Ack => "/api/v1/internal/ack-lease",
            Self::Heartbeat => "/api/v1/internal/heartbeat",
            Self::Complete => "/api/v1/internal/complete",
            Self::CancelAck => "/api/v1/internal/cancel-ack",
            Self::Log => "/api/v1/internal/logs",
        }
    }
}

/// What the orchestrator answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// It accepts the message.
    Accepted(Reply),
    /// It has the log up to this offset.
    Logged(u64),
    /// The lease is over.
    Stale,
    /// It does not know a field of the message.
    UnknownField,
    /// It refuses the message, and will again.
    Refused(String),
    /// There is no answer, or one that says to try again.
    Again,
}

/// What an accepted heartbeat says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) ttl_ms: Option<u64>,
    /// The grace of a cancel that is requested, in milliseconds; 0 if it names none.
    pub(super) cancel_ms: Option<u64>,
}
