//! `host:jobs/limits`: holds keys of the limits of the job.

use host_core::desk::{DeskAnswer, DeskErrorKind, DeskRequest};

use super::jobs::{shown, unexpected};
use crate::bindings::host::jobs::jobs::{Error, ErrorKind};
use crate::bindings::host::jobs::limits::Host;
use crate::context::Guest;

impl Host for Guest {
    async fn hold(&mut self, limit: String, ms: u32) -> Result<(), Error> {
        match self.desk.ask(&DeskRequest::Hold { limit, ms }).await {
            Ok(DeskAnswer::Held) => Ok(()),
            Ok(_) => Err(unexpected()),
            // It needs no grant, but a job that has limits.
            Err(error) if error.kind == DeskErrorKind::NotGranted => Err(Error {
                kind: ErrorKind::InvalidRequest,
                message: "the job has no limits".to_owned(),
            }),
            Err(error) => Err(shown(error)),
        }
    }
}
