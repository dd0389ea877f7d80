//! `host:jobs/artifacts`: files that a job produces or reads.

use host_core::artifact::CHUNK_BYTES_MAX;
use host_core::desk::{DeskAnswer, DeskError, DeskErrorKind, DeskRequest};

use super::jobs::{guest_error, unexpected};
use crate::bindings::host::jobs::artifacts::Host;
use crate::bindings::host::jobs::jobs::Error;
use crate::context::Guest;

impl Host for Guest {
    async fn create(&mut self, name: String, content_type: Option<String>) -> Result<u32, Error> {
        let request = DeskRequest::CreateArtifact { name, content_type };
        self.ask_to_open(&request).await
    }

    async fn open(&mut self, name: String) -> Result<u32, Error> {
        self.ask_to_open(&DeskRequest::OpenArtifact { name }).await
    }

    async fn read(&mut self, artifact: u32, bytes_max: u32) -> Result<Vec<u8>, Error> {
        let request = DeskRequest::ReadArtifact {
            artifact,
            bytes_max,
        };
        match self.desk.ask(&request).await {
            Ok(DeskAnswer::Content(content)) => Ok(content),
            Ok(_) => Err(unexpected()),
            Err(error) => Err(guest_error(error)),
        }
    }

    async fn write(&mut self, artifact: u32, content: Vec<u8>) -> Result<(), Error> {
        if content.len() > CHUNK_BYTES_MAX {
            let message =
                format!("one call appends at most {CHUNK_BYTES_MAX} bytes to an artifact");
            let error = DeskError::new(DeskErrorKind::InvalidRequest, message);
            return Err(guest_error(error));
        }
        self.ask_to_write(&DeskRequest::WriteArtifact { artifact, content })
            .await
    }

    async fn close(&mut self, artifact: u32) -> Result<(), Error> {
        self.ask_to_write(&DeskRequest::CloseArtifact { artifact })
            .await
    }
}

impl Guest {
    async fn ask_to_open(&mut self, request: &DeskRequest) -> Result<u32, Error> {
        match self.desk.ask(request).await {
            Ok(DeskAnswer::Artifact(number)) => Ok(number),
            Ok(_) => Err(unexpected()),
            Err(error) => Err(guest_error(error)),
        }
    }

    async fn ask_to_write(&mut self, request: &DeskRequest) -> Result<(), Error> {
        match self.desk.ask(request).await {
            Ok(DeskAnswer::Written) => Ok(()),
            Ok(_) => Err(unexpected()),
            Err(error) => Err(guest_error(error)),
        }
    }
}
