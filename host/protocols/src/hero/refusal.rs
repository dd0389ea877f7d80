//! Why a job or an id is not taken: one stable code for each cause, and words that never quote a
//! value. Knows no state.

/// The cause, as it stands in metrics, in a job's `error` and in dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Code {
    DepCycle,
    FieldRange,
    FieldType,
    Id,
    JobBusy,
    JobEnded,
    JobMissing,
    JobTampered,
    JobTwice,
    JobType,
    LogPath,
    Reply,
}

impl Code {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::DepCycle => "E_DEP_CYCLE",
            Self::FieldRange => "E_FIELD_RANGE",
            Self::FieldType => "E_FIELD_TYPE",
            Self::Id => "E_ID",
            Self::JobBusy => "E_JOB_BUSY",
            Self::JobEnded => "E_JOB_ENDED",
            Self::JobMissing => "E_JOB_MISSING",
            Self::JobTampered => "E_JOB_TAMPERED",
            Self::JobTwice => "E_JOB_TWICE",
            Self::JobType => "E_JOB_TYPE",
            Self::LogPath => "E_LOG_PATH",
            Self::Reply => "E_REPLY",
        }
    }
}

/// Why something is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub(super) code: Code,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// Says `field: expected …, found …`.
    pub(super) fn field(code: Code, field: &str, expected: &str, found: &str) -> Self {
        Self::new(code, format!("{field}: expected {expected}, found {found}"))
    }

    /// Returns the code as it stands in metrics.
    pub const fn code(&self) -> &'static str {
        self.code.as_str()
    }

    /// Returns what a job's `error` says.
    pub fn text(&self) -> String {
        format!("{} {}", self.code(), self.message)
    }
}
