//! `host:jobs/secrets`: secrets that handlers see.

use host_core::desk::{DeskAnswer, DeskRequest};

use super::jobs::{guest_error, unexpected};
use crate::bindings::host::jobs::jobs::Error;
use crate::bindings::host::jobs::secrets::Host;
use crate::context::Guest;

impl Host for Guest {
    async fn reveal(&mut self, name: String) -> Result<String, Error> {
        match self.desk.ask(&DeskRequest::Reveal { name }).await {
            Ok(DeskAnswer::Secret(secret)) => Ok(secret.value),
            Ok(_) => Err(unexpected()),
            Err(error) => Err(guest_error(error)),
        }
    }
}
