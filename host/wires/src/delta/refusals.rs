//! The reasons for refusing what a runner sends: one stable code for each cause, its HTTP status and
//! its message, which quotes no secret. Knows no state.

/// The cause of a refusal, as shown in metrics and in the `error.code` of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Code {
    AlreadyComplete,
    Auth,
    BodyTooLarge,
    Busy,
    FieldMismatch,
    FieldRange,
    FieldType,
    FieldValue,
    Json,
    LeaseTheft,
    LogOffset,
    Off,
    Rate,
    Request,
    StaleLease,
    State,
    StoreFull,
}

/// In the order of declaration.
const ALL: [Code; 17] = [
    Code::AlreadyComplete,
    Code::Auth,
    Code::BodyTooLarge,
    Code::Busy,
    Code::FieldMismatch,
    Code::FieldRange,
    Code::FieldType,
    Code::FieldValue,
    Code::Json,
    Code::LeaseTheft,
    Code::LogOffset,
    Code::Off,
    Code::Rate,
    Code::Request,
    Code::StaleLease,
    Code::State,
    Code::StoreFull,
];

/// All codes of this wire with their meaning and what to do, for `host explain` and the docs.
pub(super) const CODES: [(&str, &str); ALL.len()] = crate::wire::codes!(ALL);

impl Code {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::AlreadyComplete => "E_ALREADY_COMPLETE",
            Self::Auth => "E_AUTH",
            Self::BodyTooLarge => "E_BODY_TOO_LARGE",
            Self::Busy => "E_BUSY",
            Self::FieldMismatch => "E_FIELD_MISMATCH",
            Self::FieldRange => "E_FIELD_RANGE",
            Self::FieldType => "E_FIELD_TYPE",
            Self::FieldValue => "E_FIELD_VALUE",
            Self::Json => "E_JSON",
            Self::LeaseTheft => "E_LEASE_THEFT",
            Self::LogOffset => "E_LOG_OFFSET",
            Self::Off => "E_OFF",
            Self::Rate => "E_RATE",
            Self::Request => "E_REQUEST",
            Self::StaleLease => "E_STALE_LEASE",
            Self::State => "E_STATE",
            Self::StoreFull => "E_STORE_FULL",
        }
    }

    const fn meaning(self) -> &'static str {
        match self {
            Self::AlreadyComplete => {
                "The lease ended with another message; the answer names the status that was \
                 recorded, and it stays."
            }
            Self::Auth => {
                "The request has no bearer token that a pool of runners has; see \
                 protocol.delta.runners.NAME.token_file."
            }
            Self::BodyTooLarge => "The body is larger than this path takes; send less.",
            Self::Busy => "The host has no room or is stopping; repeat the message as it is.",
            Self::FieldMismatch => "Two values that must agree do not; the answer names them.",
            Self::FieldRange => "A field's value is outside its range; the answer names both.",
            Self::FieldType => {
                "A field is missing or has another type than the document says; the answer names it."
            }
            Self::FieldValue => {
                "A field has a value that is not one of its own; the answer names it."
            }
            Self::Json => {
                "The body is not JSON as it is taken here: whole UTF-8, no key twice, no number \
                 beyond a double, less than 128 levels deep; the answer says at which byte."
            }
            Self::LeaseTheft => {
                "A runner named a lease that another runner holds; it got the answer to an unknown \
                 lease, and the log has both names. Look how it came by the lease."
            }
            Self::LogOffset => {
                "A chunk of a log begins behind the end of what was received; go on at next_offset."
            }
            Self::Off => {
                "No pool of runners is configured; add protocol.delta.runners.NAME with a token or a `cmd`."
            }
            Self::Rate => {
                "One lease had more than 10 heartbeats a second; the document's interval is 20 s. \
                 The lease lives by those that were accepted."
            }
            Self::Request => {
                "The HTTP request was refused before its body was read; the answer says why."
            }
            Self::StaleLease => {
                "The lease is over or was never granted; stop the work and send nothing more about it."
            }
            Self::State => {
                "The lease is not in a state for this message; acknowledge it first, and answer a \
                 cancel only after one was requested."
            }
            Self::StoreFull => "There is no room on the host's disk; repeat the message later.",
        }
    }

    pub(super) const fn status(self) -> u16 {
        match self {
            Self::Json | Self::Request => 400,
            Self::Auth => 401,
            Self::Off => 404,
            Self::AlreadyComplete
            | Self::LeaseTheft
            | Self::LogOffset
            | Self::StaleLease
            | Self::State => 409,
            Self::BodyTooLarge => 413,
            Self::FieldMismatch | Self::FieldRange | Self::FieldType | Self::FieldValue => 422,
            Self::Rate => 429,
            Self::Busy => 503,
            Self::StoreFull => 507,
        }
    }

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
