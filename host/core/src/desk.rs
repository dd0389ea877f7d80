//! The messages between a guest and the desk, where the host answers what handlers ask of the store.
//!
//! The host passes each run that has such grants a socket of its own. The other end goes to the desk together with
//! what the run may ask: a [`DeskPass`]. A cell says nothing about its rights, and has none after its socket is
//! closed.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::id::JobId;
use crate::jobs_grant::JobsGrant;
use crate::name::Name;
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
}

/// An answer of the desk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeskAnswer {
    /// The ids of jobs, in order.
    Jobs(Vec<String>),
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
