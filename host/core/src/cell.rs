//! The messages between the host and a cell, in length-delimited postcard frames.
//!
//! A cell is not trusted: it may have a bug or be taken over. It opens no path: the host passes it open
//! descriptors. It knows its runs only by the numbers it was given, and the host checks every number and size
//! in a [`FromCell`].

use std::fmt;
use std::path::PathBuf;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

use crate::desk::DeskPass;
use crate::egress::Pass;
use crate::failure::Failure;
use crate::handler::{DirGrant, HandlerInfo, Limits};
use crate::json::JsonText;
use crate::outcome::{Meter, Outcome, Progress};
use crate::tcp_grant::Endpoint;

/// The largest frame in either direction, in bytes: a component's path, params or a result at its highest
/// limit of 16 MiB, plus overhead.
pub const FRAME_BYTES_MAX: usize = 17 << 20;

/// How many handlers a component may have.
pub const HANDLERS_MAX: usize = 1_000;

/// How many handlers a cell describes: just enough to detect that there are too many.
pub const DESCRIBED_MAX: usize = HANDLERS_MAX + 1;

/// The most fields of a log line.
pub const LINE_FIELDS_MAX: usize = 64;

/// The cost of a log line in addition to its text, in bytes: about its overhead in memory.
pub const LINE_OVERHEAD_BYTES: u64 = 64;

/// The same for each of its fields.
const FIELD_OVERHEAD_BYTES: u64 = 64;

/// The highest total cost of the lines of one message, in bytes.
const LINES_COST_MAX: u64 = 16 << 20;

/// One execution in one cell; unique for the life of the host process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId(pub u64);

/// One compiled component loaded into a cell; unique for the life of the host process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ComponentKey(pub u64);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToCell {
    /// Map this compiled component; runs of it may follow immediately, without waiting for an answer.
    Load {
        /// The name of the component in later messages.
        component: ComponentKey,
        /// The path of the compiled file, which this host's compile child wrote. Only for messages, because
        /// the cell opens nothing.
        path: PathBuf,
        /// The SHA-256 of the file when it was written.
        sha256: [u8; 32],
        /// Whether the open file comes with this message.
        file: Handover,
    },
    /// No more runs of this component will start; it may be unmapped after its last run has ended.
    Unload { component: ComponentKey },
    /// Execute a handler in a fresh sandbox.
    Start(Box<Start>),
    /// Stop a run: the guest sees the request immediately and is stopped by force after the grace. A
    /// repeated stop can only shorten the grace. If the run has ended, this does nothing.
    Stop {
        run: RunId,
        /// From receipt, in milliseconds; 0 stops it immediately.
        grace_ms: u64,
        /// The reason that the guest sees.
        reason: String,
    },
    /// Ask a component for its handlers, with no grants and a small budget.
    Describe {
        /// The number for the answer.
        run: RunId,
        component: ComponentKey,
    },
}

/// Where the time limit of an attempt comes from: the shortest of them counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeBound {
    /// The manifest of the handler.
    #[default]
    Handler,
    /// The time limit of the job.
    Job,
    /// The deadline of the job.
    Deadline,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The name of the run in later messages.
    pub run: RunId,
    /// The component, which was loaded before.
    pub component: ComponentKey,
    /// The context that the guest sees.
    pub context: Context,
    /// The params of the handler.
    pub params: JsonText,
    /// Limits of this attempt; the time limit already respects the job's deadline.
    pub limits: Limits,
    /// Where its time limit comes from.
    pub time_bound: TimeBound,
    /// Environment variables the guest sees.
    pub env: Vec<(String, String)>,
    /// The way to HTTP servers, if the handler has grants.
    pub http: Option<EgressDoor>,
    /// The way to the desk, if the handler has grants.
    pub desk: Option<DeskDoor>,
    /// Whether the file for the scratch directory comes with the message, after the sockets; `None` without one.
    pub scratch: Option<Handover>,
    /// Directories the guest may read.
    pub read_dirs: Vec<GivenDir>,
}

/// The most open descriptors that come with one message.
pub const HANDED_OVER_MAX: usize = 64;

/// Whether an open descriptor comes with a message. Descriptors have a socket of their own, which is passed
/// first, over the socket for messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Handover {
    /// It comes, with the others of the message, in order.
    #[default]
    Comes,
    /// The host could not open it, and why.
    Failed(String),
}

