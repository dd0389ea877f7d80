//! The reasons for refusing a job or an id: one stable code for each cause, and a message that
//! never quotes a value. Knows no state.

host_wire_kit::codes! {
    DepCycle = "E_DEP_CYCLE",
        "Jobs wait for each other in a circle; remove one of the dependencies along the path in \
         the job's error.";
    FieldRange = "E_FIELD_RANGE",
        "A field of the job's hash is outside its range; the job's error names the field and the \
         range.";
    FieldType = "E_FIELD_TYPE",
        "A field of the job's hash does not have the type that the protocol requires; the job's \
         error names it.";
    Id = "E_ID", "An entry of the queue is not the id of a job; find out who pushes it.";
    JobBusy = "E_JOB_BUSY",
        "A worker has the job; wait until the job has ended, or stop it, before you queue it \
         again.";
    JobEnded = "E_JOB_ENDED",
        "The job has already ended, so that it cannot be run, stopped or queued again; `host hero \
         requeue` queues a failed job again.";
    JobMissing = "E_JOB_MISSING",
        "The queue names a job that has no hash; write the hash before you queue the id.";
    JobTampered = "E_JOB_TAMPERED",
        "The job's hash does not match its key or its queue, or the list of jobs that it waits for \
         was changed; the job's error says which.";
    JobTwice = "E_JOB_TWICE",
        "The queue names a job that is already being executed; queue an id once.";
    JobType = "E_JOB_TYPE",
        "The key of the job does not hold a hash; remove it and store the job again.";
    LogPath = "E_LOG_PATH",
        "The job's log_path is not a file below the folder for log files; correct it, or set \
         log_dir.";
    Reply = "E_REPLY",
        "Redis gave an answer that the protocol does not know; check its version and who else \
         writes the job's keys.";
}

/// Why a job or an id is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
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

    /// Makes a refusal with the message `field: expected …, found …`.
    pub(super) fn field(code: Code, field: &str, expected: &str, found: &str) -> Self {
        Self::new(code, format!("{field}: expected {expected}, found {found}"))
    }

    /// Makes the refusal of a field outside its range.
    pub(super) fn range(field: &str, expected: &str, found: &str) -> Self {
        Self::field(Code::FieldRange, field, expected, found)
    }

    /// Makes the refusal of a reply that does not fit its command.
    pub(super) fn odd_reply(command: &str) -> Self {
        Self::new(
            Code::Reply,
            format!("unexpected answer from Redis to {command}"),
        )
    }

    /// Returns the code as shown in metrics.
    pub(super) const fn code(&self) -> &'static str {
        self.code.as_str()
    }

    /// Returns the text for a job's `error`.
    pub(super) fn text(&self) -> String {
        format!("{} {}", self.code(), self.message)
    }
}
