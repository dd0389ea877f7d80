//! `host:jobs/jobs`: enqueues jobs.

use host_core::desk::{DeskAnswer, DeskError, DeskErrorKind, DeskRequest};

use crate::bindings::host::jobs::jobs::{Error, ErrorKind, Host};
use crate::context::Guest;

impl Host for Guest {
    async fn enqueue(&mut self, jobs: String) -> Result<Vec<String>, Error> {
        self.ask_for_jobs(jobs, false).await
    }

    async fn enqueue_now(&mut self, jobs: String) -> Result<Vec<String>, Error> {
        self.ask_for_jobs(jobs, true).await
    }
}

impl Guest {
    async fn ask_for_jobs(&mut self, jobs: String, now: bool) -> Result<Vec<String>, Error> {
        let request = DeskRequest::Enqueue { jobs, now };
        match self.desk.ask(&request).await {
            Ok(DeskAnswer::Jobs(ids)) => Ok(ids),
            Ok(_) => Err(unexpected()),
            Err(error) => Err(guest_error(error)),
        }
    }
}

/// The desk gave the answer to another request.
pub(super) fn unexpected() -> Error {
    Error {
        kind: ErrorKind::Unavailable,
        message: "the host gave the answer to another request".to_owned(),
    }
}

pub(super) fn guest_error(DeskError { kind, message }: DeskError) -> Error {
    let kind = match kind {
        DeskErrorKind::NotGranted => ErrorKind::NotGranted,
        DeskErrorKind::InvalidRequest => ErrorKind::InvalidRequest,
        DeskErrorKind::LimitReached => ErrorKind::LimitReached,
        DeskErrorKind::Unavailable => ErrorKind::Unavailable,
    };
    Error { kind, message }
}