/// A directory that a guest may read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenDir {
    /// Which one, and the name that the guest sees.
    pub grant: DirGrant,
    /// Whether it comes open with the message.
    pub dir: Handover,
}

impl From<DirGrant> for GivenDir {
    fn from(grant: DirGrant) -> Self {
        let dir = Handover::Comes;
        Self { grant, dir }
    }
}

/// The socket of a run to the broker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EgressDoor {
    /// The rights that the broker gets. The cell does not see them.
    #[serde(skip)]
    pub pass: Box<Pass>,
    /// Whether the socket comes with the message, before the directories.
    pub socket: Handover,
    /// The servers that the guest may connect to, whose names it may look up.
    pub servers: Vec<Endpoint>,
    /// Whether the guest may send HTTP requests. Its libraries may try to connect first.
    pub may_request: bool,
}

impl EgressDoor {
    /// Returns the door of a run that may do what `pass` says.
    pub fn new(pass: Pass) -> Self {
        Self {
            may_request: !pass.grants.is_empty(),
            servers: pass.tcp.iter().map(|grant| grant.to.clone()).collect(),
            pass: Box::new(pass),
            ..Self::default()
        }
    }
}

/// The socket of a run to the desk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeskDoor {
    /// The rights that the desk gets. The cell does not see them.
    #[serde(skip)]
    pub pass: Option<Box<DeskPass>>,
    /// Whether the socket comes with the message, after that to the broker.
    pub socket: Handover,
}

/// How this system protects the host from a child process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protection {
    /// Required protection that is missing.
    pub missing: Vec<String>,
    /// Optional protection that this system does not allow.
    pub reduced: Vec<String>,
}

/// What a child found that is confined like a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    #[serde(flatten)]
    pub protection: Protection,
    /// Why this system cannot run guests, if it cannot.
    #[serde(default)]
    pub failure: Option<String>,
}

/// What a guest sees about its job (WIT `context`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    pub job_id: String,
    /// Names this attempt of this job.
    pub request_id: String,
    pub handler: String,
    /// The queue it waited in.
    pub queue: String,
    /// The wire that the job came in over.
    pub protocol: String,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// The most attempts that count.
    pub max_attempts: Option<u32>,
    /// RFC 3339.
    pub enqueued_at: String,
    /// RFC 3339.
    pub deadline: Option<String>,
    /// Identifies the worker.
    pub worker_id: Option<String>,
    /// W3C trace context.
    pub trace: Vec<(String, String)>,
    /// Other key-value pairs that the job's sender attached.
    pub attributes: Vec<(String, String)>,
}

/// The severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The finest details for debugging the guest.
    Trace,
    /// For debugging the guest.
    Debug,
    /// Worth knowing.
    Info,
    /// Worth checking.
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

/// The source of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogSource {
    /// The `log` interface.
    Log,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// The host itself, about the guest: for example, that output was truncated.
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

/// One line of a guest's log. A newline in `message` is plain text and starts no new line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Milliseconds since the start of the run.
    pub at_ms: u64,
    pub level: Level,
    pub source: LogSource,
    /// The text; invalid UTF-8 is replaced.
    pub message: String,
    /// Structured fields, in the guest's order. Each value is JSON.
    #[serde(deserialize_with = "few_fields")]
    pub fields: Vec<(String, JsonText)>,
}

impl LogLine {
    /// Returns how much of a log's limit the line uses, in bytes.
    pub fn cost(&self) -> u64 {
        let fields: u64 = self
            .fields
            .iter()
            .map(|(name, value)| (name.len() + value.0.len()) as u64 + FIELD_OVERHEAD_BYTES)
            .sum();
        self.message.len() as u64 + fields + LINE_OVERHEAD_BYTES
    }
}

/// Reads at most [`LINE_FIELDS_MAX`] fields: an empty one has two bytes in a frame, but many times that in
/// memory.
fn few_fields<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, JsonText)>, D::Error> {
    bounded(
        from,
        LINE_FIELDS_MAX as u64,
        |_| 1,
        "a log line has too many fields",
    )
}

/// Reads lines that cost at most [`LINES_COST_MAX`] together.
fn few_lines<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<LogLine>, D::Error> {
    bounded(
        from,
        LINES_COST_MAX,
        LogLine::cost,
        "a message has too many log lines",
    )
}

/// The handlers that a component describes: at most [`DESCRIBED_MAX`]. A cell leaves out the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Offer(pub Vec<HandlerInfo>);

