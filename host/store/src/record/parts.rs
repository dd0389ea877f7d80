//! Records that exist only in stores: the rare parts of a payload, and the changes of batches.

use std::borrow::Cow;

use host_core::id::JobId;
use host_core::job::{Origin, Payload};
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::query::{Change, NumberedChange};
use host_core::time::Time;
use host_engine::StoreError;
use serde::{Deserialize, Serialize};

use super::{decode, encode};
use crate::ready::QueuePosition;

/// The most changes in a row. A listener that catches up decodes whole rows.
const CHANGES_MAX: usize = 1_000;

/// Changes of one batch, in order.
#[derive(Serialize, Deserialize)]
struct ChangesOfBatch<'a>(Cow<'a, [Change]>);

/// A row without changes, in place of one that cannot be read: the numbers of its changes stay used.
pub(crate) fn empty_changes() -> Result<Vec<u8>, StoreError> {
    encode(&ChangesOfBatch(Cow::Borrowed(&[])))
}

/// A row of changes to write.
pub(crate) struct ChangesRow {
    /// How many changes of the batch come before.
    pub(crate) place: usize,
    pub(crate) count: usize,
    pub(crate) body: Vec<u8>,
}

impl ChangesRow {
    /// Divides the changes of a batch into rows.
    pub(crate) fn of_batch(changes: &[Change]) -> Result<Vec<Self>, StoreError> {
        let row = |(n, changes): (usize, &[Change])| {
            Ok(Self {
                place: n * CHANGES_MAX,
                count: changes.len(),
                body: encode(&ChangesOfBatch(Cow::Borrowed(changes)))?,
            })
        };
        changes.chunks(CHANGES_MAX).enumerate().map(row).collect()
    }

    /// Reads the changes after the one with the number `after` from a row that begins with the number `first`.
    pub(crate) fn read(
        first: u64,
        at: Time,
        body: &[u8],
        after: u64,
    ) -> Result<impl Iterator<Item = NumberedChange>, StoreError> {
        let ChangesOfBatch(changes) = decode(body, || format!("the changes from {first}"))?;
        let numbered = (first..).zip(changes.into_owned());
        let later = numbered.filter(move |(number, _)| *number > after);
        Ok(later.map(move |(number, change)| NumberedChange { number, at, change }))
    }
}

/// What a batch has changed of the numbers of queues.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct CountsOfBatch {
    /// By how much a number of jobs has changed: the queue, the state, the difference.
    pub(crate) steps: Vec<(Name, i16, i64)>,
    /// The first of the jobs that it has made available in a queue, for cells or for an executor.
    pub(crate) firsts: Vec<(Option<Name>, Name, QueuePosition)>,
}

/// The parts of a payload that are rarely used.
#[derive(Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Extra {
    pub(crate) external_id: Option<String>,
    pub(crate) trace_context: Vec<(String, String)>,
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) depends_on: Vec<JobId>,
    pub(crate) origin: Option<Box<Origin>>,
    pub(crate) latest_start: Option<Time>,
}

impl Extra {
    /// Returns the rare parts of a new job, `None` if it has none.
    pub(crate) fn of(payload: &Payload, depends_on: &[JobId]) -> Option<Self> {
        let extra = Self {
            external_id: payload.external_id.clone(),
            trace_context: payload.trace_context.clone(),
            attributes: payload.attributes.clone(),
            depends_on: depends_on.to_vec(),
            origin: payload.origin.clone(),
            latest_start: payload.latest_start,
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

    /// Returns the whole payload, and the jobs that it depends on.
    pub(crate) fn whole(self, params: String, wire: String) -> (Payload, Vec<JobId>) {
        let payload = Payload {
            params: JsonText(params),
            wire,
            external_id: self.external_id,
            trace_context: self.trace_context,
            attributes: self.attributes,
            origin: self.origin,
            latest_start: self.latest_start,
        };
        (payload, self.depends_on)
    }
}
