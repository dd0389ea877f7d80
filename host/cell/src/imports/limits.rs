//! `host:jobs/limits`: holds keys of the limits of the job.

use host_core::desk::{DeskAnswer, DeskRequest};

use super::jobs::{guest_error, unexpected};
use crate::bindings::host::jobs::jobs::Error;
use crate::bindings::host::jobs::limits::Host;
use crate::context::Guest;

impl Host for Guest {
    async fn hold(&mut self, limit: String, ms: u32) -> Result<(), Error> {
        match self.desk.ask(&DeskRequest::Hold { limit, ms }).await {
            Ok(DeskAnswer::Held) => Ok(()),
            Ok(_) => Err(unexpected()),
            Err(error) => Err(guest_error(error)),
        }
    }
}
