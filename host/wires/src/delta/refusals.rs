//! The reasons for refusing what a runner sends: one stable code for each cause, its HTTP status and
//! its message, which quotes no secret. Knows no state.

crate::wire::codes! {
    AlreadyComplete = "E_ALREADY_COMPLETE", 409,
        "The lease ended with another message; the answer names the status that was recorded, and \
         it stays.";
    Auth = "E_AUTH", 401,
        "The request has no bearer token that a pool of runners has; see \
         protocol.delta.runners.NAME.token_file.";
    BodyTooLarge = "E_BODY_TOO_LARGE", 413, "The body is larger than this path takes; send less.";
    Busy = "E_BUSY", 503, "The host has no room or is stopping; repeat the message as it is.";
    FieldMismatch = "E_FIELD_MISMATCH", 422,
        "Two values that must agree do not; the answer names them.";
    FieldRange = "E_FIELD_RANGE", 422,
        "A field's value is outside its range; the answer names both.";
    FieldType = "E_FIELD_TYPE", 422,
        "A field is missing or has another type than the document says; the answer names it.";
    FieldValue = "E_FIELD_VALUE", 422,
        "A field has a value that is not one of its own; the answer names it.";
    Json = "E_JSON", 400,
        "The body is not JSON as it is taken here: whole UTF-8, no key twice, no number beyond a \
         double, less than 128 levels deep; the answer says at which byte.";
    LeaseTheft = "E_LEASE_THEFT", 409,
        "A runner named a lease that another runner holds; it got the answer to an unknown lease, \
         and the log has both names. Look how it came by the lease.";
    LogOffset = "E_LOG_OFFSET", 409,
        "A chunk of a log begins behind the end of what was received; go on at next_offset.";
    Off = "E_OFF", 404,
        "No pool of runners is configured; add protocol.delta.runners.NAME with a token or a \
         `cmd`.";
    Rate = "E_RATE", 429,
        "One lease had more than 10 heartbeats a second; the document's interval is 20 s. The \
         lease lives by those that were accepted.";
    Request = "E_REQUEST", 400,
        "The HTTP request was refused before its body was read; the answer says why.";
    StaleLease = "E_STALE_LEASE", 409,
        "The lease is over or was never granted; stop the work and send nothing more about it.";
    State = "E_STATE", 409,
        "The lease is not in a state for this message; acknowledge it first, and answer a cancel \
         only after one was requested.";
    StoreFull = "E_STORE_FULL", 507,
        "There is no room on the host's disk; repeat the message later.";
}

impl Code {
    /// Returns whether the runner should send the same message again.
    pub(super) const fn is_repeatable(self) -> bool {
        matches!(self, Self::Rate | Self::Busy | Self::StoreFull)
    }
}

/// Why a lease is stale, in the words of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stale {
    Expired,
    Revoked,
    Unknown,
}

impl Stale {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "LEASE_EXPIRED",
            Self::Revoked => "LEASE_REVOKED",
            Self::Unknown => "UNKNOWN_LEASE",
        }
    }

    const fn message(self) -> &'static str {
        match self {
            Self::Expired => "the lease ran out: no heartbeat came in time",
            Self::Revoked => "the lease was taken away",
            Self::Unknown => "no such lease is held",
        }
    }
}

/// More that an answer says beside its code and message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum More {
    Nothing,
    Stale(Stale),
    /// The status that was recorded for the lease.
    Recorded(&'static str),
    /// Where the log goes on.
    NextOffset(u64),
    /// The HTTP status, if it is not that of the code.
    Status(u16),
}

/// One refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) code: Code,
    /// For people; quotes no secret.
    pub(super) message: String,
    pub(super) more: More,
}

impl Refused {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            more: More::Nothing,
        }
    }

    /// Returns the HTTP status.
    pub(super) const fn status(&self) -> u16 {
        match self.more {
            More::Status(status) => status,
            _ => self.code.status(),
        }
    }

    pub(super) fn stale(why: Stale) -> Self {
        Self {
            more: More::Stale(why),
            ..Self::new(Code::StaleLease, why.message())
        }
    }

    pub(super) fn rate() -> Self {
        let message =
            "more than 10 heartbeats a second came for this lease; it lives by the others";
        Self::new(Code::Rate, message)
    }

    pub(super) fn recorded(status: &'static str) -> Self {
        Self {
            more: More::Recorded(status),
            ..Self::new(
                Code::AlreadyComplete,
                format!("the lease has ended as {status}, which stays"),
            )
        }
    }

    pub(super) fn offset(next: u64) -> Self {
        Self {
            more: More::NextOffset(next),
            ..Self::new(
                Code::LogOffset,
                format!("offset: the log was received up to byte {next}; go on there"),
            )
        }
    }
}
