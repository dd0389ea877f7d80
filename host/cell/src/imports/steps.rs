//! `host:jobs/steps`: parts of a job that are done once.

use host_core::desk::{DeskAnswer, DeskError, DeskRequest};
use host_core::step::StepState;

use super::jobs::{guest_error, unexpected};
use crate::bindings::host::jobs::jobs::Error;
use crate::bindings::host::jobs::steps::{Host, Progress};
use crate::context::Guest;

impl Host for Guest {
    async fn begin(&mut self, name: String) -> wasmtime::Result<Result<Progress, Error>> {
        let answer = self.desk.ask(&DeskRequest::BeginStep { name }).await;
        let Ok(DeskAnswer::Step(kept)) = answer else {
            return refusal(answer).map(Err);
        };
        Ok(Ok(match kept {
            None => Progress::New,
            Some(StepState::Open(checkpoint)) => Progress::Begun(checkpoint.0),
            Some(StepState::Done(result)) => Progress::Done(result.0),
            Some(StepState::Failed(error)) => Progress::Failed(error.0),
        }))
    }

    async fn checkpoint(&mut self, checkpoint: String) -> wasmtime::Result<Result<(), Error>> {
        self.commit(&DeskRequest::CheckpointStep { checkpoint })
            .await
    }

    async fn complete(&mut self, result: String) -> wasmtime::Result<Result<(), Error>> {
        self.commit(&DeskRequest::CompleteStep { result }).await
    }

    async fn fail(&mut self, error: String) -> wasmtime::Result<Result<(), Error>> {
        self.commit(&DeskRequest::FailStep { error }).await
    }
}

impl Guest {
    async fn commit(&mut self, request: &DeskRequest) -> wasmtime::Result<Result<(), Error>> {
        match self.desk.ask(request).await {
            Ok(DeskAnswer::Written) => Ok(Ok(())),
            answer => refusal(answer).map(Err),
        }
    }
}

/// Returns why a request is refused. Ends the guest if the host has decided how the attempt ends.
fn refusal(answer: Result<DeskAnswer, DeskError>) -> wasmtime::Result<Error> {
    match answer {
        Ok(DeskAnswer::Ended) => Err(wasmtime::format_err!("the host has ended the attempt")),
        Ok(_) => Ok(unexpected()),
        Err(error) => Ok(guest_error(error)),
    }
}
