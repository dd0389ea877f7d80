//! The artifacts of a job, and uploads for jobs.

use host_core::artifact::{Artifact, FileSource};
use host_core::hex::hex;
use host_core::id::JobId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A file that a job has produced.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Artifact)]
pub struct ArtifactView {
    /// Its name.
    pub name: String,
    /// What its handler says that it is.
    pub content_type: String,
    /// Its length.
    pub bytes: u64,
    /// The SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
}

impl From<Artifact> for ArtifactView {
    fn from(artifact: Artifact) -> Self {
        Self {
            name: artifact.name,
            content_type: artifact.content_type,
            bytes: artifact.bytes,
            sha256: hex(&artifact.sha256),
        }
    }
}

/// The content of a file, as the document of the API describes it.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
pub struct FileContent(pub Vec<u8>);

/// A file that was sent for jobs to read.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Upload)]
pub struct UploadView {
    /// Its id, which `files` of a new job names.
    pub id: String,
    /// What it was sent as.
    pub content_type: String,
    /// Its length.
    pub bytes: u64,
    /// The SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
    /// When new jobs may no longer be given it (RFC 3339). It is kept as long as a job that was.
    pub expires_at: String,
}

/// Reads a file of `files`: the id of an upload, or a job and the name of its artifact. `job` finds the job.
pub fn read_source<E>(
    text: &str,
    job: impl FnOnce(&str) -> Result<JobId, E>,
    invalid: impl FnOnce() -> E,
) -> Result<FileSource, E> {
    match text.split_once('/') {
        Some((of, name)) => Ok(FileSource::Artifact(job(of)?, name.to_owned())),
        None => text.parse().map(FileSource::Upload).map_err(|_| invalid()),
    }
}

/// Writes it.
pub fn write_source(source: &FileSource) -> String {
    match source {
        FileSource::Upload(id) => id.to_string(),
        FileSource::Artifact(job, name) => format!("{job}/{name}"),
    }
}