/// Reads only that many: a handler without descriptions has few bytes in a frame, but many times that in
/// memory.
impl<'de> Deserialize<'de> for Offer {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let refusal = "too many handlers are described";
        bounded(from, DESCRIBED_MAX as u64, |_| 1, refusal).map(Self)
    }
}

/// Reads a list whose elements cost at most `max` together. Ends with `refusal` at the first that costs more.
fn bounded<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
    max: u64,
    cost: impl Fn(&T) -> u64,
    refusal: &'static str,
) -> Result<Vec<T>, D::Error> {
    struct Bounded<T, C> {
        left: u64,
        cost: C,
        refusal: &'static str,
        elements: Vec<T>,
    }
    impl<'de, T: Deserialize<'de>, C: Fn(&T) -> u64> Visitor<'de> for Bounded<T, C> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list within its limit")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Self::Value, A::Error> {
            while let Some(element) = seq.next_element()? {
                let left = self.left.checked_sub((self.cost)(&element));
                self.left = left.ok_or_else(|| A::Error::custom(self.refusal))?;
                self.elements.push(element);
            }
            Ok(self.elements)
        }
    }
    from.deserialize_seq(Bounded {
        left: max,
        cost,
        refusal,
        elements: Vec::new(),
    })
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromCell {
    /// The cell accepts messages. This is the first frame it sends.
    Ready {
        /// How many slots it has.
        slots: u32,
    },
    /// A component cannot be loaded; each run of it ends with a failure that says so.
    LoadFailed {
        component: ComponentKey,
        /// The reason.
        message: String,
    },
    /// Log lines of a run, in order.
    Log {
        run: RunId,
        #[serde(deserialize_with = "few_lines")]
        lines: Vec<LogLine>,
    },
    /// The latest progress of a run; earlier ones may have been skipped.
    Progress { run: RunId, progress: Progress },
    /// A run has ended; no more messages about it follow.
    Ended {
        run: RunId,
        outcome: Outcome,
        /// What the run used.
        meter: Meter,
    },
    /// Answers [`ToCell::Describe`].
    Described {
        /// The number of the request.
        run: RunId,
        /// The handlers, or why they could not be read.
        result: Result<Offer, Failure>,
    },
    /// The use of a run so far.
    Used { run: RunId, meter: Meter },
}

impl FromCell {
    /// Returns about how much more memory the message needs than its frame, in bytes.
    pub fn decoded_bytes(&self) -> u64 {
        match self {
            Self::Log { lines, .. } => lines.iter().map(LogLine::cost).sum(),
            Self::Described { result, .. } => result.as_ref().map_or(0, |handlers| {
                (handlers.0.len() * std::mem::size_of::<HandlerInfo>()) as u64
            }),
            _ => 0,
        }
    }
}

/// What the compile child prints on its standard output, as JSON. On success, it has written the
/// compiled file to the descriptor that it got.
pub type CompileReply = Result<Compiled, CompileFlaw>;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compiled {
    /// The SHA-256 of the compiled file.
    pub sha256: [u8; 32],
    /// The length of the compiled file.
    pub bytes: u64,
    /// The stubbed interfaces that it imports: their functions fail when called.
    #[serde(default)]
    pub stubbed: Vec<String>,
}

/// Why a component is not compiled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[serde(rename_all = "snake_case")]
pub enum CompileFlaw {
    /// The bytes are not a component.
    #[error("not a WebAssembly component; build one for the target wasm32-wasip2")]
    NotAComponent,
    /// Machine code that another host compiled. It cannot be checked, so it never runs.
    #[error("this is compiled code, which is never accepted; deploy the component itself")]
    Precompiled,
    /// It does not validate, or uses a feature that is off.
    #[error("invalid component: {message}")]
    Invalid {
        /// The validator's message.
        message: String,
    },
    /// It imports something that no guest gets.
    #[error("the component imports {name}, which handlers cannot use")]
    ForbiddenImport {
        /// The name of the import.
        name: String,
    },
    /// It does not export what a handler must export.
    #[error("the component does not implement the world host:jobs/job: {message}")]
    WrongWorld {
        /// What is missing or different.
        message: String,
    },
    /// Its file is too large.
    #[error("the component is larger than {limit} bytes")]
    TooLarge { limit: u64 },
    /// Compiling it takes too much memory or time.
    #[error("cannot compile the component within the limits: {message}")]
    OutOfLimits {
        /// The limit that was exceeded.
        message: String,
    },
}
