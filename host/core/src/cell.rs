//! What the orchestrator and a cell say to each other, in length-delimited frames of postcard.
//!
//! A cell is not trusted: it may break or be broken out of. It knows its runs only by the numbers
//! it was given, and every number and size in a [`FromCell`] is checked by the receiver.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::failure::Failure;
use crate::handler::{DirGrant, HandlerInfo, Limits};
use crate::json::JsonText;
use crate::outcome::{Meter, Outcome, Progress};

/// The largest frame in either direction, in bytes: a component's path, params or a result at its
/// highest limit of 16 MiB, and what surrounds it.
pub const FRAME_BYTES_MAX: usize = 17 << 20;

/// One execution in one cell; unique for the life of the orchestrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId(pub u64);

/// One compiled component loaded into a cell; unique for the life of the orchestrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ComponentKey(pub u64);

/// What the orchestrator says to a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToCell {
    /// Map this compiled component; runs of it may follow at once, without waiting for an answer.
    Load {
        /// How later messages name it.
        component: ComponentKey,
        /// The compiled file, written by this host's compile child.
        path: PathBuf,
        /// Its SHA-256, as it was when it was written.
        sha256: [u8; 32],
    },
    /// No run of this component will follow; it may be unmapped once its last run has ended.
    Unload {
        /// Which one.
        component: ComponentKey,
    },
    /// Execute a handler in a fresh sandbox.
    Start(Box<Start>),
    /// Stop a run: the guest sees the request at once and is stopped by force after the grace.
    /// A repeated stop can only shorten the grace. For a run that has ended it does nothing.
    Stop {
        /// Which one.
        run: RunId,
        /// From receipt, in milliseconds; 0 stops it at once.
        grace_ms: u64,
        /// What the guest is told.
        reason: String,
    },
    /// Ask a component for its handlers, with no grants and a small budget.
    Describe {
        /// Answers to this number.
        run: RunId,
        /// Which component.
        component: ComponentKey,
    },
}

/// One execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// How later messages name it.
    pub run: RunId,
    /// Which component, loaded before.
    pub component: ComponentKey,
    /// What the guest is told about its job.
    pub context: Context,
    /// What the handler is called with.
    pub params: JsonText,
    /// Limits of this attempt; the time limit is already cut to the job's deadline.
    pub limits: Limits,
    /// Environment variables the guest sees.
    pub env: Vec<(String, String)>,
    /// Directories the guest may read.
    pub read_dirs: Vec<DirGrant>,
}

/// What a guest is told about its job (WIT `context`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// The job's id.
    pub job_id: String,
    /// Names this attempt of this job.
    pub request_id: String,
    /// The handler's name.
    pub handler: String,
    /// The queue it waited in.
    pub queue: String,
    /// The wire it came by.
    pub protocol: String,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// How many attempts count.
    pub max_attempts: Option<u32>,
    /// RFC 3339.
    pub enqueued_at: String,
    /// RFC 3339.
    pub deadline: Option<String>,
    /// Who executes it.
    pub worker_id: Option<String>,
    /// W3C trace context.
    pub trace: Vec<(String, String)>,
    /// Other key-value pairs that the job's sender attached.
    pub attributes: Vec<(String, String)>,
}

/// How urgent a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Details for debugging the guest.
    Trace,
    /// For debugging the guest.
    Debug,
    /// Worth knowing.
    Info,
    /// Worth a look.
    Warn,
    /// Something failed.
    Error,
}

impl Level {
    /// Returns the stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// Where a log line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogSource {
    /// The `log` interface.
    Log,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// The host itself, about the guest: what was cut off, for instance.
    Host,
}

impl LogSource {
    /// Returns the stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Host => "host",
        }
    }
}

/// One line of a guest's log. A newline in `message` is text: it starts no other line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Since the start of the run, in milliseconds.
    pub at_ms: u64,
    /// How urgent.
    pub level: Level,
    /// Where from.
    pub source: LogSource,
    /// What it says; invalid UTF-8 is replaced.
    pub message: String,
    /// Structured fields, in the guest's order.
    pub fields: Vec<(String, String)>,
}

/// What a cell says to the orchestrator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromCell {
    /// The cell takes messages; the first frame it sends.
    Ready {
        /// How many runs it has room for at once.
        slots: u32,
    },
    /// A component cannot be loaded; each run of it ends with a failure that says so.
    LoadFailed {
        /// Which one.
        component: ComponentKey,
        /// Why.
        message: String,
    },
    /// Log lines of a run, in order.
    Log {
        /// Which run.
        run: RunId,
        /// The lines.
        lines: Vec<LogLine>,
    },
    /// The latest progress of a run; earlier ones may have been skipped.
    Progress {
        /// Which run.
        run: RunId,
        /// The progress.
        progress: Progress,
    },
    /// A run has ended; nothing follows about it.
    Ended {
        /// Which run.
        run: RunId,
        /// How.
        outcome: Outcome,
        /// What it used.
        meter: Meter,
    },
    /// Answers [`ToCell::Describe`].
    Described {
        /// Which number.
        run: RunId,
        /// The handlers, or why there are none.
        result: Result<Vec<HandlerInfo>, Failure>,
    },
}

/// What the compile child prints on its standard output, as JSON: the compiled file is where it
/// was told to write it, or the component is refused.
pub type CompileReply = Result<Compiled, Refusal>;

/// A compiled component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compiled {
    /// The SHA-256 of the compiled file.
    pub sha256: [u8; 32],
    /// Its length.
    pub bytes: u64,
}

/// Why a component is not compiled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The bytes are something else.
    #[error("this is no WebAssembly component; build one for the target wasm32-wasip2")]
    NotAComponent,
    /// Machine code that another host compiled. It cannot be checked, so it is never run.
    #[error("this is compiled code, which is never taken; deploy the component itself")]
    Precompiled,
    /// It does not validate, or uses a feature that is off.
    #[error("the component is not valid here: {message}")]
    Invalid {
        /// What the validator says.
        message: String,
    },
    /// It imports what no guest is given.
    #[error("the component imports {name}, which no handler is given")]
    ForbiddenImport {
        /// The import.
        name: String,
    },
    /// It does not export what a handler must.
    #[error("the component does not fit the world host:jobs/job: {message}")]
    WrongWorld {
        /// What is missing or different.
        message: String,
    },
    /// Its file is too large.
    #[error("the component is larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// Compiling it takes more memory or time than it is given.
    #[error("the component cannot be compiled within its limits: {message}")]
    OutOfLimits {
        /// Which limit.
        message: String,
    },
}
