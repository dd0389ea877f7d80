//! The artifacts that a handler writes. They are kept with the end of its attempt.

use std::collections::BTreeMap;

use host_core::artifact::{
    ARTIFACTS_MAX, Artifact, NewArtifact, UNKNOWN_TYPE, flaw_of_name, flaw_of_type,
};
use host_core::desk::{DeskError, DeskErrorKind, DeskPass};

use super::{Shared, too_much};
use crate::artifacts::{Full, Staged};

/// The artifacts that a run has begun, by their numbers.
#[derive(Debug, Default)]
pub(super) struct OpenArtifacts {
    open: BTreeMap<u32, OpenArtifact>,
    begun: u32,
    bytes: u64,
}

#[derive(Debug)]
struct OpenArtifact {
    name: String,
    content_type: String,
    staged: Staged,
}

fn invalid(message: &str) -> DeskError {
    DeskError::new(DeskErrorKind::InvalidRequest, message)
}

fn full(error: &Full) -> DeskError {
    let kind = match error {
        Full::Disk(_) => DeskErrorKind::Unavailable,
        Full::Host(_) | Full::Row => DeskErrorKind::LimitReached,
    };
    DeskError::new(kind, error.to_string())
}

/// Does work that blocks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, DeskError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| DeskError::new(DeskErrorKind::Unavailable, error.to_string()))
}

impl OpenArtifacts {
    /// Begins an artifact and returns its number.
    pub(super) async fn create(
        &mut self,
        shared: &Shared,
        pass: &DeskPass,
        name: String,
        content_type: Option<String>,
    ) -> Result<u32, DeskError> {
        if pass.artifact_bytes == 0 {
            let handler = &pass.handler;
            let message = format!(
                "the manifest gives {handler} no artifacts; add artifact_mib = 64 to [handlers.{handler}]"
            );
            return Err(DeskError::new(DeskErrorKind::NotGranted, message));
        }
        let content_type = content_type.unwrap_or_else(|| UNKNOWN_TYPE.to_owned());
        if let Some(flaw) = flaw_of_name(&name).or_else(|| flaw_of_type(&content_type)) {
            return Err(invalid(flaw));
        }
        if self.begun as usize >= ARTIFACTS_MAX {
            let message = format!("an attempt may begin at most {ARTIFACTS_MAX} artifacts");
            return Err(DeskError::new(DeskErrorKind::LimitReached, message));
        }
        let artifacts = shared.api.artifacts.clone();
        let begun = blocking(move || artifacts.begin()).await?;
        let artifact = OpenArtifact {
            name,
            content_type,
            staged: begun.map_err(|error| full(&error.into()))?,
        };
        let number = self.begun;
        self.begun += 1;
        self.open.insert(number, artifact);
        Ok(number)
    }

    fn take(&mut self, number: u32) -> Result<OpenArtifact, DeskError> {
        let artifact = self.open.remove(&number);
        artifact.ok_or_else(|| invalid("the artifact is closed"))
    }

    /// Appends to an artifact. If that fails, it is gone.
    pub(super) async fn write(
        &mut self,
        pass: &DeskPass,
        number: u32,
        content: Vec<u8>,
    ) -> Result<(), DeskError> {
        let mut artifact = self.take(number)?;
        self.bytes += content.len() as u64;
        if self.bytes > pass.artifact_bytes {
            let handler = &pass.handler;
            let message = format!(
                "the artifacts of an attempt of {handler} may have at most {} MiB together; raise artifact_mib in \
                 [handlers.{handler}]",
                pass.artifact_bytes >> 20
            );
            return Err(DeskError::new(DeskErrorKind::LimitReached, message));
        }
        if artifact.staged.is_row() {
            pass.writes.reserve(content.len()).map_err(too_much)?;
        }
        let written = blocking(move || {
            let written = artifact.staged.append(&content);
            (artifact, written)
        });
        let (artifact, written) = written.await?;
        written.map_err(|error| full(&error))?;
        self.open.insert(number, artifact);
        Ok(())
    }

    /// Keeps an artifact with the attempt's end.
    pub(super) async fn close(&mut self, pass: &DeskPass, number: u32) -> Result<(), DeskError> {
        let OpenArtifact {
            name,
            content_type,
            staged,
        } = self.take(number)?;
        let finished = blocking(move || staged.finish()).await?;
        let content = finished.map_err(|error| full(&error.into()))?;
        let artifact = Artifact {
            name,
            content_type,
            bytes: content.bytes,
            sha256: content.sha256,
            file: content.file,
        };
        let new = NewArtifact {
            artifact,
            content: content.row,
        };
        let added = pass.writes.add_artifact(new, content.hold);
        added.map_err(too_much)
    }
}
