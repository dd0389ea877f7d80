//! Records that exist only in stores: the rare parts of a payload, and the changes of a batch.

use std::borrow::Cow;

use host_core::command::Change;
use host_core::id::JobId;
use host_core::job::Payload;
use serde::{Deserialize, Serialize};

use super::decode;
use crate::error::StoreError;

/// The changes of one batch, in order.
#[derive(Serialize, Deserialize)]
pub(crate) struct ChangesOfBatch<'a>(pub(crate) Cow<'a, [Change]>);

/// The parts of a payload that are rarely used.
#[derive(Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Extra {
    pub(crate) external_id: Option<String>,
    pub(crate) trace_context: Vec<(String, String)>,
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) depends_on: Vec<JobId>,
}

impl Extra {
    /// Returns the rare parts of a new job, `None` if it has none.
    pub(crate) fn of(payload: &Payload, depends_on: &[JobId]) -> Option<Self> {
        let extra = Self {
            external_id: payload.external_id.clone(),
            trace_context: payload.trace_context.clone(),
            attributes: payload.attributes.clone(),
            depends_on: depends_on.to_vec(),
        };
        (extra != Self::default()).then_some(extra)
    }

    /// Reads the rare parts of `job`, which is named only if they are damaged.
    pub(crate) fn read(
        bytes: Option<Vec<u8>>,
        job: impl FnOnce() -> String,
    ) -> Result<Self, StoreError> {
        match bytes {
            Some(bytes) => decode(&bytes, || format!("the payload of job {}", job())),
            None => Ok(Self::default()),
        }
    }
}
