//! Explains a message about a lease that is not current: it repeats an end that counted, or it is late, or it
//! names a lease of another worker or none. The same for all wires.

#[cfg(test)]
mod tests;

use super::{LeaseError, LeaseMessage, Standing, StoredJob};
use crate::job::State;
use crate::lease::{Fence, Revocation};
use crate::outcome::{Attempt, Outcome};

/// What a host remembers of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// The worker that holds it or has held it.
    pub worker: String,
    /// The number of its attempt.
    pub attempt: u32,
    /// Why it is over; `None` if no end of it is known.
    pub end: Option<EndCause>,
}

/// Why a lease is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// Its worker has reported the end of the attempt.
    Reported,
    /// No message of its worker came in time.
    Expired,
    /// It was taken away or given back.
    Revoked,
}

/// The end of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseEnd {
    /// Why it is over.
    pub cause: EndCause,
    /// The attempt as it is kept.
    pub attempt: Option<Attempt>,
    /// The job as it is now; `None` if it is not kept any more.
    pub job: Option<Standing>,
}

impl From<Revocation> for EndCause {
    fn from(why: Revocation) -> Self {
        match why {
            Revocation::Expired => Self::Expired,
            Revocation::NotAcknowledged
            | Revocation::Cancelled
            | Revocation::TimedOut
            | Revocation::EndedElsewhere => Self::Revoked,
        }
    }
}

/// Answers a message that the rules refuse because its lease is not current. `record` is what this host remembers
/// of that lease, and `kept` the job as it is stored.
///
/// # Errors
/// The message repeats no end that counted.
pub fn explain(
    record: Option<&LeaseRecord>,
    kept: Option<&StoredJob>,
    fence: &Fence,
    message: &LeaseMessage,
) -> Result<Standing, LeaseError> {
    let current = kept
        .and_then(|kept| kept.job.lifecycle.lease.as_ref())
        .filter(|lease| fence.lease() == Some(lease.id));
    let remembered = record.filter(|record| record.end.is_none());
    let holder = current
        .map(|lease| &lease.worker)
        .or(remembered.map(|record| &record.worker));
    let sender = fence.worker();
    if let Some(holder) = holder.filter(|holder| sender.is_some_and(|sender| sender != *holder)) {
        return Err(LeaseError::NotYours {
            holder: holder.clone(),
        });
    }
    let record = record.filter(|record| sender.is_none_or(|sender| sender == record.worker));
    let Some(kept) = kept else {
        let cause = record.map(|record| record.end.unwrap_or(EndCause::Expired));
        return Err(cause.map_or(LeaseError::Unknown, |cause| over(cause, None, None)));
    };
    let latest = &kept.job.lifecycle;
    let number = record
        .map(|record| record.attempt)
        .or(fence.attempt())
        .or(current.map(|_| latest.attempt));
    let is_own = |attempt: &&Attempt| match number {
        Some(number) => attempt.number == number,
        None => sender == Some(&attempt.executor),
    };
    let mut own = kept.attempts.iter().filter(is_own);
    if let Some(attempt) = own.find(|attempt| repeats(kept, attempt, message)) {
        let is_latest = attempt.number == latest.attempt;
        return Ok(Standing {
            state: if is_latest {
                latest.state
            } else {
                State::Retryable
            },
            attempt: attempt.number,
            cancel: None,
            expires_at: None,
            granted_at: None,
            is_repeated: true,
        });
    }
    let Some(number) = number else {
        return Err(LeaseError::Unknown);
    };
    let attempt = kept.attempts.iter().find(|it| it.number == number);
    let is_reported = attempt.is_some_and(|attempt| !attempt.is_lost());
    let cause = match record {
        _ if is_reported => EndCause::Reported,
        Some(record) => record.end.unwrap_or(EndCause::Expired),
        None if current.is_some() => EndCause::Expired,
        None => EndCause::Revoked,
    };
    Err(over(cause, attempt, Some(Standing::from(latest))))
}

fn over(cause: EndCause, attempt: Option<&Attempt>, job: Option<Standing>) -> LeaseError {
    LeaseError::Over(Box::new(LeaseEnd {
        cause,
        attempt: attempt.cloned(),
        job,
    }))
}

/// Returns whether a message reports exactly the end that is kept of an attempt.
fn repeats(kept: &StoredJob, attempt: &Attempt, message: &LeaseMessage) -> bool {
    let is_latest = kept.job.lifecycle.attempt == attempt.number;
    // The results of earlier attempts are not kept.
    let has_left = |result: &Option<_>| is_latest && kept.job.result == *result;
    let failure = attempt.failure.as_ref();
    match message {
        LeaseMessage::Complete { outcome, meter, .. } => {
            attempt.outcome == outcome.as_str()
                && attempt.meter == *meter
                && match outcome {
                    Outcome::Completed { result } => has_left(result),
                    Outcome::Failed(reported) => failure == Some(reported),
                    Outcome::Cancelled { partial } => has_left(partial),
                    Outcome::Retry { reason, .. } => {
                        failure.is_some_and(|it| it.message == *reason)
                    }
                }
        }
        LeaseMessage::CancelAck { partial, message } => {
            let says = |message: &String| failure.is_some_and(|it| it.message == *message);
            attempt.outcome == "cancelled" && has_left(partial) && message.as_ref().is_none_or(says)
        }
        _ => false,
    }
}
