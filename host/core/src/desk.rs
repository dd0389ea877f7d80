//! The messages between a guest and the desk, where the host answers what handlers ask of the store, and for secrets.
//!
//! The host passes each run that has such grants a socket of its own. The other end goes to the desk together with
//! what the run may ask: a [`DeskPass`]. A cell says nothing about its rights, and has none after its socket is
//! closed.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::id::JobId;
use crate::jobs_grant::JobsGrant;
use crate::name::Name;
use crate::secret::Secret;
use crate::state::StateGrant;
use crate::step::{StepState, StepsGrant};
use crate::writes::WriteBuffer;

/// The largest text of jobs in one request, in bytes.
pub const DESK_JOBS_BYTES_MAX: usize = 8 << 20;

/// The largest frame between a cell and the desk, in bytes.
pub const DESK_FRAME_BYTES_MAX: usize = 9 << 20;

/// What a run may ask, and what it has asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct DeskPass {
    pub job: JobId,
    /// The handler whose grants these are.
    pub handler: Name,
    pub jobs: Vec<JobsGrant>,
    pub state: Option<StateGrant>,
    /// Names of secrets.
    pub secrets: Vec<String>,
    /// Limits whose keys the run may hold.
    pub hold: Vec<Name>,
    /// Webhooks that the jobs of the run may notify.
    pub notify: Vec<Name>,
    /// The size of all artifacts of the run together, in bytes; 0 for none.
    pub artifact_bytes: u64,
    /// `None` for handlers that scripts call.
    pub steps: Option<StepsGrant>,
    /// The trace that the run belongs to.
    pub trace: Vec<(String, String)>,
    /// Collects what the attempt writes at its end.
    pub writes: WriteBuffer,
}

/// What a guest asks. One request waits for its answer before the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeskRequest {
    /// Enqueue a job or an array of jobs. Answered by [`DeskAnswer::Jobs`].
    Enqueue {
        /// JSON, as the API takes it.
        jobs: String,
        /// Whether they are committed now, and not with the attempt's end.
        now: bool,
    },
    /// Read a value of state. Answered by [`DeskAnswer::Value`].
    Get {
        /// A space that the handler shares; its own if `None`.
        space: Option<String>,
        key: String,
    },
    /// Write or remove a key of state. Answered by [`DeskAnswer::Set`].
    Set {
        space: Option<String>,
        key: String,
        value: Option<Vec<u8>>,
        /// Only if the key has this value; `Some(None)` is that there is none.
        expected: Option<Option<Vec<u8>>>,
        /// Whether it is committed now, and not with the attempt's end.
        now: bool,
    },
    /// List keys that start with `prefix`, after the key `after`. Answered by [`DeskAnswer::Keys`].
    List {
        space: Option<String>,
        prefix: String,
        after: String,
    },
    /// Hold the job's key of a limit. Answered by [`DeskAnswer::Held`].
    Hold {
        limit: String,
        /// For how long, in milliseconds.
        ms: u32,
    },
    /// See the value of a secret. Answered by [`DeskAnswer::Secret`].
    Reveal { name: String },
    /// Begin an artifact. Answered by [`DeskAnswer::Artifact`].
    CreateArtifact {
        name: String,
        content_type: Option<String>,
    },
    /// Append to an artifact. Answered by [`DeskAnswer::Written`].
    WriteArtifact { artifact: u32, content: Vec<u8> },
    /// Keep an artifact with the attempt's end, or end reading one. Answered by [`DeskAnswer::Written`].
    CloseArtifact { artifact: u32 },
    /// Open a file that the job was given. Answered by [`DeskAnswer::Artifact`].
    OpenArtifact { name: String },
    /// Read what follows in a file. Answered by [`DeskAnswer::Content`].
    ReadArtifact { artifact: u32, bytes_max: u32 },
    /// Begin the next step. Answered by [`DeskAnswer::Step`].
    BeginStep { name: String },
    /// Commit a checkpoint of the step that has begun. Answered by [`DeskAnswer::Written`].
    CheckpointStep { checkpoint: String },
    /// Commit the result of the step that has begun. Answered by [`DeskAnswer::Written`].
    CompleteStep { result: String },
    /// End the step that has begun without a result. Answered by [`DeskAnswer::Written`].
    FailStep { error: String },
}

/// An answer of the desk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeskAnswer {
    /// The ids of jobs, in order.
    Jobs(Vec<String>),
    Value(Option<Vec<u8>>),
    /// Whether the key had the expected value.
    Set(bool),
    /// In order. Some, unless there are no more.
    Keys(Vec<String>),
    Held,
    /// With its value.
    Secret(Secret),
    /// The number of an artifact that was begun or opened.
    Artifact(u32),
    /// Empty at the end of the file.
    Content(Vec<u8>),
    /// What an artifact got is with the host, or the step is on disk.
    Written,
    /// What the journal has of a step.
    Step(Option<StepState>),
    /// To any request: the host has decided how the attempt ends.
    Ended,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct DeskError {
    pub kind: DeskErrorKind,
    /// One sentence for a person.
    pub message: String,
}

impl DeskError {
    pub fn new(kind: DeskErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, message }
    }
}

/// Who must act on a [`DeskError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeskErrorKind {
    /// The manifest does not grant it.
    NotGranted,
    /// The request is invalid.
    InvalidRequest,
    /// The attempt, or what is stored, has reached a limit.
    LimitReached,
    /// The host cannot do it now. Another attempt may help.
    Unavailable,
}
