//! Accept: jobs that come from elsewhere become ours. What offers a job keeps it until the host has committed it, and may offer
//! it again.

use crate::id::JobId;
use crate::port::lease::Respond;

/// A job that is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The id that it gets. A job that has this id already is the same one.
    pub id: JobId,
    /// The job as a document of the API.
    pub job: String,
}

/// Why a job is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It never will be, as it is. The reason is for people.
    Never(String),
    /// The host takes no more for now. The reason is for people.
    Later(String),
}

/// Accepts jobs on behalf of one source.
pub trait Accept: Send + Sync {
    /// Answers after the commit. Without an answer, the job may have been accepted or not.
    fn accept(&self, offer: Offer, answer: Box<dyn Respond<Result<(), Refusal>>>);

    /// Cancels a job that came from the source. Answers after the commit; a job that has ended stays as it is.
    fn cancel(&self, job: JobId, answer: Box<dyn Respond<Result<(), Refusal>>>);
}
