//! A memory budget for bodies. Each request body has a limit on size and time, and all bodies
//! together have a limit on memory. An answer is charged until its client has received it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_LENGTH;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::gate::Caller;
use crate::places::Admission;
use crate::refusal::Refusal;
use crate::share::{FREE_BYTES, Share, UNITS};

/// How long the body of a request may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// How much of a large answer is passed to its connection at a time, in bytes.
const CHUNK_BYTES: usize = 64 << 10;

/// The memory that all bodies together may use: 256 MiB. Clones share it.
#[derive(Clone, Debug)]
pub struct ByteBudget {
    units: Arc<Semaphore>,
}

/// The body of a request. It is charged to a budget until it is dropped.
#[derive(Debug)]
pub struct RequestBody {
    /// The complete body.
    pub bytes: Bytes,
    charge: Option<Charge>,
}

/// Why the body of a request is refused before it is read. A route that checks a proof itself learns of it when it
/// reads the body.
#[derive(Clone, Debug)]
pub(crate) struct RefusedBody(pub(crate) Refusal);

/// What is charged to the budget, and to the share of the caller, if it has one.
#[derive(Debug)]
struct Charge {
    all: OwnedSemaphorePermit,
    own: Option<OwnedSemaphorePermit>,
}

impl Default for ByteBudget {
    fn default() -> Self {
        Self {
            units: Arc::new(Semaphore::new(UNITS)),
        }
    }
}

impl ByteBudget {
    /// Reads a body of at most `limit_bytes`, within 30 seconds.
    ///
    /// Cancel safe: data that was read is dropped.
    ///
    /// # Errors
    /// Why the guard has refused the body, `BodyTooLarge`, `BodyTimeout`, `BodyBroken`, `Busy` if the budget is exhausted, or `ShareUsed` if that of the
    /// caller is.
    pub async fn read(
        &self,
        parts: &Parts,
        body: Body,
        limit_bytes: usize,
    ) -> Result<RequestBody, Refusal> {
        if let Some(RefusedBody(refusal)) = parts.extensions.get() {
            return Err(refusal.clone());
        }
        let announced = parts
            .headers
            .get(CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|length| length > limit_bytes) {
            return Err(Refusal::BodyTooLarge { limit_bytes });
        }
        let caller = parts.extensions.get::<Caller>();
        let admission = parts.extensions.get::<Admission>();
        let share = match caller {
            Some(caller) => caller.share.as_ref(),
            None => admission.and_then(|admission| admission.share.as_ref()),
        };
        let own = share.map(|share| &share.bodies);
        // Until it is known who sends a body, others may have the place of its connection.
        let unknown = admission.filter(|_| caller.is_none());
        if let Some(admission) = unknown {
            admission.place.yield_place();
        }
        let reading = self.collect(body, limit_bytes, own);
        let read = tokio::time::timeout(BODY_TIMEOUT, reading).await;
        if let Some(admission) = unknown {
            admission.place.hold();
        }
        read.map_err(|_| Refusal::BodyTimeout {
            limit: BODY_TIMEOUT,
        })?
    }

    async fn collect(
        &self,
        mut body: Body,
        limit_bytes: usize,
        own: Option<&Arc<Semaphore>>,
    ) -> Result<RequestBody, Refusal> {
        let mut read = RequestBody {
            bytes: Bytes::new(),
            charge: None,
        };
        let mut joined = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Refusal::BodyBroken)?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let bytes = joined.len() + data.len();
            if bytes > limit_bytes {
                return Err(Refusal::BodyTooLarge { limit_bytes });
            }
            self.charge(&mut read, bytes, own)?;
            if joined.is_empty() && body.is_end_stream() {
                read.bytes = data;
                return Ok(read);
            }
            joined.extend_from_slice(&data);
        }
        read.bytes = joined.freeze();
        Ok(read)
    }

    /// Charges `bytes` bytes in total for a body.
    fn charge(
        &self,
        body: &mut RequestBody,
        bytes: usize,
        own: Option<&Arc<Semaphore>>,
    ) -> Result<(), Refusal> {
        let charged = body
            .charge
            .as_ref()
            .map_or(0, |charge| charge.all.num_permits());
        let more = (bytes / FREE_BYTES).saturating_sub(charged);
        if more == 0 {
            return Ok(());
        }
        let taken = self.take(more, own)?;
        match &mut body.charge {
            Some(charge) => charge.merge(taken),
            None => body.charge = Some(taken),
        }
        Ok(())
    }

    /// Charges an answer until its connection has taken all of it. Answers of unknown length, such
    /// as event streams, are not charged.
    ///
    /// # Errors
    /// `Busy` if the budget is exhausted, `ShareUsed` if that of the caller is, `AnswerBroken` if the answer cannot be
    /// read.
    pub(crate) async fn charge_answer(
        &self,
        response: Response,
        share: Option<&Share>,
    ) -> Result<Response, Refusal> {
        let exact = response.body().size_hint().exact();
        let bytes = exact.and_then(|bytes| usize::try_from(bytes).ok());
        let Some(bytes) = bytes.filter(|bytes| *bytes > FREE_BYTES) else {
            return Ok(response);
        };
        let charge = self.take(bytes / FREE_BYTES, share.map(|share| &share.answers))?;
        let (mut parts, body) = response.into_parts();
        let whole = body.collect().await.map_err(|_| Refusal::AnswerBroken)?;
        let chunks = stream::unfold(
            (whole.to_bytes(), charge),
            |(mut rest, charge)| async move {
                let chunk = rest.split_to(rest.len().min(CHUNK_BYTES));
                (!chunk.is_empty()).then_some((Ok::<_, Infallible>(chunk), (rest, charge)))
            },
        );
        parts.headers.insert(CONTENT_LENGTH, bytes.into());
        Ok(Response::from_parts(parts, Body::from_stream(chunks)))
    }

    fn take(&self, units: usize, own: Option<&Arc<Semaphore>>) -> Result<Charge, Refusal> {
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let take = |of: &Arc<Semaphore>| Arc::clone(of).try_acquire_many_owned(units);
        Ok(Charge {
            own: own.map(take).transpose().map_err(|_| Refusal::ShareUsed)?,
            all: take(&self.units).map_err(|_| Refusal::Busy)?,
        })
    }
}

impl Charge {
    fn merge(&mut self, more: Self) {
        self.all.merge(more.all);
        match (&mut self.own, more.own) {
            (Some(own), Some(more)) => own.merge(more),
            (own, more) => *own = own.take().or(more),
        }
    }
}

#[cfg(test)]
mod tests;
