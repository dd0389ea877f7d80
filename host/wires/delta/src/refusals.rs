//! The reasons for refusing what a runner sends: one stable code for each cause, its HTTP status and
//! its message, which quotes no secret. Knows no state.

host_wire_kit::codes! {
    AlreadyComplete = "E_ALREADY_COMPLETE", 409,
        "Another message ended the lease before; the answer names the status that was recorded.";
    Auth = "E_AUTH", 401,
        "The bearer token is missing, or no pool of runners has it; see \
         protocol.delta.runners.NAME.token_file.";
    BodyTooLarge = "E_BODY_TOO_LARGE", 413, "The body is too large for this path; send less.";
    Busy = "E_BUSY", 503, "The host is busy or stopping; send the same message again.";
    ClockSkew = "E_CLOCK_SKEW", 200,
        "The `ts` of a heartbeat is more than a minute from this host's clock. The heartbeat counts all the same: \
         times of runners decide nothing. Set the clock of one of the two machines.";
    FieldMismatch = "E_FIELD_MISMATCH", 422,
        "Two values contradict each other; the answer names them.";
    FieldRange = "E_FIELD_RANGE", 422,
        "A field's value is outside its range; the answer names both.";
    FieldType = "E_FIELD_TYPE", 422,
        "A field is missing or has the wrong type; the answer names it.";
    FieldValue = "E_FIELD_VALUE", 422,
        "A field has an invalid value; the answer names it.";
    Json = "E_JSON", 400,
        "The body is not valid JSON: UTF-8, no duplicate keys, no number beyond a double, fewer \
         than 128 levels; the answer names the byte.";
    LeaseTheft = "E_LEASE_THEFT", 409,
        "A runner named a lease that another runner holds. Its answer was that of an unknown \
         lease; the log has both names. Find out how it got the lease.";
    LogOffset = "E_LOG_OFFSET", 409,
        "A chunk of a log begins after the end of what was received; continue at next_offset.";
    Off = "E_OFF", 404,
        "No pool of runners is configured; add protocol.delta.runners.NAME with a token or a \
         `cmd`.";
    Rate = "E_RATE", 429,
        "More than 10 heartbeats a second arrived for one lease; the document's interval is 20 s. \
         Those that were accepted keep the lease alive.";
    Request = "E_REQUEST", 400,
        "The HTTP request was refused before its body was read; the answer says why.";
    StaleLease = "E_STALE_LEASE", 409,
        "The lease has ended or was never granted; stop the job and send nothing more about it.";
    State = "E_STATE", 409,
        "The lease is in the wrong state for this message: acknowledge it first, and answer a \
         cancel only after one was requested.";
    StoreFull = "E_STORE_FULL", 507,
        "The host's disk is full; send the message again later.";
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
    /// Where the log continues.
    NextOffset(u64),
    /// The HTTP status, if it is not that of the code.
    Status(u16),
}

/// One refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WireRefusal {
    pub(super) code: Code,
    /// For people; quotes no secret.
    pub(super) message: String,
    pub(super) more: More,
}

impl WireRefusal {
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
        let message = "more than 10 heartbeats a second for this lease; those that were accepted keep it alive";
        Self::new(Code::Rate, message)
    }

    pub(super) fn recorded(status: &'static str) -> Self {
        Self {
            more: More::Recorded(status),
            ..Self::new(
                Code::AlreadyComplete,
                format!("the lease has already ended as {status}"),
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
